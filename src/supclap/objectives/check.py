"""What an objective accepts: every mistake named before it becomes a silent NaN or a hang."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor

from supclap.schema import UserError

VALIDATE = ("first", "always", "never")


def one_of(name: str, value: object, choices: Sequence[object]) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        raise UserError(f"{name}={value!r} is unknown; choose from {', '.join(map(repr, choices))}")


def some_of(name: str, values: str | Sequence[str], choices: Sequence[str]) -> tuple[str, ...]:
    """Several of the choices, or one alone."""
    found = tuple(values) if isinstance(values, Collection) and not isinstance(values, str) else (values,)
    for value in found:
        one_of(name, value, choices)
    return found


def real(name: str, value: object) -> float:
    """A plain number; a tensor or a parameter would be learned by nobody."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise UserError(f"{name}={short(value)} is not a number; pass a float")
    return float(value)


def whole(name: str, value: object) -> int:
    """A plain whole number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise UserError(f"{name}={short(value)} is not a whole number; pass an int")
    return int(value)


def short(value: object) -> str:
    """What a value looks like, in a few words of one line."""
    line = " ".join(repr(value).split())
    return line if len(line) <= 60 else f"{line[:57]}..."


def shapes(audio: object, text: object, anchor_text: object, world: int) -> None:
    """Rows, widths, dtypes and devices that fit each other; cheap enough for every call."""
    _rows("audio", audio)
    for name, value in (("text", text), ("anchor_text", anchor_text)):
        if value is None and name == "anchor_text":
            continue
        _rows(name, value)
        _same(name, value, audio)
    if len(audio) * world < 2:  # type: ignore[arg-type]
        rows = len(audio)  # type: ignore[arg-type]
        raise UserError(
            f"audio has {rows} row{'s' * (rows != 1)}: a batch of one has no negatives; use a batch of 2 or more"
        )


def _rows(name: str, value: object) -> None:
    if not isinstance(value, Tensor):
        raise UserError(f"{name} is {type(value).__name__}; pass a tensor of shape [n, d]")
    if value.dim() != 2 or value.shape[1] < 1:
        raise UserError(f"{name} has shape {list(value.shape)}; pass [n, d], one row a pair")
    if not value.is_floating_point():
        raise UserError(f"{name} has dtype {value.dtype}; pass floating-point embeddings")


def _same(name: str, value: Any, audio: Any) -> None:
    if value.shape != audio.shape:
        raise UserError(
            f"{name} has shape {list(value.shape)} and audio {list(audio.shape)}; row i of both is one pair"
        )
    if value.device != audio.device:
        raise UserError(f"{name} is on {value.device} and audio on {audio.device}; move one: {name}.to(audio.device)")
    if value.dtype != audio.dtype:
        raise UserError(f"{name} is {value.dtype} and audio {audio.dtype}; cast one: {name}.to(audio.dtype)")


def ids(clip_ids: object, audio: Tensor) -> Tensor | None:
    """Clip ids as an int64 tensor beside the audio, one a row."""
    if clip_ids is None:
        return None
    if isinstance(clip_ids, Tensor):
        if clip_ids.is_floating_point() or clip_ids.is_complex():
            raise UserError(f"clip_ids has dtype {clip_ids.dtype}; pass integers, one a row")
        found = clip_ids
    else:
        try:
            found = torch.tensor(clip_ids)
        except (TypeError, ValueError, RuntimeError) as error:
            raise UserError(f"clip_ids={short(clip_ids)} cannot be read as integers; pass one integer a row") from error
        if found.is_floating_point():
            raise UserError(f"clip_ids={short(clip_ids)} are not integers; pass one integer a row")
    if found.shape != (len(audio),):
        raise UserError(f"clip_ids has shape {list(found.shape)} for {len(audio)} rows; pass one id a row")
    return found.to(audio.device, torch.int64, non_blocking=True)  # a list goes to a GPU without a wait


def number(name: str, value: object, device: torch.device, dtype: torch.dtype) -> Tensor | float | None:
    """A caller's scale or bias: one number, with its gradient; a tensor is taken to the rows' device and type."""
    if value is None:
        return None
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise UserError(f"{name} has shape {list(value.shape)}; pass one number")
        return value.reshape(()).to(device, dtype)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"{name}={value!r} is not a number; pass a float or a tensor of one element")
    _usable(name, float(value))
    return float(value)


def finite(**numbers: Tensor | float | None) -> None:
    """A caller's scale and bias must be finite, and the scale above 0. This reads them."""
    for name, value in numbers.items():
        if value is not None:
            _usable(name, float(value.detach() if isinstance(value, Tensor) else value))


def _usable(name: str, value: float) -> None:
    if not math.isfinite(value) or (name == "scale" and value <= 0):
        hint = "be above 0; it is 1 / temperature" if name == "scale" else "be finite"
        raise UserError(f"{name}={value!r} must {hint}")


def values(**rows: Tensor | None) -> None:
    """No NaN, no infinity, no zero row. This reads the values, so it waits for the device."""
    for name, value in rows.items():
        if value is None:
            continue
        bad = ~value.isfinite().all(1)
        if bool(bad.any()):
            row = int(bad.nonzero()[0])
            worst = _first_bad(value[row])
            raise UserError(f"{name} row {row} holds {worst}; has the model diverged, or is the input broken?")
        length = value.detach().to(torch.promote_types(value.dtype, torch.float32)).norm(dim=1)
        lost = (length == 0) | ~length.isfinite()
        if bool(lost.any()):
            row = int(lost.nonzero()[0])
            if bool((value[row] == 0).all()):
                raise UserError(f"{name} row {row} is zero and has no direction; is its input empty?")
            size = float(value[row].abs().max())
            raise UserError(
                f"{name} row {row} has entries of size {size:.3g}: too far from 1 to be normalised; rescale it"
            )


def _first_bad(row: Tensor) -> str:
    return str(float(row[~row.isfinite()][0]))


def in_optimizer(module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Every learnable number of the objective must be in the optimizer, or it never moves."""
    held = {id(value) for group in optimizer.param_groups for value in group["params"]}
    missing = [name for name, value in module.named_parameters() if value.requires_grad and id(value) not in held]
    if missing:
        raise UserError(
            f"optimizer lacks {', '.join(missing)} of the objective; add them: "
            "optimizer.add_param_group({'params': objective.parameters()})"
        )
