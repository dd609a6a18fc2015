"""What people hand in and get back: lists of sounds, texts and labels, checked with one clear line; rows and labels.

Shapes: n rows, d width.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supclap.encoders.stream import Sound, Windows
from supclap.schema import Embedded, Label, UserError, unknown

Floats = NDArray[np.float32]


def several(items: Iterable[Sound]) -> Iterable[Sound]:
    """The items, unless they are one sound or no list at all."""
    pair = isinstance(items, tuple) and len(items) == 2 and hasattr(items[0], "dtype")
    if pair or isinstance(items, str | bytes | os.PathLike) or hasattr(items, "dtype"):
        raise UserError("items is one sound; give a list of them")
    if not isinstance(items, Iterable):
        raise UserError(f"items is of type {type(items).__name__}; give a list of sounds")
    return items


def texts_of(texts: Iterable[str], name: str = "texts") -> list[str]:
    """The texts as a list; what a tokenizer cannot take is named. Halves of a character pair become a mark."""
    if isinstance(texts, str | bytes):
        raise UserError(f"{name} is one string; give a list of them")
    if not isinstance(texts, Iterable):
        raise UserError(f"{name} is of type {type(texts).__name__}; give a list of strings")
    held = list(texts)
    for place, text in enumerate(held):
        if not isinstance(text, str):
            raise UserError(f"{name}[{place}]={text!r} is not text; give strings")
    return [text.encode("utf8", "replace").decode("utf8") for text in held]


def languages_of(language: str | Iterable[str], count: int) -> list[str]:
    """One code a text."""
    if isinstance(language, str):
        return [language] * count
    held = list(language) if isinstance(language, Iterable) else [language]
    for code in held:
        if not isinstance(code, str):
            raise UserError(f"language={code!r} is no code; give one such as 'eng', or one for each text")
    return held


def whole_number(name: str, value: object, least: int) -> int:
    """A whole number that is not below ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise UserError(f"{name}={value!r} must be a whole number, at least {least}")
    return int(value)


def gather(rows: Iterable[Embedded], width: int, on_error: str, windows: Windows) -> Any:
    """Answers of ``iter_audio`` to one array, or to a list of arrays for windows="each"."""
    if on_error not in ("raise", "nan"):
        raise unknown("on_error", on_error, ("raise", "nan"))
    parts: list[list[Floats]] = []
    for row in rows:
        if row.error is not None and on_error == "raise":
            raise UserError(row.error)
        while len(parts) <= row.index:
            parts.append([])
        parts[row.index].append(np.full(width, np.nan, np.float32) if row.vector is None else row.vector)
    if windows == "each":
        return [np.stack(part) for part in parts]
    return np.concatenate([np.stack(part) for part in parts]) if parts else np.empty((0, width), np.float32)


def label_texts(labels: Sequence[str], template: str) -> list[str]:
    """One text per label; the template must say where the label stands."""
    if isinstance(labels, str) or not isinstance(labels, Sequence | np.ndarray) or not len(labels):
        raise UserError(f"labels={labels!r}: give a list of at least one name")
    names = texts_of(labels, "labels")
    if len(set(names)) != len(names):
        raise UserError("labels holds a name twice; give each once")
    if not isinstance(template, str) or "{label}" not in template:
        raise UserError(f"template={template!r} has no {{label}} in it")
    return [template.replace("{label}", name) for name in names]


def best_labels(rows: Floats, labels: Sequence[str], label_rows: Floats, scale: float, top: int) -> list[list[Label]]:
    """The ``top`` labels of each row, by a softmax of scaled cosines over the labels."""
    whole_number("top", top, 1)
    logits = scale * (rows.astype(np.float64) @ label_rows.astype(np.float64).T)
    shares = np.exp(logits - logits.max(1, keepdims=True)) if len(logits) else logits
    shares = shares / shares.sum(1, keepdims=True)
    order = np.argsort(-shares, axis=1, kind="stable")[:, :top]
    return [[Label(labels[k], float(shares[i, k])) for k in row] for i, row in enumerate(order)]
