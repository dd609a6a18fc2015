"""``supclap doctor``: what this machine can run, how fast, and the line that installs what is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json as json_module
import os
import platform
import time
from typing import Any

from supclap import __version__
from supclap.cli.app import EXTRAS


def doctor(*, json: bool = False) -> None:
    """Say what this machine can run, how fast, and what is missing.

    Parameters
    ----------
    json
        Print one JSON object instead of text.
    """
    found = {
        "supclap": __version__,
        "python": platform.python_version(),
        "machine": {"system": platform.platform(), "cores": os.cpu_count()},
        "torch": _torch(),
        "extras": {extra: _extra(modules) for extra, modules in EXTRAS.items()},
        "codecs": _codecs(),
        "weights": _weights(),
    }
    found["install"] = _advice(found)
    print(json_module.dumps(found, indent=1) if json else _text(found))


def _torch() -> dict[str, Any]:
    import torch

    devices = ["cpu"]
    if torch.cuda.is_available():
        devices += [f"cuda:{i} {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        devices.append("mps")
    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "threads": torch.get_num_threads(),
        "devices": devices,
        "gflops": {device.split()[0]: round(_speed(device.split()[0]), 1) for device in devices},
    }


def _speed(device: str, size: int = 1024, budget: float = 0.3) -> float:
    """Billion float32 operations a second in a matrix product."""
    import torch

    x = torch.randn(size, size, device=device)
    _wait(x @ x)
    rounds, started = 0, time.perf_counter()
    while time.perf_counter() - started < budget:
        _wait(x @ x)
        rounds += 1
    return rounds * 2 * size**3 / (time.perf_counter() - started) / 1e9


def _wait(result: Any) -> None:
    result[0, 0].item()


def _extra(modules: list[str]) -> dict[str, Any]:
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    return {"present": not missing, "missing": missing}


def _codecs() -> dict[str, Any]:
    """What can be read, by the package that reads it."""
    codecs: dict[str, Any] = {}
    if importlib.util.find_spec("soundfile"):
        import soundfile

        codecs["soundfile"] = sorted(name.lower() for name in soundfile.available_formats())
    if importlib.util.find_spec("av"):
        codecs["av"] = {"version": importlib.metadata.version("av"), "adds": ["m4a", "mp4", "webm", "opus", "amr"]}
    return codecs


def _weights() -> list[dict[str, Any]]:
    from supclap.encoders import pretrained

    return [dict(row) for row in pretrained.listing()]


def _advice(found: dict[str, Any]) -> list[str]:
    wanting = [extra for extra, state in found["extras"].items() if not state["present"]]
    return [f'pip install "supclap[{",".join(wanting)}]"'] if wanting else []


def _text(found: dict[str, Any]) -> str:
    torch, machine = found["torch"], found["machine"]
    lines = [
        f"supclap {found['supclap']}, Python {found['python']}, {machine['system']}, {machine['cores']} cores",
        f"torch {torch['version']} (CUDA {torch['cuda'] or 'none'}), {torch['threads']} threads",
        *(f"  {device}: {torch['gflops'][device.split()[0]]:,.0f} GFLOP/s in float32" for device in torch["devices"]),
    ]
    for extra, state in found["extras"].items():
        lines.append(f"[{extra}] " + ("complete" if state["present"] else f"lacks {', '.join(state['missing'])}"))
    for reader, formats in found["codecs"].items():
        names = formats["adds"] if isinstance(formats, dict) else formats
        lines.append(f"{reader} reads {', '.join(names)}")
    lines += ["weights:", *(f"  {_weight_line(row)}" for row in found["weights"])]
    lines += [f"to install what is missing: {line}" for line in found["install"]] or ["nothing is missing"]
    return "\n".join(lines)


def _weight_line(row: dict[str, Any]) -> str:
    state = "here" if row.get("here") else f"not here; supclap models fetch {row.get('name')}"
    return f"{row.get('name')}: {state} ({row.get('licence')})"
