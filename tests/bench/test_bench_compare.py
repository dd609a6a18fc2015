"""`make compare`: none on a tree that is as it was, the right step on one that is not."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def git(folder, *words):
    name = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *name, "-C", str(folder), *words], check=True, capture_output=True, text=True).stdout


def compare(folder, *words):
    return subprocess.run(
        [sys.executable, str(folder / "tools/compare.py"), *words], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository of its own with the part of the package that the steps need."""
    folder = tmp_path_factory.mktemp("repository")
    source, target = ROOT / "src/supclap", folder / "src/supclap"
    shutil.copytree(source / "objectives", target / "objectives", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("schema", "settings", "runtime"):
        shutil.copy(source / f"{name}.py", target)
    (target / "__init__.py").write_text("")
    (folder / "tools").mkdir()
    shutil.copy(ROOT / "tools/compare.py", folder / "tools")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "base")
    return folder


def test_a_refactor_prints_none_and_a_change_prints_its_step(repository):
    same = compare(repository, "HEAD", "--steps", "5")
    assert same.returncode == 0, same.stderr
    assert "bi-dynamic: no loss differs in 5 steps" in same.stdout and "differs first" not in same.stdout
    # Same-clip pairs come with every fourth batch: a change there shows at step 4, in every objective.
    path = repository / "src/supclap/objectives/terms.py"
    text = path.read_text()
    assert "clip_ids[:, None] ==" in text
    path.write_text(text.replace("clip_ids[:, None] ==", "-clip_ids[:, None] - 1 =="))
    other = compare(repository, "HEAD", "--steps", "5")
    assert other.returncode == 1, other.stderr
    assert "infonce: step 4 differs first" in other.stdout and "bi-dynamic: step 4 differs first" in other.stdout
    path.write_text(text)
    assert git(repository, "worktree", "list").count("\n") == 1 and git(repository, "status", "--porcelain") == ""


def test_an_unknown_commit_is_one_line(repository):
    found = compare(repository, "nonsense")
    assert found.returncode == 1 and "BASE='nonsense' is no commit" in found.stderr
