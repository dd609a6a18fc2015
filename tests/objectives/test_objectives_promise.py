"""Hours, not minutes, of the same proofs: every combination, identities on thousands of batches, gradcheck everywhere.

`make promises`; results in docs/promises.md. SUPCLAP_PROMISE_SHARE=0.05 runs that share of each, evenly spread.
"""

import importlib.util
import itertools
import os
from pathlib import Path

import pytest
import torch
from objective_cases import batch, lively, needs_anchor, radii
from objective_oracle import method
from test_objectives_oracle import BUILT, CARRYING, CHOICES, CONTROL, allowed, check, picked

from supclap.objectives import SVR

pytestmark = [pytest.mark.promise, pytest.mark.usefixtures("both_paths")]
SHARE = float(os.environ.get("SUPCLAP_PROMISE_SHARE", "1"))
IDS = [3, 7, 3, 1, 9, 9]


def share(cases):
    """Every so-manyeth case."""
    return list(cases)[:: max(1, round(1 / SHARE))]


@pytest.mark.parametrize("base", BUILT)
def test_thousands_of_combinations_by_chance(base):
    """Radius, every argument, ids, scale and bias, edges: value and every gradient are the oracle's."""
    for seed in share(range(100, 3100)):
        check(base, picked(base, seed), seed)


OWN = ("radius", "directions", "renormalize", "denominator", "shared_radius", "same_clip", "ids", "rows")
MECHANISM = (*CONTROL, "renormalize", "denominator", "directions")


@pytest.mark.parametrize("base", CARRYING)
@pytest.mark.parametrize("axes", [OWN, MECHANISM], ids=["the method", "its controls"])
def test_the_whole_product(base, axes):
    """Nothing left to chance but the values of the other axes."""
    product = itertools.product(*(dict.fromkeys(CHOICES[name]) for name in axes))
    for place, values in enumerate(share(product)):
        choice = picked(base, 3 * place) | dict(zip(axes, values, strict=True))
        choice["radius"] = choice["radius"] or "static"
        if allowed(base, choice):
            check(base, choice, place)


@pytest.mark.parametrize("base", CARRYING)
def test_gradcheck_over_bases_radii_and_options(base):
    """Finite differences, of everything but what is held on purpose: d for a radius, the predictor's similarities."""
    product = itertools.product(
        [r for r in radii() if r in ("static", "value", "zero")],
        CHOICES["directions"], [True, False], ["all", "negatives"], [None, IDS], ["radius", "all"],
    )  # fmt: skip
    for number, (radius, directions, renormalize, denominator, ids, constrain) in enumerate(share(product)):
        if not allowed(base, {"denominator": denominator}):
            continue
        objective = SVR(
            BUILT[base](), radius=radii()[radius](), directions=directions, renormalize=renormalize, alpha=0.7,
            denominator=denominator, constrain=constrain, beta=0.3 if constrain == "all" else 0.0, validate="never",
        )  # fmt: skip
        rows = batch(number, d=4, spread=(0.3, 1.0, 2.0)[number % 3], count=3)[: 2 + needs_anchor(base)]
        lively(objective, number)(*rows[:2], anchor_text=rows[2] if needs_anchor(base) else None)  # SigLIP starts

        def loss(audio, text, *others, objective=objective, ids=ids):
            anchor = others[0] if needs_anchor(base) else None
            return objective(audio, text, anchor_text=anchor, clip_ids=ids).loss

        assert torch.autograd.gradcheck(loss, (*rows, *objective.parameters()), fast_mode=True, atol=1e-6), number


def identities():
    """The identities' tests once more, each on thousands of batches."""
    path = Path(__file__).with_name("test_objectives_identities.py")
    spec = importlib.util.spec_from_file_location("many_identities", path)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUPCLAP_EXAMPLES", str(max(50, round(3000 * SHARE))))
        spec.loader.exec_module(module)
    return {name: test for name, test in vars(module).items() if hasattr(test, "hypothesis")}


IDENTITIES = identities()


@pytest.mark.parametrize("name", IDENTITIES)
def test_the_identities_on_thousands_of_batches(name):
    IDENTITIES[name]()


@pytest.mark.parametrize("size", [2, 3, 5, 24, 40])
@pytest.mark.parametrize("base", CARRYING)
def test_other_batches_than_six(base, size):
    """The predictors' input at other sizes: shorter than what is resampled to, as long, longer."""
    for seed, radius in itertools.product(share(range(20)), ("dynamic", "dynamic-fixed", "static-capped")):
        rows = [row.detach() for row in batch(seed, n=size, count=3)]
        ids = [(7 * i * i + seed) % max(2, size - 1) for i in range(size)]
        objective = lively(SVR(BUILT[base](), radius=radii(size)[radius]()), seed)
        anchor = rows[2] if needs_anchor(base) else None
        out = objective(*rows[:2], anchor_text=anchor, clip_ids=ids)
        numbers = {name: value.detach() for name, value in objective.named_parameters()}
        loss, _, _ = method(base, *rows[:2], anchor, numbers=numbers, ids=ids, radius=radius)
        torch.testing.assert_close(out.loss.detach(), loss, rtol=1e-9, atol=1e-9)
