"""The README's Python runs as printed, and the files and commands it names exist."""

import re
from pathlib import Path

import pytest

from supclap.cli import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf8")


def test_its_python_runs_as_printed():
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert blocks
    names: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    radius = names["objective"].radii["t2a"]
    assert all(value.grad is not None for value in radius.parameters())
    names["objective"].check_optimizer(names["optimizer"])


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf8")):
        if not link.startswith(("http", "mailto:")):
            assert (page.parent / link).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_named_exist(page):
    words = {name.split()[0] for name in COMMANDS}
    for line in re.findall(r"(?:^|`)supclap ([a-z]+)", page.read_text(encoding="utf8"), flags=re.MULTILINE):
        assert line in words, f"supclap {line}"
