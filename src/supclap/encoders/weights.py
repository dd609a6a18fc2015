"""Weights on disk to modules, safely: no pickle is executed, and every key that does not fit is named."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from supclap.schema import UserError


def tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file or of a state dict in a .pt file, as they are."""
    if not path.is_file():
        raise UserError(f"{path}: no such weights file")
    return _safetensors(path) if path.suffix == ".safetensors" else _legacy(path)


def _safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{path}: not a whole safetensors file ({_line(error)}); fetch it again") from error


def _legacy(path: Path) -> dict[str, Tensor]:
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{path}: refused, it holds more than tensors and loading it could run code; "
            "convert it to safetensors where you trust it"
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        raise UserError(f"{path}: not a whole weights file ({_line(error)}); fetch it again") from error
    for inner in ("state_dict", "model"):
        if isinstance(held, Mapping) and isinstance(held.get(inner), Mapping):
            held = held[inner]
    if not isinstance(held, Mapping) or not all(isinstance(value, Tensor) for value in held.values()):
        raise UserError(f"{path}: holds no state dict (name -> tensor)")
    return {str(key): value for key, value in held.items()}


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:120]


def fit(module: nn.Module, state: Mapping[str, Tensor], source: str) -> None:
    """Load a state dict whole; whatever is missing, left over or of another shape is listed."""
    own = module.state_dict()
    # Old exports do not carry the counters, and nothing reads them.
    missing = [key for key in own if key not in state and not key.endswith("num_batches_tracked")]
    left = [key for key in state if key not in own]
    other = [
        f"{key} {tuple(state[key].shape)} for {tuple(own[key].shape)}"
        for key in own
        if key in state and state[key].shape != own[key].shape
    ]
    both = [key for key in own if key in state and not key.endswith("num_batches_tracked")]
    other += [
        f"{key} {str(state[key].dtype).removeprefix('torch.')}"
        for key in both
        if own[key].is_floating_point() != state[key].is_floating_point()
    ]
    found = (("missing", missing), ("unknown", left), ("shape or type", other))
    problems = [f"{what}: {_few(keys)}" for what, keys in found if keys]
    if problems:
        raise UserError(f"{source}: the weights do not fit {type(module).__name__}; {'; '.join(problems)}")
    learned = {name for name, _ in module.named_parameters()}
    if broken := [key for key in both if key in learned and not bool(torch.isfinite(state[key]).all())]:
        raise UserError(f"{source}: holds values that are not finite: {_few(broken)}; has its training diverged?")
    module.load_state_dict(dict(state), strict=False)


def _few(keys: list[str], show: int = 8) -> str:
    return ", ".join(keys[:show]) + (f" and {len(keys) - show} more" if len(keys) > show else "")


def bytes_of(value: Tensor) -> bytes:
    """The bytes of a tensor of any type, numpy's or not."""
    return value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()


def sha_of(module: nn.Module, *words: str) -> str:
    """A hash of every weight and of the words."""
    digest = hashlib.sha256()
    for word in words:
        digest.update(word.encode() + b"\0")
    for key, value in sorted(module.state_dict().items()):
        digest.update(f"{key} {tuple(value.shape)} {value.dtype}\0".encode())
        digest.update(bytes_of(value))
    return digest.hexdigest()
