"""From what is true of a scene to sentences about it, in any of the languages.

A way of telling is a number below ``WAYS``: the same truth, language and number always give the same sentence, so that
all sentences that are true of a scene can be listed.
"""

from __future__ import annotations

from supclap.data.scenes.dsp import generator
from supclap.data.scenes.grammar.language import Case, Language, Order, Said
from supclap.data.scenes.truth import Placed, Truth

SHAPES = 6
WAYS = SHAPES * 4
"""Shapes of the sentence, times two sets of synonyms, times two places for the background."""


def tell(truth: Truth, language: Language, way: int) -> str:
    """One sentence that states the background, the order, and everything out of the ordinary."""
    shape, rest = way % SHAPES, way // SHAPES
    teller = _Teller(language, synonym=rest % 2)
    sentence = _SHAPES[shape](teller, truth.steps)
    behind = truth.background
    if behind is not None:
        said = Said(behind.label, {}, False, rest % 2)
        if rest // 2 == 0:
            sentence = language.behind(sentence, language.noun(said, "with"))
        else:
            sentence = language.scenery(sentence, language.clause(said, language.scenery_order))
    return sentence[0].upper() + sentence[1:]


def ways(truth: Truth) -> list[int]:
    """The numbers that give different sentences of this scene, the same ones in every language."""
    coloured = any(event.attributes for event in truth.events)
    chosen: dict[tuple[int, int, int], int] = {}
    for way in range(WAYS):
        shape, rest = way % SHAPES, way // SHAPES
        if len(truth.steps) == 1 and _SHAPES[shape] is _followed:
            continue
        key = (shape, rest % 2 if coloured else 0, rest // 2 if truth.background else 0)
        chosen.setdefault(key, way)
    return list(chosen.values())


def everything(truth: Truth, language: Language) -> list[str]:
    """All sentences that are true of a scene, each once."""
    return [tell(truth, language, way) for way in ways(truth)]


def several(truth: Truth, language: Language, count: int, seed: int) -> list[str]:
    """Some different sentences of a scene, chosen by chance; in another language, their translations."""
    open_ = ways(truth)
    chosen = generator(seed).permutation(len(open_))[:count]
    return [tell(truth, language, open_[int(place)]) for place in chosen]


class _Teller:
    def __init__(self, language: Language, synonym: int) -> None:
        self.language, self.synonym = language, synonym

    def _said(self, event: Placed) -> Said:
        return Said(event.label, event.attributes, event.again, self.synonym)

    def clause(self, step: list[Placed], order: Order) -> str:
        language = self.language
        text = language.clause(self._said(step[0]), order)
        if len(step) == 1:
            return text
        return language.while_(text, language.clause(self._said(step[1]), language.while_order))

    def noun(self, step: list[Placed], case: Case) -> str:
        language = self.language
        text = language.noun(self._said(step[0]), case)
        if len(step) == 1:
            return text
        return language.together(text, language.noun(self._said(step[1]), "with"))


def _then(teller: _Teller, steps: list[list[Placed]]) -> str:
    joint, order = teller.language.then
    return joint.join(teller.clause(step, order if number else "main") for number, step in enumerate(steps))


def _first(teller: _Teller, steps: list[list[Placed]]) -> str:
    language = teller.language
    if len(steps) == 1:
        opening, order = language.recording
        return opening + teller.clause(steps[0], order)
    first, middle, last, order, order_behind = language.first
    out = first + teller.clause(steps[0], order)
    for number, step in enumerate(steps[1:], start=2):
        out += (last if number == len(steps) and number > 2 else middle) + teller.clause(step, order_behind)
    return out


def _later(teller: _Teller, steps: list[list[Placed]]) -> str:
    (opening, order), (joint, order_behind) = teller.language.here, teller.language.later
    if len(steps) > 1:
        opening, order = "", "main"
    parts = [teller.clause(step, order_behind if number else order) for number, step in enumerate(steps)]
    return opening + joint.join(parts)


def _list(teller: _Teller, steps: list[list[Placed]]) -> str:
    return teller.language.list_then.join(teller.noun(step, "plain") for step in steps)


def _hear(teller: _Teller, steps: list[list[Placed]]) -> str:
    opening, ending = teller.language.hear
    return opening + teller.language.list_then.join(teller.noun(step, "object") for step in steps) + ending


def _followed(teller: _Teller, steps: list[list[Placed]]) -> str:
    plain = [teller.noun(step, "plain") for step in steps]
    if len(steps) == 1:
        opening, order = teller.language.here
        return opening + teller.clause(steps[0], order)
    after = [teller.noun(step, "after") for step in steps]
    return teller.language.followed(plain, after, teller.language.kind(steps[0][0].label))


_SHAPES = (_then, _first, _later, _list, _hear, _followed)
