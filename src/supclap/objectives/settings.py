"""Objectives as settings: what a recipe, a run's JSON and the command line say, and the presets' names."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from supclap.objectives.cacl import CACL
from supclap.objectives.objective import Objective
from supclap.objectives.radius import DynamicRadius, FixedRadius, Radius, RandomRadius, StaticRadius
from supclap.objectives.reweight import SimpleReweight
from supclap.objectives.sigmoid import SigLIP
from supclap.objectives.softmax import DCL, InfoNCE
from supclap.objectives.svr import SVR
from supclap.schema import Direction
from supclap.settings import kind_of, settings

Validate = Literal["first", "always", "never"]
SameClip = Literal["exclude", "negative"]
Cap = Literal["distance"] | None


def _fields(value: Any, *without: str) -> dict[str, Any]:
    """The settings' own fields, parts not opened."""
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.name not in without}


# -- radii -----------------------------------------------------------------------------------------------------------


@settings
class StaticSettings:
    """`StaticRadius`."""

    initial: float = 1.0
    cap: Cap = None

    def build(self) -> Radius:
        """The radius."""
        return StaticRadius(**_fields(self))


@settings
class DynamicSettings:
    """`DynamicRadius`; ``batch_size`` None takes any batch."""

    batch_size: int | None = None
    hidden: int = 64
    cap: Cap = None

    def build(self) -> Radius:
        """The radius."""
        return DynamicRadius(**_fields(self))


@settings
class FixedSettings:
    """`FixedRadius`: exactly one of ``value`` and ``fraction``."""

    value: float | None = None
    fraction: float | None = None

    def build(self) -> Radius:
        """The radius."""
        return FixedRadius(**_fields(self))


@settings
class RandomSettings:
    """`RandomRadius`."""

    high: float = 1.0
    seed: int = 0

    def build(self) -> Radius:
        """The radius."""
        return RandomRadius(**_fields(self))


RADII: dict[str, type[Any]] = {
    "static": StaticSettings,
    "dynamic": DynamicSettings,
    "fixed": FixedSettings,
    "random": RandomSettings,
}

# -- bases -----------------------------------------------------------------------------------------------------------


@settings
class InfoNCESettings:
    """`InfoNCE`."""

    temperature: float = 0.07
    learnable: bool = False
    reduce: Literal["sum", "mean"] = "sum"
    validate: Validate = "first"
    same_clip: SameClip = "exclude"

    def build(self) -> Objective:
        """The objective."""
        return InfoNCE(**_fields(self))


@settings
class DCLSettings:
    """`DCL`."""

    temperature: float = 0.07
    validate: Validate = "first"
    same_clip: SameClip = "exclude"

    def build(self) -> Objective:
        """The objective."""
        return DCL(**_fields(self))


@settings
class CACLSettings:
    """`CACL`: needs captions in English and in another language ("data.captions": "triple")."""

    temperature: float = 0.07
    validate: Validate = "first"
    same_clip: SameClip = "exclude"

    def build(self) -> Objective:
        """The objective."""
        return CACL(**_fields(self))


@settings
class SigLIPSettings:
    """`SigLIP`; ``bias`` None starts from the first training batch."""

    scale: float = 10.0
    bias: float | None = None
    learnable: bool = True
    validate: Validate = "first"
    same_clip: SameClip = "exclude"

    def build(self) -> Objective:
        """The objective."""
        return SigLIP(**_fields(self))


@settings
class SimpleReweightSettings:
    """`SimpleReweight`."""

    temperature: float = 0.07
    variant: Literal["gradient", "logit", "weight"] = "gradient"
    validate: Validate = "first"
    same_clip: SameClip = "exclude"

    def build(self) -> Objective:
        """The objective."""
        return SimpleReweight(**_fields(self))


BASES: dict[str, type[Any]] = {
    "infonce": InfoNCESettings,
    "siglip": SigLIPSettings,
    "dcl": DCLSettings,
    "cacl": CACLSettings,
}

# -- Support Vector Regularization -----------------------------------------------------------------------------------


@settings
class SVRSettings:
    """`SVR` over a base, with a radius; every argument as there."""

    base: kind_of(BASES) = InfoNCESettings()  # type: ignore[valid-type]
    radius: kind_of(RADII) = DynamicSettings()  # type: ignore[valid-type]
    alpha: float = 1.0
    beta: float | None = None
    directions: tuple[Direction, ...] = ("t2a", "a2t")
    renormalize: bool = True
    denominator: Literal["all", "negatives"] = "all"
    shared_radius: bool = False
    jacobian: Literal["on", "off"] = "on"
    probabilities: Literal["support", "base"] = "support"
    constrain: Literal["radius", "all"] = "radius"
    detach: tuple[Literal["positive", "u"], ...] = ()
    validate: Validate = "first"
    same_clip: SameClip = "exclude"

    def build(self) -> Objective:
        """The objective; a settings class of a user's own base or radius is built by its own ``build``."""
        return SVR(self.base.build(), radius=self.radius.build(), **_fields(self, "base", "radius"))


OBJECTIVES: dict[str, type[Any]] = {**BASES, "reweight": SimpleReweightSettings, "svr": SVRSettings}


def _presets() -> dict[str, Any]:
    """Every name that ``objective=NAME`` knows, as settings."""
    found: dict[str, Any] = {name: cls() for name, cls in OBJECTIVES.items() if name != "svr"}
    radii = {"static": StaticSettings(), "dynamic": DynamicSettings()}
    directions: dict[str, tuple[Direction, ...]] = {"uni": ("t2a",), "bi": ("t2a", "a2t")}
    for base, cls in BASES.items():
        prefix = "" if base == "infonce" else f"{base}-"
        for word, ways in directions.items():
            for name, radius in radii.items():
                found[f"{prefix}{word}-{name}"] = SVRSettings(base=cls(), radius=radius, directions=ways)
    # Controls: the base counted once more, wholly and in one direction.
    found["twice"] = SVRSettings(radius=FixedSettings(value=0.0))
    found["uni-zero"] = SVRSettings(radius=FixedSettings(value=0.0), directions=("t2a",))
    return found


PRESETS: dict[str, Any] = _presets()
