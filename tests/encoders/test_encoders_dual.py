"""The dual model: the same sound gives the same row, whatever stands around it, and nothing bad passes in silence."""

import io
import itertools
import warnings

import numpy as np
import pytest
import soundfile
import torch
from encoder_cases import noise

from supclap.encoders.dual import DualSettings
from supclap.schema import Batch, Clip, UserError
from supclap.settings import make

RATE = 16000


def items(count, rate=32000):
    """Sounds of many lengths, from one sample to three windows."""
    lengths = itertools.cycle([1, 500, 8000, 33333, 64000, 100001, rate * 23, 12345])
    return [(noise(length, seed), rate) for seed, length in zip(range(count), lengths, strict=False)]


@pytest.mark.parametrize("name", ["small", "normed"])
def test_same_sound_same_row_in_any_batch(name, request):
    model = request.getfixturevalue(name)
    sounds = items(12)
    rows = model.embed_audio(sounds, batch_size=1)
    assert rows.dtype == np.float32 and np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    for batch_size, workers in ((7, 0), (32, 2)):
        assert np.abs(model.embed_audio(sounds, batch_size=batch_size, workers=workers) - rows).max() < 1e-5
    order = np.random.default_rng(0).permutation(len(sounds))
    shuffled = model.embed_audio([sounds[k] for k in order], batch_size=5)
    assert np.abs(shuffled - rows[order]).max() < 1e-5
    assert (rows[2:8] @ rows[2:8].T - np.eye(6)).max() < 0.999  # a constant would pass all of the above


def test_same_batch_shape_same_bits(normed):
    sounds = items(6)
    assert np.array_equal(normed.embed_audio(sounds, batch_size=3), normed.embed_audio(sounds, batch_size=3))


def test_training_mode_changes_no_row_and_comes_back(normed):
    sounds = items(5)
    rows = normed.embed_audio(sounds)
    before = {key: value.clone() for key, value in normed.state_dict().items()}
    normed.train()
    try:
        assert np.array_equal(normed.embed_audio(sounds), rows)
        assert normed.training and any(part.training for part in normed.audio.modules())
    finally:
        normed.eval()
    assert all(torch.equal(value, before[key]) for key, value in normed.state_dict().items())


def test_one_sound_at_three_rates(normed, small, tmp_path):
    import soxr

    # Below 3.4 kHz, so that every rate can hold it.
    whole = soxr.resample(soxr.resample(noise(48000 * 3, 4), 48000, 6800), 6800, 48000)
    paths = []
    for rate in (8000, 22050, 48000):
        paths.append(tmp_path / f"{rate}.wav")
        soundfile.write(paths[-1], soxr.resample(whole, 48000, rate), rate, subtype="FLOAT")
    for model in (normed, small):
        rows = model.embed_audio(paths)
        assert (rows @ rows.T).min() > 0.98


def test_mono_is_the_mean_and_bytes_are_a_file(small, tmp_path):
    stereo = np.stack([noise(20000, 1), noise(20000, 2)])
    path = tmp_path / "a.wav"
    soundfile.write(path, stereo.T, RATE, subtype="FLOAT")
    rows = small.embed_audio([(stereo, RATE), (stereo.mean(0), RATE), path, str(path), path.read_bytes()])
    assert np.abs(rows - rows[0]).max() < 1e-6


def test_windows(small):
    rate, window = RATE, RATE * 10
    samples = noise(window * 2 + 40000, 3)
    each = small.embed_audio([(samples, rate), (samples[:100], rate)], windows="each")
    assert [len(rows) for rows in each] == [3, 1]
    parts = [samples[:window], samples[window : 2 * window], samples[2 * window :]]
    assert np.abs(each[0] - small.embed_audio([(part, rate) for part in parts])).max() < 1e-5
    # The mean is taken in the tower's space, weighted by true length, then projected.
    with torch.no_grad():
        rows = torch.cat([small.audio(torch.from_numpy(part)[None]) for part in parts])
        weight = torch.tensor([len(part) for part in parts], dtype=torch.float32)
        mean = small.audio_head((rows * weight[:, None]).sum(0) / weight.sum())
    expected = torch.nn.functional.normalize(mean, dim=0).numpy()
    assert np.abs(small.embed_audio([(samples, rate)])[0] - expected).max() < 1e-5
    spans = [(row.start, row.end) for row in small.iter_audio([(samples, rate)])]
    assert spans == [(0.0, 10.0), (10.0, 20.0), (20.0, 22.5)]


@pytest.mark.parametrize("seconds", [60.0, 61.0, 120.0, 125.3])
def test_long_sounds_are_read_in_stretches(small, tmp_path, seconds):
    samples = noise(round(seconds * RATE), 5)
    path = tmp_path / "long.wav"
    soundfile.write(path, samples, RATE, subtype="FLOAT")
    rows = list(small.iter_audio([path, (samples, RATE)]))
    file, memory = ([row for row in rows if row.index == index] for index in (0, 1))
    assert len(file) == len(memory) == -(-round(seconds * RATE) // (10 * RATE))
    assert file[-1].end == pytest.approx(seconds) and all(row.error is None for row in rows)
    assert max(np.abs(a.vector - b.vector).max() for a, b in zip(file, memory, strict=True)) < 1e-5


def test_clips_are_spans(small, tmp_path):
    samples = noise(RATE * 5, 6)
    path = tmp_path / "a.wav"
    soundfile.write(path, samples, RATE, subtype="FLOAT")
    clip = Clip("x", str(path), start=1.0, end=2.5)
    row = next(iter(small.iter_audio([clip])))
    assert (row.start, row.end) == (1.0, 2.5)
    assert np.abs(row.vector - small.embed_audio([(samples[RATE : RATE * 5 // 2], RATE)])[0]).max() < 1e-5


def test_iter_audio_is_lazy_and_never_raises(small, tmp_path):
    (tmp_path / "text.wav").write_text("no sound at all")
    asked = []

    def endless():
        for index in itertools.count():
            asked.append(index)
            yield [(noise(800, 1), RATE), tmp_path / "text.wav", tmp_path / "none.wav", b"", 7][index % 5]

    for workers in (0, 2):
        asked.clear()
        found = list(itertools.islice(small.iter_audio(endless(), batch_size=4, workers=workers), 20))
        assert [row.index for row in found] == list(range(20))
        assert [row.error is None for row in found] == [True, False, False, False, False] * 4
        assert all((row.vector is None) != (row.error is None) for row in found)
        assert max(asked) < 45


def test_errors_are_named_or_nan(small, tmp_path):
    good, bad = (noise(8000), RATE), tmp_path / "missing.wav"
    with pytest.raises(UserError, match="missing.wav"):
        small.embed_audio([good, bad])
    rows = small.embed_audio([good, bad, good], on_error="nan")
    assert np.isnan(rows[1]).all() and np.array_equal(rows[0], rows[2])
    each = small.embed_audio([good, bad], on_error="nan", windows="each")
    assert np.isnan(each[1]).all() and each[1].shape == (1, 32)
    for item, words in (
        ((np.zeros((9000, 2), np.float32), RATE), r"samples\.T"),
        ((np.full(9000, np.nan, np.float32), RATE), "NaN"),
        ((np.zeros(0, np.float32), RATE), "no samples"),
        ((noise(100), -5), "rate"),
    ):
        with pytest.raises(UserError, match=words):
            small.embed_audio([item])
    for call, words in (
        (lambda: small.embed_audio("a.wav"), "give a list"),
        (lambda: small.embed_audio([good], on_error="skip"), "on_error='skip'"),
        (lambda: small.embed_audio([good], windows="all"), "windows='all'"),
        (lambda: small.embed_audio([good], batch_size=0), "batch_size=0"),
    ):
        with pytest.raises(UserError, match=words):
            call()


def test_silence_has_a_finite_row(small, normed):
    for model in (small, normed):
        rows = model.embed_audio([(np.zeros(count, np.float32), RATE) for count in (1, 100, 16000)])
        assert np.isfinite(rows).all() and np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_nothing_in_nothing_out(small):
    assert small.embed_audio([]).shape == (0, 32) and small.embed_text([]).shape == (0, 32)
    assert small.classify([], ["a", "b"]) == []


def test_text(small):
    texts = ["a dog barks", "rain", "", "Ein Hund bellt", "犬が吠える 🐕"]
    rows = small.embed_text(texts)
    assert rows.shape == (5, 32) and np.isfinite(rows).all()
    alone = np.concatenate([small.embed_text([text]) for text in texts])
    assert np.abs(alone - rows).max() < 1e-5
    assert np.array_equal(rows, small.embed_text(texts, ["eng", "eng", "eng", "deu", "jpn"]))
    with pytest.raises(UserError, match="did you mean 'eng'"):
        small.embed_text(["a"], "en")
    with pytest.raises(UserError, match="2 entries for 1"):
        small.embed_text(["a"], ["eng", "fra"])
    with pytest.raises(UserError, match="one string"):
        small.embed_text("a dog")


def test_long_text_is_cut_with_one_warning(small):
    small.text.once.given.clear()
    long = "rain falls on a roof " * 40
    with pytest.warns(UserWarning, match="was cut to the 64"):
        rows = small.embed_text([long, long + "and a dog barks"])
    assert np.array_equal(rows[0], rows[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small.embed_text([long])


def test_classify(small):
    sounds = items(3)
    labels = ["dog", "rain", "man"]
    found = small.classify(sounds, labels, top=2)
    texts = small.embed_text([f"This is a sound of {label}" for label in labels])
    logits = (small.embed_audio(sounds) @ texts.T) / 0.07
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    for row, answer in zip(shares, found, strict=True):
        assert [label.name for label in answer] == [labels[k] for k in np.argsort(-row)[:2]]
        assert [label.score for label in answer] == pytest.approx(sorted(row)[::-1][:2], rel=1e-4)
    for fields, words in (
        ({"labels": "dog"}, "give a list"),
        ({"labels": []}, "at least one"),
        ({"labels": ["a", "a"]}, "twice"),
        ({"labels": labels, "template": "a sound"}, "no {label}"),
        ({"labels": labels, "top": 0}, "top=0"),
    ):
        with pytest.raises(UserError, match=words):
            small.classify(sounds, **fields)


def batch(model, count=4):
    samples = torch.zeros(count, 20000)
    lengths = torch.tensor([20000, 8000, 12000, 700][:count])
    for k, row in enumerate(samples):
        row[: lengths[k]] = torch.from_numpy(noise(int(lengths[k]), k))
    texts = ["a dog barks", "rain falls on a roof", "a man speaks", "a dog"][:count]
    return Batch(samples, lengths, model.sample_rate, texts, ["eng"] * count, torch.arange(count))


def test_batches_and_people_get_the_same_rows(small):
    held = small.prepare(batch(small))
    with torch.no_grad():
        audio = torch.nn.functional.normalize(small.encode_audio(held), dim=-1).numpy()
        text = torch.nn.functional.normalize(small.encode_text(held), dim=-1).numpy()
    sounds = [(held.samples[k, : held.lengths[k]].numpy(), RATE) for k in range(4)]
    assert np.abs(audio - small.embed_audio(sounds)).max() < 1e-5
    assert np.abs(text - small.embed_text(held.texts)).max() < 1e-5
    held.sample_rate = 44100
    with pytest.raises(UserError, match="16000 Hz"):
        small.encode_audio(held)


def test_features_stand_in_for_sounds_and_texts(small):
    held = small.prepare(batch(small))
    with torch.no_grad():
        features = small.audio(held.samples, held.lengths), small.text(**held.prepared["text"])
        cached = Batch(None, None, RATE, [], [], held.clip_ids, audio_features=features[0], text_features=features[1])
        small.prepare(cached)
        assert (small.encode_audio(cached) - small.encode_audio(held)).abs().max() < 1e-6
        assert (small.encode_text(cached) - small.encode_text(held)).abs().max() < 1e-6


def build(**fields):
    torch.manual_seed(0)
    start = {
        "audio_tower": {"kind": "mn01", "weights": None},
        "text_tower": "small-text",
        "head": {"kind": "linear", "width": 16},
    }
    return make(DualSettings, start | fields).build(["a dog barks", "rain"] * 3)


def step(model):
    """One optimiser step; the names of what moved."""
    before = {key: value.clone() for key, value in model.state_dict().items()}
    model.train()
    learn = [value for value in model.parameters() if value.requires_grad]
    optimiser = torch.optim.SGD(learn, lr=1.0)
    held = batch(model)
    loss = (model.encode_audio(held) * model.encode_text(held)).sum() * model.scale + model.bias
    loss.backward()
    optimiser.step()
    return {key for key, value in model.state_dict().items() if not torch.equal(value, before[key])}


def test_frozen_towers_stay_bit_for_bit():
    moved = step(build(freeze_audio=True, freeze_text=True))
    assert moved and all(key.startswith(("audio_head", "text_head")) for key in moved)


def test_partly_frozen_towers():
    moved = step(build(freeze_audio_parts=10, freeze_text_parts=2))
    features = {int(key.split(".")[2]) for key in moved if key.startswith("audio.features")}
    assert min(features) == 10 and max(features) == 16
    assert any(key.startswith("text.blocks.1") for key in moved)
    assert not any(key.startswith(("text.embed", "text.blocks.0")) for key in moved)
    with pytest.raises(UserError, match="freeze_audio_parts=99.*17 parts"):
        build(freeze_audio_parts=99)


def test_scale_and_bias_learn_on_request_only():
    assert not {"log_scale", "offset"} & step(build())
    assert {"log_scale", "offset"} <= step(build(learn_scale=True, learn_bias=True))
    assert build(scale=1000.0).scale.item() == pytest.approx(100.0)


def test_lora_moves_adapters_and_heads_only():
    pytest.importorskip("peft")
    model = build(
        audio_tower={"kind": "ced-tiny", "weights": None, "depth": 2}, lora={"rank": 2, "towers": ["audio", "text"]}
    )
    plain = build(audio_tower={"kind": "ced-tiny", "weights": None, "depth": 2})
    held = batch(model)
    with torch.no_grad():  # adapters start as nothing
        assert torch.equal(
            model.eval().audio(held.samples, held.lengths), plain.eval().audio(held.samples, held.lengths)
        )
    moved = step(model)
    towers = [key for key in moved if key.startswith(("audio.", "text."))]
    assert towers and all("lora_" in key for key in towers if "init_bn" not in key)
    with pytest.raises(UserError, match="no module of MobileNetTower"):
        build(lora={"towers": ["audio"]})


def test_checkpointing_gives_the_same_gradients():
    ced = {"kind": "ced-tiny", "weights": None, "depth": 2}
    grads = []
    for flag in (False, True):
        model = build(audio_tower=ced, checkpointing=flag)
        model.encode_audio(batch(model)).square().sum().backward()
        grads.append({key: value.grad for key, value in model.named_parameters() if value.grad is not None})
    assert model.audio.recompute and grads[0].keys() == grads[1].keys()
    assert all(torch.allclose(grads[0][key], grads[1][key], atol=1e-6) for key in grads[0])
    with pytest.raises(UserError, match="neither tower"):
        build(checkpointing=True, text_tower="use")


def test_heads():
    assert build(head={"kind": "mlp", "width": 24, "hidden": 8}).width == 24
    with pytest.raises(UserError, match="towers are 96 and 128 wide"):
        build(head="none")
    with pytest.raises(UserError, match="head.*did you mean|kind='mpl'"):
        build(head="mpl")


def test_fingerprint_follows_every_weight(small):
    first = small.fingerprint()
    assert first == small.fingerprint()
    for value in (small.audio.out.weight, small.text.norm.bias, small.audio_head.weight):
        with torch.no_grad():
            value.view(-1)[0] += 1e-3
            changed = small.fingerprint()
            value.view(-1)[0] -= 1e-3
        assert changed != first


def test_bytes_of_many_formats(small):
    samples = noise(16000, 2, 0.05)
    rows = []
    for form, kind in (("WAV", "PCM_24"), ("FLAC", "PCM_24")):
        held = io.BytesIO()
        soundfile.write(held, samples, RATE, format=form, subtype=kind)
        rows.append(small.embed_audio([held.getvalue()])[0])
    assert np.abs(rows[0] - rows[1]).max() < 1e-6


def test_long_files_are_read_a_minute_at_a_time(small, tmp_path, monkeypatch):
    from supclap.encoders import stream

    path, seen = tmp_path / "long.wav", []
    soundfile.write(path, np.tile(noise(8000 * 60, 7), 10), 8000, subtype="PCM_16")
    plain = stream.read

    def watched(item, rate, start=0.0, end=None):
        samples = plain(item, rate, start, end)
        seen.append(len(samples))
        return samples

    monkeypatch.setattr(stream, "read", watched)
    rows = small.embed_audio([path])
    assert np.isfinite(rows).all() and len(seen) == 10 and max(seen) <= 60 * RATE
    # Every minute is the same sound, so the mean is that of one minute.
    minute = small.embed_audio([(noise(8000 * 60, 7), 8000)])
    assert float((rows @ minute.T)[0, 0]) > 0.9999
