"""Whole models of other libraries as dual models: ``hf:`` for ClapModel, ``st:`` for sentence-transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from supclap.encoders.clap import ClapAudioSettings, ClapAudioTower, ClapTextSettings, ClapTextTower, read_extractor
from supclap.encoders.dual import DualModel, DualSettings
from supclap.encoders.heads import NoHead
from supclap.encoders.sentence import SentenceAudioSettings, SentenceAudioTower, SentenceTextSettings, SentenceTextTower
from supclap.encoders.sentence import read as read_sentence
from supclap.encoders.text import read_model, read_tokenizer
from supclap.schema import UserError


def load_clap(name: str, trust_remote_code: bool = False) -> DualModel:
    """A ClapModel folder or hub id as a dual model, in evaluation mode."""
    held = _config(name, trust_remote_code)
    if held.get("auto_map") and not trust_remote_code:
        raise UserError(
            f"model='hf:{name}' wants to run code of its own; read it, then give trust_remote_code=True in Python"
        )
    if held.get("model_type") != "clap":
        raise UserError(
            f"model='hf:{name}' is a {held.get('model_type')!r}; hf: takes ClapModel folders as whole models"
        )
    whole: Any = read_model(name, "ClapModel")
    config = DualSettings(
        audio_tower=ClapAudioSettings(model=name),
        text_tower=ClapTextSettings(model=name),
        head=NoHead(),
        scale=float(whole.logit_scale_t.detach().exp()),
    )
    model = DualModel(config, ClapAudioTower(whole, read_extractor(name)), ClapTextTower(whole, read_tokenizer(name)))
    model.eval()
    return model


def _config(name: str, trust_remote_code: bool) -> dict[str, Any]:
    path = Path(name).expanduser() / "config.json"
    if path.is_file():
        try:
            return dict(json.loads(path.read_text(encoding="utf8")))
        except (json.JSONDecodeError, UnicodeDecodeError, ValueError) as error:
            raise UserError(f"{path}: not JSON ({error})") from error
    if path.parent.is_dir():
        raise UserError(f"{path}: no such file; give a ClapModel folder")
    from transformers import PretrainedConfig

    try:
        return dict(PretrainedConfig.get_config_dict(name)[0])
    except Exception as error:  # the library raises many kinds for one fact
        line = " ".join(str(error).split())[:160]
        raise UserError(f"model='hf:{name}': no such folder, and the hub has not given it ({line})") from error


def load_sentence(name: str, trust_remote_code: bool = False) -> DualModel:
    """A sentence-transformers model that takes sounds and texts, frozen, as a dual model in evaluation mode."""
    inner = read_sentence(name, trust_remote_code)
    config = DualSettings(
        audio_tower=SentenceAudioSettings(model=name),
        text_tower=SentenceTextSettings(model=name),
        head=NoHead(),
        scale=20.0,
        freeze_audio=True,
        freeze_text=True,
    )
    model = DualModel(config, SentenceAudioTower(inner), SentenceTextTower(inner))
    model.note_origins()
    model.eval()
    return model
