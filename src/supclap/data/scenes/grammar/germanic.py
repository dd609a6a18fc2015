"""What German and Dutch share: the verb moves."""

from __future__ import annotations

from supclap.data.scenes.grammar.language import Order, Word, spaced


def moved(word: Word, adverbs: str, order: Order) -> str:
    """As in "ein Hund bellt laut", "bellt ein Hund laut", "ein Hund laut bellt"."""
    if order == "inverted":
        return spaced(word.verb, word.subject, adverbs, word.rest)
    if order == "last":
        return spaced(word.subject, adverbs, word.rest, word.verb)
    return spaced(word.subject, word.verb, adverbs, word.rest)
