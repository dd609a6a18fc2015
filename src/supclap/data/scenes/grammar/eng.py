"""English."""

from __future__ import annotations

from collections.abc import Sequence

from supclap.data.scenes.grammar.language import (
    Case,
    Language,
    Order,
    Said,
    Word,
    joined,
    manners,
    spaced,
    times,
    words,
)

WORDS = words("""
dog: a dog | barks | | barking | s | of a dog
cat: a cat | meows | | meowing | s | of a cat
bird: a bird | chirps | | chirping | s | of a bird
cricket: a cricket | chirrs | in the grass | song | s | of a cricket
frog: a frog | croaks | | croaking | s | of a frog
cow: a cow | moos | | mooing | s | of a cow
rain: rain | falls | | patter | s | of rain
thunder: thunder | rumbles | | rumble | s | of thunder
wind: the wind | blows | | howling | s | of the wind
stream: a stream | babbles | | babbling | s | of a stream
waves: waves | break | on the shore | breaking | s | of waves on the shore
drip: water | drips | into a basin | dripping | s | of water into a basin
engine: an engine | runs | | running | s | of an engine
train_horn: a train | blows | its horn | horn | s | of a train
siren: a siren | wails | | wailing | s | of a siren
car_horn: a car | honks | | honking | s | of a car
bell: a church bell | rings | | ringing | s | of a church bell
beep: an electronic alarm | beeps | | beeping | s | of an electronic alarm
telephone: a telephone | rings | | ringing | s | of a telephone
clock: a clock | ticks | | ticking | s | of a clock
vacuum: a vacuum cleaner | hums | | hum | s | of a vacuum cleaner
knock: someone | knocks | on a door | knocking | s | on a door
typing: someone | types | on a keyboard | typing | s | on a keyboard
glass: a glass | clinks | | clinking | s | of a glass
saw: someone | saws | wood | sawing | s | of wood
hammer: someone | hammers | on a nail | hammering | s | on a nail
drill: a drill | whirs | | whirring | s | of a drill
clapping: someone | claps | their hands | clapping | s | of hands
footsteps: someone | walks | across a floor | footsteps | p | on a floor
snoring: someone | snores | | snoring | s | of a sleeper
whistling: someone | whistles | a tune | whistling | s | of a tune
guitar: a guitar | plays | | sound | s | of a guitar
piano: a piano | plays | | sound | s | of a piano
drum: a drum | beats | | beating | s | of a drum
""")

# The classes of ESC-50 and UrbanSound8K that the table above does not have.
RECORDED = words("""
chirping_birds: birds | chirp | | chirping | s | of birds
vacuum_cleaner: a vacuum cleaner | hums | | hum | s | of a vacuum cleaner
thunderstorm: a thunderstorm | rumbles | | rumble | s | of a thunderstorm
door_wood_knock: someone | knocks | on a wooden door | knocking | s | on a wooden door
can_opening: someone | opens | a can | hiss | s | of a can being opened
crow: a crow | caws | | cawing | s | of a crow
fireworks: fireworks | explode | | bangs | p | of fireworks
chainsaw: a chainsaw | roars | | roar | s | of a chainsaw
airplane: an airplane | flies | overhead | drone | s | of an airplane
mouse_click: someone | clicks | a computer mouse | clicking | s | of a computer mouse
pouring_water: someone | pours | water | pouring | s | of water
train: a train | passes | by | rattling | s | of a train
sheep: a sheep | bleats | | bleating | s | of a sheep
water_drops: drops of water | fall | | dripping | s | of water
church_bells: church bells | ring | | ringing | s | of church bells
clock_alarm: an alarm clock | goes | off | ringing | s | of an alarm clock
keyboard_typing: someone | types | on a keyboard | typing | s | on a keyboard
brushing_teeth: someone | brushes | their teeth | brushing | s | of teeth
crackling_fire: a fire | crackles | | crackling | s | of a fire
helicopter: a helicopter | flies | past | whirring | s | of a helicopter
drinking_sipping: someone | sips | a drink | sipping | s | of a drink
insects: insects | buzz | | buzzing | s | of insects
laughing: someone | laughs | | laughter | s | of a person
hen: a hen | clucks | | clucking | s | of a hen
breathing: someone | breathes | heavily | breathing | s | of a person
crying_baby: a baby | cries | | crying | s | of a baby
hand_saw: someone | saws | wood by hand | sawing | s | of wood by hand
coughing: someone | coughs | | coughing | s | of a person
glass_breaking: glass | breaks | | breaking | s | of glass
toilet_flush: a toilet | flushes | | flushing | s | of a toilet
pig: a pig | oinks | | oinking | s | of a pig
washing_machine: a washing machine | runs | | running | s | of a washing machine
clock_tick: a clock | ticks | | ticking | s | of a clock
sneezing: someone | sneezes | | sneezing | s | of a person
rooster: a rooster | crows | | crowing | s | of a rooster
sea_waves: sea waves | break | on the shore | breaking | s | of sea waves on the shore
door_wood_creaks: a wooden door | creaks | | creaking | s | of a wooden door
crickets: crickets | chirp | | chirping | s | of crickets
air_conditioner: an air conditioner | hums | | hum | s | of an air conditioner
children_playing: children | play | outdoors | playing | s | of children outdoors
dog_bark: a dog | barks | | barking | s | of a dog
drilling: someone | drills | | drilling | s | of a machine
engine_idling: an engine | idles | | idling | s | of an engine
gun_shot: a gun | fires | | shot | s | of a gun
jackhammer: a jackhammer | pounds | | pounding | s | of a jackhammer
street_music: a street musician | plays | music | music | s | of a street musician
""")


def word_of(label: str) -> Word:
    """The words for a sound; a label that no table has speaks for itself."""
    name = label.strip().lower().replace(" ", "_")
    known = WORDS.get(name) or RECORDED.get(name)
    if known:
        return known
    plain = " ".join(label.replace("_", " ").replace("-", " ").split()).lower()
    return Word(f"the sound of {plain}", "is heard", "", "sound", "s", f"of {plain}")


MANNERS = {
    "loud": ("loudly", "very loudly"),
    "soft": ("softly", "faintly"),
    "low": ("at a low pitch", "in a deep tone"),
    "high": ("at a high pitch", "in a shrill tone"),
    "slow": ("slowly", "at a slow pace"),
    "fast": ("quickly", "at a fast pace"),
}
QUALITIES = {
    "loud": ("loud", "very loud"),
    "soft": ("soft", "faint"),
    "low": ("low-pitched", "deep"),
    "high": ("high-pitched", "shrill"),
    "slow": ("slow", "unhurried"),
    "fast": ("fast", "rapid"),
}
TIMES = {
    "2": ("twice", "two times"),
    "3": ("three times", "a total of three times"),
    "4": ("four times", "a total of four times"),
}
ROW = {"2": ("twice in a row", "two times over"), "3": ("three times in a row", "three times over"),
       "4": ("four times in a row", "four times over")}  # fmt: skip


def clause(said: Said, order: Order) -> str:
    """As in "a dog barks loudly twice"."""
    word = word_of(said.label)
    manner = joined(manners(MANNERS, said), " and ")
    return spaced(word.subject, word.verb, word.rest, manner, times(TIMES, said), "again" if said.again else "")


def noun(said: Said, case: Case) -> str:
    """As in "the loud barking of a dog"."""
    word = word_of(said.label)
    quality = joined(manners(QUALITIES, said), ", ")
    return spaced("the", quality, word.noun, word.owner, times(ROW, said), "once again" if said.again else "")


def followed(plain: Sequence[str], after: Sequence[str], kind: str) -> str:
    """As in "a followed by b and then by c"."""
    return f"{plain[0]} followed by " + " and then by ".join(after[1:])


LANGUAGE = Language(
    code="eng", clause=clause, noun=noun,
    then=(", then ", "main"),
    first=("first ", ", then ", ", and finally ", "main", "main"),
    later=("; after that, ", "main"),
    here=("here ", "main"),
    recording=("a recording in which ", "main"),
    hear=("you can hear ", ""),
    list_then=", then ",
    followed=followed,
    while_=lambda a, b: f"{a} while {b}", while_order="main",
    together=lambda a, b: f"{a} together with {b}",
    behind=lambda sentence, noun: f"{sentence}, with {noun} in the background",
    scenery=lambda sentence, clause: f"in the background {clause}: {sentence}", scenery_order="main",
    kind=lambda label: word_of(label).kind,
)  # fmt: skip
