"""Write constraints.txt: the newest released versions that install together, without CUDA, torchvision or torchaudio.

make lock
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Versions that do not exist: whatever asks for one of these packages fails at once instead of dragging CUDA in.
GUARD = "torchvision==0.0.0\ntorchaudio==0.0.0\ntorchcodec==0.0.0\ntorch==2.13.0\n"
UNWANTED = re.compile(r"^(nvidia|cuda|triton|torchvision|torchaudio|torchcodec)", re.IGNORECASE)
NOT_PINNED = re.compile(r"^(-e |supclap|open_clip|pip==|setuptools==)", re.IGNORECASE)


def resolve(folder: Path) -> list[str]:
    """Install everything into a fresh environment and return its frozen packages."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    pip = [str(folder / "venv/bin/python"), "-m", "pip", "--disable-pip-version-check"]
    guard = folder / "guard.txt"
    guard.write_text(GUARD)
    environment = {**os.environ, "PIP": " ".join(pip), "PIP_CONSTRAINT": str(guard), "CONSTRAINTS": str(guard)}
    subprocess.run(["bash", "tools/install.sh"], cwd=ROOT, env=environment, check=True)
    frozen = subprocess.run([*pip, "freeze"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [re.sub(r"\+cpu$", "", line) for line in frozen if "==" in line and not NOT_PINNED.match(line)]


def main() -> int:
    """Resolve, refuse what must never be pinned, write."""
    with tempfile.TemporaryDirectory() as folder:
        pins = resolve(Path(folder))
    unwanted = [pin for pin in pins if UNWANTED.match(pin)]
    if unwanted:
        print(f"lock: refused, these would pull CUDA or have no CPU build: {unwanted}", file=sys.stderr)
        return 1
    header = "# Written by `make lock`: the newest versions that install together.\n"
    # The guard stays: nothing that is installed later may bring torchvision or torchaudio either.
    (ROOT / "constraints.txt").write_text(header + "\n".join(pins) + "\n" + GUARD.replace("torch==2.13.0\n", ""))
    print(f"lock: {len(pins)} pins written to constraints.txt", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
