"""Curves, histograms, bars, confusion tables and spectrograms from plain values: SVG text, PNG bytes or data URIs.

Figures carry no date and no random ids: the same values give the same bytes.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supclap.schema import UserError

# Told apart by people who do not see red and green alike, and in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
WIDTH, HEIGHT = 4.7, 3.0  # inches: letters stay readable where it shrinks to 358 px
_RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "supclap",
    "font.size": 11.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "figure.facecolor": "white",
}


def curve(
    series: Mapping[str, Sequence[Any]],
    *,
    title: str = "",
    x: str = "",
    y: str = "",
    log_x: bool = False,
    limits: tuple[float, float] | None = None,
) -> str:
    """Lines as SVG: name -> (x values, y values), or (x, y, low, high) with a band."""
    if not series:
        raise UserError("series is empty; give at least one name -> (x, y)")
    figure, axes = _figure(title, x, y)
    for place, (name, values) in enumerate(series.items()):
        columns = [np.asarray(column, float) for column in values]
        if len(columns) not in (2, 4) or len({len(column) for column in columns}) != 1:
            raise UserError(f"series[{name!r}] must be (x, y) or (x, y, low, high) of one length")
        colour = COLOURS[place % len(COLOURS)]
        dots = MARKS[place % len(MARKS)] if len(columns[0]) <= 20 else None
        axes.plot(columns[0], columns[1], label=_safe(name), color=colour, marker=dots, markersize=4, linewidth=1.6)
        if len(columns) == 4:
            axes.fill_between(columns[0], columns[2], columns[3], color=colour, alpha=0.18, linewidth=0)
    if log_x:
        axes.set_xscale("log")
    if limits:
        axes.set_ylim(*limits)
    if len(series) > 1 or next(iter(series)):
        _legend(axes)
    return _svg(figure)


def histogram(
    series: Mapping[str, Any], *, title: str = "", x: str = "", bins: int = 40, mark: float | None = None
) -> str:
    """Outlined histograms over one another as SVG: name -> values, or {"edges": ..., "counts": ...}; shares of rows."""
    if not series:
        raise UserError("series is empty; give at least one name -> values")
    counted = {name: values for name, values in series.items() if isinstance(values, Mapping)}
    raw = {name: np.asarray(values, float) for name, values in series.items() if name not in counted}
    span = np.concatenate(list(raw.values())) if raw else np.zeros(0)
    edges = np.histogram_bin_edges(span, bins) if len(span) else np.linspace(0, 1, bins + 1)
    figure, axes = _figure(title, x, "share of rows")
    for place, name in enumerate(series):
        if name in counted:
            heights, steps = np.asarray(counted[name]["counts"], float), np.asarray(counted[name]["edges"], float)
        else:
            heights, steps = np.histogram(raw[name], edges)[0].astype(float), edges
        colour = COLOURS[place % len(COLOURS)]
        axes.stairs(heights / max(heights.sum(), 1.0), steps, label=_safe(name), color=colour, linewidth=1.6)
    if mark is not None:
        axes.axvline(mark, color="#666666", linestyle=":", linewidth=1.2)
    _legend(axes)
    return _svg(figure)


def bars(
    values: Mapping[str, float | tuple[float, float, float]], *, title: str = "", x: str = "", zero: bool = True
) -> str:
    """Named values, lying, with their intervals, as SVG: name -> value or (value, low, high)."""
    if not values:
        raise UserError("values is empty; give at least one name -> value")
    figure, axes = _figure(title, x, "", height=0.9 + 0.42 * len(values))
    for place, value in enumerate(reversed(list(values.values()))):
        middle, low, high = value if isinstance(value, (tuple, list)) else (value, None, None)
        axes.barh(place, middle, color=COLOURS[(len(values) - 1 - place) % len(COLOURS)], alpha=0.85, height=0.62)
        if low is not None and high is not None:
            axes.plot([low, high], [place, place], color="#222222", linewidth=1.4)
            for end in (low, high):
                axes.plot([end, end], [place - 0.14, place + 0.14], color="#222222", linewidth=1.4)
        axes.text(high if high is not None else middle, place, f"  {middle:.1f}", va="center", fontsize=9)
    axes.set_yticks(range(len(values)), [_safe(name) for name in reversed(list(values))])
    axes.grid(axis="y", visible=False)
    if not zero:
        ends = [end for value in values.values() for end in (value if isinstance(value, (tuple, list)) else (value,))]
        margin = 0.15 * (max(ends) - min(ends) or 1.0)
        axes.set_xlim(min(ends) - margin, max(ends) + 2 * margin)
    return _svg(figure)


def confusion(table: Any, labels: Sequence[str], *, title: str = "") -> str:
    """A confusion matrix as SVG, each row in shares of its clips."""
    counts = np.asarray(table, float)
    if counts.shape != (len(labels), len(labels)):
        raise UserError(f"table has shape {list(counts.shape)} for {len(labels)} labels; expected a square of them")
    side = max(3.2, 0.16 * len(labels) + 1.6)
    figure, axes = _figure(title, "taken for", "label", height=side, width=side)
    axes.grid(visible=False)
    axes.imshow(counts / np.maximum(counts.sum(1, keepdims=True), 1), cmap="Blues", vmin=0, vmax=1, aspect="equal")
    size = 8 if len(labels) <= 20 else 5
    names = [_safe(label) for label in labels]
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=size)
    axes.set_yticks(range(len(names)), names, fontsize=size)
    return _svg(figure)


def spectrogram(samples: Any, rate: int, *, top: float | None = None, size: tuple[int, int] = (480, 160)) -> bytes:
    """A sound's spectrogram as PNG bytes: time to the right, frequency upwards on a mel scale, louder is brighter."""
    sound = np.atleast_2d(np.asarray(samples, np.float32)).mean(axis=0)
    if not len(sound) or rate <= 0:
        raise UserError(f"samples has {len(sound)} values at rate={rate}; give a sound and its rate")
    width, height = size
    power_ft = _power(sound, frames=width)
    mel_mt = _mel_rows(power_ft.shape[0], rate, top or rate / 2, height) @ power_ft
    level = 10 * np.log10(np.maximum(mel_mt, 1e-10))
    shown = np.clip((level - level.max() + 70) / 70, 0, 1)[::-1]
    return png(shown)


def png(values: Any) -> bytes:
    """[height, width] values in 0..1 as PNG bytes, dark to bright."""
    from matplotlib import colormaps
    from matplotlib.image import imsave

    out = io.BytesIO()
    nameless: Any = {"Software": None}
    imsave(out, colormaps["magma"](np.asarray(values, float), bytes=True), format="png", metadata=nameless)
    return out.getvalue()


def data_uri(figure: str | bytes) -> str:
    """SVG text or PNG bytes as a data URI, for an <img> that needs no file."""
    if isinstance(figure, str):
        return "data:image/svg+xml;base64," + base64.b64encode(figure.encode()).decode()
    return "data:image/png;base64," + base64.b64encode(figure).decode()


def _power(sound: NDArray[np.float32], frames: int, size: int = 1024) -> NDArray[np.float64]:
    """[size / 2 + 1, frames] power of evenly spaced windows."""
    padded = np.pad(sound, size // 2)
    starts = np.linspace(0, max(len(sound) - 1, 0), frames).astype(int)
    windows = np.lib.stride_tricks.sliding_window_view(padded, size)[np.minimum(starts, len(padded) - size)]
    return np.asarray(np.abs(np.fft.rfft(windows * np.hanning(size), axis=1)).T ** 2)


def _mel_rows(bins: int, rate: int, top: float, height: int) -> NDArray[np.float64]:
    """[height, bins] which bins each pixel row takes: linear between bins, even steps in mel."""
    mel = np.linspace(0, 2595 * np.log10(1 + min(top, rate / 2) / 700), height)
    place = 700 * (10 ** (mel / 2595) - 1) / (rate / 2) * (bins - 1)
    low = np.minimum(np.floor(place).astype(int), bins - 2)
    rows = np.zeros((height, bins))
    rows[np.arange(height), low] = 1 - (place - low)
    rows[np.arange(height), low + 1] += place - low
    return rows


def _figure(title: str, x: str, y: str, *, height: float = HEIGHT, width: float = WIDTH) -> tuple[Any, Any]:
    """A figure that belongs to no window and no global state."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(_RC):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        axes.set_title(_safe(title), loc="left", fontsize=12)
        axes.set_xlabel(_safe(x))
        axes.set_ylabel(_safe(y))
    return figure, axes


def _legend(axes: Any) -> None:
    """Names above the drawing, where they hide no line."""
    axes.legend(frameon=False, fontsize=9, ncols=2, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2)


def _safe(name: str) -> str:
    """Text that is drawn as it stands: dollars start no formula, and an underscore hides no line of a legend."""
    return (" " if name.startswith("_") else "") + name.replace("$", r"\$")


def _svg(figure: Any) -> str:
    from matplotlib import rc_context

    out = io.StringIO()
    with rc_context(_RC):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    # Without the XML declaration and the DOCTYPE it can stand inside an HTML page as it is.
    return text[text.index("<svg") :]
