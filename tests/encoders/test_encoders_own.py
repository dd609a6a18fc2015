"""A dual model from two functions, in fifteen lines; and towers under torch.compile."""

import numpy as np
import pytest
import torch
from encoder_cases import audio_towers, noise

from supclap.encoders.own import own
from supclap.schema import UserError


def hear(sounds):
    """Level and brightness."""
    return [[np.abs(x).mean(), np.abs(np.diff(x, prepend=0)).mean()] for x in sounds]


def read(texts):
    return [[text.count("a"), len(text)] for text in texts]


def test_two_functions_are_a_model():
    model = own(hear, read, sample_rate=8000, name="loudness")
    sounds = [(noise(4000, 1), 8000), (noise(200000, 2), 8000), (noise(9000, 3), 8000)]
    rows = model.embed_audio(sounds, batch_size=2)
    expected = np.array(hear([sounds[0][0]])[0])
    assert np.abs(rows[0] - expected / np.linalg.norm(expected)).max() < 1e-5
    assert np.abs(model.embed_audio(sounds[::-1])[::-1] - rows).max() < 1e-5
    assert model.embed_text(["banana", "b"])[0] == pytest.approx(np.array([3, 6]) / 45**0.5)
    assert model.classify(sounds[:1], ["aaa", "b"], template="{label}")[0][0].name in ("aaa", "b")
    assert model.fingerprint() != own(hear, read, sample_rate=8000, name="other").fingerprint()
    with pytest.raises(UserError, match="cannot be saved"):
        model.save("anywhere")
    with pytest.raises(UserError, match=r"hear gave shape \[2\] for 1"):
        own(lambda sounds: [1.0, 2.0], read, sample_rate=8000, name="bad")


@pytest.mark.parametrize(("name", "masked"), [("mn", True), ("ced", True), ("ced", False), ("small", True)])
def test_no_graph_break_in_the_forward(name, masked):
    tower = audio_towers()[name]
    x = torch.from_numpy(noise(32000, 1)).view(2, -1)
    lengths = torch.tensor([16000, 9000]) if masked else None
    torch._dynamo.reset()
    compiled = torch.compile(tower, backend="eager", fullgraph=True)
    with torch.no_grad():
        assert (compiled(x, lengths) - tower(x, lengths)).abs().max() < 1e-5
