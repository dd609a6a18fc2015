"""What the tests of this folder share: batches, every base, every radius, every objective."""

import torch

from supclap.objectives import (
    CACL,
    DCL,
    SVR,
    Base,
    DynamicRadius,
    FixedRadius,
    InfoNCE,
    RandomRadius,
    SigLIP,
    SimpleReweight,
    StaticRadius,
    Term,
)
from supclap.objectives.gather import Ranks
from supclap.objectives.objective import unit
from supclap.objectives.svr import Support
from supclap.objectives.terms import Pairs, relate

N = 6


def batch(seed=0, n=N, d=5, spread=1.0, dtype=torch.float64, count=2):
    """Audio, text (and a third) of any length, pairs at a distance that `spread` sets; leaves with gradients."""
    draw = torch.Generator().manual_seed(seed)
    centre = torch.randn(n, d, generator=draw, dtype=torch.float64)
    rows = [centre + spread * torch.randn(n, d, generator=draw, dtype=torch.float64) for _ in range(count)]
    lengths = [torch.rand(n, 1, generator=draw, dtype=torch.float64) * 3 + 0.3 for _ in range(count)]
    return [(row * length).to(dtype).requires_grad_() for row, length in zip(rows, lengths, strict=True)]


def angles(*degrees, dtype=torch.float64):
    """Unit rows in the plane."""
    radians = torch.tensor(degrees, dtype=torch.float64) * torch.pi / 180
    return torch.stack([radians.cos(), radians.sin()], 1).to(dtype)


class OneWay(Base):
    """Text looks for audio and nothing else: the paper's analysis, term by term."""

    names = ("t2a",)
    directions = {"t2a": "t2a"}

    def terms(self, audio, text, *, anchor_text=None, scale=None, bias=None):
        return [Term("t2a", "t2a", text, audio, 1.0, scale or 1 / 0.07, bias or 0.0)]

    def cost(self, logits, positive, excluded):
        return InfoNCE.cost(self, logits, positive, excluded)


class Margin:
    """A user's own base, nothing inherited: the triplet hinge. It is the one that docs/objectives.md shows."""

    names = ("t2a", "a2t")

    def terms(self, audio, text, *, anchor_text, scale, bias):
        scale = 1.0 if scale is None else scale
        return [Term("t2a", "t2a", text, audio, 1.0, scale), Term("a2t", "a2t", audio, text, 1.0, scale)]

    def cost(self, logits, positive, excluded):
        right = logits.gather(1, positive[:, None])
        wrong = (1.0 + logits - right).relu().scatter(1, positive[:, None], 0.0)
        return wrong.sum(1) if excluded is None else wrong.masked_fill(excluded, 0.0).sum(1)


BASES = {
    "infonce": lambda **common: InfoNCE(**common),
    "infonce-mean": lambda **common: InfoNCE(reduce="mean", **common),
    "infonce-learnable": lambda **common: InfoNCE(0.1, learnable=True, **common),
    "dcl": lambda **common: DCL(**common),
    "siglip": lambda **common: SigLIP(bias=-2.0, **common),
    "siglip-start": lambda **common: SigLIP(**common),
    "cacl": lambda **common: CACL(**common),
}
CONTROLS = {
    f"reweight-{variant}": lambda variant=variant, **common: SimpleReweight(variant=variant, **common)
    for variant in ("gradient", "logit", "weight")
}


def radii(size=N):
    """Every radius, those with a fixed batch for `size` rows."""
    return {
        "static": lambda: StaticRadius(0.4),
        "static-capped": lambda: StaticRadius(1.3, cap="distance"),
        "dynamic": lambda: DynamicRadius(hidden=8),
        "dynamic-fixed": lambda: DynamicRadius(batch_size=size, hidden=8),
        "dynamic-capped": lambda: DynamicRadius(batch_size=size, hidden=8, cap="distance"),
        "value": lambda: FixedRadius(value=0.3),
        "zero": lambda: FixedRadius(value=0.0),
        "fraction": lambda: FixedRadius(fraction=0.5),
        "random": lambda: RandomRadius(),
        "function": lambda: (
            lambda similarities, distance, excluded, name: 0.1 * similarities[:, 0].tanh() + 0.2 * distance
        ),
    }


RADII = radii()


def lively(objective, seed=0):
    """The same objective in float64 with a predictor that says something: fresh ones say nearly one number."""
    draw = torch.Generator().manual_seed(seed)
    objective.double()
    for name, value in objective.named_parameters():
        if "predictor" in name:
            value.data = torch.randn(value.shape, generator=draw, dtype=torch.float64) * 0.15
    return objective


def everything(size=N):
    """name -> a function that builds the objective; the contract runs all of them."""
    choices = radii(size)
    found = {**BASES, **CONTROLS, "own": lambda **common: OneWay(**common)}
    for base in (*BASES, "own-plain"):
        for name, radius in choices.items():
            build = BASES.get(base, lambda **common: Margin())
            found[f"{base}+{name}"] = lambda build=build, radius=radius, **common: SVR(
                build(), radius=radius(), **common
            )
    found["uni"] = lambda **common: SVR(InfoNCE(), radius=StaticRadius(), directions=("t2a",), **common)
    found["printed"] = lambda **common: SVR(
        InfoNCE(), radius=StaticRadius(0.4), renormalize=False, denominator="negatives", **common
    )
    found["shared"] = lambda **common: SVR(InfoNCE(), radius=DynamicRadius(hidden=8), shared_radius=True, **common)
    found["held"] = lambda **common: SVR(
        InfoNCE(), radius=StaticRadius(0.4), detach=("positive", "u"), constrain="all", beta=0.5, **common
    )
    return found


def needs_anchor(name):
    return name.startswith("cacl")


def support_of(svr, audio, text, clip_ids=None):
    """The support vectors that an objective would use for t2a, of rows made unit."""
    audio, text = unit(audio), unit(text)
    here = Ranks(None)
    relation = relate(len(audio), clip_ids, here, svr.same_clip, audio.device)
    term = svr.base.terms(audio, text, anchor_text=None, scale=None, bias=None)[0]
    return Support(svr, term, Pairs(relation, here))
