"""Write tests/golden/*.safetensors: 24 cases by which a port to another framework can check itself.

    python tools/golden.py [FOLDER]

Each file holds, in float64, what went in and what came out; docs/golden.md describes the keys.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from supclap import objectives
from supclap.objectives import SVR

ROWS, WIDTH, HIDDEN = 6, 5, 4
IDS = [3, 7, 3, 1, 9, 9]

STATIC = {"kind": "StaticRadius", "initial": 0.4}
FIXED_SIZE = {"kind": "DynamicRadius", "batch_size": ROWS, "hidden": HIDDEN}
ANY_SIZE = {"kind": "DynamicRadius", "hidden": HIDDEN}


def base(kind, **arguments):
    return {"base": {"kind": kind, **arguments}}


def svr(kind="InfoNCE", radius=None, ids=None, arguments=None, **options):
    found = {"base": {"kind": kind, **(arguments or {})}, "radius": radius or STATIC, "svr": options}
    return {**found, "clip_ids": ids} if ids else found


CASES = {
    "01-infonce": base("InfoNCE"),
    "02-infonce-mean-learnable": base("InfoNCE", reduce="mean", learnable=True, temperature=0.1),
    "03-infonce-same-clip": base("InfoNCE") | {"clip_ids": IDS},
    "04-infonce-cold": base("InfoNCE", temperature=0.005),
    "05-dcl": base("DCL"),
    "06-siglip": base("SigLIP", bias=-10.0),
    "07-siglip-first-batch-same-clip": base("SigLIP") | {"clip_ids": IDS},
    "08-cacl": base("CACL"),
    "09-reweight-gradient": base("SimpleReweight", variant="gradient"),
    "10-reweight-logit": base("SimpleReweight", variant="logit"),
    "11-reweight-weight": base("SimpleReweight", variant="weight"),
    "12-uni-static": svr(directions=["t2a"]),
    "13-bi-static": svr(),
    "14-bi-static-raw": svr(renormalize=False),
    "15-bi-static-printed": svr(renormalize=False, denominator="negatives"),
    "16-bi-static-capped": svr(radius={"kind": "StaticRadius", "initial": 1.5, "cap": "distance"}, beta=0.5),
    "17-bi-dynamic": svr(radius=FIXED_SIZE),
    "18-bi-dynamic-same-clip": svr(radius=FIXED_SIZE, ids=IDS),
    "19-bi-dynamic-any-size-same-clip": svr(radius=ANY_SIZE, ids=IDS, alpha=0.5, beta=0.3),
    "20-siglip-bi-dynamic": svr("SigLIP", radius=FIXED_SIZE, arguments={"bias": -2.0}),
    "21-dcl-bi-fraction": svr("DCL", radius={"kind": "FixedRadius", "fraction": 0.5}),
    "22-cacl-bi-dynamic": svr("CACL", radius=FIXED_SIZE),
    "23-jacobian-off-base-probabilities": svr(jacobian="off", probabilities="base", renormalize=False),
    "24-edges": svr(ids=[1, 2, 3, 4, 4, 4], beta=0.1, radius={"kind": "FixedRadius", "value": 1.0}),
}


def make(spec):
    """An objective or a radius from its spec."""
    arguments = {name: value for name, value in spec.items() if name != "kind"}
    return getattr(objectives, spec["kind"])(**arguments)


def build(case, numbers=None):
    """The case's objective in float64; `numbers` are its learnable numbers, drawn where they are not given."""
    found = make(case["base"])
    if "radius" in case:
        found = SVR(found, radius=make(case["radius"]), **case["svr"])
    found.double()
    draw = torch.Generator().manual_seed(7)
    for name, value in found.named_parameters():
        drawn = torch.randn(value.shape, generator=draw, dtype=torch.float64) * 0.15
        value.data = numbers[name] if numbers else (drawn if value.dim() else value.data + drawn)
    return found


def inputs(number, case):
    """Rows of any length; the last case has a coinciding pair, an antipodal one and one nearer than R."""
    draw = torch.Generator().manual_seed(number)
    rows = [torch.randn(ROWS, WIDTH, generator=draw, dtype=torch.float64) for _ in range(3)]
    text = rows[0]
    audio = text + 0.8 * rows[1]
    if "edges" in case:
        audio[0], audio[1], audio[2] = 2.0 * text[0], -text[1], text[2] + 0.1 * rows[1][2]
    found = {"audio": audio, "text": text}
    if CASES[case]["base"]["kind"] == "CACL":
        found["anchor_text"] = text + 0.5 * rows[2]
    return found


def compute(case, rows, numbers=None):
    """Everything that came out, by its key in the file."""
    objective = build(case, numbers)
    leaves = {name: row.clone().requires_grad_() for name, row in rows.items()}
    out = objective(
        leaves["audio"], leaves["text"], anchor_text=leaves.get("anchor_text"), clip_ids=case.get("clip_ids")
    )
    for value in out.radius.values():
        if value.requires_grad:
            value.retain_grad()
    found = {f"number.{name}": value.detach().clone() for name, value in objective.named_parameters()}
    out.loss.backward()
    found |= {"loss": out.loss.detach()}
    found |= {f"part.{name}": value.detach() for name, value in out.parts.items()}
    found |= {f"weight.{name}": torch.tensor(value, dtype=torch.float64) for name, value in out.weights.items()}
    found |= {f"radius.{name}": value.detach().clone() for name, value in out.radius.items()}
    found |= {f"grad.radius.{name}": value.grad for name, value in out.radius.items() if value.requires_grad}
    found |= {f"grad.{name}": row.grad for name, row in leaves.items()}
    found |= {f"grad.number.{name}": value.grad for name, value in objective.named_parameters()}
    return found


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, case) in enumerate(CASES.items(), 1):
        rows = inputs(number, name)
        found = {key: value.contiguous() for key, value in {**rows, **compute(case, rows)}.items()}
        save_file(found, folder / f"{name}.safetensors", metadata={"case": json.dumps(case)})
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    print(f"{len(CASES)} cases, {size / 1000:.0f} kB in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "tests" / "golden")
