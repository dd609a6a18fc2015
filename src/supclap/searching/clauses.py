"""A query of several events to its clauses: "a dog barks, then rain falls" asks two things of a sound."""

from __future__ import annotations

import re

_JOINTS = (
    r"followed\s+by|together\s+with|along\s+with|accompanied\s+by|after\s+that|and\s+then\s+by|and\s+then|"
    r"while|before|after|then|and|with"
)
_BETWEEN = re.compile(rf"\s*[,;:.]\s+(?:(?:{_JOINTS})\b\s*,?\s*)*|\s*\b(?:{_JOINTS})\b\s*,?\s*", re.IGNORECASE)
# Words about the recording, not about what is heard.
_ABOUT = re.compile(
    r"\b(?:in\s+the\s+background|in\s+the\s+foreground|(?:you|we|one)\s+can\s+hear|a\s+recording\s+(?:in\s+which|of)|"
    r"(?:once\s+)?again|first|finally|here)\b",
    re.IGNORECASE,
)


def split(query: str) -> list[str]:
    """The clauses of a query, at least one.

    It is split at and, then, while, before, after, followed by, (together) with and at punctuation; words about the
    recording ("in the background") are left out.
    """
    parts = (part.strip(" .,;:") for part in _BETWEEN.split(_ABOUT.sub(" ", query)))
    clauses = list(dict.fromkeys(" ".join(part.split()) for part in parts if part))
    return clauses or [query.strip()]
