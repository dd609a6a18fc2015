"""Catalan."""

from __future__ import annotations

from collections.abc import Sequence

from supclap.data.scenes.grammar.language import Case, Language, Order, Said, joined, manners, spaced, times, words
from supclap.data.scenes.grammar.romance import KINDS, Articles, agreeing, nominal

WORDS = words("""
dog: un gos | borda | | lladruc | m | d'un gos
cat: un gat | miola | | miol | m | d'un gat
bird: un ocell | piula | | piulada | f | d'un ocell
cricket: un grill | canta | a l'herba | cant | m | d'un grill
frog: una granota | rauca | | rauc | m | d'una granota
cow: una vaca | mugeix | | mugit | m | d'una vaca
rain: la pluja | cau | | repic | m | de la pluja
thunder: un tro | retruny | | retruny | m | d'un tro
wind: el vent | bufa | | udol | m | del vent
stream: un rierol | murmura | | murmuri | m | d'un rierol
waves: les onades | trenquen | a la riba | remor | f | de les onades a la riba
drip: l'aigua | degota | en una galleda | degoteig | m | de l'aigua en una galleda
engine: un motor | funciona | | ronc | m | d'un motor
train_horn: un tren | toca | la botzina | botzina | f | d'un tren
siren: una sirena | sona | | udol | m | d'una sirena
car_horn: un cotxe | toca | el clàxon | clàxon | m | d'un cotxe
bell: una campana d'església | repica | | repic | m | d'una campana d'església
beep: una alarma electrònica | xiula | | xiulet | m | d'una alarma electrònica
telephone: un telèfon | sona | | timbre | m | d'un telèfon
clock: un rellotge | fa | tic-tac | tic-tac | m | d'un rellotge
vacuum: una aspiradora | brunzeix | | brunzit | m | d'una aspiradora
knock: algú | truca | a una porta | truc | m | a una porta
typing: algú | escriu | en un teclat | tecleig | m | en un teclat
glass: una copa | dringa | | dring | m | d'una copa
saw: algú | serra | fusta | serrada | f | de fusta
hammer: algú | martelleja | un clau | martelleig | m | d'un clau
drill: un trepant | brunzeix | | brunzit | m | d'un trepant
clapping: algú | pica | de mans | picament | m | de mans
footsteps: algú | camina | per un terra dur | passos | mp | sobre un terra dur
snoring: algú | ronca | | ronc | m | d'una persona adormida
whistling: algú | xiula | una melodia | xiulet | m | d'una melodia
guitar: una guitarra | sona | | so | m | d'una guitarra
piano: un piano | sona | | so | m | d'un piano
drum: un tambor | sona | | toc | m | d'un tambor
""")

ARTICLES = Articles(
    plain={"m": "el", "f": "la", "mp": "els", "fp": "les"},
    of={"m": "del", "f": "de la", "mp": "dels", "fp": "de les"},
    elided="l'",
    vowels="aeiouàèéíòóúh",
)
MANNERS = {
    "loud": ("sorollosament", "molt fort"),
    "soft": ("suaument", "feblement"),
    "low": ("en to greu", "amb un so greu"),
    "high": ("en to agut", "amb un so agut"),
    "slow": ("lentament", "a ritme lent"),
    "fast": ("ràpidament", "a ritme ràpid"),
}
QUALITIES = {
    "loud": ("sorollós sorollosa sorollosos sorolloses", "fort forta forts fortes"),
    "soft": ("suau suau suaus suaus", "feble feble febles febles"),
    "low": ("greu greu greus greus", "profund profunda profunds profundes"),
    "high": ("agut aguda aguts agudes", "estrident estrident estridents estridents"),
    "slow": ("lent lenta lents lentes", "pausat pausada pausats pausades"),
    "fast": ("ràpid ràpida ràpids ràpides", "veloç veloç veloços veloces"),
}
TIMES = {"2": ("dues vegades", "en dues ocasions"), "3": ("tres vegades", "en tres ocasions"),
         "4": ("quatre vegades", "en quatre ocasions")}  # fmt: skip
ROW = {"2": ("dues vegades seguides", "en dues ocasions"), "3": ("tres vegades seguides", "en tres ocasions"),
       "4": ("quatre vegades seguides", "en quatre ocasions")}  # fmt: skip


def clause(said: Said, order: Order) -> str:
    """As in "un gos borda sorollosament dues vegades"."""
    word = WORDS[said.label]
    manner = joined(manners(MANNERS, said), " i ")
    return spaced(word.subject, word.verb, word.rest, manner, times(TIMES, said), "de nou" if said.again else "")


def noun(said: Said, case: Case) -> str:
    """As in "el lladruc sorollós d'un gos"; behind "seguit": "del lladruc"."""
    word = WORDS[said.label]
    tail = spaced(times(ROW, said), "una vegada més" if said.again else "")
    return nominal(ARTICLES, word, agreeing(QUALITIES, said, word.kind), " i ", tail, of=case == "after")


def followed(plain: Sequence[str], after: Sequence[str], kind: str) -> str:
    """As in "els passos seguits del lladruc i després de la botzina"."""
    word = ("seguit", "seguida", "seguits", "seguides")[KINDS.index(kind)]
    return f"{plain[0]} {word} " + " i després ".join(after[1:])


LANGUAGE = Language(
    code="cat", clause=clause, noun=noun,
    then=(", després ", "main"),
    first=("primer ", ", a continuació ", ", i finalment ", "main", "main"),
    later=("; tot seguit, ", "main"),
    here=("aquí ", "main"),
    recording=("un enregistrament en què ", "main"),
    hear=("es pot sentir ", ""),
    list_then=", després ",
    followed=followed,
    while_=lambda a, b: f"{a} mentre {b}", while_order="main",
    together=lambda a, b: f"{a} juntament amb {b}",
    behind=lambda sentence, noun: f"{sentence}, amb {noun} de fons",
    scenery=lambda sentence, clause: f"al fons {clause}: {sentence}", scenery_order="main",
    kind=lambda label: WORDS[label].kind,
)  # fmt: skip
