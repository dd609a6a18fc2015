"""How straight rows move towards their partners: of a gradient, of a real step, and against the whole data set.

Drift is low where the cosine with u is high.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from supclap.dynamics.forces import Objective, across, cosine, forces, run, towards, unit, value_of
from supclap.dynamics.summary import radius_numbers, similarity_numbers
from supclap.schema import Direction, UserError

Encode = Callable[[], tuple[Tensor, Tensor]]


def measure(objective: Objective, audio: Tensor, text: Tensor, *, base: bool = True, **call: Any) -> dict[str, float]:
    """One batch's numbers from one backward pass (two with ``base``): cheap enough for a cadence in training.

    drift_t2a, drift_a2t: mean cosine of the force with u; parallel and perpendicular: the force's mean parts; base_*:
    of the base term alone; then distances, radii and positive pairs. Nothing of the objective is moved, not even its
    gradients. Where negatives are gathered from several processes, all of them must call it.
    """
    wide = torch.promote_types(audio.dtype, torch.float32)
    audio, text = unit(audio.detach().to(wide)).requires_grad_(), unit(text.detach().to(wide)).requires_grad_()
    with torch.enable_grad(), torch.autocast(audio.device.type, enabled=False), _same_random_state(audio.device):
        out = run(objective, audio, text, **call)
        values = {"": out.loss}
        if base and "base" in out.parts and len(out.parts) > 1:
            values["base_"] = value_of(out, "base")
        slopes = {
            name: torch.autograd.grad(value, (audio, text), retain_graph=len(values) > 1, allow_unused=True)
            for name, value in values.items()
        }
    with torch.no_grad():
        found: dict[str, float] = {}
        for name, (of_audio, of_text) in slopes.items():
            found |= _parts(f"{name}t2a", text, audio, of_text) | _parts(f"{name}a2t", audio, text, of_audio)
        found |= similarity_numbers(audio, text)
        found |= radius_numbers(out)
    return found


def _parts(name: str, query: Tensor, key: Tensor, slope: Tensor | None) -> dict[str, float]:
    if slope is None:
        return {}
    prefix, _, direction = name.rpartition("_")
    start = f"{prefix}_" if prefix else ""
    force, u = across(-len(query) * slope, query), towards(query, key)
    along = (force * u).sum(1)
    return {
        f"{start}drift_{direction}": float(cosine(force, u).mean()),
        f"{start}parallel_{direction}": float(along.mean()),
        f"{start}perpendicular_{direction}": float((force - along[:, None] * u).norm(dim=1).mean()),
    }


@contextlib.contextmanager
def _same_random_state(device: torch.device) -> Any:
    """Whatever is drawn inside, the generators stand afterwards where they stood."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


def gradient_drift(
    objective: Objective, audio: Tensor, text: Tensor, *, plane: Any = "tangent", part: str = "loss", **call: Any
) -> dict[Direction, Tensor]:
    """[n] cosine of each row's force with u."""
    found = forces(objective, audio, text, plane=plane, part=part, **call)
    return {direction: one.cosine for direction, one in found.items()}


def step_drift(encode: Encode, step: Callable[[], Any]) -> dict[Direction, Tensor]:
    """[n] cosine of what an optimiser's step really did to each row with u, the same batch before and after.

    ``encode()`` gives (audio, text) of the batch without anything random: models in evaluation mode.
    """
    with torch.no_grad():
        before = encode()
    step()
    with torch.no_grad():
        after = encode()
    return moved(before, after)


def moved(before: tuple[Tensor, Tensor], after: tuple[Tensor, Tensor]) -> dict[Direction, Tensor]:
    """[n] cosine of (after - before) with u, in the tangent plane of the row as it was; (audio, text) each."""
    if before[0].shape != after[0].shape or before[1].shape != after[1].shape:
        raise UserError("before and after hold different batches; encode the same rows twice")
    audio, text = (unit(rows.detach().double()) for rows in before)
    audio_now, text_now = (unit(rows.detach().double()) for rows in after)
    return {
        "t2a": cosine(across(text_now - text, text), towards(text, audio)),
        "a2t": cosine(across(audio_now - audio, audio), towards(audio, text)),
    }


def local_and_global(
    objective: Objective, audio: Tensor, text: Tensor, *, batch_size: int, repeats: int = 4, seed: int = 0, **call: Any
) -> dict[Direction, dict[str, float]]:
    """Mini-batch forces against the force of all rows at once, row by row.

    cosine: of the two forces; perpendicular_cosine: of their parts across u; wander: how far a row's perpendicular part
    in one batch lies from its mean over ``repeats`` batches, as a share of its length: the local, restless part.
    """
    count = len(audio) // batch_size * batch_size
    if count < batch_size or batch_size < 2:
        raise UserError(f"batch_size={batch_size} for {len(audio)} rows; give 2 or more, and no more than there are")
    for name, value in call.items():
        if isinstance(value, Tensor) and value.ndim:
            raise UserError(f"{name} is per row; local_and_global takes numbers only")
    whole = forces(objective, audio, text, **call)
    drawn: Mapping[Direction, list[tuple[Tensor, Tensor]]] = {"t2a": [], "a2t": []}
    generator = torch.Generator().manual_seed(seed)
    for _ in range(repeats):
        order = torch.randperm(len(audio), generator=generator)[:count]
        for rows in order.split(batch_size):  # type: ignore[no-untyped-call]
            local = forces(objective, audio[rows], text[rows], **call)
            for direction, one in local.items():
                drawn[direction].append((rows, torch.stack([one.force, one.perpendicular], 1)))
    return {direction: _against(whole[direction], drawn[direction]) for direction in whole}


def _against(whole: Any, drawn: list[tuple[Tensor, Tensor]]) -> dict[str, float]:
    rows = torch.cat([rows for rows, _ in drawn])
    force, across_u = torch.cat([parts for _, parts in drawn]).unbind(1)
    total = torch.zeros_like(whole.force).index_add_(0, rows, across_u)
    times = torch.zeros(len(total), dtype=total.dtype).index_add_(0, rows, torch.ones(len(rows), dtype=total.dtype))
    mean = total / times.clamp(min=1)[:, None]
    several = times[rows] > 1
    wander = ((across_u - mean[rows]).norm(dim=1) / across_u.norm(dim=1).clamp(min=1e-300))[several]
    pairs = torch.nn.functional.cosine_similarity
    return {
        "cosine": float(pairs(force, whole.force[rows]).mean()),
        "perpendicular_cosine": float(pairs(across_u, whole.perpendicular[rows]).mean()),
        "wander": float(wander.mean()) if len(wander) else float("nan"),
    }
