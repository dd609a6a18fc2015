"""ML-CLAP's checkpoints (CED and SONAR with a head each) as dual models: ``supclap.load("mlclap:FILE")``.

Keys: ``audio_encoder.model.*`` (CED's published names), ``text_encoder.model.*`` (SONAR's in fairseq2),
``audio_proj.{0,2}.*`` and ``text_proj.{0,2}.*`` (Linear, ReLU, Linear), ``temperature`` (what cosines are divided by).
The tokenizer is SONAR's own: ``supclap models fetch sonar``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from supclap.encoders import pretrained
from supclap.encoders.ced import CedSettings, rename
from supclap.encoders.dual import DualModel, DualSettings
from supclap.encoders.heads import MlpHead
from supclap.encoders.sonar import SonarSettings, from_fairseq2
from supclap.encoders.weights import fit, tensors
from supclap.schema import UserError

_AUDIO, _TEXT, _HEADS = "audio_encoder.model.", "text_encoder.model.", ("audio_proj.", "text_proj.")
_HEAD_WIDTH = 64  # every published CED has heads of this width
_NOTE = "ML-CLAP's weights; those of its text tower are SONAR's, CC BY-NC 4.0: not for commercial use."


def load_mlclap(file: str | Path, sonar: str = "sonar", heads: int | None = None) -> DualModel:
    """The model of a checkpoint; ``sonar`` is the folder (or name) with the tokenizer and config of its text tower.

    ``heads`` of the audio tower are not in the file: None takes the published width of 64 each.
    """
    path = Path(file).expanduser()
    state = tensors(path)
    _check(state, path)
    folder = pretrained.find(sonar)
    audio, text = rename(state), from_fairseq2(_under(state, _TEXT))
    config = DualSettings(
        audio_tower=_ced(audio, heads),
        text_tower=SonarSettings(model=str(folder) if sonar != "sonar" else sonar, layers=_layers(text)),
        head=MlpHead(width=len(state["audio_proj.2.weight"]), hidden=len(state["audio_proj.0.weight"])),
        scale=1.0 / float(state["temperature"]),
    )
    model = DualModel(config, config.audio_tower.skeleton(), config.text_tower.skeleton(folder))
    own = model.audio.state_dict()
    fit(model.audio, {key: own[key] for key in own if key.startswith("outputlayer.")} | audio, f"{path}: {_AUDIO}*")
    fit(model.text_tower.model, text, f"{path}: {_TEXT}*")
    fit(model.audio_head, _under(state, "audio_proj."), f"{path}: audio_proj.*")
    fit(model.text_head, _under(state, "text_proj."), f"{path}: text_proj.*")
    model.card = {"notes": _NOTE}
    model.eval()
    return model


def _under(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}


def _check(state: Mapping[str, Tensor], path: Path) -> None:
    """UserError unless every part is there, and nothing else."""
    needed: tuple[str, ...] = (
        f"{_AUDIO}patch_embed.proj.weight",
        f"{_TEXT}encoder_frontend.embed.weight",
        "temperature",
    )
    needed += tuple(f"{head}{place}.{kind}" for head in _HEADS for place in (0, 2) for kind in ("weight", "bias"))
    if missing := [key for key in needed if key not in state]:
        raise UserError(f"{path}: no checkpoint of ML-CLAP; it has no {', '.join(missing)}")
    known = (_AUDIO, _TEXT, *_HEADS, "temperature")
    if left := [key for key in state if not key.startswith(known)]:
        raise UserError(f"{path}: holds more than ML-CLAP's parts: {', '.join(left[:8])}")
    if state["temperature"].numel() != 1 or not 0 < float(state["temperature"]) < 10:
        raise UserError(f"{path}: temperature={state['temperature'].tolist()} is no positive number below 10")


def _ced(state: Mapping[str, Tensor], heads: int | None) -> CedSettings:
    width = len(state["patch_embed.proj.weight"])
    depth = 1 + max(int(key.split(".")[1]) for key in state if key.startswith("blocks."))
    ratio = len(state["blocks.0.mlp.fc1.weight"]) / width
    return CedSettings(weights=None, width=width, depth=depth, heads=heads or width // _HEAD_WIDTH, mlp_ratio=ratio)


def _layers(state: Mapping[str, Tensor]) -> int:
    return 1 + max(int(key.split(".")[1]) for key in state if key.startswith("layers."))
