"""The bench of the towers compares two forms of one function."""

import torch

from supclap.bench.towers import _saved, published
from supclap.encoders.ced import CedSettings


def test_the_published_form_is_the_same_function():
    torch.manual_seed(0)
    tower = CedSettings(weights=None, width=48, depth=2, heads=3).build().eval()
    other = published(tower)
    samples = torch.randn(2, 48000) * 0.1
    with torch.no_grad():
        assert (tower(samples) - other(samples)).abs().max() < 1e-5
        other.blocks[0].attn.heads = 2
        assert (tower(samples) - other(samples)).abs().max() > 1e-5
    assert type(tower.blocks[0].attn) is not type(other.blocks[0].attn)


def test_saved_memory_is_that_of_the_scores():
    """The written-out form keeps its score matrices: heads x tokens x tokens floats a layer, once or more."""
    tower = CedSettings(weights=None, width=48, depth=2, heads=3).build().train()
    samples = torch.randn(1, 160000) * 0.1
    more = _saved(published(tower), samples) - _saved(tower, samples)
    assert more >= 2 * 3 * 248 * 248 * 4 / 1e6 * 0.9
