"""The running mean against its definition, in a checkpoint, and as what is scored and saved."""

import shutil

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from supclap.schema import UserError
from supclap.training import checkpoint, records
from supclap.training.average import Average
from supclap.training.loop import resume, train


def test_the_mean_is_its_definition_and_the_live_numbers_come_back():
    torch.manual_seed(0)
    live = [nn.Parameter(torch.randn(3, 2)), nn.Parameter(torch.randn(4))]
    average = Average(live, 0.9)
    wanted = None
    for step in range(5):
        with torch.no_grad():
            for value in live:
                value.add_(torch.randn(value.shape, generator=torch.Generator().manual_seed(step)))
        average.update()
        now = [value.detach().double() for value in live]
        wanted = now if wanted is None else [0.9 * old + 0.1 * new for old, new in zip(wanted, now, strict=True)]
    before = [value.detach().clone() for value in live]
    with pytest.raises(RuntimeError), average.in_place():
        for value, mean in zip(live, wanted, strict=True):
            assert torch.allclose(value.double(), mean, rtol=1e-6)
            assert not torch.equal(value, before[0]) or value.shape != before[0].shape
        raise RuntimeError
    assert all(torch.equal(value, old) for value, old in zip(live, before, strict=True))


def test_before_the_first_step_the_mean_is_the_model():
    live = [nn.Parameter(torch.ones(2))]
    with Average(live, 0.5).in_place():
        assert torch.equal(live[0], torch.ones(2))


def test_the_saved_model_is_the_mean_and_training_is_not_moved_by_it(tiny, tmp_path):
    train(tiny(epochs=1), out=tmp_path / "plain")
    train(tiny({"train.ema": 0.5}, epochs=1), out=tmp_path / "mean")
    plain, mean = (checkpoint.load(tmp_path / name)[0] for name in ("plain", "mean"))
    learned = [name for name in plain if name.startswith("model/model.") and "head" in name]
    assert learned
    assert all(torch.equal(plain[name], mean[name]) for name in plain)
    saved = load_file(tmp_path / "mean" / "model.safetensors")
    held = {tuple(value.shape): value for name, value in mean.items() if name.startswith("average/module")}
    weight = saved["audio_head.0.weight" if "audio_head.0.weight" in saved else "audio_head.weight"]
    assert any(torch.equal(weight, value) for name, value in mean.items() if name.startswith("average/module"))
    assert not any(torch.equal(weight, mean[name]) for name in learned)
    assert held


def test_a_resumed_run_has_the_same_mean(tiny, tmp_path):
    config = tiny({"train.ema": 0.8, "train.checkpoint_every": 3}, epochs=2)
    train(config, out=tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "again")
    shutil.rmtree(tmp_path / "again" / "checkpoints" / "last")
    journal = tmp_path / "again" / records.NAME
    journal.write_bytes(journal.read_bytes().rsplit(b'{"event": "end"', 1)[0])
    resume(tmp_path / "again")
    whole, again = (checkpoint.load(tmp_path / name)[0] for name in ("whole", "again"))
    assert any(name.startswith("average/") for name in whole)
    assert whole.keys() == again.keys()
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_a_share_outside_0_and_1_is_said(tiny):
    with pytest.raises(UserError, match=r"train.ema=1.0.*0.999"):
        tiny({"train.ema": 1.0})
