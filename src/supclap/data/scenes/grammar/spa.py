"""Spanish."""

from __future__ import annotations

from collections.abc import Sequence

from supclap.data.scenes.grammar.language import Case, Language, Order, Said, joined, manners, spaced, times, words
from supclap.data.scenes.grammar.romance import KINDS, Articles, agreeing, nominal

WORDS = words("""
dog: un perro | ladra | | ladrido | m | de un perro
cat: un gato | maúlla | | maullido | m | de un gato
bird: un pájaro | trina | | trino | m | de un pájaro
cricket: un grillo | canta | en la hierba | canto | m | de un grillo
frog: una rana | croa | | croar | m | de una rana
cow: una vaca | muge | | mugido | m | de una vaca
rain: la lluvia | cae | | repiqueteo | m | de la lluvia
thunder: un trueno | retumba | | estruendo | m | de un trueno
wind: el viento | sopla | | aullido | m | del viento
stream: un arroyo | murmura | | murmullo | m | de un arroyo
waves: las olas | rompen | en la orilla | romper | m | de las olas en la orilla
drip: el agua | gotea | en un balde | goteo | m | del agua en un balde
engine: un motor | funciona | | ronroneo | m | de un motor
train_horn: un tren | toca | la bocina | bocina | f | de un tren
siren: una sirena | suena | | aullido | m | de una sirena
car_horn: un coche | toca | el claxon | claxon | m | de un coche
bell: una campana de iglesia | repica | | repique | m | de una campana de iglesia
beep: una alarma electrónica | pita | | pitido | m | de una alarma electrónica
telephone: un teléfono | suena | | timbre | m | de un teléfono
clock: un reloj | hace | tictac | tictac | m | de un reloj
vacuum: una aspiradora | zumba | | zumbido | m | de una aspiradora
knock: alguien | llama | a una puerta | golpeteo | m | en una puerta
typing: alguien | escribe | en un teclado | tecleo | m | en un teclado
glass: una copa | tintinea | | tintineo | m | de una copa
saw: alguien | sierra | madera | serrado | m | de madera
hammer: alguien | martillea | un clavo | martilleo | m | de un clavo
drill: un taladro | zumba | | zumbido | m | de un taladro
clapping: alguien | da | palmas | palmas | fp | de una persona
footsteps: alguien | camina | por un suelo duro | pasos | mp | sobre un suelo duro
snoring: alguien | ronca | | ronquido | m | de una persona dormida
whistling: alguien | silba | una melodía | silbido | m | de una melodía
guitar: una guitarra | suena | | sonido | m | de una guitarra
piano: un piano | suena | | sonido | m | de un piano
drum: un tambor | suena | | toque | m | de un tambor
""")

ARTICLES = Articles(
    plain={"m": "el", "f": "la", "mp": "los", "fp": "las"},
    of={"m": "del", "f": "de la", "mp": "de los", "fp": "de las"},
)
MANNERS = {
    "loud": ("ruidosamente", "muy fuerte"),
    "soft": ("suavemente", "débilmente"),
    "low": ("en tono grave", "con un sonido grave"),
    "high": ("en tono agudo", "con un sonido agudo"),
    "slow": ("lentamente", "a ritmo lento"),
    "fast": ("rápidamente", "a ritmo rápido"),
}
QUALITIES = {
    "loud": ("ruidoso ruidosa ruidosos ruidosas", "fuerte fuerte fuertes fuertes"),
    "soft": ("suave suave suaves suaves", "débil débil débiles débiles"),
    "low": ("grave grave graves graves", "profundo profunda profundos profundas"),
    "high": ("agudo aguda agudos agudas", "chillón chillona chillones chillonas"),
    "slow": ("lento lenta lentos lentas", "pausado pausada pausados pausadas"),
    "fast": ("rápido rápida rápidos rápidas", "veloz veloz veloces veloces"),
}
TIMES = {"2": ("dos veces", "en dos ocasiones"), "3": ("tres veces", "en tres ocasiones"),
         "4": ("cuatro veces", "en cuatro ocasiones")}  # fmt: skip
ROW = {"2": ("dos veces seguidas", "en dos ocasiones"), "3": ("tres veces seguidas", "en tres ocasiones"),
       "4": ("cuatro veces seguidas", "en cuatro ocasiones")}  # fmt: skip


def clause(said: Said, order: Order) -> str:
    """As in "un perro ladra ruidosamente dos veces"."""
    word = WORDS[said.label]
    manner = joined(manners(MANNERS, said), " y ")
    return spaced(word.subject, word.verb, word.rest, manner, times(TIMES, said), "de nuevo" if said.again else "")


def noun(said: Said, case: Case) -> str:
    """As in "el ladrido ruidoso de un perro"; behind "seguido": "del ladrido"."""
    word = WORDS[said.label]
    tail = spaced(times(ROW, said), "una vez más" if said.again else "")
    return nominal(ARTICLES, word, agreeing(QUALITIES, said, word.kind), " y ", tail, of=case == "after")


def followed(plain: Sequence[str], after: Sequence[str], kind: str) -> str:
    """As in "los pasos seguidos del ladrido y luego de la bocina"."""
    word = ("seguido", "seguida", "seguidos", "seguidas")[KINDS.index(kind)]
    return f"{plain[0]} {word} " + " y luego ".join(after[1:])


LANGUAGE = Language(
    code="spa", clause=clause, noun=noun,
    then=(", luego ", "main"),
    first=("primero ", ", después ", ", y finalmente ", "main", "main"),
    later=("; después de eso, ", "main"),
    here=("aquí ", "main"),
    recording=("una grabación en la que ", "main"),
    hear=("se puede oír ", ""),
    list_then=", luego ",
    followed=followed,
    while_=lambda a, b: f"{a} mientras {b}", while_order="main",
    together=lambda a, b: f"{a} junto con {b}",
    behind=lambda sentence, noun: f"{sentence}, con {noun} de fondo",
    scenery=lambda sentence, clause: f"al fondo {clause}: {sentence}", scenery_order="main",
    kind=lambda label: WORDS[label].kind,
)  # fmt: skip
