"""Japanese."""

from __future__ import annotations

from collections.abc import Sequence

from supclap.data.scenes.grammar.language import Case, Language, Order, Said, manners, times, words

WORDS = words("""
dog: 犬が | 吠える | | 犬の吠える声 | - |
cat: 猫が | 鳴く | | 猫の鳴き声 | - |
bird: 鳥が | さえずる | | 鳥のさえずり | - |
cricket: 虫が | 鳴く | 草むらで | 草むらの虫の鳴き声 | - |
frog: カエルが | 鳴く | | カエルの鳴き声 | - |
cow: 牛が | 鳴く | | 牛の鳴き声 | - |
rain: 雨が | 降る | | 雨の降る音 | - |
thunder: 雷が | 鳴る | | 雷の鳴る音 | - |
wind: 風が | 吹く | | 風の吹く音 | - |
stream: 小川が | 流れる | | 小川の流れる音 | - |
waves: 波が | 打ち寄せる | 岸辺に | 岸辺に打ち寄せる波の音 | - |
drip: 水が | 滴り落ちる | 容器に | 容器に滴り落ちる水の音 | - |
engine: エンジンが | 動く | | エンジンの音 | - |
train_horn: 列車が | 鳴らす | 警笛を | 列車の警笛 | - |
siren: サイレンが | 鳴る | | サイレンの音 | - |
car_horn: 車が | 鳴らす | クラクションを | 車のクラクション | - |
bell: 教会の鐘が | 鳴る | | 教会の鐘の音 | - |
beep: 電子アラームが | 鳴る | ピーと | 電子アラームのピーという音 | - |
telephone: 電話が | 鳴る | | 電話の鳴る音 | - |
clock: 時計が | 鳴る | カチカチと | 時計のカチカチという音 | - |
vacuum: 掃除機が | うなる | | 掃除機の音 | - |
knock: 誰かが | たたく | ドアを | ドアをたたく音 | - |
typing: 誰かが | 打つ | キーボードを | キーボードを打つ音 | - |
glass: グラスが | 鳴る | チリンと | グラスのチリンと鳴る音 | - |
saw: 誰かが | 切る | のこぎりで木を | のこぎりで木を切る音 | - |
hammer: 誰かが | 打つ | ハンマーで釘を | ハンマーで釘を打つ音 | - |
drill: 電動ドリルが | うなる | | 電動ドリルの音 | - |
clapping: 誰かが | する | 拍手を | 拍手の音 | - |
footsteps: 誰かが | 歩く | 硬い床の上を | 硬い床の上の足音 | - |
snoring: 誰かが | かく | いびきを | 眠る人のいびき | - |
whistling: 誰かが | 吹く | 口笛を | 口笛の音 | - |
guitar: ギターが | 鳴る | | ギターの音 | - |
piano: ピアノが | 鳴る | | ピアノの音 | - |
drum: 太鼓が | 鳴る | | 太鼓の音 | - |
""")

MANNERS = {
    "loud": ("大きく", "とても大きな音で"),
    "soft": ("小さく", "かすかに"),
    "low": ("低い音で", "深い音で"),
    "high": ("高い音で", "甲高い音で"),
    "slow": ("ゆっくり", "遅いテンポで"),
    "fast": ("速く", "速いテンポで"),
}
QUALITIES = {
    "loud": ("大きな", "とても大きな"),
    "soft": ("小さな", "かすかな"),
    "low": ("低い", "深い"),
    "high": ("高い", "甲高い"),
    "slow": ("ゆっくりした", "遅いテンポの"),
    "fast": ("速い", "速いテンポの"),
}
TIMES = {"2": ("二回", "二度"), "3": ("三回", "三度"), "4": ("四回", "四度")}
ROW = {"2": ("二回続く", "二度続く"), "3": ("三回続く", "三度続く"), "4": ("四回続く", "四度続く")}


def clause(said: Said, order: Order) -> str:
    """Subject, adverbs, object, verb."""
    word = WORDS[said.label]
    again = "再び" if said.again else ""
    return word.subject + again + times(TIMES, said) + "".join(manners(MANNERS, said)) + word.rest + word.verb


def noun(said: Said, case: Case) -> str:
    """All that qualifies stands before the noun."""
    again = "もう一度の" if said.again else ""
    return again + times(ROW, said) + "".join(manners(QUALITIES, said)) + WORDS[said.label].noun


def followed(plain: Sequence[str], after: Sequence[str], kind: str) -> str:
    """As in "a, behind it b, behind that c"."""
    return f"{plain[0]}に続いて" + "、その次に".join(after[1:])


LANGUAGE = Language(
    code="jpn", clause=clause, noun=noun,
    then=("、それから", "main"),
    first=("まず", "、次に", "、最後に", "main", "main"),
    later=("。その後、", "main"),
    here=("ここで", "main"),
    recording=("録音の中で", "main"),
    hear=("", "が聞こえる"),
    list_then="、そして",
    followed=followed,
    while_=lambda a, b: f"{a}と同時に{b}", while_order="main",
    together=lambda a, b: f"{a}に重なる{b}",
    behind=lambda sentence, noun: f"{noun}を背景に、{sentence}",
    scenery=lambda sentence, clause: f"背景で{clause}中、{sentence}", scenery_order="main",
    kind=lambda label: WORDS[label].kind,
)  # fmt: skip
