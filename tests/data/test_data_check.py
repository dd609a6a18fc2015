"""What `corpus check` finds, planted and in the real corpora; the command line; preparing once."""

import json

import numpy as np
import pytest

from supclap.audio.reader import read
from supclap.cli import run as door
from supclap.data import manifest
from supclap.data.check import check, problems, suspicion
from supclap.data.prepare import prepare
from supclap.schema import Clip

soundfile = pytest.importorskip("soundfile")


def run(argv):
    """The exit status of a command line."""
    try:
        return door(argv)
    except SystemExit as end:
        return end.code or 0


def write(path, seed, seconds=1.0, **how):
    path.parent.mkdir(parents=True, exist_ok=True)
    # Steps of a 16-bit number, so that FLAC and WAV hold the same.
    values = np.random.default_rng(seed).integers(-9000, 9000, round(8000 * seconds)).astype(np.int16)
    soundfile.write(path, values, 8000, **how)


@pytest.fixture
def planted(tmp_path):
    """A table with one of everything that can be wrong."""
    for seed, name in enumerate(["a.wav", "b.wav", "c.wav", "d.wav"]):
        write(tmp_path / name, seed, 1.0 + seed)
    write(tmp_path / "copy.flac", 0, subtype="PCM_16")
    (tmp_path / "bad.wav").write_bytes(b"RIFF no sound at all")
    rows = ["audio,caption,language,split,source", "a.wav,a dog,eng,train,r1", "a.wav,un chien,fra,train,r1",
            "b.wav,,eng,train,r2", "c.wav,rain,eng,test,r2", "d.wav,nan,eng,test,r3", "copy.flac,a dog,eng,test,r4",
            "bad.wav,noise,eng,train,r5", "gone.wav,wind,eng,train,r6"]  # fmt: skip
    (tmp_path / "t.csv").write_text("\n".join(rows))
    return tmp_path / "t.csv"


def test_every_planted_problem_is_found(planted):
    report = check(str(planted))
    assert (report["rows"], report["clips"], report["seconds"]) == (8, 5, 11.0)
    assert report["languages"] == {"eng": 6, "fra": 1}
    assert [entry["audio"] for entry in report["unreadable"]] == ["bad.wav"] and report["unreadable"][0]["reason"]
    assert report["missing"] == ["gone.wav"]
    assert report["duplicates"] == [["a.wav", "copy.flac"]]
    assert report["empty_captions"] == ["b.wav"]
    assert {(leak["by"], *leak["audio"]) for leak in report["leaks"]} == {
        ("source", "b.wav", "c.wav"), ("samples", "a.wav", "copy.flac")
    }  # fmt: skip
    assert [entry["audio"] for entry in report["suspicious_captions"]] == ["d.wav"]
    assert problems(report) == {"unreadable": 1, "missing": 1, "duplicates": 1, "empty_captions": 1, "leaks": 2}


def test_a_clean_table_has_no_problem(tmp_path):
    for seed in range(3):
        write(tmp_path / f"{seed}.wav", seed)
    (tmp_path / "t.csv").write_text("audio,caption\n0.wav,x\n1.wav,y\n2.wav,z\n")
    report = check(tmp_path / "t.csv", workers=1)
    assert problems(report) == {} and report["durations"] == {"min": 1.0, "median": 1.0, "max": 1.0}


def test_spans_count_by_themselves(tmp_path):
    write(tmp_path / "a.wav", 0, 4.0)
    (tmp_path / "t.csv").write_text("audio,start,end,caption\na.wav,0,1,x\na.wav,1,9,y\na.wav,5,6,z\n")
    report = check(tmp_path / "t.csv")
    assert "beyond its end" in report["unreadable"][0]["reason"]
    (tmp_path / "t.csv").write_text("audio,start,end,caption\na.wav,0,1,x\na.wav,1,9,y\n")
    assert (check(tmp_path / "t.csv")["seconds"], check(tmp_path / "t.csv")["clips"]) == (4.0, 1)


@pytest.mark.parametrize("text", ["nan", "???", "12", "x" * 2000, "cafÃ© noise", ""])
def test_captions_that_are_hardly_any(text):
    assert suspicion(text)
    assert suspicion("a dog barks") is None and suspicion("犬") is None


def test_the_command(planted, capsys):
    assert run(["corpus", "check", str(planted)]) == 0
    assert "bad.wav" in capsys.readouterr().out
    assert run(["corpus", "check", str(planted), "--strict", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert set(report) >= {"rows", "clips", "seconds", "languages", "unreadable", "missing", "duplicates",
                           "empty_captions", "leaks"}  # fmt: skip
    assert run(["corpus", "check", str(planted.parent / "none.csv")]) == 2
    assert run(["corpus", "list", "--json"]) == 0


def test_preparing_goes_on_where_it_stopped(tmp_path):
    for seed in range(4):
        write(tmp_path / f"{seed}.wav", seed)
    clips = [Clip(f"{i}", str(tmp_path / f"{i}.wav"), 0.25, 0.75, label="l") for i in range(4)] + [
        Clip("g", "/gone.wav")
    ]
    first = prepare(clips[:2], tmp_path / "out", 4000)
    assert first.made == 2
    done = prepare(clips, tmp_path / "out", 4000)
    assert (done.made, len(done.clips), [clip.id for clip, _ in done.bad]) == (2, 4, ["g"])
    for before, after in zip(clips, done.clips, strict=False):
        expected = read(before.audio, 4000, 0.25, 0.75)
        assert np.abs(read(after.audio, 4000) - expected).max() < 2**-14 and after.label == "l"
    assert prepare(clips, tmp_path / "out", 4000).made == 0 and not list((tmp_path / "out").rglob("*.tmp"))
    # A source that has changed is made anew.
    write(tmp_path / "0.wav", 9, 2.0)
    assert prepare(clips, tmp_path / "out", 4000).made == 1
    assert prepare(clips, tmp_path / "out", 2000).made == 4


@pytest.mark.shared
def test_the_recordings_common_to_esc50_and_us8k_are_found(shared, tmp_path):
    both = [manifest.read(f"{name}:{shared}/data/{name}") for name in ("esc50", "us8k")]
    common = {clip.source for clip in both[0]} & {clip.source for clip in both[1]}
    # To be quick, the others are thinned out.
    thin = [[clip for k, clip in enumerate(clips) if clip.source in common or k % 40 == 0] for clips in both]
    tables = [str(manifest.write(clips, tmp_path / f"{len(clips)}.csv")) for clips in thin]
    leaks = [leak for leak in check(tables)["leaks"] if "tables" in leak]
    assert len(common) == 18 and {leak["recording"] for leak in leaks} == common


def test_a_control_character_is_suspicious():
    assert suspicion("a\x00dog") == "a control character" and suspicion("a dog\tbarks") is None
