"""Dutch."""

from __future__ import annotations

from collections.abc import Sequence

from supclap.data.scenes.grammar.germanic import moved
from supclap.data.scenes.grammar.language import Case, Language, Order, Said, joined, manners, spaced, times, words

WORDS = words("""
dog: een hond | blaft | | geblaf | het | van een hond
cat: een kat | miauwt | | gemiauw | het | van een kat
bird: een vogel | tjilpt | | getjilp | het | van een vogel
cricket: een krekel | tjirpt | in het gras | getjirp | het | van een krekel
frog: een kikker | kwaakt | | gekwaak | het | van een kikker
cow: een koe | loeit | | geloei | het | van een koe
rain: regen | valt | | gekletter | het | van de regen
thunder: de donder | rommelt | | gerommel | het | van de donder
wind: de wind | waait | | gehuil | het | van de wind
stream: een beek | kabbelt | | gekabbel | het | van een beek
waves: golven | breken | op het strand | branding | de | op het strand
drip: water | druppelt | in een bak | gedruppel | het | van water in een bak
engine: een motor | draait | | gebrom | het | van een motor
train_horn: een trein | toetert | | hoorn | de | van een trein
siren: een sirene | loeit | | geloei | het | van een sirene
car_horn: een auto | claxonneert | | claxon | de | van een auto
bell: een kerkklok | luidt | | gelui | het | van een kerkklok
beep: een elektronisch alarm | piept | | gepiep | het | van een elektronisch alarm
telephone: een telefoon | rinkelt | | gerinkel | het | van een telefoon
clock: een klok | tikt | | getik | het | van een klok
vacuum: een stofzuiger | zoemt | | gezoem | het | van een stofzuiger
knock: iemand | klopt | op een deur | geklop | het | op een deur
typing: iemand | typt | op een toetsenbord | getyp | het | op een toetsenbord
glass: een glas | klinkt | | getinkel | het | van een glas
saw: iemand | zaagt | in een stuk hout | gezaag | het | in een stuk hout
hammer: iemand | hamert | op een spijker | gehamer | het | op een spijker
drill: een boormachine | gonst | | gegons | het | van een boormachine
clapping: iemand | klapt | in de handen | geklap | het | van handen
footsteps: iemand | loopt | over een harde vloer | voetstappen | de | op een harde vloer
snoring: iemand | snurkt | | gesnurk | het | van een slaper
whistling: iemand | fluit | een wijsje | gefluit | het | van een wijsje
guitar: een gitaar | speelt | | klank | de | van een gitaar
piano: een piano | speelt | | klank | de | van een piano
drum: een trommel | slaat | | geroffel | het | van een trommel
""")

MANNERS = {
    "loud": ("luid", "heel hard"),
    "soft": ("zacht", "zwakjes"),
    "low": ("op een lage toon", "met een laag geluid"),
    "high": ("op een hoge toon", "met een hoog geluid"),
    "slow": ("langzaam", "in een traag tempo"),
    "fast": ("snel", "in een vlot tempo"),
}
# Behind "de" and "het" an adjective ends in -e.
QUALITIES = {
    "loud": ("luide", "harde"),
    "soft": ("zachte", "zwakke"),
    "low": ("lage", "diepe"),
    "high": ("hoge", "schelle"),
    "slow": ("langzame", "trage"),
    "fast": ("snelle", "vlotte"),
}
TIMES = {"2": ("twee keer", "tweemaal"), "3": ("drie keer", "driemaal"), "4": ("vier keer", "viermaal")}
ROW = {"2": ("twee keer achter elkaar", "tweemaal na elkaar"), "3": ("drie keer achter elkaar", "driemaal na elkaar"),
       "4": ("vier keer achter elkaar", "viermaal na elkaar")}  # fmt: skip


def clause(said: Said, order: Order) -> str:
    """As in "een hond blaft twee keer luid"."""
    manner = joined(manners(MANNERS, said), " en ")
    adverbs = spaced("opnieuw" if said.again else "", times(TIMES, said), manner)
    return moved(WORDS[said.label], adverbs, order)


def noun(said: Said, case: Case) -> str:
    """As in "het luide geblaf van een hond"."""
    word = WORDS[said.label]
    tail = spaced(times(ROW, said), "nog een keer" if said.again else "")
    return spaced(word.kind, joined(manners(QUALITIES, said), ", "), word.noun, word.owner, tail)


def followed(plain: Sequence[str], after: Sequence[str], kind: str) -> str:
    """As in "de voetstappen, gevolgd door het geblaf en daarna door het gelui"."""
    return f"{plain[0]}, gevolgd door " + " en daarna door ".join(after[1:])


LANGUAGE = Language(
    code="nld", clause=clause, noun=noun,
    then=(", dan ", "inverted"),
    first=("eerst ", ", vervolgens ", ", en ten slotte ", "inverted", "inverted"),
    later=("; daarna ", "inverted"),
    here=("hier ", "inverted"),
    recording=("een opname waarin ", "last"),
    hear=("je hoort ", ""),
    list_then=", dan ",
    followed=followed,
    while_=lambda a, b: f"{a} terwijl {b}", while_order="last",
    together=lambda a, b: f"{a} samen met {b}",
    behind=lambda sentence, noun: f"{sentence}, met {noun} op de achtergrond",
    scenery=lambda sentence, clause: f"op de achtergrond {clause}: {sentence}", scenery_order="inverted",
    kind=lambda label: WORDS[label].kind,
)  # fmt: skip
