"""``supclap calibrate``: from scores to the probability of a match."""

from __future__ import annotations

import json as text
import sys
from dataclasses import asdict, dataclass

import numpy as np

from supclap.cli.meter import Meter
from supclap.data import manifest
from supclap.embedding.cache import FeatureCache
from supclap.embedding.rows import encode_all
from supclap.evaluation import calibration
from supclap.schema import Clip, UserError
from supclap.searching.collection import long_enough
from supclap.searching.lazy import LazyModel

_MOST_CAPTIONS = 300


def calibrate(
    model: str,
    data: str,
    *,
    judge: str | None = None,
    split: str | None = None,
    judge_split: str | None = None,
    template: str = "the sound of {label}",
    language: str = "eng",
    workers: int = 0,
    seed: int = 0,
    json: bool = False,
) -> int:
    """Fit the probability of a match on labelled sounds and keep it with the model; `supclap search` then uses it.

    Parameters
    ----------
    model
        bridge, bridge:use, a run or a saved model (a hub id or hf: or st: name is calibrated on this machine only).
    data
        A table or corpus with labels (or captions): esc50:FOLDER, us8k:FOLDER, my.csv.
    judge
        Another table: how far the probabilities hold there. Without it they are judged on the data they come from.
    split
        Only this split of data: a trained model is calibrated on clips that it was not trained on.
    judge_split
        Only this split of the other table.
    template
        The question asked for each {label}.
    language
        The language of the questions.
    workers
        Threads that decode.
    seed
        Of the collections that are drawn.
    json
        One JSON object on stdout.
    """
    if seed < 0:
        raise UserError(f"seed={seed} must be 0 or more")
    # What is wrong with a table is said before anything is heard.
    table = _table(data, split, template)
    other = None if judge is None else _table(judge, judge_split, template)
    cache = FeatureCache()
    lazy = LazyModel(model, cache)
    fitted = _scores(lazy, cache, table, language, workers)
    curve = calibration.fit(*fitted, seed=seed)
    judged = fitted if other is None else _scores(lazy, cache, other, language, workers)
    found = calibration.judge(curve, *judged, seed=seed + 1)
    place = lazy.calibrate(curve)
    facts = {"model": model, "saved": str(place), "fitted_on": data, "judged_on": judge or data, **asdict(found)}
    if judge is None:
        print("judged on the data it was fitted on: give --judge OTHER for an honest figure", file=sys.stderr)
    if json:
        print(text.dumps({**facts, "curve": curve}, indent=1))
        return 0
    print(f"{place}: fitted on {data}; on {judge or data}, {found.collections:,} drawn collections:")
    print(f"calibration error {found.ece:.3f} over all files, {found.hits_ece:.3f} over the ten best of each")
    print(f"present against absent: AUC {found.auc:.3f} (raw scores {found.raw_auc:.3f})")
    print(f"at the threshold {curve['threshold']:.2f}: {found.missed:.0%} missed, {found.invented:.0%} invented")
    return 0


@dataclass(frozen=True)
class _Table:
    data: str
    clips: list[Clip]
    queries: list[str]
    match: np.ndarray  # [queries, clips]


def _table(data: str, split: str | None, template: str) -> _Table:
    if "{label}" not in template:
        raise UserError(f"template={template!r} has no {{label}} in it")
    clips = manifest.read(data)
    if split is not None:
        held = sorted({clip.split for clip in clips if clip.split})
        clips = [clip for clip in clips if clip.split == split]
        if not clips:
            raise UserError(f"split={split!r}: {data} has no such clips; its splits are {', '.join(held) or 'none'}")
    return _Table(data, clips, *_questions(clips, data, template))


def _scores(
    lazy: LazyModel, cache: FeatureCache, table: _Table, language: str, workers: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """([queries, clips] scores, [queries, clips] which match, [queries, clips] a tagger's evidence or None)."""
    clips = table.clips
    meter = Meter("clips")
    rows: dict[int, np.ndarray] = {}
    reason = ""
    for done, answer in enumerate(encode_all(clips, lazy.encoder(), cache, workers=workers), 1):
        if answer.rows is not None:
            rows[answer.index] = answer.rows.vectors[long_enough(answer.rows.spans)]
        else:
            reason = reason or f"one of them, {clips[answer.index].audio}: {answer.error}"
        meter(done, len(clips))
    meter.close()
    if not rows:
        raise UserError(f"{table.data}: none of its {len(clips)} clips can be read; {reason}")
    if len(rows) < len(clips):
        lost = len(clips) - len(rows)
        print(f"{table.data}: {lost} of {len(clips)} clips cannot be read and are left out; {reason}", file=sys.stderr)
    there = sorted(rows)
    vectors = lazy.embed_text(table.queries, language)
    scores = np.stack([(rows[place][:, : vectors.shape[1]] @ vectors.T).max(0) for place in there], axis=1)
    said = [lazy.evidence(rows[place], vectors) for place in there]
    evidence = np.stack([one.max(0) for one in said if one is not None], axis=1) if said[0] is not None else None
    return scores, table.match[:, there], evidence


def _questions(clips: list[Clip], data: str, template: str) -> tuple[list[str], np.ndarray]:
    labels = sorted({clip.label for clip in clips if clip.label})
    if len(labels) > 1:
        match = np.array([[clip.label == label for clip in clips] for label in labels])
        return [template.replace("{label}", label.replace("_", " ")) for label in labels], match
    # Two clips may be told of in the same words: both match.
    spoken: dict[str, set[str]] = {}
    for clip in clips:
        for caption in clip.captions:
            if caption.language == "eng":
                spoken.setdefault(caption.text, set()).add(clip.id)
    if not spoken:
        raise UserError(
            f"data={data!r} has neither labels nor English captions; calibration needs to know what matches"
        )
    chosen = list(spoken)[:: -(-len(spoken) // _MOST_CAPTIONS)]
    return chosen, np.array([[clip.id in spoken[text] for clip in clips] for text in chosen])
