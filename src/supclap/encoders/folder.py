"""A model as a folder: config.json ("format": 1), model.safetensors, vocabulary files and a card. No pickle.

A frozen tower whose weights can be found again by name is referred to (name and hash); everything else is in the file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from supclap.encoders.card import card
from supclap.schema import FORMAT, UserError
from supclap.settings import write, write_json

if TYPE_CHECKING:
    from supclap.encoders.dual import DualModel

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
PARTS = ("audio", "text")


def save(model: DualModel, folder: str | os.PathLike[str], name: str = "THIS FOLDER") -> None:
    """Write the model, which its card calls ``name``.

    The weights come last, under a temporary name, so that half a folder is never taken for one.
    """
    from safetensors.torch import save_file

    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{target}: cannot be made a folder ({error.strerror or error}); give another one") from error
    referred = {part: digest for part, digest in model.origins.items() if getattr(model, part).digest() == digest}
    for part in PARTS:
        if part not in referred and hasattr(getattr(model, part), "save_assets"):
            (target / part).mkdir(exist_ok=True)
            getattr(model, part).save_assets(target / part)
    state = {
        key: value.detach().cpu().contiguous().clone()
        for key, value in model.state_dict().items()
        if key.split(".")[0] not in referred
    }
    write_json(describe(model, referred), target / CONFIG)
    (target / "README.md").write_text(card(model, name), encoding="utf8")
    temporary = target / f".{WEIGHTS}.{os.getpid()}.tmp"
    try:
        save_file(state, temporary, metadata={"format": "pt"})
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(target / WEIGHTS)
    finally:
        temporary.unlink(missing_ok=True)


def describe(model: DualModel, referred: dict[str, str]) -> dict[str, Any]:
    """What config.json holds."""
    return {
        "format": FORMAT,
        "kind": "dual",
        "model": write(model.config),
        "referred": referred,
        "calibration": model.calibration,
        "card": model.card,
    }


def read_config(folder: Path) -> dict[str, Any]:
    """The config.json of a folder that supclap wrote."""
    path = folder / CONFIG
    try:
        held = json.loads(path.read_text(encoding="utf8"))
    except FileNotFoundError as error:
        raise UserError(
            f"{folder}: no {CONFIG} in it; give a run, a saved model or a name that supclap.load knows"
        ) from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not JSON ({error})") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error
    if not isinstance(held, dict):
        raise UserError(f"{path}: not a model's description")
    if "format" in held:
        _check_format(path, held["format"])
    return held


def _check_format(path: Path, form: object) -> None:
    if isinstance(form, bool) or not isinstance(form, int) or form < 1:
        raise UserError(f"{path}: format={form!r} is no format of supclap; the file is damaged")
    if form > FORMAT:
        raise UserError(f"{path}: format={form}, and this supclap reads up to {FORMAT}; install a newer supclap")


def push(model: DualModel, name: str, private: bool) -> str:
    """Save to a temporary folder and upload it."""
    import tempfile

    from huggingface_hub import HfApi

    hub = HfApi()
    with tempfile.TemporaryDirectory() as folder:
        save(model, folder, name)
        try:
            hub.create_repo(name, private=private, exist_ok=True)
            return str(hub.upload_folder(repo_id=name, folder_path=folder))
        except Exception as error:  # the hub client raises many kinds for one fact
            line = " ".join(str(error).split())[:160]
            raise UserError(f"{name}: cannot be pushed to the hub ({line}); log in with `hf auth login`") from error
