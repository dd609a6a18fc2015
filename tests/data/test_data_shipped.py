"""Small files in the very layout that owners ship: ML-CLAP's lists and shards, WavCaps as its zip files unpack."""

import gzip
import io
import json
import tarfile

import numpy as np
import pytest
from test_data_corpora import touch

from supclap.audio.reader import read
from supclap.data import manifest
from supclap.data.check import check
from supclap.data.corpora import CORPORA
from supclap.schema import Caption, UserError

soundfile = pytest.importorskip("soundfile")


def listed(stem, audio, *said):
    """A row as ML-CLAP's lists have it: paths of their own machine, a language a caption."""
    row = {f"caption_{n}": text for n, (text, _) in enumerate(said, 1)}
    row |= {"wav": f"AudioCaps/waveforms/test/{stem}.wav", "audio": audio, "duration": 10.0, "id": f"{stem}.wav"}
    return row | {"duration_sample": 160000} | {f"source_lang_{n}": code for n, (_, code) in enumerate(said, 1)}


def shard(path, samples, packed=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    sound = io.BytesIO()
    soundfile.write(sound, np.zeros(800), 16000, format="FLAC")
    with gzip.open(path, "wb") if packed else path.open("wb") as out, tarfile.open(fileobj=out, mode="w") as tar:
        for key, captions in samples:
            said = json.dumps({"captions": captions}, ensure_ascii=False).encode()
            for name, data in ((f"{key}.flac", sound.getvalue()), (f"{key}.json", said)):
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))


def test_lists_of_ml_clap(tmp_path):
    rows = [
        listed("Y7fmOlUlwoNg", "/path/audiocaps/16k/Y7fmOlUlwoNg.wav", ("Rattling", "eng_Latn"), ("振動", "jpn_Jpan")),
        listed("Yabsent", "/path/audiocaps/16k/Yabsent.wav", ("A dog", "eng_Latn"), ("狗", "zho_Hans")),
    ]
    clotho = listed("x", "/path/clotho/clotho_v2/wav/16k/evaluation/Santa Motor.wav", ("A whine", "eng_Latn"))
    clotho |= {"id": "0edb9194d5968da75857a19ac2bb0606.wav", "wav": "Clotho/waveforms/test/Santa Motor.wav"}
    for name, data in (("AudioCaps", rows), ("Clotho", [clotho])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "test.json").write_text(json.dumps({"num_captions_per_audio": 5, "data": data}))
    touch(tmp_path / "wavs" / "Y7fmOlUlwoNg.flac")
    touch(tmp_path / "Clotho" / "evaluation" / "Santa Motor.wav")
    found = CORPORA["ml-audiocaps"].find(tmp_path)
    one, two = found.clips
    assert (one.id, one.split, one.source) == ("AudioCaps/test/Y7fmOlUlwoNg", "test", "youtube:7fmOlUlwoNg")
    assert one.captions == (Caption("Rattling"), Caption("振動", "jpn"))
    assert (two.id, two.captions, two.source) == ("Clotho/test/Santa Motor", (Caption("A whine"),), None)
    assert found.missing == ["AudioCaps/test/Yabsent"] and "AudioCaps/test.json: 1 of 2 clips" in found.note


@pytest.mark.parametrize("packed", [False, True])
def test_shards_of_ml_clap(tmp_path, packed):
    said = {"eng_Latn": ["a dog", "a hound"], "fra_Latn": ["un chien"], "zho_Hans": ["狗"]}
    name = "test_000000.tar.gz" if packed else "test_000000.tar"
    shard(tmp_path / "AudioCaps" / "tar" / "test" / name, [("a_1", said), ("b_2", {"eng_Latn": ["rain"]})], packed)
    for _ in range(2):
        one, two = CORPORA["ml-audiocaps"].find(tmp_path).clips
        assert [(c.language, c.text) for c in one.captions] == [
            ("eng", "a dog"), ("eng", "a hound"), ("fra", "un chien"), ("zho", "狗"),
        ]  # fmt: skip
        assert (one.id, one.split, two.captions) == ("test_000000/a_1", "test", (Caption("rain"),))
    if packed:
        (tmp_path / "AudioCaps" / "tar" / "test" / name).write_bytes(b"\x1f\x8b\x08 cut off")
        (tmp_path / "AudioCaps" / "tar" / "test" / name[:-3]).unlink()
        with pytest.raises(UserError, match=r"not a whole \.tar\.gz"):
            CORPORA["ml-audiocaps"].find(tmp_path)


def test_a_list_read_as_a_plain_table_keeps_its_languages(tmp_path):
    row = listed("a", "a.wav", ("a dog", "eng_Latn"), ("un chien", "fra_Latn"))
    (tmp_path / "t.json").write_text(json.dumps({"data": [row]}))
    assert manifest.read(tmp_path / "t.json")[0].captions == (Caption("a dog"), Caption("un chien", "fra"))


def test_wavcaps_as_its_zip_files_unpack(tmp_path):
    """Zip_files/FreeSound/mnt/.../waveforms/FreeSound_flac, and lists with and without an outer object."""
    parts = {"FreeSound": ("fsd_final.json", {"num_captions_per_audio": 1, "data": [{"id": "180913", "caption": "A"}]}),
             "SoundBible": ("sb_final.json", [{"title": "T", "href": "2219-T.html", "caption": "B", "id": "180913"}]),
             "AudioSet_SL": ("as_final.json", {"data": [{"id": "Yb0RFKhbpFJA.wav", "caption": "C", "audio": "wav"}]}),
             "BBC_Sound_Effects": ("bbc_final.json", {"data": [{"id": "NHU05093027", "category": "", "caption": "D"}]}),
             }  # fmt: skip
    for part, (name, content) in parts.items():
        (tmp_path / "json_files" / part).mkdir(parents=True)
        (tmp_path / "json_files" / part / name).write_text(json.dumps(content))
    for part, stem in (("FreeSound", "180913"), ("AudioSet_SL", "Yb0RFKhbpFJA"), ("BBC_Sound_Effects", "NHU05093027")):
        touch(tmp_path / "Zip_files" / part / "mnt" / "fast" / "waveforms" / f"{part}_flac" / f"{stem}.flac")
    found = CORPORA["wavcaps"].find(tmp_path)
    assert {clip.id for clip in found.clips} == {
        "FreeSound/180913", "AudioSet_SL/Yb0RFKhbpFJA", "BBC_Sound_Effects/NHU05093027"
    }  # fmt: skip
    assert found.missing == ["SoundBible/180913"]


def test_columns_named_by_languages_are_captions(tmp_path):
    (tmp_path / "audio").mkdir()
    touch(tmp_path / "audio" / "a.wav")
    (tmp_path / "t.csv").write_text("file,id,seconds,en,fr,zh_CN,ja\na.wav,7,1.5,a dog,un chien,狗,\n")
    (clip,) = manifest.read(tmp_path / "t.csv")
    assert clip.captions == (Caption("a dog"), Caption("un chien", "fra"), Caption("狗", "zho"))
    # The table names its sounds without the folder they lie in.
    assert clip.audio == str(tmp_path / "audio" / "a.wav") and clip.id == "a.wav"
    (tmp_path / "t.csv").write_text("file,caption,en\na.wav,x,y\n")
    assert manifest.read(tmp_path / "t.csv")[0].captions == (Caption("x"),)


@pytest.mark.shared
def test_stamps_in_fifteen_languages(shared):
    clips = manifest.read(shared / "data" / "stamps" / "captions.csv")
    assert len(clips) == 107 and clips[0].captions[0].text == "A frog."
    assert {"eng", "fra", "spa", "deu", "cat", "nld", "jpn", "zho"} <= {c.language for k in clips for c in k.captions}
    labels = {clip.label for clip in manifest.read(shared / "data" / "stamps")}
    assert len(labels) > 80 and {"frog", "blackbird"} <= labels


def test_sounds_in_one_folder_are_labelled_by_their_names(tmp_path):
    for name in ("dog_1", "dog-2", "animals__birds__crow", "0017"):
        touch(tmp_path / "a" / f"{name}.wav")
    assert [clip.label for clip in manifest.read(tmp_path)] == [None, "crow", "dog", "dog"]
    touch(tmp_path / "b" / "x.wav")
    assert {clip.label for clip in manifest.read(tmp_path)} == {"a", "b"}


@pytest.mark.parametrize("cell", [{"qq1": "x"}, {"eng": 3}, {"eng": [["x"]]}])
def test_captions_by_language_that_are_none(tmp_path, cell):
    (tmp_path / "t.jsonl").write_text(json.dumps({"audio": "a.wav", "captions": cell}))
    with pytest.raises(UserError, match="row 1.*captions"):
        manifest.read(tmp_path / "t.jsonl")


def test_linked_folders_are_read_and_loops_end(tmp_path):
    touch(tmp_path / "disk" / "1-1-A-0.ogg")
    (tmp_path / "esc" / "meta").mkdir(parents=True)
    head = "filename,fold,target,category,esc10,src_file,take\n"
    (tmp_path / "esc" / "meta" / "esc50.csv").write_text(head + "1-1-A-0.wav,1,0,dog,True,1,A\n")
    (tmp_path / "esc" / "audio").symlink_to(tmp_path / "disk")
    (tmp_path / "disk" / "again").symlink_to(tmp_path / "esc")
    (tmp_path / "disk" / "self.wav").symlink_to(tmp_path / "disk" / "self.wav")
    found = CORPORA["esc50"].find(tmp_path / "esc")
    assert [clip.id for clip in found.clips] == ["1-1-A-0"] and not found.missing
    assert [clip.id for clip in manifest.read(tmp_path / "esc")] == ["audio/1-1-A-0.ogg"]


def test_classes_that_hugging_face_keeps_as_numbers(tmp_path):
    datasets = pytest.importorskip("datasets")
    kinds = {"file": datasets.Value("string"), "label": datasets.ClassLabel(names=["cat", "dog"])}
    rows = {"file": ["a.wav", "b.wav", "c.wav"], "label": [1, 0, -1]}
    table = datasets.Dataset.from_dict(rows, features=datasets.Features(kinds))
    table.save_to_disk(tmp_path / "saved")
    table.to_parquet(tmp_path / "t.parquet")
    for data in ("saved", "t.parquet"):
        assert [clip.label for clip in manifest.read(tmp_path / data)] == ["dog", "cat", None]


def test_a_parquet_table_with_some_sounds_inside_and_some_beside(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    touch(tmp_path / "a.wav")
    rows = [{"bytes": (tmp_path / "a.wav").read_bytes(), "path": "x"}, {"bytes": None, "path": "a.wav"}]
    pq.write_table(pa.table({"audio": pa.array(rows), "caption": ["x", "y"]}), tmp_path / "t.parquet")
    assert [len(read(clip.audio, 8000)) for clip in manifest.read(tmp_path / "t.parquet")] == [800, 800]


def tar(path, **members):
    with tarfile.open(path, "w") as out:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            out.addfile(entry, io.BytesIO(data))
    return path


def test_shards_whose_samples_have_lost_a_member_or_have_dots_in_their_names(tmp_path):
    touch(tmp_path / "a.wav")
    sound = (tmp_path / "a.wav").read_bytes()
    report = check(str(tar(tmp_path / "s.tar", **{"1.json": b'{"caption": "x"}', "2.wav": sound, "3.txt": b"y"})))
    assert [entry["audio"].partition("::")[2] for entry in report["unreadable"]] == ["1", "3"]
    assert (report["rows"], report["clips"], len(report["empty_captions"])) == (3, 1, 1)
    dots = {"dog.1.wav": sound, "dog.1.txt": b"one", "dog.2.wav": sound, "dog.2.txt": b"two", "cat.x.wav": sound}
    clips = manifest.read(tar(tmp_path / "d.tar", **dots, **{"cat.txt": b"three"}))
    assert [clip.captions[0].text for clip in clips] == ["one", "two", "three"]


def test_a_composed_folder_beside_you_is_what_its_name_means(tmp_path, monkeypatch):
    """`supclap corpus compose --out scenes-esc50`, then `supclap train scenes-esc50`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUPCLAP_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UserError, match="not prepared yet"):
        manifest.read("scenes-esc50")
    (tmp_path / "scenes-esc50").mkdir()
    with pytest.raises(UserError, match="not prepared yet"):
        manifest.read("scenes-esc50")
    table = {"clip_id": "a", "audio": "a.flac", "caption": "a dog barks"}
    (tmp_path / "scenes-esc50" / "manifest.jsonl").write_text(json.dumps(table) + "\n")
    (clip,) = manifest.read("scenes-esc50")
    assert clip.audio == str(tmp_path / "scenes-esc50" / "a.flac")
