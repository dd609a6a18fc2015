"""The house: import floors, an oracle that nothing uses, a light door."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "supclap"
FILES = sorted(SOURCE.rglob("*.py"))
ROOMS = {path.stem for path in SOURCE.glob("[a-z]*.py")} | {path.parent.name for path in SOURCE.glob("*/__init__.py")}


def test_import_floors_hold():
    """import-linter's contracts of pyproject.toml, exhaustive: a new room must be given its floor."""
    linter = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module == "supclap" and all(alias.name in ROOMS for alias in node.names):
                continue  # `from supclap import runtime` is the room, not the door
            yield ("." * node.level) + (node.module or "")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_room_imports_the_package_root_or_by_dots(path):
    names = list(imported(path))
    assert not [name for name in names if name.startswith(".")], "absolute imports only"
    if path.parent != SOURCE / "cli":
        assert "supclap" not in names, "a room imports the package root"


def test_every_room_is_on_a_floor():
    floors = (ROOT / "pyproject.toml").read_text(encoding="utf8")
    for name in ROOMS:
        assert f'"{name}"' in floors or f"{name} |" in floors or f"| {name}" in floors, name


def fresh(code):
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


HEAVY = ["torch", "numpy", "scipy", "transformers", "pyarrow", "soundfile", "matplotlib", "rich", "pydantic"]


@pytest.mark.parametrize(
    ("what", "allowed"),
    [
        ("import supclap", set()),
        ("import supclap.schema", set()),
        ("import supclap.settings", {"pydantic"}),
        ("import supclap.cli", set()),
    ],
)
def test_the_door_loads_nothing_heavy(what, allowed):
    code = f"{what}; import sys, json; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    assert set(fresh(code)) <= allowed


def test_help_loads_no_command():
    code = (
        "import sys, json, io, contextlib\n"
        "from supclap.cli import run\n"
        "with contextlib.redirect_stdout(io.StringIO()): run(['--help'])\n"
        f"print(json.dumps([m for m in {HEAVY[:-2]!r} if m in sys.modules]))"
    )
    assert fresh(code) == []


def test_every_exported_name_of_the_door_exists():
    import supclap

    for name in supclap.__all__:
        assert getattr(supclap, name) is not None
    with pytest.raises(AttributeError):
        supclap.no_such_name  # noqa: B018
