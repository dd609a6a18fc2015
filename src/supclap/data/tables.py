"""Rows of any table as plain values, each with the place an error message names."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supclap.schema import UserError

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".arrow")
DELIMITERS = ",;\t|"
# Longer than any caption, shorter than a file that a stray quote has swallowed.
LONGEST_CELL = 1 << 20


@dataclass(frozen=True)
class Row:
    """One row: ``place`` is where a person finds it."""

    place: str
    fields: dict[str, Any]


def rows(path: str | Path) -> list[Row]:
    """Every row of a csv, tsv, jsonl, json or parquet file."""
    table = Path(path)
    suffix = table.suffix.lower()
    try:
        if suffix in (".csv", ".tsv"):
            return list(_separated(table, "\t" if suffix == ".tsv" else None))
        if suffix in (".jsonl", ".ndjson"):
            return list(_lines(table))
        if suffix == ".json":
            return list(_json(table))
        if suffix in (".parquet", ".arrow"):
            return list(_columns(table))
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    raise UserError(f"{path}: a table ends in {', '.join(SUFFIXES)}")


def text(path: Path) -> str:
    """The file as text: UTF-8 or UTF-16 with a mark, UTF-8 without; a line that is none in the Western code page."""
    data = path.read_bytes()
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Line by line: one that another program added must not spoil the others.
        return "\n".join(_line(line) for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"))


def _line(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")


def _separated(path: Path, delimiter: str | None) -> Iterator[Row]:
    content = text(path)
    delimiter = delimiter or _delimiter(content)
    csv.field_size_limit(LONGEST_CELL)
    reader = csv.reader(_endings(content), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    count = 0
    try:
        for values in reader:
            if not any(value.strip() for value in values):
                continue
            if header is None:
                header = _header(path, values)
                continue
            count += 1
            place = f"{path}, row {count} (line {reader.line_num})"
            if len(values) > len(header) and any(value.strip() for value in values[len(header) :]):
                raise UserError(
                    f"{place}: {len(values)} values for {len(header)} columns; quote texts with {delimiter!r}"
                )
            yield Row(place, dict(zip(header, values, strict=False)))
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}; mind the quotes") from error
    if header is None:
        raise UserError(f"{path}: the table is empty")


def _endings(content: str) -> Iterator[str]:
    # str.splitlines would also cut at the odd marks that captions hold.
    plain = content.replace("\r\n", "\n").replace("\r", "\n")
    return (line + "\n" for line in plain.split("\n"))


def _delimiter(content: str) -> str:
    """The delimiter that stands most often in the header."""
    head = next((line for line in content.splitlines() if line.strip()), "")
    return max(DELIMITERS, key=lambda mark: (head.count(mark), -DELIMITERS.index(mark)))


def _header(path: Path, values: list[str]) -> list[str]:
    names = [value.strip() for value in values]
    while names and not names[-1]:
        names.pop()
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise UserError(f"{path}: column {twice[0]!r} is there twice")
    return names


def _lines(path: Path) -> Iterator[Row]:
    count = 0
    for number, line in enumerate(text(path).split("\n"), 1):
        if not line.strip():
            continue
        count += 1
        place = f"{path}, row {count} (line {number})"
        yield Row(place, _object(place, _parse(place, line)))
    if count == 0:
        raise UserError(f"{path}: the table is empty")


def _json(path: Path) -> Iterator[Row]:
    value = _parse(str(path), text(path))
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        # The form of WavCaps and of pandas' "table" orient.
        value = value["data"]
    if not isinstance(value, list) or not value:
        raise UserError(f"{path}: give a list of rows, [{{...}}, ...], or an object whose 'data' is one")
    for count, entry in enumerate(value, 1):
        place = f"{path}, row {count}"
        yield Row(place, _object(place, entry))


def _parse(place: str, content: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place}: not JSON ({error})") from error


def _object(place: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UserError(f"{place}: a row is an object of columns, not {type(value).__name__}")
    return value


def _columns(path: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if path.suffix.lower() == ".parquet":
            table = pq.read_table(path, columns=_light(pq.read_schema(path)))
        else:
            table = arrow_table(path)
    except (pa.ArrowException, ValueError) as error:
        raise UserError(f"{path}: not a {path.suffix[1:]} file ({' '.join(str(error).split())})") from error
    yield from plain_rows(path, table)


def arrow_table(path: Path) -> Any:
    """An arrow file, mapped."""
    import pyarrow as pa

    source = pa.memory_map(str(path))
    try:
        return pa.ipc.open_stream(source).read_all()
    except pa.ArrowInvalid:
        return pa.ipc.open_file(source).read_all()


def _light(schema: Any) -> list[str]:
    """Every column, but of sounds kept inside the table only their paths."""
    import pyarrow as pa

    names: list[str] = []
    for entry in schema:
        if pa.types.is_struct(entry.type) and entry.type.get_field_index("bytes") >= 0:
            names += [f"{entry.name}.path"] if entry.type.get_field_index("path") >= 0 else []
        elif not pa.types.is_binary(entry.type):
            names.append(entry.name)
    return names


def plain_rows(path: Path, table: Any) -> Iterator[Row]:
    """Rows of an arrow table; sounds kept inside it become addresses that the reader understands."""
    import pyarrow as pa

    schema = table.schema if path.suffix == ".arrow" else _schema(path)
    inside = [
        entry.name
        for entry in schema
        if pa.types.is_binary(entry.type)
        or (pa.types.is_struct(entry.type) and entry.type.get_field_index("bytes") >= 0)
    ]
    light = table.drop_columns([name for name in inside if name in table.column_names])
    named = _classes(schema)
    for number, fields in enumerate(light.to_pylist()):
        fields |= name_classes(fields, named)
        fields |= {name: f"{path.name}::{name}::{number}" for name in inside}
        yield Row(f"{path}, row {number + 1}", {name: _present(value) for name, value in fields.items()})


def _classes(schema: Any) -> dict[str, list[str]]:
    """The names of classes that Hugging Face keeps as numbers, by column."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        kinds = {name: kind for name, kind in features.items() if isinstance(kind, dict)}
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}
    return {name: kind.get("names") or [] for name, kind in kinds.items() if kind.get("_type") == "ClassLabel"}


def name_classes(fields: dict[str, Any], named: dict[str, list[str]]) -> dict[str, str | None]:
    """The columns that hold a class as a number, with its name; -1 marks a row without one."""
    numbers = {name: fields[name] for name in named if isinstance(fields.get(name), int)}
    return {name: named[name][number] if 0 <= number < len(named[name]) else None for name, number in numbers.items()}


def _schema(path: Path) -> Any:
    import pyarrow.parquet as pq

    return pq.read_schema(path)


def _present(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
