"""``supclap score``: any model's embeddings, or a similarity matrix, by any protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from supclap.cli import shown
from supclap.evaluation import inputs, retrieval
from supclap.schema import UserError


def score(
    *,
    audio: Path | None = None,
    text: Path | None = None,
    clips: Path | None = None,
    similarity: Path | None = None,
    languages: Path | None = None,
    protocol: str = "mlclap",
    split: str | None = None,
    duplicates: str = "error",
    format: str | None = None,
    json: bool = False,
) -> None:
    """Score embeddings of any model by a named protocol, with intervals.

    Parameters
    ----------
    audio
        Embeddings of the clips, .npy [clips, d].
    text
        Embeddings of the captions, .npy [captions, d].
    clips
        For each caption the row of its clip, .npy of whole numbers; left out, caption i belongs to clip i.
    similarity
        Instead of the two: a matrix, .npy [clips, captions].
    languages
        For each caption the code of its language: a text file, one a line.
    protocol
        mlclap, laion, dcase, mteb, cacophony, one-caption or wavcaps-paper.
    split
        The name of the split, kept in the result.
    duplicates
        error: equal audio rows are a mistake in the table; keep: they are scored, each a rival of the other.
    format
        table, json, csv, or latex (rows in the paper's layout).
    json
        The same as --format json.
    """
    if duplicates not in ("error", "keep"):
        raise UserError(f"--duplicates={duplicates!r} is neither error nor keep")
    form = shown.form(json, format)
    codes = None if languages is None else _lines(languages)
    if similarity is not None:
        if audio is not None or text is not None:
            raise UserError("--similarity stands in for --audio and --text; give one or the other")
        matrix = _load(similarity)
        mapped = _map(clips, *(matrix.shape if matrix.ndim == 2 else (1, 1)))
        scores = retrieval.evaluate_similarity(matrix, mapped, languages=codes, protocol=protocol, split=split)
    else:
        if audio is None or text is None:
            raise UserError("give --audio a.npy and --text t.npy, or --similarity s.npy")
        rows, words = _load(audio), _load(text)
        twins = inputs.twins(inputs.embeddings("audio", rows)) if duplicates == "error" else None
        if twins is not None:
            raise UserError(
                f"{audio}: rows {twins[0]} and {twins[1]} are equal; give each clip one row and name it for each "
                "of its captions in --clips, or say --duplicates keep"
            )
        scores = retrieval.evaluate(
            rows, words, _map(clips, len(rows), len(words)), languages=codes, protocol=protocol, split=split
        )
    name = (audio or similarity or Path()).stem
    shown.show(shown.retrieval({name: {split or "": scores}}), form)


def _load(path: Path) -> np.ndarray[Any, Any]:
    try:
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except (ValueError, OSError, EOFError) as error:
        # numpy advises to unpickle what it does not know; we do not pass that on.
        why = "pickled objects, or no .npy file" if "pickle" in str(error) else error
        raise UserError(f"{path}: not a .npy array of numbers ({why}); write it with numpy.save") from error
    if not isinstance(loaded, np.ndarray):
        raise UserError(f"{path}: holds several arrays; write one with numpy.save")
    return loaded


def _map(path: Path | None, clips: int, captions: int) -> np.ndarray[Any, Any]:
    if path is not None:
        return _load(path)
    if clips != captions:
        raise UserError(f"{clips} clips and {captions} captions: say with --clips which clip each caption belongs to")
    return np.arange(captions)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf8").split()
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not a text file; give one language code a line") from error
