"""Objectives as settings: every preset builds what its name says, and survives JSON."""

import json

import pytest
import torch

from supclap.objectives import CACL, DCL, SVR, DynamicRadius, FixedRadius, InfoNCE, SigLIP, SimpleReweight, StaticRadius
from supclap.objectives.settings import OBJECTIVES, PRESETS, SVRSettings
from supclap.schema import UserError
from supclap.settings import kind_of, make, settings, write


@settings
class Holder:
    objective: kind_of(OBJECTIVES)


@pytest.mark.parametrize("name", PRESETS)
def test_round_trip_through_json(name):
    kind = next(k for k, cls in OBJECTIVES.items() if cls is type(PRESETS[name]))
    held = Holder(objective=PRESETS[name])
    plain = json.loads(json.dumps(write(held)))
    assert plain["objective"]["kind"] == kind
    assert make(Holder, plain) == held


def test_presets_are_the_named_methods():
    kinds = {"infonce": InfoNCE, "siglip": SigLIP, "dcl": DCL, "cacl": CACL, "reweight": SimpleReweight}
    assert len(PRESETS) == 5 + 4 * 4 + 2
    for name, cls in kinds.items():
        assert type(PRESETS[name].build()) is cls
    for name in set(PRESETS) - set(kinds) - {"twice", "uni-zero"}:
        base, way, radius = name.split("-") if name.count("-") == 2 else ("infonce", *name.split("-"))
        built = PRESETS[name].build()
        assert isinstance(built, SVR)
        assert type(built.base) is kinds[base]
        assert built.directions == {"uni": ("t2a",), "bi": ("t2a", "a2t")}[way]
        radii = {"static": StaticRadius, "dynamic": DynamicRadius}
        assert all(type(r) is radii[radius] for r in built.radii.values())
        # L_cons is Dynamic's alone (READING.md).
        assert built.beta == (0.01 if radius == "dynamic" else 0.0)


def test_twice_is_the_base_counted_twice():
    audio, text = (torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(k)) for k in (1, 2))
    base = PRESETS["infonce"].build()(audio, text).loss
    assert torch.allclose(PRESETS["twice"].build()(audio, text).loss, 2 * base, rtol=1e-12)
    uni = PRESETS["uni-zero"].build()
    assert all(isinstance(r, FixedRadius) for r in uni.radii.values())
    assert base < uni(audio, text).loss < 2 * base


def test_every_argument_reaches_svr():
    changed = SVRSettings(
        alpha=0.5, beta=0.2, directions=("a2t",), renormalize=False, shared_radius=True, jacobian="off",
        probabilities="base", constrain="all", detach=("positive",), validate="never", same_clip="negative",
        base={"kind": "dcl", "temperature": 0.1}, radius={"kind": "static", "initial": 0.3, "cap": "distance"},
        denominator="negatives",
    ).build()  # fmt: skip
    assert (changed.alpha, changed.beta, changed.directions) == (0.5, 0.2, ("a2t",))
    assert (changed.renormalize, changed.denominator, changed.shared_radius) == (False, "negatives", True)
    assert (changed.move_u, changed.move_positive, changed.base_probabilities) == (False, False, True)
    assert (changed.constrain, changed.validate, changed.same_clip) == ("all", "never", "negative")
    radius = changed.radius_of("a2t")
    assert float(radius.radius) == pytest.approx(0.3)
    assert radius.cap == "distance"
    assert changed.base.temperature() == pytest.approx(10.0)


def test_mistakes_name_the_field():
    with pytest.raises(UserError, match="temperatur.*temperature"):
        make(Holder, {"objective": {"kind": "infonce", "temperatur": 0.1}})
    with pytest.raises(UserError, match="infonse.*infonce"):
        make(Holder, {"objective": "infonse"})
