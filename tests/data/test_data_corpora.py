"""Public corpora in their owners' layouts, on the real tables where they are at hand."""

import csv
import json
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from supclap.cli import run as door
from supclap.data import manifest
from supclap.data.corpora import CORPORA
from supclap.data.corpora.audiocaps import habits
from supclap.data.corpora.translated import add
from supclap.data.prepare import prepare
from supclap.data.split import recording
from supclap.schema import Caption, Clip, UserError

soundfile = pytest.importorskip("soundfile")


def run(argv):
    """The exit status of a command line."""
    try:
        return door(argv)
    except SystemExit as end:
        return end.code or 0


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.zeros(800), 8000)


@pytest.mark.shared
def test_esc50(shared):
    found = CORPORA["esc50"].find(shared / "data" / "esc50")
    assert len(found.clips) == 1600 and not found.missing
    assert {clip.split for clip in found.clips} == {"fold1", "fold2", "fold3", "fold4"}
    assert len({clip.label for clip in found.clips}) == 50
    first = found.clips[0]
    assert (first.id, first.label, first.split, first.source) == ("1-100032-A-0", "dog", "fold1", "freesound:100032")
    ten = CORPORA["esc10"].find(shared / "data" / "esc50").clips
    assert len(ten) == 320 and len({clip.label for clip in ten}) == 10


@pytest.mark.shared
def test_us8k(shared):
    found = CORPORA["us8k"].find(shared / "data" / "us8k")
    assert len(found.clips) == 2148 and not found.missing and len({clip.label for clip in found.clips}) == 10
    # Owners' folds keep a recording together.
    sides = {}
    for clip in found.clips:
        sides.setdefault(recording(clip), set()).add(clip.split)
    assert all(len(side) == 1 for side in sides.values())


@pytest.mark.shared
def test_audiocaps_tables_with_the_names_people_have(shared, tmp_path):
    source = shared / "data" / "captions" / "audiocaps"
    for name in ("test.csv", "test_jpn.csv"):
        shutil.copy(source / name, tmp_path)
    with (source / "test.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    videos = list(dict.fromkeys((row["youtube_id"], int(row["start_time"])) for row in rows))
    assert len(videos) == 975
    forms = ["{0}_{1}_{2}.wav", "Y{0}.flac", "{0}.wav", "{0}_{1}.wav", "Y{0}_{3}_{4}.wav"]
    for number, (video, start) in enumerate(videos[:20]):
        touch(
            tmp_path / "audio" / forms[number % 5].format(video, start, start + 10, start * 1000, start * 1000 + 10000)
        )
    found = CORPORA["audiocaps"].find(tmp_path)
    assert [clip.id for clip in found.clips] == [f"{video}_{start}" for video, start in videos[:20]]
    assert len(found.missing) == 955 and "test: 20 of 975 clips (official: 975)" in found.note
    for clip in found.clips:
        said = [row["caption"].strip() for row in rows if row["youtube_id"] == clip.id.rsplit("_", 1)[0]]
        assert [caption.text for caption in clip.captions if caption.language == "eng"] == said
        assert len(said) == 5 and sum(caption.language == "jpn" for caption in clip.captions) == 5
        assert clip.split == "test" and clip.source == f"youtube:{clip.id.rsplit('_', 1)[0]}"


@pytest.mark.shared
def test_the_counts_of_the_real_tables(shared, tmp_path):
    from supclap.data.corpora.audiocaps import _videos

    folder = shared / "data" / "captions" / "audiocaps"
    assert [len(_videos(folder / f"{name}.csv")) for name in ("train", "val", "test")] == [49838, 495, 975]


@pytest.mark.shared
def test_clotho_tables(shared, tmp_path):
    source = shared / "data" / "captions" / "clotho"
    for path in source.glob("*.csv"):
        shutil.copy(path, tmp_path)
    with (source / "clotho_captions_evaluation.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows[:10]:
        touch(tmp_path / "evaluation" / row["file_name"])
    # The same name in another part is another clip.
    touch(tmp_path / "development" / rows[0]["file_name"])
    (tmp_path / "clotho_metadata_evaluation.csv").write_text(f"file_name,sound_id\n{rows[1]['file_name']},4711\n")
    found = CORPORA["clotho"].find(tmp_path)
    assert [clip.id for clip in found.clips] == [f"evaluation/{row['file_name']}" for row in rows[:10]]
    assert [clip.captions[4].text for clip in found.clips] == [row["caption_5"].strip() for row in rows[:10]]
    assert found.clips[1].source == "freesound:4711" and len(found.missing) == 3839 + 1045 + 1035
    assert "test: 10 of 1045 clips" in found.note


def test_vggsound(tmp_path):
    text = '---g-f_I2yQ,1,people marching,test\n--0PQM4-hqg,30,"waterfall burbling, loud",train\n--x,5,bees,test\n'
    (tmp_path / "vggsound.csv").write_text(text)
    touch(tmp_path / "audio" / "---g-f_I2yQ_000001.flac")
    touch(tmp_path / "audio" / "--0PQM4-hqg_30.wav")
    found = CORPORA["vggsound"].find(tmp_path)
    assert [(clip.label, clip.split) for clip in found.clips] == [
        ("people marching", "test"),
        ("waterfall burbling, loud", "train"),
    ]
    assert found.missing == ["--x_000005"]
    (tmp_path / "vggsound.csv").write_text("a,b\n")
    with pytest.raises(UserError, match="line 1"):
        CORPORA["vggsound"].find(tmp_path)


def test_wavcaps(tmp_path):
    def part(name, file, ids):
        (tmp_path / "json_files" / name).mkdir(parents=True)
        rows = [{"id": i, "caption": f" {name} {i} ", "duration": 1.0} for i in ids]
        (tmp_path / "json_files" / name / file).write_text(json.dumps({"num_captions_per_audio": 1, "data": rows}))

    part("FreeSound", "fsd_final.json", ["180913", "2219", "7"])
    part("AudioSet_SL", "as_final.json", ["Yab.wav", "Y-c_d.wav"])
    part("SoundBible", "sb_final.json", ["2219"])
    (tmp_path / "json_files" / "blacklist").mkdir()
    banned = {"FreeSound": ["7"], "AudioSet": ["Yab.wav"]}
    (tmp_path / "json_files" / "blacklist" / "blacklist_exclude_test_ac.json").write_text(json.dumps(banned))
    for name in ("FreeSound/180913", "FreeSound/7", "SoundBible/2219", "AudioSet_SL/Yab", "AudioSet_SL/Y-c_d"):
        touch(tmp_path / "audio" / f"{name}.flac")
    found = CORPORA["wavcaps"].find(tmp_path)
    assert [(clip.id, clip.source, clip.captions[0].text) for clip in found.clips] == [
        ("AudioSet_SL/Y-c_d", "youtube:-c_d", "AudioSet_SL Y-c_d.wav"),
        ("FreeSound/180913", "freesound:180913", "FreeSound 180913"),
        ("SoundBible/2219", "soundbible:2219", "SoundBible 2219"),
    ]
    # The sound of SoundBible is not taken for Freesound's of the same number.
    assert found.missing == ["FreeSound/2219"] and "2 left out by 1 blacklists" in found.note


def test_wavcaps_holds_out_the_same_whatever_is_there():
    from supclap.data.corpora.wavcaps import held_out

    names = [f"FreeSound/{i}" for i in range(200_000)]
    sides = held_out(names)
    assert sum(side == "test" for side in sides.values()) == 5000
    assert sum(side == "val" for side in sides.values()) == 2500
    assert sides == held_out(names[::-1])


def test_translations_join_by_clip(tmp_path):
    clips = [Clip("a", "a.wav", captions=(Caption("dog"),)), Clip("b", "b.wav", captions=(Caption("cat"),))]
    (tmp_path / "t.csv").write_text("clip_id,language,text\na,fr,chien\na,deu,Hund\nb,fra,chat\nz,fra,x\n")
    one, two = add(clips, tmp_path / "t.csv")
    assert one.captions == (Caption("dog"), Caption("chien", "fra"), Caption("Hund", "deu"))
    assert two.captions == (Caption("cat"), Caption("chat", "fra"))
    (tmp_path / "t.csv").write_text("clip_id,language,text\nq,fra,x\n")
    with pytest.raises(UserError, match="names no clip of these"):
        add(clips, tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("clip,language,text\nq,fra,x\n")
    with pytest.raises(UserError, match="no column 'clip_id'"):
        add(clips, tmp_path / "t.csv")


def test_habits_are_tried_with_the_most_telling_first():
    names = habits("abc", 30)
    assert names[0] == "abc_30_40" and names[-1] == "Yabc" and "Yabc_30000_40000" in names


@pytest.mark.parametrize("name", [name for name, corpus in CORPORA.items() if not corpus.made])
def test_a_wrong_root_says_what_is_expected(name, tmp_path):
    with pytest.raises(UserError):
        CORPORA[name].find(tmp_path)
    with pytest.raises(UserError, match="no such folder"):
        CORPORA[name].find(tmp_path / "none")


def test_prepare_then_the_name_alone(tmp_path, capsys):
    root = tmp_path / "esc"
    (root / "meta").mkdir(parents=True)
    (root / "meta" / "esc50.csv").write_text(
        "filename,fold,target,category,esc10,src_file,take\n"
        "1-1-A-0.wav,1,0,dog,True,1,A\n"
        "2-2-A-1.wav,2,1,sea_waves,False,2,A\n"
    )
    touch(root / "audio" / "1-1-A-0.ogg")
    assert (
        run(["corpus", "prepare", "esc50", str(root), "--out", str(tmp_path / "out"), "--rate", "4000", "--json"]) == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert (report["clips"], report["missing"]) == (1, 1)
    (clip,) = manifest.read("esc50")
    assert clip.label == "dog" and clip.audio.endswith(".flac") and soundfile.info(clip.audio).samplerate == 4000
    assert run(["corpus", "prepare", "esc5", str(root)]) == 2 and "did you mean 'esc50'" in capsys.readouterr().err


KILLED = """
import os, signal, sys, soundfile
from supclap.data import manifest, prepare
whole, seen = soundfile.write, []
def write(path, samples, rate, **how):
    seen.append(path)
    if len(seen) == 3:
        open(path, "wb").write(b"fLaC half a file")
        os.kill(os.getpid(), signal.SIGKILL)
    whole(path, samples, rate, **how)
soundfile.write = write
prepare.prepare(manifest.read(sys.argv[1]), sys.argv[2], 4000, workers=1)
"""


def test_prepare_killed_in_the_middle_of_a_file_goes_on(tmp_path):
    for number in range(6):
        touch(tmp_path / "in" / f"{number}.wav")
    child = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "in"), str(tmp_path / "out")], check=False)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.flac") if path.suffix == ".flac"}
    assert child.returncode == -signal.SIGKILL and len(kept) == 2
    done = prepare(manifest.read(tmp_path / "in"), tmp_path / "out", 4000, workers=2)
    assert (len(done.clips), done.made, done.bad) == (6, 4, [])
    assert all(path.stat().st_mtime_ns == then for path, then in kept.items())
    assert {soundfile.info(clip.audio).frames for clip in done.clips} == {400}


def test_two_clips_of_one_sound_are_prepared_at_once(tmp_path):
    touch(tmp_path / "a.wav")
    clips = [Clip(str(number), str(tmp_path / "a.wav")) for number in range(40)]
    done = prepare(clips, tmp_path / "out", 4000, workers=8)
    assert len(done.clips) == 40 and len({clip.audio for clip in done.clips}) == 1
