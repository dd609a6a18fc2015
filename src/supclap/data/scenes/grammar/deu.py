"""German."""

from __future__ import annotations

from collections.abc import Sequence

from supclap.data.scenes.grammar.germanic import moved
from supclap.data.scenes.grammar.language import Case, Language, Order, Said, joined, manners, spaced, times, words

WORDS = words("""
dog: ein Hund | bellt | | Bellen | n | eines Hundes
cat: eine Katze | miaut | | Miauen | n | einer Katze
bird: ein Vogel | zwitschert | | Zwitschern | n | eines Vogels
cricket: eine Grille | zirpt | im Gras | Zirpen | n | einer Grille
frog: ein Frosch | quakt | | Quaken | n | eines Frosches
cow: eine Kuh | muht | | Muhen | n | einer Kuh
rain: Regen | prasselt | | Prasseln | n | des Regens
thunder: Donner | grollt | | Grollen | n | des Donners
wind: der Wind | weht | | Heulen | n | des Windes
stream: ein Bach | plätschert | | Plätschern | n | eines Baches
waves: Wellen | brechen | am Strand | Brandung | f | am Strand
drip: Wasser | tropft | in ein Becken | Tropfen | n | von Wasser in ein Becken
engine: ein Motor | läuft | | Brummen | n | eines Motors
train_horn: ein Zug | hupt | | Signalhorn | n | eines Zuges
siren: eine Sirene | heult | | Heulen | n | einer Sirene
car_horn: ein Auto | hupt | | Hupe | f | eines Autos
bell: eine Kirchenglocke | läutet | | Läuten | n | einer Kirchenglocke
beep: ein elektronischer Alarm | piept | | Piepen | n | eines elektronischen Alarms
telephone: ein Telefon | klingelt | | Klingeln | n | eines Telefons
clock: eine Uhr | tickt | | Ticken | n | einer Uhr
vacuum: ein Staubsauger | brummt | | Brummen | n | eines Staubsaugers
knock: jemand | klopft | an eine Tür | Klopfen | n | an eine Tür
typing: jemand | tippt | auf einer Tastatur | Tippen | n | auf einer Tastatur
glass: ein Glas | klirrt | | Klirren | n | eines Glases
saw: jemand | sägt | an einem Stück Holz | Sägen | n | an einem Stück Holz
hammer: jemand | hämmert | auf einen Nagel | Hämmern | n | auf einen Nagel
drill: eine Bohrmaschine | surrt | | Surren | n | einer Bohrmaschine
clapping: jemand | klatscht | in die Hände | Klatschen | n | von Händen
footsteps: jemand | geht | über einen harten Boden | Schritte | p | auf einem harten Boden
snoring: jemand | schnarcht | | Schnarchen | n | eines Schlafenden
whistling: jemand | pfeift | eine Melodie | Pfeifen | n | einer Melodie
guitar: eine Gitarre | spielt | | Klang | m | einer Gitarre
piano: ein Klavier | spielt | | Klang | m | eines Klaviers
drum: eine Trommel | schlägt | | Schlagen | n | einer Trommel
""")

ARTICLES = {
    "plain": {"m": "der", "f": "die", "n": "das", "p": "die"},
    "object": {"m": "den", "f": "die", "n": "das", "p": "die"},
    "dative": {"m": "dem", "f": "der", "n": "dem", "p": "den"},
}
DATIVE_PLURAL = {"Schritte": "Schritten"}
MANNERS = {
    "loud": ("laut", "sehr laut"),
    "soft": ("leise", "ganz schwach"),
    "low": ("in tiefem Ton", "mit tiefem Klang"),
    "high": ("in hohem Ton", "mit hohem Klang"),
    "slow": ("langsam", "in langsamem Tempo"),
    "fast": ("schnell", "in schnellem Tempo"),
}
# Stems: behind a definite article they take -e or -en.
QUALITIES = {
    "loud": ("laut", "kräftig"),
    "soft": ("leis", "schwach"),
    "low": ("tief", "dunkl"),
    "high": ("hoh", "schrill"),
    "slow": ("langsam", "gemächlich"),
    "fast": ("schnell", "rasch"),
}
TIMES = {"2": ("zweimal", "zwei Mal"), "3": ("dreimal", "drei Mal"), "4": ("viermal", "vier Mal")}
ROW = {"2": ("zweimal hintereinander", "zwei Mal in Folge"), "3": ("dreimal hintereinander", "drei Mal in Folge"),
       "4": ("viermal hintereinander", "vier Mal in Folge")}  # fmt: skip


def clause(said: Said, order: Order) -> str:
    """As in "ein Hund bellt zweimal laut"."""
    manner = joined(manners(MANNERS, said), " und ")
    adverbs = spaced("erneut" if said.again else "", times(TIMES, said), manner)
    return moved(WORDS[said.label], adverbs, order)


def ending(kind: str, case: str) -> str:
    """The weak ending of an adjective behind a definite article."""
    return "en" if kind == "p" or case == "dative" or (kind, case) == ("m", "object") else "e"


def noun(said: Said, case: Case) -> str:
    """As in "das laute Bellen eines Hundes"; behind "mit" and "gefolgt von": "dem lauten Bellen"."""
    word = WORDS[said.label]
    form = case if case in ("plain", "object") else "dative"
    qualities = [stem + ending(word.kind, form) for stem in manners(QUALITIES, said)]
    head = DATIVE_PLURAL[word.noun] if form == "dative" and word.kind == "p" else word.noun
    tail = spaced(times(ROW, said), "noch einmal" if said.again else "")
    return spaced(ARTICLES[form][word.kind], joined(qualities, ", "), head, word.owner, tail)


def followed(plain: Sequence[str], after: Sequence[str], kind: str) -> str:
    """As in "die Schritte, gefolgt vom Bellen und dann vom Läuten"."""
    return f"{plain[0]}, gefolgt " + " und dann ".join(
        f"von {text}".replace("von dem ", "vom ", 1) for text in after[1:]
    )


LANGUAGE = Language(
    code="deu", clause=clause, noun=noun,
    then=(", dann ", "inverted"),
    first=("zuerst ", ", danach ", ", und schließlich ", "inverted", "inverted"),
    later=("; im Anschluss ", "inverted"),
    here=("hier ", "inverted"),
    recording=("eine Aufnahme, in welcher ", "last"),
    hear=("man hört ", ""),
    list_then=", dann ",
    followed=followed,
    while_=lambda a, b: f"{a}, während {b}", while_order="last",
    together=lambda a, b: f"{a} zusammen mit {b}",
    behind=lambda sentence, noun: f"{sentence}, mit {noun} im Hintergrund",
    scenery=lambda sentence, clause: f"im Hintergrund {clause}: {sentence}", scenery_order="inverted",
    kind=lambda label: WORDS[label].kind,
)  # fmt: skip
