"""Parameter groups with a rate each, Adam or AdamW, and a schedule that is a function of the step alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import nn

from supclap.schema import UserError
from supclap.settings import settings

Group = Literal["audio_tower", "text_tower", "heads", "radius", "temperature"]
TOWERS: tuple[Group, ...] = ("audio_tower", "text_tower")


@settings
class OptimSettings:
    """Rates that are None are ``lr``; a tower's own goes before ``tower_lr``. ``warmup`` is in steps of the run."""

    name: Literal["adam", "adamw"] = "adam"
    lr: float = 5e-5
    tower_lr: float | None = None
    audio_tower_lr: float | None = None
    text_tower_lr: float | None = None
    head_lr: float | None = None
    radius_lr: float | None = None
    temperature_lr: float | None = None
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    schedule: Literal["constant", "cosine", "linear"] = "constant"
    warmup: int = 0
    final: float = 0.0
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name != "lr" and not name.endswith("_lr"):
                continue
            if value is not None and not 0 <= value < math.inf:
                raise UserError(f"optim.{name}={value!r} must be 0 or more")
        if self.weight_decay and self.name == "adam":
            raise UserError(f"optim.weight_decay={self.weight_decay} needs optim.name=adamw")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise UserError(f"optim.clip_norm={self.clip_norm!r} must be above 0, or null for none")

    def rate(self, group: Group) -> float:
        """The group's learning rate at its full height."""
        own = {
            "audio_tower": (self.audio_tower_lr, self.tower_lr),
            "text_tower": (self.text_tower_lr, self.tower_lr),
            "heads": (self.head_lr,),
            "radius": (self.radius_lr,),
            "temperature": (self.temperature_lr,),
        }[group]
        return next((rate for rate in own if rate is not None), self.lr)

    def factor(self, step: int, total: int) -> float:
        """What every rate is multiplied with at a 0-based step of ``total``."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        if self.schedule == "constant":
            return 1.0
        done = min(1.0, (step - self.warmup) / max(1, total - self.warmup))
        left = 0.5 * (1 + math.cos(math.pi * done)) if self.schedule == "cosine" else 1.0 - done
        return self.final + (1 - self.final) * left

    def build(self, model: nn.Module, objective: nn.Module) -> torch.optim.Optimizer:
        """The optimizer over whatever learns, one group for each kind and for what weight decay leaves alone."""
        found: dict[tuple[Group, bool], list[nn.Parameter]] = {}
        for group, value in learning(model, objective):
            decays = bool(self.weight_decay) and group in (*TOWERS, "heads") and value.dim() > 1
            found.setdefault((group, decays), []).append(value)
        if not found:
            raise UserError("nothing learns: all towers and heads are frozen; set audio_tower.frozen=false or a head")
        groups: list[dict[str, Any]] = [
            {
                "params": values,
                "name": group,
                "lr": self.rate(group),
                "full_lr": self.rate(group),
                "weight_decay": self.weight_decay if decays else 0.0,
            }
            for (group, decays), values in found.items()
        ]
        cls = torch.optim.AdamW if self.name == "adamw" else torch.optim.Adam
        return cls(groups, lr=self.lr, betas=self.betas, eps=self.eps)


def learning(model: nn.Module, objective: nn.Module) -> Iterator[tuple[Group, nn.Parameter]]:
    """Every learnable number of the model and of the objective, once, and the group it belongs to."""
    seen: set[int] = set()
    for module, group_of in ((model, _of_model), (objective, _of_objective)):
        for name, value in module.named_parameters():
            if value.requires_grad and id(value) not in seen:
                seen.add(id(value))
                yield group_of(name), value


def _of_model(name: str) -> Group:
    first = name.split(".")[0]
    if first in ("audio", "text"):
        return "audio_tower" if first == "audio" else "text_tower"
    return "temperature" if first in ("log_scale", "offset") else "heads"


def _of_objective(name: str) -> Group:
    return "radius" if name.startswith("radii.") else "temperature"


def set_rates(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Scale every group's rate from its full height."""
    for group in optimizer.param_groups:
        group["lr"] = group["full_lr"] * factor
