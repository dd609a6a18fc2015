"""Was training worth it: the trained model beside the untrained label bridge, on the same validation rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from supclap.embedding.features import tower_features
from supclap.encoders.bridge import load_bridge
from supclap.evaluation import significance
from supclap.evaluation.model import evaluate_model
from supclap.evaluation.retrieval import DIRECTIONS, Scores
from supclap.schema import Clip, UserError
from supclap.settings import write_json
from supclap.training import records, setup
from supclap.training.config import RunConfig

NAME = "untrained.json"
METRIC = "R@1"


def score(model: Any, config: RunConfig, clips: list[Clip], split: str | None) -> Scores:
    """Retrieval scores of a run's model, from cached features where its towers stand still."""
    features, kept = setup.cached(config, model, {"train": clips}, None, None)
    return evaluate_model(
        model,
        kept["train"],
        protocol=config.evaluate.protocol,
        split=split,
        features=features,
        workers=config.data.workers,
        on_error="raise" if features is not None else "drop",
    )


def beside(folder: Path, model: Any, config: RunConfig, clips: dict[str, list[Clip]]) -> dict[str, Any]:
    """Both models on the set that selected, paired by clip, as RUN/untrained.json; {"reason": ...} where not."""
    name = config.evaluate.select_on
    chosen = [clip for clip in clips[name] if clip.captions][: config.evaluate.limit]
    if len(chosen) < 2:
        return {"reason": f"the {name} set has {len(chosen)} clips"}
    english = all(caption.language == "eng" for clip in chosen for caption in clip.captions)
    try:
        bridge = load_bridge("bridge:minilm" if english else "bridge:use")
    except UserError as error:
        return {"reason": str(error)}
    features = tower_features(bridge.audio, chosen, workers=config.data.workers)
    heard = [clip for clip in chosen if (clip.audio, clip.start, clip.end) not in features.errors]
    split = name if name in ("val", "test") else None
    found = evaluate_model(bridge, heard, protocol=config.evaluate.protocol, split=split, features=features)
    told = told_of(found, score(model, config, heard, split), bridge.name)
    write_json(records.plain(told), folder / NAME)
    return told


def read(folder: Path) -> dict[str, Any] | None:
    """What ``beside`` found before, if it did."""
    if not (folder / NAME).exists():
        return None
    told: dict[str, Any] = json.loads((folder / NAME).read_text(encoding="utf8"))
    return told


def told_of(untrained: Scores, trained: Scores, name: str) -> dict[str, Any]:
    """Plain values: R@1 of both, the gain with its interval, and whether training made it worse."""
    gains = significance.compare(untrained, trained, METRIC)
    rows: dict[str, Any] = {
        way: {"untrained": gains[way].a, "trained": gains[way].b, **_gain(gains[way])} for way in DIRECTIONS
    }
    return {"model": name, "metric": METRIC, "clips": trained.clips, "captions": trained.captions} | rows


def _gain(pair: significance.Comparison) -> dict[str, Any]:
    return {"gain": pair.gain, "low": pair.low, "high": pair.high, "worse": pair.high < 0, "better": pair.low > 0}


def in_words(told: dict[str, Any]) -> str:
    """One sentence, loud where training made it worse."""
    if "reason" in told:
        return f"not compared with the untrained bridge: {told['reason']}"
    t2a, a2t = told["t2a"], told["a2t"]
    scores = (
        f"{t2a['untrained']:.1f} text to audio, {a2t['untrained']:.1f} audio to text on the same {told['clips']} clips"
    )
    gains = ", ".join(f"{row['gain']:+.1f} [{row['low']:+.1f}, {row['high']:+.1f}]" for row in (t2a, a2t))
    worse = [name for name, row in (("text to audio", t2a), ("audio to text", a2t)) if row["worse"]]
    if worse:
        verdict = (
            f"TRAINING MADE IT WORSE ({' and '.join(worse)}): use {told['model']}, or train on more and cleaner pairs"
        )
    elif t2a["better"] or a2t["better"]:
        verdict = "training made it better"
    else:
        verdict = "no difference that these clips can show"
    return f"{told['model']}, untrained: R@1 {scores}; trained minus untrained {gains}: {verdict}"
