"""JSON Lines as a source: a row for each object, a column for each key."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa

from sparseq.base._duckdb.connection import scratch
from sparseq.load.file_sources import FIRST, PART, TextColumns, one_array
from sparseq.load.json_layout import read
from sparseq.load.read_ahead import map_ahead
from sparseq.load.source import NO_TYPES
from sparseq.load.text_lines import Lines, unify, unreadable
from sparseq.load.text_streams import UNREADABLE, open_json
from sparseq.load.tidy import list_of

DEEPEST = 4
"""The maximum depth of nested objects."""


class JsonFile(TextColumns):
    """JSON Lines: one object per line. A line that is not an object is a row without values."""

    open_ended = True

    def __init__(self, path: Path) -> None:
        self.name, self._path, self.left_out, self.unreadable = path.name, path, 0, 0
        open_json(path).read(1)

    @cached_property
    def types(self) -> dict[str, pa.DataType | None]:
        """The keys of the first lines, in order; None for lists of lists or objects, and for
        objects that are too deep.

        The column of a nested object has both keys in its name: `patient.id`. A key that contains a
        point, or a quote, is put in quotes: `patient."a.b"`.
        """
        return {
            k: None if seen <= {list, dict} and k not in self.declared else pa.string()
            for k, seen in self.seen.items()
        }

    @cached_property
    def declared(self) -> dict[str, str]:  # type: ignore[override]
        """See `Source`: lists of texts, numbers or truth values, as the first lines have them."""
        lists = [key for key, kinds in self.seen.items() if kinds == {list}]
        found = {key: list_of(self._inside[key]) for key in lists}
        return {key: kind for key, kind in found.items() if kind}

    @cached_property
    def seen(self) -> dict[str, set[type]]:
        """Return the types of the values of the first lines, by key, without nulls."""
        seen: dict[str, set[type]] = {}
        self._inside: dict[str, set[type]] = {}
        decode = json.JSONDecoder().decode
        for line in next(self._chunks(), b"").split(b"\n", FIRST)[:FIRST]:
            try:
                values = decode(line.decode())
            except (ValueError, RecursionError):
                continue
            for key, value in _leaves(values):
                kinds = seen.setdefault(key, set())
                if value is not None and value != {}:
                    kinds.add(type(value))
                if isinstance(value, list):
                    self._inside.setdefault(key, set()).update(map(type, value))
        return {key: k or {str} for key, k in seen.items() if key and (k or not _within(key, seen))}

    @cached_property
    def words(self) -> Collection[str]:  # type: ignore[override]
        """See `Source`: strings in the first lines."""
        return {key for key, kinds in self.seen.items() if str in kinds}

    def _chunks(self) -> Iterator[bytes]:
        lines = Lines(open_json(self._path))
        for chunk in lines:
            chunk = unify(chunk)
            self.unreadable += unreadable(chunk)
            yield chunk.replace(b"\xfe", b"\r").replace(UNREADABLE, _REPLACEMENT)
            self.left_out += lines.too_long
            lines.too_long = 0

    def batches(
        self, columns: Sequence[str], types: Mapping[str, str] = NO_TYPES
    ) -> Iterator[list[pa.Array]]:
        """See `Source`."""
        self.left_out = self.unreadable = 0
        sql, paths = _extract(columns, types)
        with scratch() as con:
            alone = Lock()

            def one_by_one(lines: pa.Array) -> list[pa.Array]:
                parts = pa.table({"line": lines}).to_batches(max_chunksize=PART)
                with alone:
                    con.register("lines", pa.Table.from_batches(parts, _LINES))
                    table = con.sql(sql, params=paths).to_arrow_table()
                return [one_array(c) for c in table.columns]

            yield from map_ahead(lambda c: read(c, columns, types, one_by_one), self._chunks())


_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()
_LINES = pa.schema({"line": pa.string()})


def _leaves(values: Any, within: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the values of an object by key, with those of nested objects."""
    for key, value in values.items() if isinstance(values, dict) else ():
        if isinstance(value, dict) and value and depth < DEEPEST:
            yield from _leaves(value, f"{within}{_part(key)}.", depth + 1)
        else:
            yield within + _part(key) if within else key, value


def _part(key: str) -> str:
    """Return a key as one part of a nested name."""
    return json.dumps(key, ensure_ascii=False) if {'"', "."} & set(key) else key


def _within(key: str, seen: Collection[str]) -> bool:
    """Tell whether the object under a key has values."""
    return any(other.startswith((f"{key}.", f"{_part(key)}.")) for other in seen)


def _extract(columns: Sequence[str], types: Mapping[str, str]) -> tuple[str, dict[str, list[str]]]:
    """Return SQL for some values of the objects in `lines`, and its parameters."""
    texts = [c for c in columns if types.get(c) == "VARCHAR"]
    paths = list(dict.fromkeys(pointer for c in columns for pointer in _pointers(c)))

    def value(column: str) -> str:
        places = [paths.index(pointer) + 1 for pointer in _pointers(column)]
        text, kind = (
            f"coalesce({', '.join(f'{of}[{at}]' for at in places)})" for of in ("found", "kinds")
        )
        return _spell(text, kind) if column in texts else text

    kinds = ", json_type(object, $paths) AS kinds" if texts else ""
    return (
        f"SELECT {', '.join(map(value, columns))} FROM "
        f"(SELECT json_extract_string(object, $paths) AS found{kinds} FROM "
        "(SELECT CASE WHEN json_valid(line) THEN line END AS object FROM lines))",
        {"paths": paths},
    )


def _pointers(column: str) -> list[str]:
    """Return the JSON pointers of a column: under its whole name, or within the object before a
    point.

    >>> _pointers("a.b"), _pointers("a"), _pointers('a."b.c"')
    (['/a.b', '/a/b'], ['/a'], ['/a."b.c"', '/a/b.c'])
    """
    key = _pointer(column)
    if '"' not in column:
        return list(dict.fromkeys([key, key.replace(".", "/")]))
    parts = re.findall(r'(?:^|\.)("(?:[^"\\]|\\.)*"|[^."]*)(?=\.|$)', column)
    try:
        names = [json.loads(part) if part[:1] == '"' else part for part in parts]
    except ValueError:
        return [key]
    whole = ".".join(parts) == column
    return list(dict.fromkeys([key, *["".join(map(_pointer, names))] * whole]))


def _pointer(key: str) -> str:
    return "/" + key.replace("~", "~0").replace("/", "~1")


def _spell(text: str, kind: str) -> str:
    """Return SQL for the text of a value of JSON: integers have no point, in any spelling."""
    number = f"TRY_CAST({text} AS DOUBLE)"
    return (
        f"CASE WHEN {kind} = 'DOUBLE' AND abs({number}) < 1e18 AND {number} = trunc({number}) "
        f"THEN CAST(TRY_CAST({number} AS BIGINT) AS VARCHAR) ELSE {text} END"
    )
