"""Chinese."""

from __future__ import annotations

from collections.abc import Sequence

from supclap.data.scenes.grammar.language import Case, Language, Order, Said, joined, manners, times, words

WORDS = words("""
dog: 一只狗 | 吠叫 | | 狗叫声 | - |
cat: 一只猫 | 喵喵叫 | | 猫叫声 | - |
bird: 一只鸟 | 鸣叫 | | 鸟鸣声 | - |
cricket: 一只蟋蟀 | 鸣叫 | 在草丛里 | 草丛里的蟋蟀声 | - |
frog: 一只青蛙 | 呱呱叫 | | 青蛙叫声 | - |
cow: 一头牛 | 哞哞叫 | | 牛叫声 | - |
rain: 雨 | 落下 | | 下雨声 | - |
thunder: 雷声 | 隆隆作响 | | 打雷声 | - |
wind: 风 | 呼啸 | | 风声 | - |
stream: 一条小溪 | 流淌 | | 小溪的流水声 | - |
waves: 海浪 | 拍打着岸边 | | 海浪拍岸声 | - |
drip: 水 | 滴落 | 往盆里 | 水滴入盆中的声音 | - |
engine: 一台发动机 | 运转 | | 发动机的声音 | - |
train_horn: 一列火车 | 鸣笛 | | 火车的汽笛声 | - |
siren: 警报器 | 响起 | | 警报声 | - |
car_horn: 一辆汽车 | 按喇叭 | | 汽车的喇叭声 | - |
bell: 教堂的钟 | 敲响 | | 教堂的钟声 | - |
beep: 一个电子警报器 | 发出哔哔声 | | 电子警报器的哔哔声 | - |
telephone: 一部电话 | 响铃 | | 电话铃声 | - |
clock: 一只时钟 | 滴答作响 | | 时钟的滴答声 | - |
vacuum: 一台吸尘器 | 嗡嗡作响 | | 吸尘器的声音 | - |
knock: 有人 | 敲门 | | 敲门声 | - |
typing: 有人 | 打字 | 在键盘上 | 敲键盘的声音 | - |
glass: 一只玻璃杯 | 叮当作响 | | 玻璃杯的叮当声 | - |
saw: 有人 | 锯木头 | | 锯木头的声音 | - |
hammer: 有人 | 钉钉子 | 用锤子 | 用锤子钉钉子的声音 | - |
drill: 一台电钻 | 嗡嗡作响 | | 电钻的声音 | - |
clapping: 有人 | 拍手 | | 拍手声 | - |
footsteps: 有人 | 走路 | 在硬地板上 | 硬地板上的脚步声 | - |
snoring: 有人 | 打鼾 | | 睡觉的人的鼾声 | - |
whistling: 有人 | 吹口哨 | | 口哨声 | - |
guitar: 一把吉他 | 弹奏着 | | 吉他声 | - |
piano: 一架钢琴 | 弹奏着 | | 钢琴声 | - |
drum: 一面鼓 | 敲响 | | 鼓声 | - |
""")

MANNERS = {
    "loud": ("大声地", "很响亮地"),
    "soft": ("轻轻地", "微弱地"),
    "low": ("低沉地", "以低音调"),
    "high": ("尖锐地", "以高音调"),
    "slow": ("缓慢地", "以慢速"),
    "fast": ("快速地", "以快速度"),
}
QUALITIES = {
    "loud": ("大声的", "响亮的"),
    "soft": ("轻轻的", "微弱的"),
    "low": ("低沉的", "低音调的"),
    "high": ("尖锐的", "高音调的"),
    "slow": ("缓慢的", "慢速的"),
    "fast": ("快速的", "急促的"),
}
TIMES = {"2": ("连续两次", "接连两次"), "3": ("连续三次", "接连三次"), "4": ("连续四次", "接连四次")}
ROW = {"2": ("连续两次的", "接连两次的"), "3": ("连续三次的", "接连三次的"), "4": ("连续四次的", "接连四次的")}


def clause(said: Said, order: Order) -> str:
    """Subject, adverbs, place, verb."""
    word = WORDS[said.label]
    again = "再次" if said.again else ""
    return word.subject + again + word.rest + joined(manners(MANNERS, said), "") + times(TIMES, said) + word.verb


def noun(said: Said, case: Case) -> str:
    """All that qualifies stands before the noun."""
    again = "再一次的" if said.again else ""
    return again + times(ROW, said) + joined(manners(QUALITIES, said), "") + WORDS[said.label].noun


def followed(plain: Sequence[str], after: Sequence[str], kind: str) -> str:
    """As in "behind a comes b, behind that c"."""
    return f"{plain[0]}之后是" + "，再之后是".join(after[1:])


LANGUAGE = Language(
    code="zho", clause=clause, noun=noun,
    then=("，然后", "main"),
    first=("首先", "，接着", "，最后", "main", "main"),
    later=("。之后，", "main"),
    here=("这里", "main"),
    recording=("录音中", "main"),
    hear=("可以听到", ""),
    list_then="，然后是",
    followed=followed,
    while_=lambda a, b: f"{a}，同时{b}", while_order="main",
    together=lambda a, b: f"{a}伴随着{b}",
    behind=lambda sentence, noun: f"{sentence}，背景是{noun}",
    scenery=lambda sentence, clause: f"背景中{clause}：{sentence}", scenery_order="main",
    kind=lambda label: WORDS[label].kind,
)  # fmt: skip
