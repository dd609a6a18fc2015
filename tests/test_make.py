"""The Makefile's choice of torch, with a pip that only writes down what it is asked for."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FAKE_PIP = """#!/usr/bin/env bash
echo "$*" >> "$CALLS"
case "$*" in
  *download.pytorch.org*) exit "$INDEX_FAILS";;
  *"torch==2.13.0+cpu"*) exit "$LOCAL_FAILS";;
esac
"""


def make_setup(tmp_path, *, system, gpu, local=True, index=True):
    """Run `make setup` in a copy of the build files; the calls that reached pip, and the result."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "tools/install.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    fake = tmp_path / ".venv" / "bin" / "python"
    fake.parent.mkdir(parents=True)
    fake.write_text(FAKE_PIP)
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    calls = tmp_path / "calls.txt"
    calls.touch()
    environment = {
        **os.environ,
        "CALLS": str(calls),
        "SUPCLAP_SYSTEM": system,
        "SUPCLAP_GPU": gpu,
        "LOCAL_FAILS": str(int(not local)),
        "INDEX_FAILS": str(int(not index)),
    }
    result = subprocess.run(
        ["make", "setup", f"PYTHON={sys.executable}"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    return calls.read_text().splitlines(), result


def torch_calls(calls):
    return [line.split("install --quiet ")[1] for line in calls if "torch==" in line and "open_clip" not in line]


@pytest.mark.parametrize(
    ("case", "asked", "works"),
    [
        ({"system": "Linux", "gpu": "no"}, ["torch==2.13.0+cpu"], True),
        (
            {"system": "Linux", "gpu": "no", "local": False},
            ["torch==2.13.0+cpu", "torch==2.13.0+cpu --index-url https://download.pytorch.org/whl/cpu"],
            True,
        ),
        (
            {"system": "Linux", "gpu": "no", "local": False, "index": False},
            ["torch==2.13.0+cpu", "torch==2.13.0+cpu --index-url https://download.pytorch.org/whl/cpu"],
            False,
        ),
        ({"system": "Linux", "gpu": "yes"}, ["torch==2.13.0"], True),
        ({"system": "Darwin", "gpu": "no"}, ["torch==2.13.0"], True),
    ],
    ids=["local CPU build", "public CPU index", "neither", "GPU", "macOS"],
)
def test_setup_chooses_torch(tmp_path, case, asked, works):
    calls, result = make_setup(tmp_path, **case)
    assert torch_calls(calls) == asked
    assert (result.returncode == 0) == works, result.stderr
    assert any(".[all,dev]" in line and "-c constraints.txt" in line for line in calls) == works
    assert (tmp_path / ".venv/.installed").exists() == works
    if not works:
        assert result.stderr.count("stopped:") == 1


def test_a_second_setup_asks_for_nothing(tmp_path):
    calls, _ = make_setup(tmp_path, system="Linux", gpu="no")
    again = subprocess.run(["make", "setup"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert len(calls) == len((tmp_path / "calls.txt").read_text().splitlines())
    assert "setup:" not in again.stderr


def test_constraints_pin_no_cuda():
    pins = (ROOT / "constraints.txt").read_text().lower()
    assert "torch==2.13.0" in pins
    assert not [pin for pin in pins.splitlines() if pin.startswith(("nvidia", "cuda", "triton"))]
    for name in ("torchvision", "torchaudio", "torchcodec"):
        assert f"{name}==0.0.0" in pins, "a version that does not exist: whatever asks for it fails at once"
