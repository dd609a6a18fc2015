"""Small models and sounds for the tests of the encoders."""

import pytest
import torch
from encoder_cases import settle

from supclap.encoders import pretrained
from supclap.encoders.dual import DualSettings
from supclap.settings import make

CAPTIONS = ["a dog barks", "rain falls on a roof", "a man speaks while rain falls", "a dog barks twice"] * 3


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def small():
    """A small dual model with random weights, and BatchNorm-free towers."""
    torch.manual_seed(0)
    fields = {"audio_tower": "small-audio", "text_tower": "small-text", "head": {"kind": "linear", "width": 32}}
    return make(DualSettings, fields).build(CAPTIONS).eval()


@pytest.fixture(scope="session")
def normed():
    """A dual model whose audio tower has batch norm, with statistics that are not the identity."""
    torch.manual_seed(1)
    fields = {
        "audio_tower": {"kind": "mn01", "weights": None},
        "text_tower": "small-text",
        "head": {"kind": "linear", "width": 32},
    }
    model = make(DualSettings, fields).build(CAPTIONS)
    settle(model.audio)
    return model.eval()


@pytest.fixture
def mn04(shared):
    """The real weights, in this test run's cache."""
    pretrained.add("audioset-labels", shared / "weights" / "audioset_class_labels_indices.csv")
    return pretrained.add("mn04", shared / "weights" / "mn04_as_mAP_432.pt")
