#!/usr/bin/env bash
# Build the wheel and try it where nothing else is installed: once with the core alone, once with [train].
set -euo pipefail
ROOT=$(cd "$(dirname "$0")/.." && pwd)
PYTHON=${PYTHON:-$ROOT/.venv/bin/python}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

"$PYTHON" -m build --wheel --no-isolation --outdir "$WORK/dist" "$ROOT" >/dev/null
WHEEL=$(ls "$WORK"/dist/*.whl)

bare() { # bare NAME EXTRA: a virtual environment that holds the wheel and nothing of this tree
  "$PYTHON" -m venv "$WORK/$1"
  "$WORK/$1/bin/python" -m pip install --quiet "torch==2.13.0+cpu" 2>/dev/null ||
    "$WORK/$1/bin/python" -m pip install --quiet "torch==2.13.0+cpu" --index-url https://download.pytorch.org/whl/cpu
  "$WORK/$1/bin/python" -m pip install --quiet -c "$ROOT/constraints.txt" "$WHEEL$2" 2>/dev/null
}

cd "$WORK" # away from the sources
bare core ""
core/bin/supclap --help >/dev/null
core/bin/supclap doctor --json >core.json
core/bin/python "$ROOT/tools/smoke_core.py"
printf 'audio,caption\na.wav,a dog\nb.wav,a cat\n' >table.csv
if core/bin/supclap train table.csv --out run --recipe small batch_size=2 2>core.err; then echo "train without its extra should fail" >&2; exit 1; fi
grep -q 'supclap\[train\]' core.err || { echo "the missing extra is not named:" >&2; cat core.err >&2; exit 1; }

bare train "[train]"
train/bin/python -m pip list 2>/dev/null | grep -iE '^(nvidia|torchvision|torchaudio)' && exit 1
train/bin/python "$ROOT/tools/smoke_train.py"
echo "wheel: core and [train] work in bare environments"
