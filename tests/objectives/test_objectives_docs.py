"""The pages about objectives: their code runs, and every function and test they name is there."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EQUATIONS = (ROOT / "docs" / "equations.md").read_text(encoding="utf8")


@pytest.mark.parametrize("page", ["objectives.md", "golden.md"])
def test_the_code_of_a_page_runs(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf8"), flags=re.DOTALL)
    names = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert blocks


def test_every_test_that_equations_names_is_there():
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", EQUATIONS)
    assert len(named) > 15
    for file, test in named:
        assert f"def {test}(" in (ROOT / "tests" / "objectives" / file).read_text(encoding="utf8"), (file, test)


def test_every_function_that_equations_names_is_there():
    named = set(re.findall(r"`(supclap\.objectives\.\w+)\.([\w.]+)`", EQUATIONS))
    assert len(named) > 8
    for module, path in named:
        found = importlib.import_module(module)
        for step in path.split("."):
            found = getattr(found, step)


def test_all_eighteen_equations_have_a_row():
    rows = re.findall(r"^\| ([\d, -]+) \|", EQUATIONS, flags=re.MULTILINE)
    numbers = []
    for row in rows:
        for part in row.split(","):
            first, _, last = part.strip().partition("-")
            numbers += range(int(first), int(last or first) + 1)
    assert numbers == list(range(1, 19))
