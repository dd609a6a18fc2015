"""A model on a table of clips: the one path that training, the command line and studies use.

A model is any object with ``embed_audio(items, batch_size=, workers=, on_error=)`` and
``embed_text(texts, language=code)``, as ``supclap.DualModel`` has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from supclap.embedding.embed import embed_captions
from supclap.encoders.stream import inference
from supclap.evaluation import retrieval, zeroshot
from supclap.evaluation.ranks import Ints
from supclap.evaluation.retrieval import Scores
from supclap.evaluation.zeroshot import Classification
from supclap.schema import Batch, Clip, Embedded, UserError, unknown

Rows = NDArray[np.float32]
AUDIO_BATCH, FEATURE_BATCH = 32, 1024


@dataclass(frozen=True)
class Embeddings:
    """A table as a model sees it: audio [clips, d], text [captions, d], and whose caption each is."""

    clips: list[Clip]
    audio: Rows
    text: Rows
    caption_clip: Ints
    languages: list[str]
    dropped: dict[str, str]  # clip id -> why it could not be read


def evaluate_model(
    model: Any,
    clips: Sequence[Clip],
    *,
    protocol: str = "mlclap",
    split: str | None = None,
    features: Any = None,
    batch_size: int = AUDIO_BATCH,
    workers: int = 0,
    on_error: str = "raise",
) -> Scores:
    """Retrieval scores of a model; with captions in several languages, each by itself and their mean.

    ``split`` takes the clips of one split. ``features`` (``audio(clip)``, ``text(text, language)``) stand in for what
    frozen towers say. ``on_error`` "drop" leaves unreadable clips out, and the scores say so.
    """
    chosen = of_split(clips, split)
    check_clips(chosen, captions=True)
    seen = embed_clips(model, chosen, features=features, batch_size=batch_size, workers=workers, on_error=on_error)
    scores = retrieval.evaluate(
        seen.audio,
        seen.text,
        seen.caption_clip,
        languages=seen.languages if len(set(seen.languages)) > 1 else None,
        protocol=protocol,
        split=split or only_split(chosen),
    )
    shared = _shared_captions(seen)
    if shared:
        scores.notes += (f"{shared} captions stand at more than one clip: each ties with its twins, against the model",)
    if seen.dropped:
        name, reason = next(iter(seen.dropped.items()))
        scores.notes += (f"{len(seen.dropped)} of {len(chosen)} clips were left out ({name}: {reason})",)
    return scores


def evaluate_zeroshot(
    model: Any,
    clips: Sequence[Clip],
    *,
    labels: Sequence[str] | None = None,
    templates: Sequence[str] = (zeroshot.TEMPLATE,),
    language: str = "eng",
    separator: str | None = None,
    split: str | None = None,
    batch_size: int = AUDIO_BATCH,
    workers: int = 0,
) -> Classification:
    """Zero-shot classification of labelled clips; several templates are averaged.

    ``labels`` None: all that occur in the table. ``separator`` cuts a clip's label into several ("dog;rain").
    """
    chosen = of_split(clips, split)
    check_clips(chosen, captions=False)
    truth = true_labels(chosen, separator)
    names = sorted({label for mine in truth for label in mine}) if labels is None else list(labels)
    texts = zeroshot.prompts(names, templates)
    flat = text_rows(model, [(text, language) for each in texts for text in each])
    audio, _ = audio_rows(model, chosen, None, batch_size, workers, "raise")
    rows = zeroshot.averaged(flat.reshape(len(names), len(templates), -1))
    found = zeroshot.evaluate(audio, rows, truth, names)
    found.about = "zero-shot, " + "; ".join(templates)
    return found


def labelled_rows(
    model: Any, clips: Sequence[Clip], *, batch_size: int = AUDIO_BATCH, workers: int = 0
) -> tuple[Rows, list[str]]:
    """[clips, d] and the label of each: what a classifier on embeddings is fitted on, or tried on."""
    check_clips(clips, captions=False)
    truth = [labels[0] for labels in true_labels(clips)]
    return audio_rows(model, clips, None, batch_size, workers, "raise")[0], truth


def true_labels(clips: Sequence[Clip], separator: str | None = None) -> list[list[str]]:
    """The labels of each clip."""
    bare = [clip.id for clip in clips if not clip.label]
    if bare:
        raise UserError(f"{len(bare)} of {len(clips)} clips have no label (first: {bare[0]}); fill the label column")
    if separator is None:
        return [[str(clip.label)] for clip in clips]
    return [[part.strip() for part in str(clip.label).split(separator) if part.strip()] for clip in clips]


def transfer(
    models: Mapping[str, Any], tables: Mapping[str, Sequence[Clip]], **options: Any
) -> dict[str, dict[str, Scores]]:
    """Every model on every table, whatever it was trained on: ``found[model][table]``."""
    return {
        name: {data: evaluate_model(model, clips, **options) for data, clips in tables.items()}
        for name, model in models.items()
    }


def embed_clips(
    model: Any,
    clips: Sequence[Clip],
    *,
    features: Any = None,
    batch_size: int = AUDIO_BATCH,
    workers: int = 0,
    on_error: str = "raise",
) -> Embeddings:
    """Every clip and every caption once, by the model's own rows."""
    if on_error not in ("raise", "drop"):
        raise unknown("on_error", on_error, ("raise", "drop"))
    audio, reasons = audio_rows(model, clips, features, batch_size, workers, on_error)
    kept = [place for place in range(len(clips)) if place not in reasons]
    if not kept:
        raise UserError(f"none of {len(clips)} clips could be read ({next(iter(reasons.values()))})")
    chosen = [clips[place] for place in kept]
    captions = [(caption.text, caption.language) for clip in chosen for caption in clip.captions]
    owner = np.repeat(np.arange(len(chosen)), [len(clip.captions) for clip in chosen])
    return Embeddings(
        chosen,
        audio[kept],
        text_rows(model, captions, features),
        owner,
        [language for _, language in captions],
        {clips[place].id: reason for place, reason in reasons.items()},
    )


def audio_rows(
    model: Any, clips: Sequence[Clip], features: Any, batch_size: int, workers: int, on_error: str
) -> tuple[Rows, dict[int, str]]:
    """[clips, d], and by place why a clip has no row."""
    if features is not None and features.audio(clips[0]) is not None:
        return _project(model, (features.audio(clip) for clip in clips), "audio"), {}
    # Whole files go as paths: then models that know nothing of clips can take them.
    items = [clip if clip.start or clip.end is not None else clip.audio for clip in clips]
    if on_error == "raise":
        return np.asarray(model.embed_audio(items, batch_size=batch_size, workers=workers)), {}
    if hasattr(model, "iter_audio"):
        return _rows_and_reasons(model.iter_audio(items, batch_size=batch_size, workers=workers, windows="mean"))
    rows = np.asarray(model.embed_audio(items, batch_size=batch_size, workers=workers, on_error="nan"))
    lost = np.flatnonzero(~np.isfinite(rows).all(axis=1)).tolist()
    return rows, {place: f"{clips[place].audio} gave no embedding" for place in lost}


def _rows_and_reasons(found: Iterable[Embedded]) -> tuple[Rows, dict[int, str]]:
    every = list(found)
    width = next((len(one.vector) for one in every if one.vector is not None), 1)
    rows = [np.full(width, np.nan, np.float32) if one.vector is None else one.vector for one in every]
    return np.stack(rows), {one.index: one.error for one in every if one.error is not None}


def text_rows(model: Any, captions: Sequence[tuple[str, str]], features: Any = None) -> Rows:
    """[captions, d] of (text, language); a sentence that stands twice is embedded once."""
    if not captions:
        return np.empty((0, 0), np.float32)
    distinct = list(dict.fromkeys(captions))
    if features is not None and features.text(*distinct[0]) is not None:
        rows = _project(model, (features.text(*caption) for caption in distinct), "text")
    else:
        rows = embed_captions(model, distinct)
    place = {caption: row for row, caption in enumerate(distinct)}
    return np.asarray(rows)[[place[caption] for caption in captions]]


def _project(model: Any, vectors: Iterable[Any], side: str) -> Rows:
    """What the model's head makes of its frozen tower's vectors."""
    whole = torch.as_tensor(np.stack([np.asarray(vector, np.float32) for vector in vectors]))
    encode = model.encode_audio if side == "audio" else model.encode_text
    parts = []
    with inference(model):
        for part in torch.split(whole, FEATURE_BATCH):
            batch = Batch(
                samples=None,
                lengths=None,
                sample_rate=model.sample_rate,
                texts=[""] * len(part),
                languages=["eng"] * len(part),
                clip_ids=torch.arange(len(part)),
            )
            setattr(batch, f"{side}_features", part)
            parts.append(encode(batch).float().cpu().numpy())
    return np.concatenate(parts)


def of_split(clips: Sequence[Clip], split: str | None) -> list[Clip]:
    """The clips of a split; all of them for None."""
    if split is None:
        return list(clips)
    chosen = [clip for clip in clips if clip.split == split]
    if not chosen:
        held = sorted({clip.split for clip in clips if clip.split is not None})
        if not held:
            raise UserError(f"split={split!r}: the table names no splits; leave it out, or give it a split column")
        raise unknown("split", split, held)
    return chosen


def check_clips(clips: Sequence[Clip], *, captions: bool) -> None:
    """UserError for a table that cannot be scored: empty, a clip twice, a clip without a caption."""
    if not clips:
        raise UserError("the table holds no clips; nothing to score")
    for what, names in (
        ("id", [clip.id for clip in clips]),
        ("stretch of sound", [f"{clip.audio} from {clip.start:g} to {clip.end or 'the end'}" for clip in clips]),
    ):
        name, count = Counter(names).most_common(1)[0]
        if count > 1:
            raise UserError(f"{count} clips have the same {what} ({name}); join them into one clip with all captions")
    silent = [clip.id for clip in clips if not clip.captions]
    if captions and silent:
        raise UserError(
            f"{len(silent)} of {len(clips)} clips have no caption (first: {silent[0]}); add captions or drop these rows"
        )


def _shared_captions(seen: Embeddings) -> int:
    """Captions whose very words are also another clip's."""
    captions = [(c.text, c.language) for clip in seen.clips for c in clip.captions]
    owners: dict[tuple[str, str], set[int]] = {}
    for caption, owner in zip(captions, seen.caption_clip.tolist(), strict=True):
        owners.setdefault(caption, set()).add(owner)
    return sum(len(owners[caption]) > 1 for caption in captions)


def only_split(clips: Sequence[Clip]) -> str | None:
    """The split of all clips, where they have one and the same."""
    splits = {clip.split for clip in clips}
    return splits.pop() if len(splits) == 1 else None
