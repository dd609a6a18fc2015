"""Frozen settings: declare, read, write, override.

A settings class is a frozen pydantic dataclass that refuses unknown fields. A field that may hold one of several
classes is declared with ``kind_of``: in JSON it is an object with a "kind", which is a key of a plain dict or
``module:Class`` of the user's own code.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar, dataclass_transform, get_args, get_type_hints

import pydantic
from pydantic import BeforeValidator, ConfigDict, PlainSerializer, TypeAdapter, ValidationInfo
from pydantic.dataclasses import dataclass as pydantic_dataclass

from supclap.schema import UserError, unknown

T = TypeVar("T")
_CONFIG = ConfigDict(extra="forbid", arbitrary_types_allowed=False, allow_inf_nan=False)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def settings(cls: type[T]) -> type[T]:
    """Class decorator: a frozen, keyword-only settings class that validates itself and refuses unknown fields."""
    made: Any = pydantic_dataclass(frozen=True, kw_only=True, config=_CONFIG)(cls)
    return made  # type: ignore[no-any-return]


def kind_of(registry: Mapping[str, type[Any]]) -> Any:
    """The type of a field that holds one of the registry's settings classes, or a class of the user's own."""

    def build(value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str):
            value = {"kind": value}
        if not isinstance(value, Mapping):
            return value
        fields = dict(value)
        kind = fields.pop("kind", None)
        return make(_class_of(kind, registry, info.field_name or "kind"), fields, where=f"{info.field_name}={kind!r}")

    def dump(value: Any) -> dict[str, Any]:
        return {"kind": _name_of(type(value), registry), **write(value)}

    return Annotated[Any, BeforeValidator(build), PlainSerializer(dump)]


def _class_of(kind: object, registry: Mapping[str, type[Any]], field: str) -> type[Any]:
    if isinstance(kind, str) and kind in registry:
        return registry[kind]
    if isinstance(kind, str) and ":" in kind:
        module, _, name = kind.partition(":")
        try:
            return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]
        except (ImportError, AttributeError) as error:
            raise UserError(f"{field}={kind!r} cannot be imported ({error}); write it as module:Class") from error
    raise unknown(field, kind, registry)


def _name_of(cls: type[Any], registry: Mapping[str, type[Any]]) -> str:
    names = [name for name, entry in registry.items() if entry is cls]
    return names[0] if names else f"{cls.__module__}:{cls.__qualname__}"


def make(cls: type[T], fields: Mapping[str, Any], where: str = "") -> T:
    """Build ``cls`` from plain values; whatever does not fit is one UserError line."""
    try:
        return TypeAdapter(cls).validate_python(dict(fields))
    except pydantic.ValidationError as error:
        raise _explain(error, cls, where) from error


def _explain(error: pydantic.ValidationError, cls: type[Any], where: str) -> UserError:
    first = error.errors()[0]
    place = ".".join(str(step) for step in first["loc"])
    prefix = f"{where}: " if where else ""
    if first["type"] in {"unexpected_keyword_argument", "extra_forbidden"}:
        owner: Any = cls
        for step in first["loc"][:-1]:
            owner = _part(owner, str(step))
            if not dataclasses.is_dataclass(owner):
                break
        before = place[: len(place) - len(str(first["loc"][-1]))]
        names = [before + f.name for f in dataclasses.fields(owner)] if dataclasses.is_dataclass(owner) else []
        return UserError(
            f"{prefix}{unknown('field', place, names)}" if names else f"{prefix}field {place!r} is unknown"
        )
    if first["type"] == "missing":
        return UserError(f"{prefix}{place} is missing; give it a value")
    return UserError(f"{prefix}{place}={first['input']!r}: {first['msg']}")


def _part(owner: type[Any], name: str) -> Any:
    """The settings class of a field that holds one, also where it may be left out."""
    kind = get_type_hints(owner).get(name)
    return next((one for one in (kind, *get_args(kind)) if dataclasses.is_dataclass(one)), None)


def write(value: Any) -> dict[str, Any]:
    """Plain JSON values of settings; ``make`` reads them back equal."""
    plain: dict[str, Any] = TypeAdapter(type(value)).dump_python(value, mode="json")
    return plain


def save(value: Any, path: str | os.PathLike[str]) -> None:
    """Write settings as JSON, whole or not at all."""
    write_json(write(value), path)


def read(cls: type[T], path: str | os.PathLike[str]) -> T:
    """Settings from a JSON file."""
    try:
        fields = json.loads(Path(path).read_text(encoding="utf8"))
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except json.JSONDecodeError as error:
        raise UserError(f"{path}: not JSON ({error})") from error
    return make(cls, fields, where=str(path))


def write_json(value: Any, path: str | os.PathLike[str]) -> None:
    """JSON under a temporary name, then renamed: a reader never sees half a file."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=True) + "\n", encoding="utf8")
    temporary.replace(target)


def override(value: T, changes: Mapping[str, Any]) -> T:
    """A copy with dotted fields replaced; text is read as JSON where it is JSON ("3", "true", "[1, 2]"), else kept.

    A "kind" given alone replaces the part by that kind's defaults; every other field of the part is kept.
    """
    plain = write(value)
    born: set[str] = set()
    for name in sorted(changes, key=lambda name: (not name.endswith("kind"), name.count("."))):
        _replace(plain, name, _plain(changes[name]), born)
    return make(type(value), plain)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return write(value)
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return None if value == "None" else value


def _replace(plain: dict[str, Any], name: str, value: Any, born: set[str]) -> None:
    *parents, last = name.split(".")
    here = plain
    for done, step in enumerate(parents):
        inner = here.get(step)
        if inner is None and step in here:
            # A part that was left out: what it may hold is known when it is built.
            inner = here[step] = {}
            born.add(".".join(parents[: done + 1]))
        if not isinstance(inner, dict):
            raise unknown("field", ".".join(parents[: done + 1]), list(here))
        here = inner
    if last == "kind":
        here.clear()
    elif isinstance(here.get(last), dict) and isinstance(value, str):
        # The short way to choose a kind: objective=siglip.
        value = {"kind": value}
    elif last not in here and "kind" not in here and ".".join(parents) not in born:
        raise unknown("field", name, [".".join([*parents, known]) for known in here])
    here[last] = value


def cache_folder(*parts: str) -> Path:
    """The one folder for weights, features and search caches: SUPCLAP_CACHE, or ~/.cache/supclap."""
    root = os.environ.get("SUPCLAP_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "supclap")
    folder = Path(root).expanduser().joinpath(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        said = (error.strerror or type(error).__name__).lower()
        raise UserError(
            f"the cache folder {folder}: {said}; set SUPCLAP_CACHE to a folder that can be written"
        ) from error
    return folder
