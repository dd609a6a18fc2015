"""French."""

from __future__ import annotations

from collections.abc import Sequence

from supclap.data.scenes.grammar.language import Case, Language, Order, Said, joined, manners, spaced, times, words
from supclap.data.scenes.grammar.romance import KINDS, Articles, agreeing, nominal

WORDS = words("""
dog: un chien | aboie | | aboiement | m | d'un chien
cat: un chat | miaule | | miaulement | m | d'un chat
bird: un oiseau | gazouille | | gazouillis | m | d'un oiseau
cricket: un grillon | stridule | dans l'herbe | stridulation | f | d'un grillon
frog: une grenouille | coasse | | coassement | m | d'une grenouille
cow: une vache | meugle | | meuglement | m | d'une vache
rain: la pluie | tombe | | crépitement | m | de la pluie
thunder: le tonnerre | gronde | | grondement | m | du tonnerre
wind: le vent | souffle | | hurlement | m | du vent
stream: un ruisseau | murmure | | murmure | m | d'un ruisseau
waves: des vagues | déferlent | sur le rivage | déferlement | m | de vagues sur le rivage
drip: de l'eau | goutte | dans une bassine | clapotis | m | de gouttes d'eau dans une bassine
engine: un moteur | tourne | | ronronnement | m | d'un moteur
train_horn: un train | actionne | son avertisseur | avertisseur | m | d'un train
siren: une sirène | retentit | | hurlement | m | d'une sirène
car_horn: une voiture | klaxonne | | klaxon | m | d'une voiture
bell: une cloche d'église | sonne | | tintement | m | d'une cloche d'église
beep: une alarme électronique | bipe | | bip | m | d'une alarme électronique
telephone: un téléphone | sonne | | sonnerie | f | d'un téléphone
clock: une horloge | fait | tic-tac | tic-tac | m | d'une horloge
vacuum: un aspirateur | ronfle | | bruit | m | d'un aspirateur
knock: quelqu'un | frappe | à une porte | coup | m | à une porte
typing: quelqu'un | tape | sur un clavier | frappe | f | sur un clavier
glass: un verre | tinte | | tintement | m | d'un verre
saw: quelqu'un | scie | du bois | sciage | m | du bois
hammer: quelqu'un | martèle | un clou | martèlement | m | d'un clou
drill: une perceuse | vrombit | | vrombissement | m | d'une perceuse
clapping: quelqu'un | tape | dans ses mains | claquement | m | de mains
footsteps: quelqu'un | marche | sur un sol dur | pas | mp | sur un sol dur
snoring: quelqu'un | ronfle | dans son sommeil | ronflement | m | d'un dormeur
whistling: quelqu'un | siffle | un air | sifflement | m | d'un air
guitar: une guitare | joue | | son | m | d'une guitare
piano: un piano | joue | | son | m | d'un piano
drum: un tambour | bat | | battement | m | d'un tambour
""")

ARTICLES = Articles(
    plain={"m": "le", "f": "la", "mp": "les", "fp": "les"},
    of={"m": "du", "f": "de la", "mp": "des", "fp": "des"},
    elided="l'",
    vowels="aeiouéèêâîôûyh",  # every h of the table is mute but one: "hurlement"
)
ASPIRATED = ("hurlement",)

MANNERS = {
    "loud": ("bruyamment", "très fort"),
    "soft": ("doucement", "faiblement"),
    "low": ("d'un ton grave", "dans le grave"),
    "high": ("d'un ton aigu", "dans l'aigu"),
    "slow": ("lentement", "à un rythme lent"),
    "fast": ("rapidement", "à un rythme rapide"),
}
QUALITIES = {
    "loud": ("bruyant bruyante bruyants bruyantes", "puissant puissante puissants puissantes"),
    "soft": ("doux douce doux douces", "faible faible faibles faibles"),
    "low": ("grave grave graves graves", "profond profonde profonds profondes"),
    "high": ("aigu aiguë aigus aiguës", "perçant perçante perçants perçantes"),
    "slow": ("lent lente lents lentes", "espacé espacée espacés espacées"),
    "fast": ("rapide rapide rapides rapides", "pressé pressée pressés pressées"),
}
TIMES = {"2": ("deux fois", "à deux reprises"), "3": ("trois fois", "à trois reprises"),
         "4": ("quatre fois", "à quatre reprises")}  # fmt: skip
ROW = {"2": ("deux fois de suite", "à deux reprises"), "3": ("trois fois de suite", "à trois reprises"),
       "4": ("quatre fois de suite", "à quatre reprises")}  # fmt: skip


def clause(said: Said, order: Order) -> str:
    """As in "un chien aboie bruyamment deux fois"."""
    word = WORDS[said.label]
    manner = joined(manners(MANNERS, said), " et ")
    return spaced(word.subject, word.verb, word.rest, manner, times(TIMES, said), "à nouveau" if said.again else "")


def noun(said: Said, case: Case) -> str:
    """As in "l'aboiement bruyant d'un chien"; behind "suivi": "de l'aboiement"."""
    word = WORDS[said.label]
    tail = spaced(times(ROW, said), "encore une fois" if said.again else "")
    text = nominal(ARTICLES, word, agreeing(QUALITIES, said, word.kind), " et ", tail, of=case == "after")
    for name in ASPIRATED:
        text = text.replace(f"de l'{name}", f"du {name}").replace(f"l'{name}", f"le {name}")
    return text


def followed(plain: Sequence[str], after: Sequence[str], kind: str) -> str:
    """As in "les pas suivis du bruit, puis de la pluie"."""
    word = ("suivi", "suivie", "suivis", "suivies")[KINDS.index(kind)]
    return f"{plain[0]} {word} " + ", puis ".join(after[1:])


def que(opening: str, text: str) -> str:
    """As in "pendant que le", "pendant qu'un"."""
    return f"{opening}'{text}" if text[0] in ARTICLES.vowels else f"{opening}e {text}"


LANGUAGE = Language(
    code="fra", clause=clause, noun=noun,
    then=(", puis ", "main"),
    first=("d'abord ", ", ensuite ", ", et enfin ", "main", "main"),
    later=(" ; après cela, ", "main"),
    here=("ici, ", "main"),
    recording=("un enregistrement où ", "main"),
    hear=("on entend ", ""),
    list_then=", puis ",
    followed=followed,
    while_=lambda a, b: que(f"{a} pendant qu", b), while_order="main",
    together=lambda a, b: f"{a} en même temps que {b}",
    behind=lambda sentence, noun: f"{sentence}, avec {noun} en arrière-plan",
    scenery=lambda sentence, clause: f"en arrière-plan, {clause} : {sentence}", scenery_order="main",
    kind=lambda label: WORDS[label].kind,
)  # fmt: skip
