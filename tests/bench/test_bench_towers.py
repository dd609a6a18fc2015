"""The bench of the towers compares forms of one function."""

import importlib

import pytest
import torch

from supclap.bench.towers import published, saved
from supclap.encoders.ced import CedSettings
from supclap.schema import UserError

towers = importlib.import_module("supclap.bench.towers")  # the room's own name for it is the function
PUBLISHED_CODE = """
import torch
from supclap.encoders.ced import CedSettings

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = CedSettings(weights=None, width=48, depth=1, heads=3).build()

    def state_dict(self):
        return {key.replace("init_bn.", "init_bn.1."): value for key, value in self.inner.state_dict().items()}

    def forward(self, x):
        return self.inner.tag(x)

def ced_tiny(pretrained):
    assert not pretrained
    return Model()
"""


def tiny(**fields):
    torch.manual_seed(0)
    return CedSettings(weights=None, width=48, depth=2, heads=3, **fields)


def test_the_published_form_is_the_same_function():
    tower = tiny().build().eval()
    other = published(tower)
    samples = torch.randn(2, 48000) * 0.1
    with torch.no_grad():
        assert (tower(samples) - other(samples)).abs().max() < 1e-5
        other.blocks[0].attn.heads = 2
        assert (tower(samples) - other(samples)).abs().max() > 1e-5
    assert type(tower.blocks[0].attn) is not type(other.blocks[0].attn)


def test_saved_memory_is_that_of_the_scores():
    """The written-out form keeps its score matrices: heads x tokens x tokens floats a layer, once or more."""
    tower = tiny().build().train()
    samples = torch.randn(1, 160000) * 0.1
    more = saved(published(tower), samples) - saved(tower, samples)
    assert more >= 2 * 3 * 248 * 248 * 4 / 1e6 * 0.9


def test_every_form_has_its_row_and_the_published_code_runs_where_it_is(tmp_path, monkeypatch):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "audiotransformer.py").write_text(PUBLISHED_CODE)
    monkeypatch.setenv("SUPCLAP_CED", str(tmp_path))
    monkeypatch.setattr(towers, "SECONDS", 1)
    monkeypatch.setattr(
        towers, "_TOWERS", {"ced-tiny": lambda weights: CedSettings(weights=weights, width=48, depth=1, heads=3)}
    )
    found = towers.measure(rounds=2)
    assert [row["form"] for row in found.rows] == ["ours", "published form", "published code"]
    # Equal answers: the code's own random weights were put into our tower.
    assert all(float(row["difference"]) < 1e-5 and row["forward ms"] > 0 and row["step ms"] > 0 for row in found.rows)
    assert found.rows[1]["memory MB"] >= found.rows[0]["memory MB"] and "published code" in found.markdown("x")


def test_a_folder_without_the_published_code(tmp_path, monkeypatch):
    monkeypatch.setenv("SUPCLAP_CED", str(tmp_path))
    with pytest.raises(UserError, match=r"SUPCLAP_CED=.* holds no models/audiotransformer.py"):
        towers.checkout("ced-tiny", tiny().build())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_in_both_precisions(monkeypatch):
    monkeypatch.setattr(towers, "_TOWERS", {"ced-tiny": towers._TOWERS["ced-tiny"]})
    rows = towers.measure(rounds=2).rows
    assert [row["device"] for row in rows] == ["cuda fp32", "cuda fp32", "cuda bf16", "cuda bf16"]
    assert all(float(row["difference"]) < (1e-4 if "fp32" in row["device"] else 5e-2) for row in rows)
    assert all(row["memory MB"] <= other["memory MB"] for row, other in zip(rows[::2], rows[1::2], strict=True))
