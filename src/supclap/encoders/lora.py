"""Low-rank adapters (peft) in the towers: the towers' own weights stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import PositiveInt
from torch import nn

from supclap.schema import UserError
from supclap.settings import settings

if TYPE_CHECKING:
    from supclap.encoders.dual import DualModel

# What the attention's maps are called in the towers that are known.
_MAPS = ("query", "key", "value", "q_proj", "k_proj", "v_proj", "q_lin", "v_lin", "qkv")


@settings
class LoraSettings:
    """Low-rank adapters on the attention of the towers."""

    rank: PositiveInt = 8
    alpha: PositiveInt = 16
    towers: tuple[Literal["audio", "text"], ...] = ("audio", "text")
    modules: tuple[str, ...] = ()  # the last part of a module's name; none: every attention map that is known


def inject(model: DualModel, config: LoraSettings) -> None:
    """Freeze the chosen towers and put adapters into them."""
    from peft import LoraConfig, inject_adapter_in_model

    for which in config.towers:
        tower: nn.Module = getattr(model, which)
        wanted = set(config.modules or _MAPS)
        names = [
            name
            for name, part in tower.named_modules()
            if name.rsplit(".", 1)[-1] in wanted and isinstance(part, nn.Linear)
        ]
        if not names:
            raise UserError(
                f"lora.towers={which}: no module of {type(tower).__name__} is called {', '.join(sorted(wanted))}"
            )
        tower.requires_grad_(False)
        inject_adapter_in_model(LoraConfig(r=config.rank, lora_alpha=config.alpha, target_modules=names), tower)
        for name, value in tower.named_parameters():
            value.requires_grad_("lora_" in name)
