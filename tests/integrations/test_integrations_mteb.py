"""The real mteb on a tiny local task, offline: its numbers are those of our `mteb` protocol."""

import io

import numpy as np
import pytest
import soundfile
import torch

from supclap.encoders.dual import DualSettings
from supclap.encoders.small import SmallAudioSettings, SmallTextSettings
from supclap.evaluation import retrieval
from supclap.integrations.mteb import Encoder, _item
from supclap.schema import UserError

mteb = pytest.importorskip("mteb")

from datasets import Audio, Dataset  # noqa: E402
from mteb.abstasks.retrieval import AbsTaskRetrieval  # noqa: E402
from mteb.abstasks.task_metadata import TaskMetadata  # noqa: E402

CLIPS, RATE = 24, 16000
OWNER = np.repeat(np.arange(CLIPS), 2)
TEXTS = [f"tone {'abcdefghijklmnopqrstuvwxyz'[k // 2]} sounds {'once' if k % 2 else 'here'}" for k in range(2 * CLIPS)]


@pytest.fixture(scope="module")
def sounds():
    """WAV files in memory, of different lengths and rates."""
    found = []
    for k in range(CLIPS):
        rate = RATE if k % 2 else 22050
        time = np.arange(int(rate * (0.6 + 0.05 * k))) / rate
        held = io.BytesIO()
        soundfile.write(held, 0.4 * np.sin(2 * np.pi * (200 + 90 * k) * time), rate, format="WAV")
        found.append(held.getvalue())
    return found


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    settings = DualSettings(
        audio_tower=SmallAudioSettings(channels=(8, 8, 16, 16), width=32),
        text_tower=SmallTextSettings(vocabulary=300, width=32, depth=1, heads=2),
    )
    return settings.build(texts=TEXTS).eval()


def task(sounds, direction):
    """A retrieval task as mteb's own are: an Audio column of encoded files, and texts."""
    audio = Dataset.from_dict(
        {"id": [f"a{k}" for k in range(CLIPS)], "audio": [{"bytes": b, "path": None} for b in sounds]}
    )
    audio = audio.cast_column("audio", Audio())
    text = Dataset.from_dict({"id": [f"t{k}" for k in range(len(TEXTS))], "text": TEXTS})
    right = {f"t{k}": {f"a{owner}": 1} for k, owner in enumerate(OWNER)}
    if direction == "a2t":
        right = {f"a{c}": {f"t{k}": 1 for k in np.flatnonzero(c == OWNER)} for c in range(CLIPS)}
    queries, corpus = (text, audio) if direction == "t2a" else (audio, text)

    class Tiny(AbsTaskRetrieval):
        metadata = TaskMetadata(
            name=f"Tiny{direction.upper()}",
            description="Tones and what is said of them.",
            reference=None,
            dataset={"path": "local/tiny", "revision": "1"},
            type="Any2AnyRetrieval",
            category=direction,
            modalities=["audio", "text"],
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="hit_rate_at_5",
            date=("2026-01-01", "2026-01-02"),
            domains=["AudioScene"],
            task_subtypes=[],
            license="cc0-1.0",
            annotations_creators="derived",
            dialect=[],
            sample_creation="created",
            bibtex_citation="",
        )

        def load_data(self, *args, **kwargs):
            split = {"corpus": corpus, "queries": queries, "relevant_docs": right, "top_ranked": None}
            self.dataset = {"default": {"test": split}}
            self.data_loaded = True

    return Tiny()


@pytest.mark.parametrize("direction", ["t2a", "a2t"])
def test_mteb_scores_are_those_of_our_mteb_protocol(sounds, model, direction):
    encoder = Encoder(model, "me/tiny", batch_size=8)
    result = mteb.evaluate(encoder, task(sounds, direction), cache=None, show_progress_bar=False)
    (scores,) = result.task_results[0].scores["test"]
    ours = retrieval.evaluate(model.embed_audio(sounds), model.embed_text(TEXTS), OWNER, protocol="mteb")[direction]
    for theirs, name in (
        *((f"recall_at_{k}", f"R@{k}") for k in (1, 5, 10)),
        *((f"hit_rate_at_{k}", f"hit@{k}") for k in (1, 5, 10)),
        ("ndcg_at_10", "nDCG@10"),
    ):
        assert 100 * scores[theirs] == pytest.approx(ours[name], abs=0.01), name
    assert 0 < scores["hit_rate_at_10"] < 1, "a case that tells rankings apart"
    assert result.model_name == "me/tiny"


def test_sound_and_words_together(sounds, model):
    both = Dataset.from_dict({"text": TEXTS[:3], "audio": [{"bytes": b, "path": None} for b in sounds[:3]]})
    loader = torch.utils.data.DataLoader(both)
    found = Encoder(model, "me/tiny").encode(
        loader, task_metadata=task(sounds, "t2a").metadata, hf_split="test", hf_subset="default"
    )
    expected = model.embed_audio(sounds[:3]) + model.embed_text(TEXTS[:3])
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)


def test_bad_input_is_named(sounds, model):
    with pytest.raises(UserError, match="owner/model"):
        Encoder(model, "tiny")
    with pytest.raises(UserError, match="audio row 3 holds no sound"):
        _item({"bytes": None, "path": None}, 3)
    pictures = torch.utils.data.DataLoader(Dataset.from_dict({"image": [1, 2]}))
    with pytest.raises(UserError, match="TinyT2A asks for image"):
        Encoder(model, "me/tiny").encode(
            pictures, task_metadata=task(sounds, "t2a").metadata, hf_split="test", hf_subset="default"
        )


def test_cosines(model):
    one, two = np.random.default_rng(0).standard_normal((2, 4, 3))
    encoder = Encoder(model, "me/tiny")
    whole = encoder.similarity(one, torch.as_tensor(two))
    assert whole.shape == (4, 4)
    torch.testing.assert_close(encoder.similarity_pairwise(one, two), whole.diagonal())
