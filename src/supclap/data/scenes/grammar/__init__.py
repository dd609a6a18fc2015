"""Sentences about scenes, by a grammar, in eight languages (ISO 639-3 codes)."""

from __future__ import annotations

from supclap.data.scenes.grammar import cat, deu, eng, fra, jpn, nld, spa, zho
from supclap.data.scenes.grammar.language import Language
from supclap.data.scenes.grammar.tell import WAYS, everything, several, tell
from supclap.data.scenes.truth import Truth
from supclap.schema import unknown

LANGUAGES: dict[str, Language] = {
    part.LANGUAGE.code: part.LANGUAGE for part in (eng, fra, deu, spa, nld, cat, jpn, zho)
}


def _language(code: str) -> Language:
    if code not in LANGUAGES:
        raise unknown("language", code, LANGUAGES)
    return LANGUAGES[code]


def tell_one(truth: Truth, language: str, way: int) -> str:
    """The sentence of a number below ``WAYS``."""
    return tell(truth, _language(language), way)


def tell_several(truth: Truth, language: str, count: int, seed: int) -> list[str]:
    """Some different sentences about a scene, chosen by chance."""
    return several(truth, _language(language), count, seed)


def tell_all(truth: Truth, language: str) -> list[str]:
    """Every sentence that this grammar holds true of a scene."""
    return everything(truth, _language(language))


__all__ = ["LANGUAGES", "WAYS", "tell_all", "tell_one", "tell_several"]
