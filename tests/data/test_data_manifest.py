"""Every form of table, folder and shard to the same clips; and mistakes named with their place."""

import io
import json
import tarfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supclap.audio.decode import AudioError
from supclap.audio.reader import read as read_audio
from supclap.data import manifest
from supclap.data.folders import captions_of
from supclap.schema import Caption, Clip, UserError

soundfile = pytest.importorskip("soundfile")
pytest.importorskip("pyarrow")


def put(path, content, encoding="utf8"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode(encoding) if isinstance(content, str) else content)
    return path


def sound(seed=0, seconds=0.1):
    out = io.BytesIO()
    soundfile.write(out, np.random.default_rng(seed).uniform(-0.5, 0.5, round(8000 * seconds)), 8000, format="WAV")
    return out.getvalue()


EXPECTED = [("a.wav", ["a dog", "ein Hund"]), ("b/c.wav", ["rain, heavy"])]
CSV = 'audio,caption,language\na.wav,a dog,en\nb/c.wav,"rain, heavy",\na.wav,ein Hund,de\n'


def check(clips, folder):
    assert [(clip.id, [said.text for said in clip.captions]) for clip in clips] == EXPECTED
    assert [clip.audio for clip in clips] == [str(folder / "a.wav"), str(folder / "b" / "c.wav")]
    assert [said.language for said in clips[0].captions] == ["eng", "deu"]


@pytest.mark.parametrize("encoding", ["utf8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_csv_as_spreadsheets_write_it(tmp_path, encoding, ends):
    check(manifest.read(put(tmp_path / "t.csv", ("\n" + CSV + "\n\n").replace("\n", ends), encoding)), tmp_path)


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_other_delimiters_are_seen(tmp_path, mark):
    rows = [["audio", "caption", "language"], ["a.wav", "a dog", "eng"], ["b/c.wav", "rain, heavy", ""],
            ["a.wav", "ein Hund", "deu"]]  # fmt: skip
    text = "\n".join(mark.join(row) for row in rows)
    check(manifest.read(put(tmp_path / "t.csv", text)), tmp_path)


def test_jsonl_json_parquet_and_wide_tables_agree(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{"audio": "a.wav", "caption": "a dog", "language": "eng"}, {"audio": "b/c.wav", "caption": "rain, heavy"},
            {"audio": "a.wav", "caption": "ein Hund", "language": "deu"}]  # fmt: skip
    check(manifest.read(put(tmp_path / "t.jsonl", "\n".join(map(json.dumps, rows)))), tmp_path)
    check(manifest.read(put(tmp_path / "t.json", json.dumps(rows))), tmp_path)
    check(manifest.read(put(tmp_path / "u.json", json.dumps({"data": rows}))), tmp_path)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    check(manifest.read(tmp_path / "t.parquet"), tmp_path)
    wide = 'file_name,caption_1,caption_deu\na.wav,a dog,ein Hund\nb/c.wav,"rain, heavy",\n'
    check(manifest.read(put(tmp_path / "w.csv", wide)), tmp_path)
    check(manifest.read(str(tmp_path / "w.csv")), tmp_path)


def test_every_column(tmp_path):
    text = (
        "clip_id,audio,start,end,split,label,source,caption_1,caption_2,negative_1\n"
        "x,a.wav,0.5,2,dev,dog,fs:1,one,two,not three\ny,a.wav,2,,testing,,,three,,\n"
    )
    one, two = manifest.read(put(tmp_path / "t.tsv", text.replace(",", "\t")))
    audio = str(tmp_path / "a.wav")
    assert one == Clip("x", audio, 0.5, 2.0, (Caption("one"), Caption("two")), "dog", "val", "fs:1", ("not three",))
    assert two == Clip("y", audio, 2.0, None, (Caption("three"),), None, "test")


def test_spans_without_ids_are_clips_of_their_own(tmp_path):
    clips = manifest.read(put(tmp_path / "t.csv", "audio,start,end,caption\na.wav,0,1,x\na.wav,1,2,y\na.wav,0,1,z\n"))
    assert [(clip.id, len(clip.captions)) for clip in clips] == [("a.wav#0-1", 2), ("a.wav#1-2", 1)]


@pytest.mark.parametrize("name,content,reason", [
    ("t.csv", "adio,caption\na.wav,x\n", "no column 'audio'; is it 'adio'"),
    ("t.csv", "caption\nx\n", "no column 'audio'; the columns are 'caption'"),
    ("t.csv", "", "empty"), ("t.csv", "\n\n", "empty"), ("t.csv", "audio,caption\n", "empty"),
    ("t.csv", "audio,start\na.wav,1\nb.wav,soon\n", r"row 2 \(line 3\): column 'start': 'soon'"),
    ("t.csv", "audio,start\na.wav,-1\n", "column 'start': '-1'"), ("t.csv", "audio,end\na.wav,inf\n", "'inf'"),
    ("t.csv", "audio,start,end\na.wav,2,1\n", "does not come after"),
    ("t.csv", "audio,caption\na.wav,x,y\n", "3 values for 2 columns"),
    ("t.csv", 'audio,caption\na.wav,"x\nb.wav,y\n', "quotes"),
    ("t.csv", "audio,audio\na,b\n", "column 'audio' is there twice"),
    ("t.csv", "audio,caption\n,x\n", "column 'audio' is empty"),
    ("t.csv", "audio,caption\na\0.wav,x\n", "row 1.*column 'audio'.*zero byte"),
    ("t.csv", "audio,caption,language\na,x,klingonish\n", "row 1.*column 'language'.*klingonish"),
    ("t.csv", "clip_id,audio\nx,a.wav\nx,b.wav\n", "clip_id 'x' is another sound"),
    ("t.jsonl", '{"audio": "a.wav"}\n{"audio": \n', r"row 2 \(line 2\): not JSON"), ("t.jsonl", "[1]\n", "not list"),
    ("t.jsonl", '{"audio": ["a"]}\n', "holds a list"), ("t.jsonl", '{"audio": "a", "caption": [1]}', "list with a int"),
    ("t.json", "{}", "give a list of rows"), ("t.parquet", "PAR1 no", "not a parquet file"), ("t.xlsx", "x", "ends in"),
])  # fmt: skip
def test_mistakes_name_their_place(tmp_path, name, content, reason):
    with pytest.raises(UserError, match=reason) as caught:
        manifest.read(put(tmp_path / name, content))
    assert "\n" not in str(caught.value)


def test_names_of_nothing(tmp_path):
    with pytest.raises(UserError, match="did you mean 'esc50'"):
        manifest.read("esc5")
    for name in ("none.csv", str(tmp_path / "none")):
        with pytest.raises(UserError, match="no such file or folder"):
            manifest.read(name)
    with pytest.raises(UserError, match="holds no sound"):
        manifest.read(tmp_path)
    with pytest.raises(UserError, match="not prepared yet"):
        manifest.read("clotho")
    with pytest.raises(UserError, match="captions_from"):
        manifest.read(tmp_path, captions_from="name")
    with pytest.raises(UserError, match="holds a str"):
        manifest.read(["a.wav"])


def test_a_folder_of_sounds(tmp_path):
    for name in ["weather/HeavyRain_02.wav", "weather/thunder.wav", "pets/dog_bark.WAV"]:
        put(tmp_path / name, b"x")
    put(tmp_path / "notes.txt", "x")
    plain = manifest.read(tmp_path)
    assert [clip.id for clip in plain] == ["pets/dog_bark.WAV", "weather/HeavyRain_02.wav", "weather/thunder.wav"]
    assert [clip.label for clip in plain] == ["pets", "weather", "weather"] and not plain[0].captions
    named = manifest.read(tmp_path, captions_from="names")
    assert [clip.captions[0].text for clip in named] == ["pets dog bark", "weather heavy rain", "weather thunder"]
    put(tmp_path / "metadata.csv", "file_name,text\nweather/thunder.wav,it thunders\n")
    assert [clip.captions[0].text for clip in manifest.read(tmp_path)] == ["it thunders"]


def test_words_that_every_path_has_say_nothing(tmp_path):
    from pathlib import Path

    assert captions_of([Path("Pack1/dog.wav"), Path("Pack1/cat.ogg")]) == ["dog", "cat"]
    assert captions_of([Path("001.wav"), Path("été.wav")]) == ["", "été"]


def shard(path, members):
    with tarfile.open(path, "w") as file:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            file.addfile(entry, io.BytesIO(content))
    return path


def test_webdataset_shards(tmp_path):
    for number in range(3):
        members = [(f"s{k}.{end}", content) for k in range(2) for end, content in [
            ("wav", sound(10 * number + k)), ("json", json.dumps({"caption": f"c{number}{k}", "label": "l"}).encode())
        ]]  # fmt: skip
        shard(tmp_path / f"x-{number:03d}.tar", [*members, ("s9.txt", b"no sound here")])
    shard(tmp_path / "y.tar", [("k.flac", sound(99)), ("k.txt", b"said\n"), ("k.cls", b"7")])
    every = manifest.read(tmp_path / "x-{000..002}.tar")
    # A sample that has lost its sound is there, and is put aside when it is read.
    lost = [clip for clip in every if clip.id.endswith("/s9")]
    assert len(lost) == 3 and len(every) == 9
    with pytest.raises(AudioError, match="holds no member 's9'"):
        read_audio(lost[0].audio, 8000)
    clips = [clip for clip in every if clip not in lost]
    assert [clip.captions[0].text for clip in clips] == ["c00", "c01", "c10", "c11", "c20", "c21"]
    assert [clip.id for clip in clips][:3] == ["x-000/s0", "x-000/s1", "x-001/s0"] and clips[0].label == "l"
    assert manifest.read(str(tmp_path / "x-*.tar")) == every
    assert np.array_equal(read_audio(clips[3].audio, 8000), read_audio(sound(11), 8000))
    (one,) = manifest.read(tmp_path / "y.tar")
    assert one.captions == (Caption("said"),) and one.label == "7"
    assert len(manifest.read(tmp_path)) == 10
    with pytest.raises(UserError, match="1 shards are not there"):
        manifest.read(tmp_path / "x-{000..003}.tar")
    again = manifest.read(manifest.write(clips, tmp_path / "table" / "t.csv"))
    assert again == clips


def test_huggingface_datasets(tmp_path):
    datasets = pytest.importorskip("datasets")
    files = [put(tmp_path / f"{k}.wav", sound(k)) for k in range(3)]
    for keep, place in ((True, "inside"), (False, "beside")):
        rows = [
            {"bytes": path.read_bytes() if keep else None, "path": path.name if keep else str(path)} for path in files
        ]
        table = datasets.Dataset.from_dict({"audio": rows, "text": ["x", "y", "z"]})
        table = table.cast_column("audio", datasets.Audio(decode=False))
        datasets.DatasetDict({"train": table.select([2, 0]), "test": table.select([1])}).save_to_disk(tmp_path / place)
        clips = manifest.read(tmp_path / place)
        assert [(clip.captions[0].text, clip.split) for clip in clips] == [
            ("z", "train"),
            ("x", "train"),
            ("y", "test"),
        ]
        for clip, seed in zip(clips, [2, 0, 1], strict=True):
            assert np.array_equal(read_audio(clip.audio, 8000), read_audio(sound(seed), 8000)), place


def test_a_dataset_as_the_hub_ships_it(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    rows = [{"bytes": sound(k), "path": f"{k}.wav"} for k in range(3)]
    table = datasets.Dataset.from_dict({"audio": rows, "text": ["t0", "t1", "t2"]})
    (tmp_path / "d" / "data").mkdir(parents=True)
    table.cast_column("audio", datasets.Audio(decode=False)).to_parquet(tmp_path / "d" / "data" / "train-00000.parquet")
    clips = manifest.read(f"hf:{tmp_path}/d")
    assert [(clip.captions[0].text, clip.split) for clip in clips] == [(f"t{k}", "train") for k in range(3)]
    assert np.array_equal(read_audio(clips[2].audio, 8000), read_audio(sound(2), 8000))
    with pytest.raises(UserError, match="cannot be loaded"):
        manifest.read("hf:nobody/nothing")


def test_parquet_with_the_sounds_inside(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{"audio": {"bytes": sound(k), "path": f"{k}.wav"}, "text": f"t{k}"} for k in range(5)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet", row_group_size=2)
    clips = manifest.read(tmp_path / "t.parquet")
    assert [clip.captions[0].text for clip in clips] == ["t0", "t1", "t2", "t3", "t4"]
    assert np.array_equal(read_audio(clips[3].audio, 8000), read_audio(sound(3), 8000))


WORDS = (
    st.text(st.characters(codec="utf8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
    .map(str.strip)
    .filter(bool)
)
NAMES = st.text("abcdefgh", min_size=1, max_size=6)
CLIPS = st.builds(
    Clip, id=NAMES, audio=NAMES.map("/sounds/{}.wav".format), start=st.sampled_from([0.0, 0.1, 7.25]),
    end=st.sampled_from([None, 8.5, 100.0]),
    captions=st.lists(st.builds(Caption, WORDS, st.sampled_from(["eng", "jpn"])),
    unique=True, max_size=3).map(tuple), label=st.none() | NAMES, split=st.sampled_from([None, "train", "fold1"]),
    source=st.none() | NAMES, negatives=st.lists(WORDS, unique=True, max_size=2).map(tuple),
)  # fmt: skip


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
@settings(derandomize=True, deadline=None, max_examples=40)
@given(clips=st.lists(CLIPS, min_size=1, max_size=4, unique_by=lambda clip: clip.id))
def test_what_is_written_is_read_back(tmp_path_factory, suffix, clips):
    path = tmp_path_factory.mktemp("t") / f"t.{suffix}"
    assert manifest.read(manifest.write(clips, path)) == clips


CELLS = st.one_of(
    st.text(max_size=20), st.sampled_from(["", "nan", "-1", "1e999", '"', "a,b", "\x00", "a.wav", "0x10", "\ud800"]),
)  # fmt: skip
HEADS = st.sampled_from(
    ["audio", "caption", "language", "start", "end", "clip_id", "split", "Audio ", "x", "", "caption_1", "caption_fra"]
)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    head=st.lists(HEADS, max_size=6),
    rows=st.lists(st.lists(CELLS, max_size=7), max_size=5),
    mark=st.sampled_from(",;\t"),
)
def test_hostile_csv_ends_in_clips_or_one_line(tmp_path_factory, head, rows, mark):
    text = "\n".join(mark.join(cells) for cells in [head, *rows])
    survives(put(tmp_path_factory.mktemp("t") / "t.csv", text.encode("utf8", "surrogatepass")))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HEADS, inner, max_size=4), max_leaves=8,
)  # fmt: skip


@settings(derandomize=True, deadline=None, max_examples=200)
@given(rows=st.lists(JSON, max_size=4), junk=st.binary(max_size=10))
def test_hostile_jsonl_ends_in_clips_or_one_line(tmp_path_factory, rows, junk):
    content = "\n".join(map(json.dumps, rows)).encode() + junk
    survives(put(tmp_path_factory.mktemp("t") / "t.jsonl", content))


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    content=st.binary(max_size=300), suffix=st.sampled_from(["csv", "tsv", "jsonl", "json", "parquet", "arrow", "tar"])
)
def test_bytes_that_are_no_table(tmp_path_factory, content, suffix):
    survives(put(tmp_path_factory.mktemp("t") / f"t.{suffix}", content))


def survives(path):
    try:
        clips = manifest.read(path)
    except UserError as error:
        assert "\n" not in str(error)
        return
    assert clips and all(isinstance(clip, Clip) and clip.id and clip.audio for clip in clips)
    assert all(said.text.strip() for clip in clips for said in clip.captions)


def read_text(tmp_path, content):
    (tmp_path / "t.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    return manifest.read(tmp_path / "t.csv")


def test_a_name_that_no_disk_can_hold_is_missing_and_no_crash(tmp_path):
    (clip,) = read_text(tmp_path, "audio,caption\n" + "a" * 5000 + ".wav,x\n")
    assert len(clip.audio) > 5000


@pytest.mark.parametrize("url", ["https://x.org/a.wav", "S3://bucket/a.wav", "file:///a.wav"])
def test_sounds_on_a_network_are_refused(tmp_path, url):
    with pytest.raises(UserError, match="row 1.*lies on a network"):
        read_text(tmp_path, f"audio,caption\n{url},x\n")


def test_names_written_on_windows(tmp_path):
    (tmp_path / "sub").mkdir()
    (clip,) = read_text(tmp_path, "audio,caption\nsub\\a.wav,x\n")
    assert clip.audio == str(tmp_path / "sub" / "a.wav")
    # A backslash may stand in a name.
    (tmp_path / "sub\\a.wav").write_text("")
    assert manifest.read(tmp_path / "t.csv")[0].audio == str(tmp_path / "sub\\a.wav")


def test_columns_that_are_nearly_named(tmp_path):
    with pytest.raises(UserError, match="no column 'caption'; is it 'captoin'"):
        read_text(tmp_path, "audio,captoin\na.wav,x\n")
    with pytest.warns(UserWarning, match="column 'strat' is not read; is it 'start'"):
        read_text(tmp_path, "audio,caption,strat\na.wav,x,1\n")
    with pytest.raises(UserError, match="'caption' and 'Caption' are one name"):
        read_text(tmp_path, "audio,caption,Caption\na.wav,x,y\n")


def test_one_line_in_another_encoding_spoils_no_other(tmp_path):
    one, two = read_text(tmp_path, b"\xef\xbb\xbfaudio,caption\na.wav,\xc3\xa9\nb.wav,caf\xe9\n")
    assert (one.captions[0].text, two.captions[0].text) == ("é", "café")


def test_nothing_in_a_list_of_captions_is_blank(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"audio": "a.wav", "caption": ["x", null]}\n{"audio": "b.wav", "caption": NaN}')
    one, two = manifest.read(tmp_path / "t.jsonl")
    assert [said.text for said in one.captions] == ["x"] and two.captions == ()
    (tmp_path / "t.jsonl").write_text('{"audio": true, "caption": "x"}')
    with pytest.raises(UserError, match="'audio' holds a bool"):
        manifest.read(tmp_path / "t.jsonl")
