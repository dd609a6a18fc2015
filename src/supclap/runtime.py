"""Where and how a run computes: seed, device, precision, threads."""

from __future__ import annotations

import hashlib
import random
from contextlib import AbstractContextManager
from typing import Literal

import numpy as np
import torch

from supclap.schema import UserError

Precision = Literal["fp32", "bf16", "fp16"]
STREAMS = ("weights", "radius", "order", "captions", "languages", "dropout", "augmentation")


def generator(seed: int, *names: object) -> torch.Generator:
    """A generator of its own for one purpose: drawing from it moves no other."""
    return torch.Generator().manual_seed(derive(seed, *names))


def derive(seed: int, *names: object) -> int:
    """A 63-bit seed from a seed and names, the same on every machine."""
    digest = hashlib.sha256("/".join(map(str, (seed, *names))).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def seed_everything(seed: int, *names: object) -> None:
    """Seed the global generators of python, numpy and torch for one purpose."""
    value = derive(seed, *names)
    random.seed(value)
    np.random.seed(value % 2**32)  # noqa: NPY002 -- libraries that draw from the global state need it
    torch.manual_seed(value)


def device(name: str = "auto") -> torch.device:
    """The device by name; "auto" takes a GPU where there is one."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        chosen = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"device={name!r} is not a device; use auto, cpu, cuda, cuda:0 or mps") from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device={name!r}: this torch sees no GPU; use device=cpu, or see `supclap doctor`")
    return chosen


def autocast(chosen: torch.device, precision: Precision) -> AbstractContextManager[None]:
    """Mixed precision for the towers; objectives leave it by themselves."""
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    return torch.autocast(chosen.type, dtype=dtype, enabled=precision != "fp32")


def threads(count: int | None = None) -> int:
    """Set (when given) and return how many threads one operation may use."""
    if count is not None:
        torch.set_num_threads(count)
    return torch.get_num_threads()


def deterministic() -> None:
    """Ask torch for the same bits every time, where an operation has such a form."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
