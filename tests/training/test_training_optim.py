"""Groups with a rate each, and schedules by their definition."""

import math

import pytest
import torch
from torch import nn

from supclap.objectives.settings import PRESETS
from supclap.schema import UserError
from supclap.training.optim import OptimSettings, set_rates


class Model(nn.Module):
    def __init__(self, frozen=False):
        super().__init__()
        self.audio, self.text = nn.Linear(3, 4), nn.Linear(3, 4)
        self.audio_head, self.text_head = nn.Linear(4, 2), nn.Linear(4, 2)
        self.log_scale = nn.Parameter(torch.zeros(()), requires_grad=False)
        if frozen:
            self.requires_grad_(False)


def test_every_learnable_number_is_in_one_group_with_its_rate():
    model, objective = Model(), PRESETS["siglip-bi-static"].build()
    settings = OptimSettings(lr=1.0, tower_lr=2.0, radius_lr=3.0, temperature_lr=4.0, name="adamw", weight_decay=0.1)
    optimizer = settings.build(model, objective)
    held = [value for group in optimizer.param_groups for value in group["params"]]
    wanted = [value for module in (model, objective) for value in module.parameters() if value.requires_grad]
    assert {id(value) for value in held} == {id(value) for value in wanted}
    assert len(held) == len(wanted)
    rates = {id(value): group for group in optimizer.param_groups for value in group["params"]}
    assert rates[id(model.audio.weight)]["lr"] == 2.0
    assert rates[id(model.text_head.bias)]["lr"] == 1.0
    assert rates[id(objective.radii["t2a"].radius)]["lr"] == 3.0
    assert rates[id(objective.base.log_scale)]["lr"] == 4.0
    # Weight decay is for matrices; a radius or a temperature that decays would drift to 0 by itself.
    assert rates[id(model.audio.weight)]["weight_decay"] == 0.1
    assert rates[id(model.audio.bias)]["weight_decay"] == 0.0
    assert rates[id(objective.radii["t2a"].radius)]["weight_decay"] == 0.0
    objective.check_optimizer(optimizer)


def test_each_tower_and_the_heads_may_have_a_rate_of_their_own():
    settings = OptimSettings(lr=1.0, tower_lr=2.0, text_tower_lr=0.5, head_lr=3.0)
    groups = {group["name"]: group["lr"] for group in settings.build(Model(), PRESETS["infonce"].build()).param_groups}
    assert groups == {"audio_tower": 2.0, "text_tower": 0.5, "heads": 3.0}
    for name in ("lr", "audio_tower_lr", "text_tower_lr", "head_lr", "radius_lr", "temperature_lr"):
        with pytest.raises(UserError, match=f"optim.{name}=-1"):
            OptimSettings(**{name: -1})


def test_nothing_to_learn_is_said():
    with pytest.raises(UserError, match="nothing learns"):
        OptimSettings().build(Model(frozen=True), PRESETS["infonce"].build())


def test_schedules():
    constant = OptimSettings(warmup=4)
    assert [constant.factor(k, 10) for k in (0, 1, 3, 4, 9)] == [0.25, 0.5, 1.0, 1.0, 1.0]
    cosine = OptimSettings(schedule="cosine", warmup=2, final=0.1)
    assert cosine.factor(2, 12) == 1.0
    assert cosine.factor(7, 12) == pytest.approx(0.1 + 0.9 * 0.5)
    assert cosine.factor(11, 12) == pytest.approx(0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * 0.9)))
    assert OptimSettings(schedule="linear").factor(5, 20) == pytest.approx(0.75)


def test_rates_are_scaled_from_their_full_height():
    optimizer = OptimSettings(lr=1.0, tower_lr=0.5).build(Model(), PRESETS["infonce"].build())
    for factor in (0.5, 0.1):
        set_rates(optimizer, factor)
    assert sorted({group["lr"] for group in optimizer.param_groups}) == [0.05, 0.1]
