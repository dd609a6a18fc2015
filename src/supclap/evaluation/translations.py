"""Do translated captions still say the same? Similarity by a text encoder, with random pairs as the floor.

Two forms: a multilingual encoder compares a caption with its translation; any English one compares it with its
re-translation (back-translation files), as the paper's table does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supclap.evaluation import resampling
from supclap.evaluation.model import text_rows
from supclap.evaluation.ranks import unit
from supclap.schema import Clip, UserError


@dataclass(frozen=True)
class Quality:
    """Mean cosine of captions with their translations, its interval over clips, and that of random pairs."""

    language: str
    similarity: float
    low: float
    high: float
    floor: float
    captions: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def evaluate(model: Any, clips: Sequence[Clip], *, reference: str = "eng", seed: int = 0) -> list[Quality]:
    """Each language's captions against the reference's, the k-th with the k-th of the same clip."""
    languages = sorted({c.language for clip in clips for c in clip.captions} - {reference})
    if not languages:
        raise UserError(f"no captions beside those in {reference!r}; nothing to compare")
    return [_language(model, clips, reference, language, seed) for language in languages]


def _language(model: Any, clips: Sequence[Clip], reference: str, language: str, seed: int) -> Quality:
    pairs, owner = [], []
    for row, clip in enumerate(clips):
        said = [[c.text for c in clip.captions if c.language == code] for code in (reference, language)]
        if said[1] and len(said[0]) != len(said[1]):
            raise UserError(
                f"clip {clip.id!r} has {len(said[0])} captions in {reference!r} and {len(said[1])} in {language!r}; "
                "the k-th must translate the k-th"
            )
        if said[1]:
            pairs += list(zip(*said, strict=True))
            owner += [row] * len(said[0])
    first = text_rows(model, [(text, reference) for text, _ in pairs])
    second = text_rows(model, [(text, language) for _, text in pairs])
    return quality(first, second, owner, language, seed)


def evaluate_again(
    model: Any, clips: Sequence[Clip], again: Sequence[Clip], *, reference: str = "eng", seed: int = 0
) -> list[Quality]:
    """Captions against what came back from each language: ``again`` holds the same clips with the re-translated ones.

    A re-translated caption is in the reference's words, and its column or row names the language it came back from.
    """
    original = {clip.id: [c.text for c in clip.captions if c.language == reference] for clip in clips}
    other = {clip.id: clip for clip in again}
    odd = sorted(other.keys() - original.keys())
    if odd:
        raise UserError(f"clip {odd[0]!r} was re-translated but is not in the table; both must hold the same clips")
    languages = sorted({c.language for clip in again for c in clip.captions})
    found = []
    for code in languages:
        back = {name: [c.text for c in clip.captions if c.language == code] for name, clip in other.items()}
        back = {name: texts for name, texts in back.items() if texts}
        mine = {name: original[name] for name in back}
        found.append(back_translated(model, mine, back, language=code, reference=reference, seed=seed))
    if not found:
        raise UserError("the re-translated table has no captions; give one for each caption of the original")
    return found


def back_translated(
    model: Any,
    original: Mapping[str, Sequence[str]],
    again: Mapping[str, Sequence[str]],
    *,
    language: str,
    reference: str = "eng",
    seed: int = 0,
) -> Quality:
    """English captions by clip id against what came back from ``language``, by any encoder of English."""
    if set(original) != set(again):
        odd = sorted(set(original) ^ set(again))[0]
        raise UserError(f"clip {odd!r} is in one file only; both must hold the same clips")
    for name, texts in original.items():
        if len(texts) != len(again[name]):
            raise UserError(f"clip {name!r} has {len(texts)} captions and {len(again[name])} re-translated ones")
    owner = [row for row, name in enumerate(original) for _ in original[name]]
    first, second = ([(text, reference) for name in original for text in side[name]] for side in (original, again))
    return quality(text_rows(model, first), text_rows(model, second), owner, language, seed)


def quality(first: Any, second: Any, owner: Sequence[int], language: str, seed: int = 0) -> Quality:
    """From rows: pair i is (first[i], second[i]) of clip ``owner[i]``."""
    one, two, clip = unit(np.asarray(first)), unit(np.asarray(second)), np.asarray(owner)
    if len(set(owner)) < 2:
        raise UserError(f"language {language!r} has captions of one clip; random pairs need two")
    similarity = (one * two).sum(1)
    _, place = np.unique(clip, return_inverse=True)
    sums, counts = np.bincount(place, similarity).astype(np.float64), np.bincount(place).astype(np.float64)
    drawn = resampling.mean_draws(sums[:, None], counts[:, None], 10_000, seed)
    low, high = resampling.percentile(drawn, len(counts))
    floor = (one * two[_of_other_clips(clip, seed)]).sum(1).mean()
    return Quality(language, float(similarity.mean()), float(low[0]), float(high[0]), float(floor), len(one))


def _of_other_clips(clip: NDArray[Any], seed: int) -> NDArray[Any]:
    """For each caption one of another clip, by chance."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, len(clip), len(clip))
    while (same := clip[drawn] == clip).any():
        drawn[same] = rng.integers(0, len(clip), int(same.sum()))
    return drawn
