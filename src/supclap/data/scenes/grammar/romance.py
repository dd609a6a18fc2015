"""What French, Spanish and Catalan share: adjectives that agree, articles that shrink and melt into "de"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from supclap.data.scenes.grammar.language import Said, Word, joined, spaced

KINDS = ("m", "f", "mp", "fp")


@dataclass(frozen=True)
class Articles:
    """The definite article by kind, alone and behind "de"; ``elided`` stands before a vowel in the singular."""

    plain: Mapping[str, str]
    of: Mapping[str, str]
    elided: str = ""
    vowels: str = ""

    def before(self, noun: str, kind: str) -> str:
        """As in "le chien", "l'aboiement"."""
        if self.elided and kind in "mf" and noun[0] in self.vowels:
            return self.elided + noun
        return f"{self.plain[kind]} {noun}"

    def of_before(self, noun: str, kind: str) -> str:
        """As in "du chien", "de l'aboiement"."""
        if self.elided and kind in "mf" and noun[0] in self.vowels:
            return f"de {self.elided}{noun}"
        return f"{self.of[kind]} {noun}"


def agreeing(table: Mapping[str, Sequence[str]], said: Said, kind: str) -> list[str]:
    """Adjectives for loudness, pitch and speed in the form of a kind; each is given as "m f mp fp"."""
    values = [said.attributes[name] for name in ("loudness", "pitch", "speed") if name in said.attributes]
    return [table[value][said.synonym % len(table[value])].split()[KINDS.index(kind)] for value in values]


def nominal(articles: Articles, word: Word, qualities: Sequence[str], conjunction: str, tail: str, *, of: bool) -> str:
    """As in "l'aboiement fort et grave d'un chien deux fois de suite"."""
    head = (articles.of_before if of else articles.before)(word.noun, word.kind)
    return spaced(head, joined(qualities, conjunction), word.owner, tail)
