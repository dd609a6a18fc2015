"""The part of a run's report to listen to: what captions found, and where the model went wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from supclap.audio.reader import read as read_sound
from supclap.encoders.hub import load
from supclap.evaluation.model import Embeddings, embed_clips
from supclap.report import figures, html
from supclap.schema import Clip, UserError
from supclap.training import setup
from supclap.training.config import RunConfig
from supclap.training.failures import failures

SHOWN, RATE, SECONDS = 3, 16000, 10.0
LISTENED = 500  # clips of the split that is looked at


def heard(folder: Path, config: RunConfig) -> tuple[Embeddings | None, str]:
    """The split that the run is judged by, as its model sees it; or why that cannot be."""
    try:
        clips = setup.splits(config)[config.evaluate.select_on][:LISTENED]
        captioned = [clip for clip in clips if clip.captions]
        if not captioned:
            return None, f"no clip of the {config.evaluate.select_on} split has a caption"
        model = load(folder)
        # Where a tower stands still the cache has its rows.
        features, kept = setup.cached(config, model, {"train": captioned}, None, None)
        return embed_clips(model, kept["train"], features=features, on_error="drop"), ""
    except UserError as error:
        return None, str(error)


def found(seen: Embeddings) -> str:
    """Captions from the beginning, the middle and the end of the split, and what each finds."""
    body = html.text(f"Captions of the split asked over its {len(seen.clips)} clips. Press play.")
    places = np.unique(np.linspace(0, len(seen.caption_clip) - 1, SHOWN).round().astype(int))
    said = [caption for clip in seen.clips for caption in clip.captions]
    for place in places:
        cosines, right = seen.audio @ seen.text[place], int(seen.caption_clip[place])
        body += html.quote(said[place].text, said[place].language)
        cards = []
        for rank, row in enumerate(np.argsort(-cosines, kind="stable")[:SHOWN], start=1):
            words = f"{rank}. cosine {cosines[row]:.2f}{', the clip of this caption' if row == right else ''}"
            cards.append(card(seen.clips[row], words, "good" if row == right else "soft"))
        body += html.cards(cards)
    return body


def failed(seen: Embeddings) -> str:
    """The captions that went worst."""
    worst = failures(seen, SHOWN)
    if not worst:
        return html.text("There is none: every caption found its clip first.")
    body = html.text(f"Captions whose clip came far behind, of {len(seen.clips)} clips.")
    for one in worst:
        cards = [card(one.right, "what was meant"), card(one.found, "what came first")]
        body += (
            html.quote(one.text, one.language) + html.text(f"Its clip came at place {one.rank}.") + html.cards(cards)
        )
    return body


def card(clip: Clip, words: str, kind: str = "soft") -> str:
    """A clip to look at and to play."""
    end = clip.start + SECONDS if clip.end is None else min(clip.end, clip.start + SECONDS)
    samples = read_sound(clip.audio, RATE, clip.start, end)
    picture = html.image(figures.spectrogram(samples, RATE, size=(320, 110)), f"spectrogram of {clip.id}")
    said = clip.captions[0].text if clip.captions else clip.id
    return html.text(words, kind) + picture + html.audio(samples, RATE, said) + html.text(said)
