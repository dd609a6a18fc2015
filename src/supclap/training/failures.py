"""Where a model went wrong: the captions whose clip came far behind, and what came first instead."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supclap.evaluation.model import Embeddings
from supclap.schema import Clip


@dataclass(frozen=True)
class Failure:
    """A caption whose clip came far behind: the right clip, the clip that came first, and the rank (from 1)."""

    text: str
    language: str
    right: Clip
    found: Clip
    rank: int


def failures(seen: Embeddings, count: int = 3) -> list[Failure]:
    """The captions that went worst, no clip twice."""
    cosines = seen.text @ seen.audio.T
    own = cosines[np.arange(len(cosines)), seen.caption_clip]
    ranks = (cosines >= own[:, None]).sum(axis=1)
    texts = [caption for clip in seen.clips for caption in clip.captions]
    found: list[Failure] = []
    for row in np.argsort(-ranks, kind="stable"):
        right, first = seen.clips[seen.caption_clip[row]], seen.clips[int(cosines[row].argmax())]
        if right.id not in {failure.right.id for failure in found} and ranks[row] > 1:
            found.append(Failure(texts[row].text, texts[row].language, right, first, int(ranks[row])))
        if len(found) == count:
            break
    return found
