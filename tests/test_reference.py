"""The oracle itself, against loops in plain Python and against published values."""

import ast
import inspect
import math

import pytest
import torch

from supclap import reference

# Rows at these angles, tau = .2; values computed by two independent implementations.
TEXT, AUDIO = (0, 60, 120, 200), (25, 50, 155, 220)


def plane(degrees):
    return torch.tensor([[math.cos(math.radians(x)), math.sin(math.radians(x))] for x in degrees], dtype=torch.float64)


def parts(**options):
    return reference.supclap(plane(TEXT), plane(AUDIO), 0.3, 0.3, **{"scale": 5.0, **options})[1]


@pytest.mark.parametrize(
    ("part", "value", "options"),
    [
        ("base", 2 * 0.26815, {}),  # the mean of both directions is printed, the sum is ours
        ("base", 2 * -1.68455, {"kind": "dcl"}),
        ("base", 1.31807, {"kind": "siglip", "scale": 10.0, "bias": -10.0}),
        ("base", 3.69647, {"kind": "siglip", "scale": 10.0, "bias": -2.71}),
        ("svr", 0.27002, {"directions": ("t2a",)}),
        ("svr", 0.27265, {"directions": ("t2a",), "renormalize": False}),
        ("svr", -1.73843, {"directions": ("t2a",), "renormalize": False, "positive_in": False}),
        ("svr", 0.37838, {}),
        ("svr", 0.47416, {"kind": "siglip", "scale": 10.0, "bias": -10.0, "directions": ("t2a",)}),
    ],
)
def test_published_values(part, value, options):
    assert parts(**options)[part].item() == pytest.approx(value, abs=1.1e-5)


def loops(t, a, r, kind, scale, bias, same, inside, renormalize):
    """L_svr of t2a in plain Python, a row and a key at a time."""
    total = 0.0
    for i in range(len(t)):
        d = math.dist(a[i], t[i])
        s = [x + r * (y - x) / d for x, y in zip(t[i], a[i], strict=True)]
        length = math.hypot(*s) if renormalize else 1.0
        z = [scale * sum(x * y for x, y in zip(s, key, strict=True)) / length + bias for key in a]
        keys = [j for j in range(len(a)) if j != i and not same[i][j]]
        if kind == "siglip":
            total += (math.log1p(math.exp(-z[i])) + sum(math.log1p(math.exp(z[j])) for j in keys)) / 2
        elif keys:
            total += math.log(sum(math.exp(z[j]) for j in keys + [i] * inside)) - z[i]
    return total / len(t)


@pytest.mark.parametrize("kind", ["infonce", "siglip"])
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("renormalize", [True, False])
def test_against_plain_loops(kind, inside, renormalize):
    t, a = reference.unit(
        torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64).view(10, 3)
    ).split(5)
    same = torch.tensor([[i == j or {i, j} == {1, 3} or i == 4 for j in range(5)] for i in range(5)])
    inside = inside or kind == "siglip"
    want = loops(t.tolist(), a.tolist(), 0.35, kind, 4.0, -0.5, same.tolist(), inside, renormalize)
    options = {"kind": kind, "scale": 4.0, "bias": -0.5, "renormalize": renormalize, "positive_in": inside}
    found = reference.supclap(t, a, 0.35, directions=("t2a",), same_clip=same, **options)[1]["svr"]
    assert found.item() == pytest.approx(want, rel=1e-12)


def test_it_stays_short_and_stands_alone():
    source = inspect.getsource(reference)
    assert len([line for line in source.splitlines() if line.strip()]) <= 65
    modules = {node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)}
    assert modules <= {"torch"}
