import json

import numpy as np
import pytest
import soundfile as sf
from embedding_cases import dual, sound
from pyarrow import parquet

from supclap.embedding.embed import embed
from supclap.embedding.store import read
from supclap.schema import Caption, Clip, UserError

SPOKEN = (Caption("a dog barks"), Caption("rain falls"))


def table(tmp_path, count=5):
    paths = [sound(tmp_path / "in" / f"{i}.wav", 0.4 + 0.3 * i, seed=i) for i in range(count)]
    return [Clip(id=f"c{i}", audio=str(path), captions=SPOKEN) for i, path in enumerate(paths)]


def test_the_folder_holds_what_the_model_says_in_the_order_of_the_table(tmp_path):
    model, clips, out = dual(), table(tmp_path), tmp_path / "out"
    store = embed(model, clips, out, rows_a_shard=2)
    np.testing.assert_allclose(store.audio, model.embed_audio([clip.audio for clip in clips]), atol=1e-5)
    np.testing.assert_allclose(
        store.text, model.embed_text([c.text for clip in clips for c in clip.captions]), atol=1e-5
    )
    assert store.audio_rows.column_names == ["row", "clip_id", "path", "start", "end", "error"]
    assert store.text_rows.column_names == ["row", "caption", "language", "clip_id"]
    assert store.audio_rows["clip_id"].to_pylist() == [clip.id for clip in clips]
    assert store.text_rows["clip_id"].to_pylist() == [clip.id for clip in clips for _ in range(2)]
    names = {path.name for path in out.iterdir()}
    assert {"embeddings.json", "audio-00000.npy", "audio-00002.parquet", "text-00004.npy"} <= names
    assert not [name for name in names if name.startswith(".")]
    assert np.load(out / "audio-00001.npy").dtype == np.float32
    assert parquet.read_table(out / "audio-00001.parquet")["row"].to_pylist() == [0, 1]
    held = json.loads((out / "embeddings.json").read_text())
    assert held["format"] == 1
    assert held["fingerprint"] == model.fingerprint()
    assert held["finished"]["audio"] == [0, 1, 2]


def test_one_shard_is_memory_mapped(tmp_path):
    assert isinstance(embed(dual(), table(tmp_path), tmp_path / "out").audio, np.memmap)


def test_it_goes_on_where_it_stopped_and_gives_the_same(tmp_path):
    model, clips = dual(), table(tmp_path)
    whole = embed(model, clips, tmp_path / "whole", rows_a_shard=2)

    class Stop(Exception):
        pass

    def stop(done, total):
        if done > 3:
            raise Stop

    with pytest.raises(Stop):
        embed(model, clips, tmp_path / "out", rows_a_shard=2, progress=stop)
    kept = (tmp_path / "out" / "audio-00000.npy").stat().st_mtime_ns
    assert not (tmp_path / "out" / "audio-00001.npy").exists()
    assert len(read(tmp_path / "out").audio) == 2
    store = embed(model, clips, tmp_path / "out", rows_a_shard=2)
    assert (tmp_path / "out" / "audio-00000.npy").stat().st_mtime_ns == kept
    np.testing.assert_allclose(store.audio, whole.audio, atol=1e-5)
    assert store.audio_rows.drop_columns("row").equals(whole.audio_rows.drop_columns("row"))


def test_another_model_or_table_or_rule_is_refused(tmp_path):
    clips, out = table(tmp_path), tmp_path / "out"
    embed(dual(), clips, out)
    with pytest.raises(UserError, match="another model"):
        embed(dual(seed=1), clips, out)
    with pytest.raises(UserError, match="other data"):
        embed(dual(), clips[:3], out)
    with pytest.raises(UserError, match="another window rule"):
        embed(dual(), clips, out, windows="each")


def test_a_bad_clip_keeps_its_row_with_the_reason(tmp_path):
    clips = table(tmp_path, 3)
    clips.insert(1, Clip(id="gone", audio=str(tmp_path / "gone.wav"), captions=SPOKEN))
    store = embed(dual(), clips, tmp_path / "out")
    assert np.isnan(store.audio[1]).all()
    assert np.isfinite(store.audio[[0, 2, 3]]).all()
    assert store.audio_rows["error"].to_pylist()[1] == "no such file"
    assert store.audio_rows["error"].to_pylist()[2] is None


def test_each_window_has_a_row_with_its_seconds_in_the_file(tmp_path):
    path = sound(tmp_path / "a.wav", 4.0)
    clip = Clip(id="a", audio=str(path), start=1.0, end=3.5)
    store = embed(dual(), [clip], tmp_path / "out", windows="each")
    assert store.audio_rows["start"].to_pylist() == [1.0, 2.0, 3.0]
    assert store.audio_rows["end"].to_pylist() == [2.0, 3.0, 3.5]
    samples = sf.read(path, dtype="float32")[0]
    expected = dual().embed_audio([(samples[32000:48000], 16000)])
    np.testing.assert_allclose(store.audio[1:2], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda clips, out: embed(dual(), clips, out, engine="spark"), "engine='spark'"),
        (lambda clips, out: embed(dual(), clips, out, windows="some"), "windows='some'"),
        (lambda clips, out: embed(dual(), [], out), "no clip"),
        (lambda clips, out: embed(dual(), clips, out, rows_a_shard=0), "rows_a_shard=0"),
        (lambda clips, out: embed(dual(), clips, out, batch_size=0), "batch_size=0"),
        (lambda clips, out: read(out), "embeddings.json"),
    ],
)
def test_mistakes_are_named(tmp_path, make, words):
    with pytest.raises(UserError, match=words):
        make(table(tmp_path, 1), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("mine")
    with pytest.raises(UserError, match="holds no embeddings"):
        embed(dual(), table(tmp_path, 1), tmp_path / "out")


def test_a_damaged_folder_is_named(tmp_path):
    out = tmp_path / "out"
    embed(dual(), table(tmp_path, 2), out)
    (out / "audio-00000.npy").write_bytes(b"half")
    with pytest.raises(UserError, match="cannot be read"):
        read(out)
    (out / "embeddings.json").write_text("[1]")
    with pytest.raises(UserError, match="embed again"):
        read(out)
