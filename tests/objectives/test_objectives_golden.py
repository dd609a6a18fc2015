"""The golden files hold: computed anew from what went in, and by the reference where it speaks of the case."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from supclap import reference

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests" / "golden").glob("*.safetensors"))
spec = importlib.util.spec_from_file_location("golden", ROOT / "tools" / "golden.py")
golden = importlib.util.module_from_spec(spec)
spec.loader.exec_module(golden)


def load(path):
    with safe_open(path, "pt") as file:
        return json.loads(file.metadata()["case"]), {name: file.get_tensor(name) for name in file.keys()}


def split(held):
    rows = {name: held[name] for name in ("audio", "text", "anchor_text") if name in held}
    numbers = {name.removeprefix("number."): value for name, value in held.items() if name.startswith("number.")}
    return rows, numbers


def test_there_are_24_and_they_are_small():
    assert [path.stem for path in FILES] == list(golden.CASES) and len(FILES) == 24
    assert sum(path.stat().st_size for path in FILES) < 300_000


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_came_out_comes_out_again(path):
    case, held = load(path)
    assert case == golden.CASES[path.stem]
    rows, numbers = split(held)
    found = golden.compute(case, rows, numbers)
    assert set(found) == set(held) - set(rows)
    for name, value in found.items():
        torch.testing.assert_close(
            value, held[name], rtol=1e-10, atol=1e-11, msg=lambda text, name=name: f"{name}: {text}"
        )


KINDS = {"InfoNCE": "infonce", "DCL": "dcl", "SigLIP": "siglip"}


def speaks_of(path):
    """Whether the reference has the case's base and arguments."""
    case, _ = load(path)
    return case["base"]["kind"] in KINDS and not {"jacobian", "reduce"} & {*case.get("svr", {}), *case["base"]}


@pytest.mark.parametrize("path", [path for path in FILES if speaks_of(path)], ids=lambda path: path.stem)
def test_the_reference_agrees(path):
    case, held = load(path)
    options, arguments = case.get("svr", {}), case["base"]
    audio, text = (held[name].clone().requires_grad_() for name in ("audio", "text"))
    radii = {
        name: held[f"radius.{name}"].clone().requires_grad_() for name in ("t2a", "a2t") if f"radius.{name}" in held
    }
    siglip = arguments["kind"] == "SigLIP"
    ids = case.get("clip_ids")
    same = None if ids is None else torch.tensor(ids)[:, None] == torch.tensor(ids)
    scale = 1 / arguments.get("temperature", 0.07)
    bias = 0.0
    if siglip:  # what was learned is a factor on the scale and added to the bias
        prefix = "number.base." if "svr" in case else "number."
        scale, learned = 10.0 * held[f"{prefix}log_scale"].exp(), held[f"{prefix}bias_learned"]
        start = arguments.get("bias")
        if start is None:
            a, t = reference.unit(held["audio"]), reference.unit(held["text"])
            apart = ~(same | torch.eye(len(a), dtype=torch.bool))
            start = -torch.tensor(len(a) - 1.0, dtype=torch.float64).log() - scale * (t @ a.T)[apart].mean()
        bias = start + learned
    directions = tuple(options.get("directions", radii))
    loss, parts = reference.supclap(
        text, audio, radii.get("t2a", 0.0), radii.get("a2t", 0.0), kind=KINDS[arguments["kind"]], scale=scale,
        bias=bias, alpha=options.get("alpha", 1.0), directions=directions, renormalize=options.get("renormalize", True),
        positive_in=options.get("denominator", "all") == "all", same_clip=same,
    )  # fmt: skip
    for part in ("base", "svr") if "svr" in case else ("base",):
        torch.testing.assert_close(parts[part], held[f"part.{part}"], rtol=1e-7, atol=1e-9)
    loss.backward()
    for name, leaf in (("audio", audio), ("text", text)):
        torch.testing.assert_close(leaf.grad, held[f"grad.{name}"], rtol=1e-6, atol=1e-8)
