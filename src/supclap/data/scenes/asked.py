"""How people ask for a sound: by a tag, by what they want to hear, and in words that no caption here uses. English.

Searchers write 1.8 words on average, or a question, or an order; what they hardly ever write is a caption.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from supclap.data.scenes.grammar.eng import word_of


@dataclass(frozen=True)
class Asked:
    """One sound as it is asked for: ``tag`` (one to three words), ``doing`` ("a dog barking"), ``reworded``."""

    tag: str
    doing: str
    reworded: str


# label: tag | what one wants to hear | the same in other words. A tag fits no other sound of the same set.
_TABLE = """
dog: dog | a dog barking | a hound woofing
cat: cat | a cat meowing | a kitten mewing
bird: bird | a bird chirping | tweets from a robin
cricket: cricket | a cricket chirring | the night song of grasshoppers
frog: frog | a frog croaking | a toad ribbiting
cow: cow | a cow mooing | cattle lowing
rain: rain | rain falling | a downpour
thunder: thunder | thunder rumbling | the roar after lightning
wind: wind | the wind blowing | gusts of air
stream: stream | a stream babbling | a brook flowing
waves: waves | waves breaking on the shore | surf rolling in
drip: drip | water dripping into a basin | a leaking tap
engine: engine | an engine running | a motor turning over
train_horn: train horn | a train blowing its horn | a locomotive hooting
siren: siren | a siren wailing | an emergency vehicle on its way
car_horn: car horn | a car honking | an automobile tooting
bell: church bell | a church bell ringing | chimes from a steeple
beep: beep | an electronic alarm beeping | short warning tones
telephone: telephone | a telephone ringing | an incoming call
clock: clock | a clock ticking | the tick-tock of a timepiece
vacuum: vacuum | a vacuum cleaner humming | a hoover at work
knock: knock | someone knocking on a door | a visitor rapping at the entrance
typing: typing | someone typing on a keyboard | keys being pressed at a computer
glass: glass | a glass clinking | a toast with crystal
saw: saw | someone sawing wood | timber being cut by hand
hammer: hammer | someone hammering on a nail | a carpenter pounding
drill: drill | a drill whirring | a power tool boring a hole
clapping: applause | someone clapping their hands | an audience applauding
footsteps: footsteps | someone walking across a floor | shoes pacing about
snoring: snoring | someone snoring | the noisy breath of a sleeper
whistling: whistle | someone whistling a tune | a melody blown through pursed lips
guitar: guitar | a guitar playing | strings being strummed
piano: piano | a piano playing | chords on a grand
drum: drum | a drum beating | percussion
chirping_birds: birds | birds chirping | a dawn chorus of robins
vacuum_cleaner: vacuum | a vacuum cleaner humming | a hoover at work
thunderstorm: thunder | a thunderstorm rumbling | the roar after lightning
door_wood_knock: knock | someone knocking on a wooden door | a visitor rapping at the entrance
can_opening: soda can | someone opening a can | the pop and fizz of a soft drink
crow: crow | a crow cawing | a raven calling
fireworks: fireworks | fireworks exploding | rockets bursting on a holiday
chainsaw: chainsaw | a chainsaw roaring | a lumberjack's power tool
airplane: airplane | an airplane flying overhead | a jet in the sky
mouse_click: mouse click | someone clicking a computer mouse | a button pressed on a pointing device
pouring_water: pouring | someone pouring water | a liquid being decanted
train: train | a train passing by | railway carriages on their tracks
sheep: sheep | a sheep bleating | the baa of a lamb
water_drops: drip | drops of water falling | a leaking tap
church_bells: church bell | church bells ringing | chimes from a steeple
clock_alarm: alarm clock | an alarm clock going off | a wake-up signal
keyboard_typing: typing | someone typing on a keyboard | keys being pressed in an office
brushing_teeth: toothbrush | someone brushing their teeth | dental care
crackling_fire: fire | a fire crackling | logs burning in a hearth
helicopter: helicopter | a helicopter flying past | a chopper's rotor
drinking_sipping: sipping | someone sipping a drink | small gulps from a cup
insects: insects | insects buzzing | flies and bees
laughing: laughter | someone laughing | a person giggling
hen: hen | a hen clucking | a chicken cackling
breathing: breathing | someone breathing heavily | panting after a run
crying_baby: baby | a baby crying | an infant in tears
hand_saw: hand saw | someone sawing wood by hand | timber being cut without a motor
coughing: cough | someone coughing | a person with a bad chest
glass_breaking: broken glass | glass breaking | a window being smashed
toilet_flush: toilet | a toilet flushing | a lavatory being emptied
pig: pig | a pig oinking | a hog grunting
washing_machine: washing machine | a washing machine running | a laundry appliance
clock_tick: ticking | a clock ticking | the tick-tock of a timepiece
sneezing: sneeze | someone sneezing | an achoo
rooster: rooster | a rooster crowing | a cockerel at sunrise
sea_waves: waves | sea waves breaking on the shore | surf rolling in
door_wood_creaks: creak | a wooden door creaking | old hinges in want of oil
crickets: crickets | crickets chirping | the night song of grasshoppers
air_conditioner: air conditioner | an air conditioner humming | a cooling unit on a hot day
children_playing: children | children playing outdoors | kids in a playground
dog_bark: dog | a dog barking | a hound woofing
drilling: drill | someone drilling | a power tool boring a hole
engine_idling: engine | an engine idling | a motor ticking over
gun_shot: gunshot | a gun firing | a pistol going off
jackhammer: jackhammer | a jackhammer pounding | a pneumatic tool breaking up the road
street_music: busker | a street musician playing music | songs from a performer on the pavement
"""


def _read(table: str) -> dict[str, Asked]:
    found = {}
    for line in table.strip().splitlines():
        name, _, fields = line.partition(": ")
        found[name] = Asked(*(field.strip() for field in fields.split(" | ")))
    return found


ASKED = _read(_TABLE)

QUESTIONS = (
    "Can you find a recording of {}?",
    "Is there a clip with {}?",
    "Do you have the sound of {}?",
    "Where can I hear {}?",
)
COMMANDS = ("Find {}", "Play me a recording of {}", "Search for {}", "Show me clips with {}")
# Tags are left out as in a search box; phrases, which may begin with an article, as in a sentence.
WITHOUT = {
    "tag": ("{} without {}", "{} but no {}", "{}, no {}", "{} not {}"),
    "doing": ("{} without {}", "{} but not {}", "{}, and not {}", "{} but without {}"),
}
WITH = ("like this, but with {}", "the same thing with {} as well", "this, plus {}", "something like this with {}")


def asked(label: str) -> Asked:
    """How a sound is asked for; a label that the table does not have speaks for itself."""
    known = ASKED.get(label.strip().lower().replace(" ", "_"))
    if known is not None:
        return known
    plain = " ".join(label.replace("_", " ").replace("-", " ").split()).lower()
    return Asked(plain, f"the sound of {plain}", f"the noise of {plain}")


def joined(parts: Sequence[str]) -> str:
    """As in "a", "a and b", "a, b and c"."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def caption(labels: Sequence[str]) -> str:
    """The same sounds as a caption has them: "A dog barks, rain falls and a church bell rings"."""
    told = joined([" ".join(part for part in (w.subject, w.verb, w.rest) if part) for w in map(word_of, labels)])
    return told[0].upper() + told[1:]
