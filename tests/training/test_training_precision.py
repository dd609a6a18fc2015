"""bf16 and fp16: towers in half precision, what learns in fp32, a loss scale that finds its height."""

import pytest
import torch

from supclap.schema import UserError
from supclap.training import checkpoint, records
from supclap.training.loop import train
from supclap.training.step import Stepper

NEEDS = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]
GPUS = [pytest.param(precision, "cuda", marks=NEEDS) for precision in ("bf16", "fp16")]
HEIGHTS = [("fp32", "cpu", 2.0**127), pytest.param("fp16", "cuda", 2.0**40, marks=NEEDS)]


def losses(folder):
    return [line["loss"] for line in records.read(folder) if line["event"] == "step"]


@pytest.mark.parametrize(("precision", "device"), [("bf16", "cpu"), *GPUS])
@pytest.mark.parametrize("chunk", [None, 3])
def test_half_precision_is_used_and_stays_near_fp32(tiny, tmp_path, monkeypatch, device, precision, chunk):
    seen = set()
    inner = Stepper.encode

    def encode(self, batch):
        # The heads are linear layers: what they give shows what they computed in.
        sides = inner(self, batch)
        seen.update(side.dtype for side in sides)
        return sides

    monkeypatch.setattr(Stepper, "encode", encode)
    fields = {"train.chunk": chunk, "lr": 1e-3}
    train(tiny(fields, epochs=1, precision="fp32", device=device), out=tmp_path / "full")
    assert seen == {torch.float32}
    seen.clear()
    run = train(tiny(fields, epochs=1, precision=precision, device=device), out=tmp_path / "half")
    assert seen == {torch.bfloat16 if precision == "bf16" else torch.float16}
    full, half = losses(tmp_path / "full"), losses(tmp_path / "half")
    assert half == pytest.approx(full, rel=0.05)
    assert half != full
    tensors = checkpoint.load(tmp_path / "half")[0]
    assert {value.dtype for value in tensors.values() if value.is_floating_point()} == {torch.float32}
    assert run.best["clips"] == 12


@pytest.mark.parametrize(("precision", "device", "height"), HEIGHTS)
def test_a_loss_scale_that_is_too_high_comes_down_and_is_nobodys_fault(
    tiny, tmp_path, monkeypatch, precision, device, height
):
    inner = Stepper.__init__

    def high(self, *given, **more):
        inner(self, *given, **more)
        self.scaler = torch.amp.GradScaler(self.device.type, init_scale=height, enabled=True)

    monkeypatch.setattr(Stepper, "__init__", high)
    train(tiny(epochs=7, precision=precision, device=device), out=tmp_path / "run")
    lines = records.read(tmp_path / "run")
    skips = [line for line in lines if line["event"] == "skip"]
    assert len(skips) > 3
    assert all("loss scale" in line["reason"] and line["skipped"] == 0 and not line["clips"] for line in skips)
    assert len(losses(tmp_path / "run")) > 5
    assert lines[-1]["event"] == "end"


def test_fp16_on_a_cpu_is_refused_with_the_way_out(tiny, tmp_path):
    with pytest.raises(UserError, match="fp16.*bf16"):
        train(tiny(precision="fp16"), out=tmp_path / "run")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_learns_as_the_cpu_does(tiny, tmp_path):
    train(tiny({"data.workers": 2, "train.ema": 0.9}, epochs=2, device="cuda"), out=tmp_path / "gpu")
    train(tiny({"train.ema": 0.9}, epochs=2), out=tmp_path / "cpu")
    assert losses(tmp_path / "gpu")[:3] == pytest.approx(losses(tmp_path / "cpu")[:3], rel=1e-3)
    starts = [records.read(tmp_path / name)[0] for name in ("gpu", "cpu")]
    assert starts[0]["weights"] == starts[1]["weights"]
    assert starts[0]["batches"] == starts[1]["batches"]
