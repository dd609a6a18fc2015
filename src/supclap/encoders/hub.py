"""``supclap.load``: a model from a name, a run, a saved folder, the hub, or of transformers and its relatives."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from pathlib import Path
from typing import Any

from supclap.encoders import bridge, folder
from supclap.encoders.dual import DualModel, DualSettings
from supclap.encoders.mlclap import load_mlclap
from supclap.encoders.weights import fit, tensors
from supclap.encoders.whole import load_clap, load_sentence
from supclap.runtime import device as choose
from supclap.schema import UserError
from supclap.settings import make


def load(name_or_folder: str | os.PathLike[str], *, device: str = "cpu", trust_remote_code: bool = False) -> Any:
    """A model in evaluation mode. Code that a folder names is never run, unless ``trust_remote_code`` says so."""
    if not isinstance(name_or_folder, str | os.PathLike) or not os.fspath(name_or_folder):
        raise UserError(f"model={name_or_folder!r}: give a run, a saved model, a hub id (owner/name), or bridge")
    name = os.fspath(name_or_folder)
    model = _load(name, trust_remote_code)
    return model.to(choose(device)) if hasattr(model, "to") else model


def _load(name: str, trust_remote_code: bool) -> Any:
    if name == "bridge" or name.startswith("bridge:"):
        return bridge.load_bridge(name)
    if name.startswith("hf:"):
        return load_clap(name[3:], trust_remote_code)
    if name.startswith("st:"):
        return load_sentence(name[3:], trust_remote_code)
    if name.startswith("mlclap:"):
        return load_mlclap(name[7:])
    path = Path(name).expanduser()
    if not path.is_dir():
        path = _from_hub(name)
    return _from_folder(path, trust_remote_code)


def _from_folder(path: Path, trust_remote_code: bool) -> Any:
    held = folder.read_config(path)
    if "format" not in held:
        if held.get("model_type"):
            return load_clap(str(path), trust_remote_code)
        raise UserError(f"{path / folder.CONFIG}: neither a supclap model nor a transformers one")
    if held.get("kind") == "bridge":
        return bridge.load_folder(path)
    if held.get("kind") != "dual":
        raise UserError(f"{path / folder.CONFIG}: kind={held.get('kind')!r}; this folder holds no model")
    return restore(path, held)


def _from_hub(name: str) -> Path:
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise UserError(f"model={name!r}: no such folder; give a run, a saved model, a hub id (owner/name), or bridge")
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(name, allow_patterns=["*.json", "*.safetensors", "*.txt", "*.model", "README.md"])
        )
    except Exception as error:  # the hub client raises many kinds for one fact
        line = " ".join(str(error).split())[:160]
        raise UserError(f"model={name!r}: no such folder, and the hub has not given it ({line})") from error


def restore(path: Path, held: dict[str, Any]) -> DualModel:
    """The model of a folder, in evaluation mode."""
    _check(path / folder.CONFIG, held)
    for part in (f"{part}_tower" for part in folder.PARTS):
        _known(path, held.get("model", {}).get(part))
    _known(path, held.get("model", {}).get("head"))
    config = make(DualSettings, held.get("model", {}), where=str(path / folder.CONFIG))
    referred: dict[str, str] = held.get("referred", {})
    for part in referred:
        if part not in folder.PARTS or not getattr(getattr(config, f"{part}_tower"), "published", None):
            raise UserError(f"{path / folder.CONFIG}: referred={part!r} has no published weights; the file is damaged")
    towers = [_tower(getattr(config, f"{part}_tower"), path / part, part in referred) for part in folder.PARTS]
    model = DualModel(config, *towers)
    for part, digest in referred.items():
        if getattr(model, part).digest() != digest:
            name = getattr(getattr(config, f"{part}_tower"), "published", part)
            raise UserError(
                f"{path}: its {part} tower is {name} with other weights than those here; fetch {name} again"
            )
        model.origins[part] = digest
    state = tensors(path / folder.WEIGHTS)
    own = {key: value for key, value in model.state_dict().items() if key.split(".")[0] in referred}
    fit(model, {**own, **state}, str(path / folder.WEIGHTS))
    model.calibration, model.card = held.get("calibration"), held.get("card", {})
    model.eval()
    return model


def _check(path: Path, held: dict[str, Any]) -> None:
    """UserError where a field of the file cannot be what ``save`` wrote."""
    for field in ("model", "referred", "card"):
        if not isinstance(held.get(field, {}), dict):
            raise UserError(f"{path}: {field}={held[field]!r} is no object; the file is damaged")
    if not {"audio_tower", "text_tower", "head"} <= held.get("model", {}).keys():
        raise UserError(f"{path}: model says nothing of its towers and head; the file is damaged")
    fitted = held.get("calibration")
    if fitted is None:
        return
    values = fitted.values() if isinstance(fitted, dict) else [None]
    if not all(isinstance(value, str) or isinstance(value, int | float) and math.isfinite(value) for value in values):
        raise UserError(f"{path}: calibration={fitted!r} is no fitted curve; run `supclap calibrate` again")


def _known(path: Path, part: Any) -> None:
    """A folder may name a class of the user's own, but only one that the user has imported already."""
    kind = part.get("kind") if isinstance(part, dict) else None
    if not isinstance(kind, str) or ":" not in kind:
        return
    module, _, name = kind.partition(":")
    found = getattr(sys.modules.get(module), name, None)
    if not (isinstance(found, type) and dataclasses.is_dataclass(found) and hasattr(found, "build")):
        raise UserError(
            f"{path}: it is made with {kind}, code that a folder cannot bring; import {module} first, then load"
        )


def _tower(config: Any, place: Path, referred: bool) -> Any:
    if referred or not hasattr(config, "skeleton"):
        return config.build()
    return config.skeleton(place)
