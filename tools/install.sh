#!/usr/bin/env bash
# Install supclap for development into the virtual environment that holds $PIP.
# Without a GPU on Linux plain `torch` would pull gigabytes of CUDA, so the CPU build is asked for by name.
set -euo pipefail
PIP=${PIP:?set PIP to the pip of the virtual environment}
TORCH=2.13.0
CPU_INDEX=https://download.pytorch.org/whl/cpu
SYSTEM=${SUPCLAP_SYSTEM:-$(uname -s)}
GPU=${SUPCLAP_GPU:-$( { command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 && echo yes; } || echo no)}

say() { echo "setup: $*" >&2; }

install_torch() {
  if [ "$SYSTEM" != Linux ] || [ "$GPU" = yes ]; then
    say "torch $TORCH for this machine ($SYSTEM, GPU: $GPU)"
    $PIP install --quiet "torch==$TORCH"
    return
  fi
  say "torch $TORCH, CPU build"
  $PIP install --quiet "torch==$TORCH+cpu" 2>/dev/null && return
  say "not among the configured package sources; trying $CPU_INDEX"
  $PIP install --quiet "torch==$TORCH+cpu" --index-url "$CPU_INDEX" 2>/dev/null && return
  say "stopped: no CPU build of torch $TORCH could be found; install it by hand, or set SUPCLAP_GPU=yes for the CUDA build"
  return 1
}

install_torch
say "supclap and its tools, pinned by constraints.txt (about a minute the first time)"
$PIP install --quiet -c "${CONSTRAINTS:-constraints.txt}" -e ".[all,dev]"
# Its loss is the yardstick of 'supclap bench objective'; the package itself would pull torchvision.
$PIP install --quiet --no-deps "open_clip_torch==3.3.0"
