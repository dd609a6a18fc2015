"""What may come in: arrays that fit each other, or one line that says what was expected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supclap.evaluation.ranks import Ints
from supclap.schema import UserError


def array(name: str, value: Any) -> NDArray[Any]:
    """A numpy array of numbers, from an array, a tensor or nested lists."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
    try:
        given = np.asarray(value)
    except ValueError as error:
        raise UserError(f"{name} is ragged; give rows of one length") from error
    if given.dtype.kind not in "fiub":
        raise UserError(f"{name} holds {given.dtype}, not real numbers; give a float array")
    return given


def embeddings(name: str, value: Any) -> NDArray[Any]:
    """[n, d] finite rows, none of them zero."""
    rows = array(name, value)
    if rows.ndim != 2:
        raise UserError(f"{name} has shape {list(rows.shape)}; expected [rows, width]")
    if 0 in rows.shape:
        raise UserError(f"{name} has shape {list(rows.shape)}: nothing to score; give at least one row")
    bad = np.logical_not(np.isfinite(rows).all(axis=1))
    if bad.any():
        raise UserError(f"{name} holds NaN or inf in row {_rows(bad)}; drop these rows, or look for a diverged model")
    zero = np.logical_not(rows.any(axis=1))
    if zero.any():
        raise UserError(f"{name} is all zeros in row {_rows(zero)}, which has no direction; embed these rows again")
    return rows


def similarity(value: Any, captions: int) -> NDArray[Any]:
    """[clips, captions] scores; values are looked at where they are counted."""
    matrix = array("similarity", value)
    if matrix.ndim != 2:
        raise UserError(f"similarity has shape {list(matrix.shape)}; expected [clips, captions]")
    if 0 in matrix.shape:
        raise UserError(f"similarity has shape {list(matrix.shape)}: nothing to score; give at least one row")
    if matrix.shape[1] != captions:
        hint = "it looks transposed: pass similarity.T" if matrix.shape[0] == captions else "give one column a caption"
        raise UserError(
            f"similarity has shape {list(matrix.shape)} (expected [clips, captions]) but caption_clip names {captions} "
            f"captions; {hint}"
        )
    return matrix


def caption_map(value: Any, clips: int, captions: int | None) -> Ints:
    """[q] the row of each caption's clip."""
    given = array("caption_clip", value)
    if given.ndim != 1:
        raise UserError(f"caption_clip has shape {list(given.shape)}; expected one number a caption")
    if not len(given):
        raise UserError("caption_clip is empty: nothing to score; give at least one caption")
    if captions is not None and len(given) != captions:
        raise UserError(f"caption_clip has {len(given)} entries for {captions} rows of text; give one a caption")
    if given.dtype.kind == "b" or not np.array_equal(given, np.floor(given)):
        raise UserError("caption_clip must hold whole numbers: for each caption, the row of its clip")
    rows = given.astype(np.int64)
    outside = (rows < 0) | (rows >= clips)
    if outside.any():
        where = int(np.flatnonzero(outside)[0])
        hint = "; count from 0" if rows.min() == 1 and rows.max() == clips else ""
        raise UserError(
            f"caption_clip[{where}]={rows[where]} is not a row of the {clips} clips (0 to {clips - 1}){hint or ''}"
            + ("" if hint else "; name the row of each caption's clip")
        )
    return rows


def every_clip_asked(caption_clip: Ints, clips: int) -> None:
    """UserError if a clip has no caption: it could neither be asked for nor ask."""
    silent = np.bincount(caption_clip, minlength=clips) == 0
    if silent.any():
        raise UserError(
            f"{int(silent.sum())} of {clips} clips have no caption (row {_rows(silent)}); drop these clips, or mend "
            "caption_clip"
        )


def codes(value: Sequence[str] | None, captions: int) -> list[str] | None:
    """[q] the language of each caption."""
    if value is None:
        return None
    if isinstance(value, str):
        raise UserError(f"languages={value!r} is one word; give one code a caption")
    given = [str(code) for code in value]
    if len(given) != captions:
        raise UserError(f"languages has {len(given)} entries for {captions} captions; give one code a caption")
    return given


def twins(rows: NDArray[Any]) -> tuple[int, int] | None:
    """Two equal rows, if there are any and not all are."""
    distinct, first = np.unique(rows, axis=0, return_index=True)
    if len(distinct) in (1, len(rows)):
        return None
    second = int(np.setdiff1d(np.arange(len(rows)), first)[0])
    twin = np.flatnonzero((rows[:second] == rows[second]).all(axis=1))
    return int(twin[0]), second


def _rows(mask: NDArray[np.bool_]) -> str:
    found = np.flatnonzero(mask)
    return ", ".join(map(str, found[:3])) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
