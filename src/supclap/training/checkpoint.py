"""Checkpoints that are whole or not there: safetensors + JSON under a temporary name, fsynced, then renamed.

RUN/checkpoints/last is the newest, RUN/checkpoints/previous the one before it. A kill at any instant leaves at least
one of them whole. Nothing is pickled.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from supclap.schema import FORMAT, UserError

TENSORS, STATE = "tensors.safetensors", "state.json"
_FLAT = StateDictOptions(flatten_optimizer_state_dict=True)


def folder_of(run: Path) -> Path:
    """Where a run keeps its checkpoints."""
    return run / "checkpoints"


# -- what is kept ----------------------------------------------------------------------------------------------------


def capture(modules: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors, and plain values, of everything that learns; frozen parameters come from their own files again."""
    frozen = {name for name, value in modules.named_parameters() if not value.requires_grad}
    whole: dict[str, Any] = get_model_state_dict(modules)
    tensors: dict[str, Tensor] = {f"model/{name}": value for name, value in whole.items() if name not in frozen}
    plain: dict[str, Any] = {}
    for name, value in get_optimizer_state_dict(modules, optimizer, options=_FLAT).items():
        if isinstance(value, Tensor):
            tensors[f"optimizer/{name}"] = value
        else:
            plain[name] = value
    return {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}, plain


def restore(
    modules: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]
) -> None:
    """The inverse of `capture`; UserError where the tensors do not fit the modules."""
    model = {name.removeprefix("model/"): value for name, value in tensors.items() if name.startswith("model/")}
    here = get_model_state_dict(modules)
    learned = {name for name, value in modules.named_parameters() if value.requires_grad}
    missing, extra = sorted(learned - set(model)), sorted(set(model) - set(here))
    if missing or extra:
        raise UserError(
            f"checkpoint does not fit the model: missing {missing[:3]}, unknown {extra[:3]}; was the code changed?"
        )
    kept = {**{name: value for name, value in here.items() if name not in model}, **model}
    set_model_state_dict(modules, kept)
    state: dict[str, Any] = dict(plain)
    for name, value in tensors.items():
        if name.startswith("optimizer/"):
            state[name.removeprefix("optimizer/")] = value
    idle = _idle(modules, optimizer, state)
    set_optimizer_state_dict(modules, optimizer, state, options=_FLAT)
    for value in idle:
        optimizer.state.pop(value, None)
    for group in optimizer.param_groups:
        # JSON has no tuples, and Adam unpacks its betas as one.
        if "betas" in group:
            group["betas"] = tuple(group["betas"])


def _idle(modules: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> list[nn.Parameter]:
    """Parameters that no gradient has reached (a tagger's classifier, a pooler): ``state`` gets zeros in their place.

    They have no state of their own, and torch takes a state for all or for none.
    """
    held = {name.removeprefix("state.").rpartition(".")[0] for name in state if name.startswith("state.")}
    kinds = {name.rpartition(".")[2] for name in state if name.startswith("state.")}
    mine = {id(value) for group in optimizer.param_groups for value in group["params"]}
    found = []
    for name, value in modules.named_parameters():
        if id(value) in mine and held and name not in held:
            found.append(value)
            for kind in kinds:
                state[f"state.{name}.{kind}"] = torch.zeros(()) if kind == "step" else torch.zeros_like(value)
    return found


# -- how it is written -----------------------------------------------------------------------------------------------


def save(run: Path, tensors: dict[str, Tensor], state: Mapping[str, Any]) -> None:
    """Write a checkpoint; until it is whole the one before it stays as it was."""
    root = folder_of(run)
    root.mkdir(parents=True, exist_ok=True)
    fresh = root / ".new"
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        save_file(tensors, fresh / TENSORS)
        (fresh / STATE).write_text(json.dumps({"format": FORMAT, **state}), encoding="utf8")
        for path in (fresh / TENSORS, fresh / STATE, fresh):
            fsync(path)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise UserError(f"{root}: the checkpoint was not written: {refused(run, error)}") from error
    _swap(root, fresh)


def _swap(root: Path, fresh: Path) -> None:
    """Last to previous, fresh to last: between any two of these calls one whole checkpoint has a name."""
    last, previous, old = root / "last", root / "previous", root / ".old"
    shutil.rmtree(old, ignore_errors=True)
    if last.exists():
        if previous.exists():
            os.rename(previous, old)
        os.rename(last, previous)
    os.rename(fresh, last)
    fsync(root)
    shutil.rmtree(old, ignore_errors=True)


_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "a file is too large",
}


def no_room(error: BaseException) -> str | None:
    """That there is no room to write, if an error says so: Python's own, or a Rust library's "os error 28"."""
    found = re.search(r"os error (\d+)", str(error))
    number = error.errno if isinstance(error, OSError) else int(found[1]) if found else None
    return _FULL.get(number or 0)


def refused(run: Path, error: Exception) -> str:
    """Why something of a run was not written, what is left, and the way out."""
    root = folder_of(run)
    kept = next((name for name in ("last", "previous") if (root / name / STATE).exists()), None)
    left = f"the checkpoint before it is kept ({root / kept})" if kept else "there is no checkpoint before it"
    return f"{no_room(error) or error}; {left}; make room, then: supclap train --resume {run}"


def fsync(path: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def load(run: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The newest whole checkpoint of a run, or None."""
    for name in ("last", "previous"):
        folder = folder_of(run) / name
        if (folder / STATE).exists():
            try:
                return load_file(folder / TENSORS), _read_state(folder / STATE)
            except (OSError, SafetensorError, json.JSONDecodeError) as error:
                # A kill cannot do this, a broken disk or a copy cut short can: nobody's training is dropped unasked.
                raise UserError(
                    f"{folder}: damaged ({error}); delete it to go on from the checkpoint before"
                ) from error
    return None


def _read_state(path: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
    if state.get("format", 0) > FORMAT:
        newer = f"format {state['format']} is newer than this supclap reads ({FORMAT})"
        raise UserError(f"{path}: {newer}; upgrade supclap")
    return state
