"""What every language must supply: words for the sounds, words for their attributes, and ways to join them.

A thing that sounds is said in two ways: as a clause ("a dog barks") and as a noun ("the barking of a dog").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Order = Literal["main", "inverted", "last"]
"""Where a clause has its verb: "ein Hund bellt", "(dann) bellt ein Hund", "(in der) ein Hund bellt"."""

Case = Literal["plain", "object", "with", "after"]
"""What governs a noun: nothing, a verb of hearing, the word for "with", the word for "followed by"."""

COUNTS = ("2", "3", "4")


@dataclass(frozen=True)
class Word:
    """A sound in one language.

    ``kind`` is the noun's gender and number as the language counts them ("m", "f", "mp", "de", ...).
    """

    subject: str
    verb: str
    rest: str
    noun: str
    kind: str
    owner: str  # what follows the noun: "of a dog"


def words(table: str) -> dict[str, Word]:
    """A table of "name: subject | verb | rest | noun | kind | owner", one sound a line."""
    out: dict[str, Word] = {}
    for line in table.strip().splitlines():
        name, _, fields = line.partition(":")
        subject, verb, rest, noun, kind, owner = (field.strip() for field in fields.split("|"))
        out[name.strip()] = Word(subject, verb, rest, noun, kind, owner)
    return out


@dataclass(frozen=True)
class Said:
    """One event ready to be put into words: its sound, what is out of the ordinary, and which synonyms to take."""

    label: str
    attributes: Mapping[str, str]
    again: bool
    synonym: int


@dataclass(frozen=True)
class Language:
    """One language: two ways to say a sound, and the joints of a sentence."""

    code: str
    clause: Callable[[Said, Order], str]
    noun: Callable[[Said, Case], str]
    # How a list of steps is told; each takes what ``step`` makes of one step.
    then: tuple[str, Order]  # "a, then b": the joint, and the order of the clause behind it
    first: tuple[
        str, str, str, Order, Order
    ]  # "first a, then b, finally c": three openings, the orders of a and of the rest
    later: tuple[str, Order]  # "a; after that b"
    here: tuple[str, Order]  # how the last way begins
    recording: tuple[str, Order]  # "a recording in which a"
    hear: tuple[str, str]  # "you can hear a, then b": the opening, and what ends it
    list_then: str  # between nouns
    followed: Callable[[Sequence[str], Sequence[str], str], str]  # nouns plain, nouns after "by", the first one's kind
    while_: Callable[[str, str], str]  # two clauses at once; the second in the order of ``while_order``
    while_order: Order
    together: Callable[[str, str], str]  # two nouns at once; the second in the case "with"
    behind: Callable[[str, str], str]  # a sentence and a background noun (case "with")
    scenery: Callable[[str, str], str]  # a sentence and a background clause (order ``scenery_order``)
    scenery_order: Order
    kind: Callable[[str], str]  # label -> kind of its noun


def spaced(*parts: str) -> str:
    """Words with one space between them, empty ones left out."""
    return " ".join(part for part in parts if part)


def joined(parts: Sequence[str], conjunction: str) -> str:
    """As in "a", "a and b"."""
    return conjunction.join(part for part in parts if part)


MANNERS = ("loudness", "pitch", "speed")


def manners(table: Mapping[str, Sequence[str]], said: Said) -> list[str]:
    """The words for loudness, pitch and speed that apply, in this order."""
    values = [said.attributes[name] for name in MANNERS if name in said.attributes]
    return [table[value][said.synonym % len(table[value])] for value in values]


def times(table: Mapping[str, Sequence[str]], said: Said) -> str:
    """The word for how many strokes, or nothing."""
    count = said.attributes.get("count")
    return table[count][said.synonym % len(table[count])] if count else ""
