"""Figures say what they were given: read back from the SVG and the PNG themselves."""

import base64
import io
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from supclap.report import figures
from supclap.schema import UserError

pytest.importorskip("matplotlib")
from matplotlib.image import imread

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg):
    return ["".join(node.itertext()).strip() for node in ET.fromstring(svg).iter(f"{SVG}text")]


def test_curve_draws_its_points_and_names():
    x, y = [0, 1, 2, 3], [0.0, 2.0, 1.0, 3.0]
    svg = figures.curve(
        {"InfoNCE <1> $5": (x, y), "_SVR": (x, y, [v - 1 for v in y], [v + 1 for v in y])},
        title="A & B",
        x="epoch",
        y="R@1",
    )
    found = texts(svg)
    for name in ("InfoNCE <1> $5", "_SVR", "A & B", "epoch", "R@1"):
        assert name in found
    blue = [path for path in ET.fromstring(svg).iter(f"{SVG}path") if "#0072b2" in (path.get("style") or "").lower()]
    line = next(path.get("d") for path in blue if "fill: none" in path.get("style") and path.get("d").count("L") == 3)
    points = np.array(re.findall(r"[ML] ([\d.]+) ([\d.]+)", line), float)
    assert len(points) == 4
    # SVG's y runs down: affine in both axes, falling in y.
    assert np.corrcoef(points[:, 0], x)[0, 1] == pytest.approx(1, abs=1e-6)
    assert np.corrcoef(points[:, 1], y)[0, 1] == pytest.approx(-1, abs=1e-6)


def test_figures_are_the_same_every_time_and_stand_alone():
    for draw in (
        lambda: figures.curve({"a": ([1, 2], [3, 4])}),
        lambda: figures.histogram({"a": [1.0, 2.0, 2.0]}, mark=1.5),
        lambda: figures.bars({"a": 1.0, "b": (2.0, 1.0, 3.0)}),
        lambda: figures.confusion([[3, 1], [0, 4]], ["a", "b"]),
    ):
        first = draw()
        assert first == draw() and first.startswith("<svg")
        hrefs = re.findall(r'(?:href|src)="([^"]*)"', first)
        assert all(ref.startswith(("#", "data:")) for ref in hrefs), "nothing from the network"


def test_histogram_of_counts_equals_that_of_values():
    values = np.random.default_rng(0).standard_normal(200)
    edges = np.histogram_bin_edges(values, 40)
    counts = np.histogram(values, edges)[0]
    assert figures.histogram({"a": values}) == figures.histogram(
        {"a": {"edges": edges.tolist(), "counts": counts.tolist()}}
    )


def test_spectrogram_shows_pitch_where_it_is():
    """A tone that jumps from 500 to 4,000 Hz: low in the left half, higher in the right."""
    rate = 16000
    time = np.arange(rate) / rate
    tone = np.where(time < 0.5, np.sin(2 * np.pi * 500 * time), np.sin(2 * np.pi * 4000 * time))
    data = figures.spectrogram(tone, rate, size=(200, 100))
    picture = imread(io.BytesIO(data), format="png")[:, :, :3].sum(2)
    assert picture.shape == (100, 200)

    def row_of(hertz):
        return 99 * (1 - np.log10(1 + hertz / 700) / np.log10(1 + 8000 / 700))

    assert picture[:, 30:70].mean(1).argmax() == pytest.approx(row_of(500), abs=2)
    assert picture[:, 130:170].mean(1).argmax() == pytest.approx(row_of(4000), abs=2)
    short = figures.spectrogram(np.ones((2, 10)), rate)
    assert imread(io.BytesIO(short), format="png").shape == (160, 480, 4)


def test_data_uris_hold_the_figure():
    svg = figures.curve({"a": ([1, 2], [3, 4])})
    head, body = figures.data_uri(svg).split(",")
    assert head == "data:image/svg+xml;base64" and base64.b64decode(body).decode() == svg
    assert figures.data_uri(b"\x89PNG").startswith("data:image/png;base64,")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: figures.curve({}), "empty"),
        (lambda: figures.curve({"a": ([1], [1, 2])}), "one length"),
        (lambda: figures.histogram({}), "empty"),
        (lambda: figures.bars({}), "empty"),
        (lambda: figures.confusion(np.eye(2), ["a"]), r"shape \[2, 2\] for 1 labels"),
        (lambda: figures.spectrogram([], 16000), "0 values"),
    ],
)
def test_bad_values_are_named(call, says):
    with pytest.raises(UserError, match=says):
        call()
