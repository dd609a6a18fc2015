"""What pulls and what pushes each embedding, for any contrastive objective, from autograd.

The force on a row is minus the gradient with respect to the unit row, times the batch: the row's own share of the mean.
It is seen in the plane that touches the sphere at that row; there the way to the partner, u, and the partner itself
have one direction. ``t2a`` is about text rows (partner: audio), ``a2t`` about audio rows.

n: rows, d: width.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from supclap.schema import Direction, LossOutput, UserError

Objective = Callable[..., LossOutput]
Plane = Literal["tangent", "ambient"]
# How far the extra axes reach: their squares must vanish in float64 and their gradients must not.
REACH = 1e-4
NEAR = 1e-6


@dataclass(frozen=True)
class Forces:
    """The force on each row and its parts, per sample.

    ``force`` = ``pull`` + ``push``: what its own partner does, and what all the others do. ``parallel`` is the force
    along u (positive: towards the partner), ``perpendicular`` [n, d] the rest; ``cosine`` that of force and u: 1 means
    no drift at all.
    """

    force: Tensor
    pull: Tensor
    push: Tensor
    u: Tensor
    distance: Tensor

    @property
    def parallel(self) -> Tensor:
        """[n] the force along u."""
        return (self.force * self.u).sum(1)

    @property
    def perpendicular(self) -> Tensor:
        """[n, d] the force across u."""
        return across(self.force, self.u)

    @property
    def push_parallel(self) -> Tensor:
        """[n] the push along u; negative where it holds the row back."""
        return (self.push * self.u).sum(1)

    @property
    def push_perpendicular(self) -> Tensor:
        """[n, d] the push across u: what makes the path drift."""
        return across(self.push, self.u)

    @property
    def cosine(self) -> Tensor:
        """[n] cosine of force and u."""
        return cosine(self.force, self.u)

    def summary(self) -> dict[str, float]:
        """Means over rows."""
        share = self.push_perpendicular.norm(dim=1) / self.force.norm(dim=1).clamp(min=torch.finfo(self.u.dtype).tiny)
        return {
            "cosine": float(self.cosine.mean()),
            "pull": float(self.pull.norm(dim=1).mean()),
            "push": float(self.push.norm(dim=1).mean()),
            "push_parallel": float(self.push_parallel.mean()),
            "push_perpendicular": float(self.push_perpendicular.norm(dim=1).mean()),
            "perpendicular_share": float(share.mean()),
            "distance": float(self.distance.mean()),
        }


def forces(
    objective: Objective, audio: Tensor, text: Tensor, *, plane: Plane = "tangent", part: str = "loss", **call: Any
) -> dict[Direction, Forces]:
    """Every row's force in both directions, in float64.

    ``call`` goes to the objective (clip_ids, scale, bias ...); ``part`` may name one of its parts, such as "base".
    The pull is what a row's own partner does, the push all the rest. "ambient" sees the force in space, as the paper's
    formulas do; "tangent" where a normalised row can go.
    """
    if plane not in ("tangent", "ambient"):
        raise UserError(f"plane={plane!r} is neither 'tangent' nor 'ambient'")
    audio, text = unit(audio.detach().double()), unit(text.detach().double())
    found = pair_weights(objective, audio, text, part=part, **call)
    return {"t2a": _split(text, audio, found["t2a"], plane), "a2t": _split(audio, text, found["a2t"], plane)}


@dataclass(frozen=True)
class Weights:
    """What drives each row: ``slope`` [n, d] in the tangent plane, and how strongly (negative: away) towards each row.

    ``partner`` [n, n] counts the rows of the other side, ``same`` [n, n] those of its own side (its diagonal is 0:
    towards itself a row cannot go).
    """

    slope: Tensor
    partner: Tensor
    same: Tensor


def pair_weights(
    objective: Objective, audio: Tensor, text: Tensor, *, part: str = "loss", **call: Any
) -> dict[Direction, Weights]:
    """The weights of all pairs, for any objective that is a function of the rows' inner products.

    Every row gets an axis of its own, so short that the batch is the same: another row's gradient along it is the
    weight of the two.
    """
    count, width = audio.shape
    axes, none = REACH * torch.eye(count, dtype=audio.dtype, device=audio.device), audio.new_zeros(count, count)
    audio_x = torch.cat([audio, axes, none], 1).requires_grad_()
    text_x = torch.cat([text, none, axes], 1).requires_grad_()
    if call.get("anchor_text") is not None:
        anchor = unit(call["anchor_text"].detach().to(audio.dtype))
        call["anchor_text"] = torch.cat([anchor, none, none], 1)
    with torch.enable_grad():
        value = value_of(run(objective, audio_x, text_x, **call), part)
        slopes = torch.autograd.grad(value, (audio_x, text_x))
    of_audio, of_text = (-count * slope for slope in slopes)
    places = slice(0, width), slice(width, width + count), slice(width + count, None)
    found: dict[Direction, Weights] = {}
    for direction, (row, partner, same) in {
        "t2a": (of_text, places[1], places[2]),
        "a2t": (of_audio, places[2], places[1]),
    }.items():
        others = (row[:, same] / REACH).fill_diagonal_(0.0)
        found[direction] = Weights(row[:, places[0]], row[:, partner] / REACH, others)  # type: ignore[index]
    return found


def _split(query: Tensor, key: Tensor, weights: Weights, plane: Plane) -> Forces:
    step = key - query
    distance = step.norm(dim=1)
    force, pull = across(weights.slope, query), weights.partner.diagonal()[:, None] * key
    if plane == "tangent":
        pull, step = across(pull, query), across(step, query)
    else:
        # The gradient of a row that is normalised has no radial part; the pairs' weights give it back.
        radial = (weights.partner * (query @ key.T) + weights.same * (query @ query.T)).sum(1, keepdim=True)
        force = force + radial * query
    return Forces(force, pull, force - pull, direction_of(step), distance)


def run(objective: Objective, audio: Tensor, text: Tensor, **call: Any) -> LossOutput:
    """The objective on these rows, by a copy: its counters, start values and gradients stay as they are."""
    own = copy.deepcopy(objective)
    if isinstance(own, torch.nn.Module):
        own = own.to(audio.dtype)
    call = {
        name: value.detach().to(audio.dtype) if isinstance(value, Tensor) and value.is_floating_point() else value
        for name, value in call.items()
    }
    return own(audio, text, **call)


def value_of(out: LossOutput, part: str) -> Tensor:
    """The loss, or one of its parts."""
    if part == "loss":
        return out.loss
    if part not in out.parts:
        raise UserError(f"part={part!r} is not of this objective; choose from loss, {', '.join(out.parts)}")
    return out.parts[part]


def unit(rows: Tensor) -> Tensor:
    """Rows of length one."""
    length: Tensor = rows.norm(dim=1, keepdim=True)
    return rows / length.clamp(min=torch.finfo(rows.dtype).tiny)


def across(vectors: Tensor, axis: Tensor) -> Tensor:
    """What is left of each vector without its part along the unit axis."""
    along: Tensor = (vectors * axis).sum(1, keepdim=True)
    return vectors - along * axis


def direction_of(step: Tensor) -> Tensor:
    """Unit rows; a step too short to have a direction has none."""
    length = step.norm(dim=1, keepdim=True)
    return torch.where(length >= NEAR, step / length.clamp(min=NEAR), 0.0)


def cosine(vectors: Tensor, axis: Tensor) -> Tensor:
    """Cosine of each vector with a unit axis; 0 where there is no vector."""
    length: Tensor = vectors.norm(dim=1)
    along: Tensor = (vectors * axis).sum(1)
    return along / length.clamp(min=torch.finfo(vectors.dtype).tiny)


def towards(query: Tensor, key: Tensor) -> Tensor:
    """[n, d] u in the tangent plane at each unit query."""
    return direction_of(across(key - query, query))
