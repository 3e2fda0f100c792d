"""JSON Lines as a source: a row for each object, a column for each key."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa

from sparseq.engine._duckdb.connection import scratch
from sparseq.load.fast_json import read
from sparseq.load.file_sources import FIRST, NO_TYPES, PART, TextColumns, one_array
from sparseq.load.prefetch import mapped
from sparseq.load.text_lines import Lines, unified, unreadable
from sparseq.load.unpack import UNREADABLE, open_json

DEEPEST = 4
"""So many objects within each other are looked into."""


class JsonFile(TextColumns):
    """JSON Lines: an object a line. What is no object is a row without values."""

    open_ended = True

    def __init__(self, path: Path) -> None:
        self.name, self._path, self.left_out, self.unreadable = path.name, path, 0, 0
        open_json(path).read(1)

    @cached_property
    def types(self) -> dict[str, pa.DataType | None]:
        """The keys of the first lines, in their order; None for lists.

        What an object within has is called by both keys: `patient.id`.
        """
        return {k: None if seen <= {list, dict} else pa.string() for k, seen in self.seen.items()}

    @cached_property
    def seen(self) -> dict[str, set[type]]:
        """What the keys of the first lines have as values, but for nulls."""
        seen: dict[str, set[type]] = {}
        decode = json.JSONDecoder().decode
        for line in next(self._chunks(), b"").split(b"\n", FIRST)[:FIRST]:
            try:
                values = decode(line.decode())
            except (ValueError, RecursionError):
                continue
            for key, value in _leaves(values):
                kinds = seen.setdefault(key, set())
                if value is not None:
                    kinds.add(type(value))
        return {key: kinds or {str} for key, kinds in seen.items() if key}

    @cached_property
    def words(self) -> Collection[str]:  # type: ignore[override]
        """See `Source`: what is a string in the first lines."""
        return {key for key, kinds in self.seen.items() if str in kinds}

    def _chunks(self) -> Iterator[bytes]:
        lines = Lines(open_json(self._path))
        for chunk in lines:
            chunk = unified(chunk)
            self.unreadable += unreadable(chunk)
            yield chunk.replace(b"\xfe", b"\r").replace(UNREADABLE, _REPLACEMENT)
            self.left_out += lines.too_long
            lines.too_long = 0

    def batches(
        self, columns: Sequence[str], types: Mapping[str, str] = NO_TYPES
    ) -> Iterator[list[pa.Array]]:
        """See `Source`."""
        self.left_out = self.unreadable = 0
        sql, paths = _extracted(columns, types)
        with scratch() as con:
            alone = Lock()

            def one_by_one(lines: pa.Array) -> list[pa.Array]:
                parts = pa.table({"line": lines}).to_batches(max_chunksize=PART)
                with alone:
                    con.register("lines", pa.Table.from_batches(parts, _LINES))
                    table = con.sql(sql, params=paths).to_arrow_table()
                return [one_array(c) for c in table.columns]

            yield from mapped(lambda c: read(c, columns, types, one_by_one), self._chunks())


_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()
_LINES = pa.schema({"line": pa.string()})


def _leaves(values: Any, within: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield what an object has, by key, and what those within it have."""
    for key, value in values.items() if isinstance(values, dict) else ():
        if isinstance(value, dict) and value and depth < DEEPEST:
            yield from _leaves(value, f"{within}{key}.", depth + 1)
        else:
            yield within + key, value


def _extracted(
    columns: Sequence[str], types: Mapping[str, str]
) -> tuple[str, dict[str, list[str]]]:
    """Return SQL for some values of the objects that `lines` are, and its parameters."""
    texts = [c for c in columns if types.get(c) == "VARCHAR"]
    paths = list(dict.fromkeys(pointer for c in columns for pointer in _pointers(c)))

    def value(column: str) -> str:
        places = [paths.index(pointer) + 1 for pointer in _pointers(column)]
        text, kind = (
            f"coalesce({', '.join(f'{of}[{at}]' for at in places)})" for of in ("found", "kinds")
        )
        return _spelled(text, kind) if column in texts else text

    kinds = ", json_type(object, $paths) AS kinds" if texts else ""
    return (
        f"SELECT {', '.join(map(value, columns))} FROM "
        f"(SELECT json_extract_string(object, $paths) AS found{kinds} FROM "
        "(SELECT CASE WHEN json_valid(line) THEN line END AS object FROM lines))",
        {"paths": paths},
    )


def _pointers(column: str) -> list[str]:
    """Return where a column is in an object: under that key, or within the object before a point.

    >>> _pointers("a.b"), _pointers("a")
    (['/a.b', '/a/b'], ['/a'])
    """
    key = _pointer(column)
    return list(dict.fromkeys([key, key.replace(".", "/")]))


def _pointer(key: str) -> str:
    return "/" + key.replace("~", "~0").replace("/", "~1")


def _spelled(text: str, kind: str) -> str:
    """Return SQL for a value of JSON as text: whole numbers have no point, however written."""
    number = f"TRY_CAST({text} AS DOUBLE)"
    return (
        f"CASE WHEN {kind} = 'DOUBLE' AND abs({number}) < 1e18 AND {number} = trunc({number}) "
        f"THEN CAST(TRY_CAST({number} AS BIGINT) AS VARCHAR) ELSE {text} END"
    )
