"""The gradient cache gives the whole batch's gradient, and keeps an eighth or less of what it would keep."""

import weakref

import pytest
import torch
from torch import nn

from supclap.objectives.settings import PRESETS
from supclap.training.gradient_cache import forward_backward, spans


class Towers(nn.Module):
    def __init__(self, width, dropout=0.0, norm=False, depth=3):
        super().__init__()
        middle = [m for _ in range(depth) for m in (nn.Linear(width, width), nn.GELU(), nn.Dropout(dropout))]
        self.audio = nn.Sequential(*middle, *([nn.BatchNorm1d(width)] if norm else []))
        self.text = nn.Sequential(nn.Linear(width, width), nn.Dropout(dropout), nn.Tanh(), nn.Linear(width, width))


def setting(preset, dtype, rows=24, width=16, **options):
    torch.manual_seed(0)
    model, objective = Towers(width, **options).to(dtype), PRESETS[preset].build().to(dtype)
    audio, text = torch.randn(rows, width, dtype=dtype), torch.randn(rows, width, dtype=dtype)
    return model, objective, audio, text


def grads(*modules):
    found = {
        f"{k}.{n}": p.grad.clone() for k, m in enumerate(modules) for n, p in m.named_parameters() if p.grad is not None
    }
    for module in modules:
        module.zero_grad()
    return found


def draw(index):
    torch.manual_seed(100 + index)


def cached(model, objective, audio, text, chunk, ids=None):
    out = forward_backward(
        lambda first, last: (model.audio(audio[first:last]), model.text(text[first:last])),
        len(audio),
        chunk,
        lambda a, t: objective(a, t, clip_ids=ids),
        draw=draw,
        modules=(model,),
    )
    return out, grads(model, objective)


def chunked_graph(model, objective, audio, text, chunk, ids=None):
    """The oracle: the same chunks and draws, one graph, one backward."""
    sides = []
    for index, (first, last) in enumerate(spans(len(audio), chunk)):
        draw(index)
        sides.append((model.audio(audio[first:last]), model.text(text[first:last])))
    out = objective(*(torch.cat(side) for side in zip(*sides, strict=True)), clip_ids=ids)
    out.loss.backward()
    return out, grads(model, objective)


def worst(one, other):
    assert one.keys() == other.keys()
    return max(float((one[n] - other[n]).norm() / other[n].norm().clamp(min=1e-30)) for n in one)


@pytest.mark.parametrize("preset", ["infonce", "bi-dynamic", "uni-static", "siglip-bi-dynamic", "dcl"])
@pytest.mark.parametrize(
    ("chunk", "dtype", "limit"), [(5, torch.float64, 1e-9), (24, torch.float64, 1e-9), (8, torch.float32, 1e-5)]
)
def test_equals_the_whole_batch(preset, chunk, dtype, limit):
    model, objective, audio, text = setting(preset, dtype)
    ids = torch.arange(24) // 2
    out = objective(model.audio(audio), model.text(text), clip_ids=ids)
    out.loss.backward()
    whole = grads(model, objective)
    again, gradient = cached(model, objective, audio, text, chunk, ids)
    assert torch.allclose(out.loss, again.loss, rtol=limit)
    assert worst(gradient, whole) < limit


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
@pytest.mark.parametrize("preset", ["infonce", "bi-dynamic", "siglip-bi-dynamic"])
def test_with_dropout_both_passes_draw_the_same(preset, dtype, limit):
    model, objective, audio, text = setting(preset, dtype, dropout=0.3)
    _, whole = chunked_graph(model, objective, audio, text, 5)
    _, gradient = cached(model, objective, audio, text, 5)
    assert worst(gradient, whole) < limit


def test_batch_norm_is_by_chunk_and_its_statistics_move_once():
    model, objective, audio, text = setting("bi-dynamic", torch.float64, norm=True)
    start = {name: value.clone() for name, value in model.named_buffers()}
    _, whole = chunked_graph(model, objective, audio, text, 6)
    moved = {name: value.clone() for name, value in model.named_buffers()}
    for name, value in model.named_buffers():
        value.copy_(start[name])
    _, gradient = cached(model, objective, audio, text, 6)
    assert worst(gradient, whole) < 1e-9
    assert all(torch.equal(value, moved[name]) for name, value in model.named_buffers())
    assert model.audio[-1].track_running_stats


class Meter:
    """Bytes alive for backward, at their peak; parameters are not counted, they are there anyway."""

    def __init__(self, *modules):
        self.weights = {value.data_ptr() for module in modules for value in module.parameters()}
        self.alive = self.peak = 0

    def pack(self, tensor):
        if tensor.data_ptr() in self.weights or tensor.numel() == 0:
            return tensor
        size = tensor.numel() * tensor.element_size()
        self.alive += size
        self.peak = max(self.peak, self.alive)
        held = [tensor]
        box = type("Box", (), {})()
        box.held = held
        weakref.finalize(box, self._gone, size)
        return box

    def _gone(self, size):
        self.alive -= size

    def unpack(self, box):
        return box if isinstance(box, torch.Tensor) else box.held[0]

    def __enter__(self):
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)
        self.hooks.__enter__()
        return self

    def __exit__(self, *error):
        self.hooks.__exit__(*error)


def test_saves_an_eighth_at_512_in_chunks_of_16():
    torch.manual_seed(0)
    model = Towers(32)
    # Convolutions over time keep per row what a small audio tower keeps: 128 kB a layer.
    layers = [m for k in range(6) for m in (nn.Conv1d(8 if k else 1, 8, 5, padding=2), nn.GELU())]
    model.audio = nn.Sequential(*layers, nn.AdaptiveAvgPool1d(4), nn.Flatten())
    model, objective = model.double(), PRESETS["bi-dynamic"].build().double()
    audio, text = torch.randn(512, 1, 3000).double(), torch.randn(512, 32).double()
    with Meter(model, objective) as whole:
        objective(model.audio(audio), model.text(text)).loss.backward()
    gradient_whole = grads(model, objective)
    with Meter(model, objective) as parts:
        _, gradient = cached(model, objective, audio, text, 16)
    assert worst(gradient, gradient_whole) < 1e-9
    assert parts.peak <= whole.peak / 8, (parts.peak, whole.peak)
