"""``supclap embed``: a model over a table, into a folder."""

from __future__ import annotations

import json as text
import sys
from pathlib import Path

import numpy as np

from supclap.cli.meter import Meter
from supclap.embedding.embed import embed as run


def embed(
    model: str,
    data: str,
    *,
    out: Path,
    windows: str = "mean",
    batch_size: int = 32,
    workers: int = 0,
    rows_a_shard: int = 8192,
    json: bool = False,
) -> int:
    """Embed every clip and caption of a table into a folder; the same command again goes on where it stopped.

    Parameters
    ----------
    model
        A run, a saved model, a hub id, bridge, hf:... or st:...
    data
        csv, tsv, jsonl, parquet, HF dataset, webdataset shards, a corpus name, or a plain folder of sounds.
    out
        A new folder, or one that this command began with the same model and data.
    windows
        mean: a row a clip; each: a row a window, as `supclap search` wants them.
    batch_size
        How many windows the model takes at once.
    workers
        Threads that decode; 0: as many as there are cores, at most four.
    rows_a_shard
        Clips (or captions) in a file; a shard that is not finished is begun again.
    json
        One JSON object on stdout.
    """
    meter = Meter("clips")
    store = run(
        model,
        data,
        out,
        windows=windows,
        batch_size=batch_size,
        workers=workers,
        rows_a_shard=rows_a_shard,
        progress=meter,
    )
    meter.close()
    errors = [row for row in store.audio_rows.to_pylist() if row["error"] is not None]
    for row in errors:
        print(f"unreadable: {row['path']}: {row['error']}", file=sys.stderr)
    width = int(store.audio.shape[1])
    facts = {
        "out": str(out),
        "audio_rows": len(store.audio),
        "text_rows": len(store.text),
        "width": width,
        "unreadable": len(errors),
        "finite": bool(np.isfinite(store.text).all()),
        "fingerprint": store.fingerprint,
    }
    if json:
        print(text.dumps(facts, indent=1))
    else:
        print(
            f"{out}: {len(store.audio):,} audio and {len(store.text):,} text rows of {width}, {len(errors)} unreadable"
        )
    return 0
