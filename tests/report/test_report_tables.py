"""Tables: read back, and against the paper's own rows."""

import csv
import io

import pytest

from supclap.report import tables
from supclap.schema import UserError

PAPER = {
    "InfoNCE": {"AudioCaps": ((41.87, 87.69), (56.72, 92.33)), "Clotho": ((18.67, 58.42), (22.61, 63.09))},
    "-bi-StaticSVR": {"AudioCaps": ((43.89, 88.78), (57.77, 92.75)), "Clotho": ((19.50, 58.86), (24.93, 63.19))},
    "-bi-DynamicSVR": {"AudioCaps": ((44.16, 89.24), (59.66, 93.49)), "Clotho": ((19.75, 59.13), (25.31, 63.29))},
}


def scores(pair):
    return {way: {"R@1": one, "R@10": ten} for way, (one, ten) in zip(("t2a", "a2t"), pair, strict=True)}


def layout(**extra):
    models = {name: {data: scores(pair) for data, pair in row.items()} for name, row in PAPER.items()}
    return tables.retrieval({**models, **extra})


def test_latex_gives_the_papers_rows():
    rows, headers = layout()
    assert headers == ["Model"] + [
        f"{d} {w} R@{k}" for d in ("AudioCaps", "Clotho") for w in ("T2A", "A2T") for k in (1, 10)
    ]
    assert tables.latex(rows, headers).splitlines() == [
        r"InfoNCE & 41.87 & 87.69 & 56.72 & 92.33 & 18.67 & 58.42 & 22.61 & 63.09 \\",
        r"\ \ -bi-StaticSVR & 43.89 & 88.78 & 57.77 & 92.75 & 19.50 & 58.86 & 24.93 & 63.19 \\",
        r"\ \ -bi-DynamicSVR & \textbf{44.16} & \textbf{89.24} & \textbf{59.66} & \textbf{93.49} & \textbf{19.75} & "
        r"\textbf{59.13} & \textbf{25.31} & \textbf{63.29} \\ \hline",
    ]


def test_groups_and_gaps():
    """A rule starts a new group with its own best; what was not measured is a dash."""
    rows, headers = layout(rule=None, A_B={"AudioCaps": scores(((1.0, 2.0), (3.0, 4.0)))})
    lines = tables.latex(rows, headers).splitlines()
    assert lines[2].endswith(r"\hline") and lines[3] == r"A\_B & 1.00 & 2.00 & 3.00 & 4.00 & - & - & - & - \\ \hline"
    whole = tables.latex_table(rows, headers, caption="50 % & more", label="tab:a")
    assert r"\caption{50 \% \& more}" in whole and whole.count("&") - 1 == 5 * 8 and "{l|cccccccc}" in whole


def test_lower_is_better_where_it_is():
    found = tables.latex([["a", 3.0, 1.0], ["b", 2.0, 5.0]], ["Model", "T2A MedR", "R@1"])
    assert found.splitlines()[1] == r"b & \textbf{2.00} & \textbf{5.00} \\ \hline"


def test_csv_reads_back_with_all_digits():
    rows = [["a, b", 1 / 3, (2.0, 1.5, 2.5)], ["ça", None, None]]
    found = list(csv.DictReader(io.StringIO(tables.csv(rows, ["name", "x", "R@1"]))))
    assert float(found[0]["x"]) == 1 / 3 and found[0]["name"] == "a, b"
    assert (found[0]["R@1"], found[0]["R@1 low"], found[0]["R@1 high"]) == ("2.0", "1.5", "2.5")
    assert found[1]["x"] == "" and found[1]["R@1 low"] == ""


def test_markdown_and_text():
    rows = [["a|b", 1, 2.5, True], None, ["[b]", 12, float("nan"), None]]
    headers = ["name", "n", "R@1", "ok"]
    assert tables.markdown(rows, headers).splitlines() == [
        "| name | n | R@1 | ok |",
        "| --- | ---: | ---: | --- |",
        "| a\\|b | 1 | 2.50 | True |",
        "| [b] | 12 | - | - |",
    ]
    shown = tables.text(rows, headers, title="What [was] measured")
    assert shown.splitlines()[0] == "What [was] measured"
    assert "[b]" in shown and "a|b" in shown and "2.50" in shown
    wide = tables.text([["x" * 300, 1.0]], ["name", "n"])
    assert "x" * 300 in wide


def test_intervals():
    one = {"t2a": {"R@1": 5.0}, "a2t": {"R@1": 6.0}, "intervals": {"t2a": {"R@1": [4, 7]}, "a2t": {"R@1": [5, 8]}}}
    rows, headers = tables.retrieval({"m": {"d": one}}, ["R@1"], intervals=True)
    assert rows == [["m", (5.0, 4, 7), (6.0, 5, 8)]]
    assert "5.00 [4, 7]" in tables.text(rows, headers)
    assert tables.latex(rows, headers) == "m & $5.00_{[4, 7]}$ & $6.00_{[5, 8]}$ \\\\ \\hline\n"


def test_a_short_row_is_an_error():
    for form in (tables.text, tables.markdown, tables.csv, tables.latex):
        with pytest.raises(UserError, match="row 1 has 1 cells for 2 headers"):
            form([["a", 1], ["b"]], ["x", "y"])
