"""``supclap score``: files in, numbers out, mistakes in one line."""

import json

import numpy as np
import pytest

from supclap import cli
from supclap.evaluation import retrieval


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    base = rng.standard_normal((20, 8))
    owner = np.repeat(np.arange(20), 3)
    audio, text = base + rng.standard_normal(base.shape), base[owner] + rng.standard_normal((60, 8))
    for name, value in {"a": audio, "t": text, "c": owner, "s": audio @ text.T, "flipped": text @ audio.T}.items():
        np.save(tmp_path / f"{name}.npy", value)
    (tmp_path / "codes.txt").write_text("\n".join(["eng", "fra", "eng"] * 20))
    (tmp_path / "words.npy").write_text("no array")
    np.savez(tmp_path / "many.npz", a=audio)
    np.save(tmp_path / "twins.npy", audio[np.arange(20) // 2])
    np.save(tmp_path / "nan.npy", np.where(np.arange(20)[:, None] == 2, np.nan, audio))
    return {path.stem: str(path) for path in tmp_path.iterdir()}


def score(files, capsys, *words):
    named = [files.get(word[1:], word) if word.startswith("@") else word for word in words]
    try:
        status = cli.run(["score", *named])
    except SystemExit as left:
        status = left.code
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def test_embeddings(files, capsys):
    words = ["--audio", "@a", "--text", "@t", "--clips", "@c"]
    status, out, err = score(files, capsys, *words, "--json", "--split", "test")
    plain = json.loads(out)
    audio, text, owner = (np.load(files[name]) for name in "atc")
    expected = retrieval.evaluate(audio, text, owner)
    assert status == 0 and err == "" and plain["a2t"] == expected["a2t"] and plain["split"] == "test"
    assert plain["intervals"]["t2a"]["R@1"] == list(expected.intervals()["t2a"]["R@1"])
    status, out, err = score(files, capsys, *words, "--protocol", "laion")
    assert out.startswith("laion: 20 clips, 60 captions") and "nDCG@10" in out and "unsorted" in err


def test_matrix_and_languages(files, capsys):
    status, out, _ = score(files, capsys, "--similarity", "@s", "--clips", "@c", "--languages", "@codes", "--json")
    plain = json.loads(out)
    assert status == 0 and plain["languages"]["eng"]["captions"] == 40 and plain["captions"] == 60
    status, out, _ = score(files, capsys, "--similarity", "@s", "--clips", "@c", "--languages", "@codes")
    assert "fra" in out


def test_rows_for_papers_and_spreadsheets(files, capsys):
    words = ["--audio", "@a", "--text", "@t", "--clips", "@c"]
    _, out, _ = score(files, capsys, *words, "--json")
    plain = json.loads(out)
    status, out, _ = score(files, capsys, *words, "--format", "latex")
    assert status == 0 and f"a & {plain['t2a']['R@1']:.2f} & {plain['t2a']['R@10']:.2f} & " in out
    status, out, _ = score(files, capsys, *words, "--format", "csv")
    head, row = (line.split(",") for line in out.splitlines())
    assert status == 0 and float(row[head.index("A2T nDCG@10")]) == plain["a2t"]["nDCG@10"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--audio", "@a", "--text", "@t", "--clips", "@c", "--format", "excel"], "--format='excel'"),
        ([], "give --audio a.npy and --text t.npy"),
        (["--audio", "@a"], "give --audio a.npy and --text t.npy"),
        (["--audio", "@a", "--text", "@t"], "say with --clips which clip"),
        (["--audio", "@a", "--text", "@t", "--clips", "@c", "--similarity", "@s"], "one or the other"),
        (["--similarity", "@flipped", "--clips", "@c"], "looks transposed"),
        (["--audio", "@nan", "--text", "@t", "--clips", "@c"], "NaN or inf in row 2"),
        (["--audio", "@words", "--text", "@t"], "not a .npy array"),
        (["--audio", "@many", "--text", "@t"], "several arrays"),
        (["--audio", "gone.npy", "--text", "@t"], "gone.npy: no such file"),
        (["--audio", "@twins", "--text", "@t", "--clips", "@c"], "rows 0 and 1 are equal"),
        (["--audio", "@a", "--text", "@t", "--clips", "@c", "--protocol", "mlclp"], "did you mean 'mlclap'"),
        (["--audio", "@a", "--text", "@t", "--clips", "@c", "--duplicates", "drop"], "neither error nor keep"),
        (["--audio", "@a", "--text", "@t", "--clips", "@c", "--languages", "gone.txt"], "gone.txt: no such file"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(files, capsys, words, says):
    status, out, err = score(files, capsys, *words)
    assert status == 2 and out == "" and says in err and err.count("\n") == 1, err


def test_twins_may_be_kept(files, capsys):
    words = ["--audio", "@twins", "--text", "@t", "--clips", "@c", "--duplicates", "keep", "--json"]
    status, out, err = score(files, capsys, *words)
    assert status == 0 and "twice" in err
    assert json.loads(out)["t2a"]["R@1"] == 0, "each has a rival that ties with it"
