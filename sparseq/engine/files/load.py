"""Rows of files, or of tables in memory, on their way into a store: each is read by itself.

What is done to a row is decided by the table's schema and by the row (`schema`, `convert`). A value
that does not fit its column is NULL; a row that does not say whom it is about is left out. So
neighbouring files, one of which lacks somebody's rows, have the same other rows.
Only a file's frame can be wrong (`sources`): then nothing of it is taken in, and everybody sees it.

How much did not fit is private, and for the curator: see `Intake`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from sparseq.engine._duckdb.connection import scratch
from sparseq.engine.files.ahead import ahead
from sparseq.engine.files.convert import MOST_TEXT, expression, from_text
from sparseq.engine.files.schema import MOST_DIGITS, Declarations, Schema
from sparseq.engine.files.sniff import Guess, guess
from sparseq.engine.files.sources import (
    DAMAGE,
    FIRST,
    JsonFile,
    Memory,
    Source,
    damaged,
    one_array,
    source_of,
)
from sparseq.engine.files.tidy import long_texts, tidy, tidy_type
from sparseq.engine.files.usual import ARROW, iso, unusual, usual
from sparseq.engine.handed import as_arrow
from sparseq.engine.sql import quote
from sparseq.errors import DataError
from sparseq.escape import shown
from sparseq.query.catalog import INTEGER_TYPES

_DUCK = {
    "bool": "BOOLEAN", "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER",
    "int64": "BIGINT", "uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER",
    "uint64": "UBIGINT", "float": "FLOAT", "double": "DOUBLE", "string": "VARCHAR",
    "large_string": "VARCHAR", "date32[day]": "DATE", "timestamp[us]": "TIMESTAMP",
    "time64[us]": "TIME",
}  # fmt: skip


FEW = 8
"""One text of so many may be written otherwise, to be read apart from the others."""


@dataclass
class Intake:
    """What was done to rows that did not fit, in numbers: private.

    Attributes:
        rows: That came.
        no_user: Rows that don't say whom they are about, and were left out.
        lines: Lines of text that were left out: too long, or with too many values.
        no_value: By column: values that did not fit, and are NULL.
        cut: By column: texts that were cut.
        columns: By column: why nothing of it could be read.
    """

    rows: int = 0
    no_user: int = 0
    lines: int = 0
    no_value: dict[str, int] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)

    def messages(self) -> list[str]:
        """Return it in words, a line each; nothing if every row was read as it is."""
        said = []
        if self.lines:
            said.append(f"{self.lines:,} lines were left out: too long, or with too many values")
        if self.no_user:
            said.append(f"{self.no_user:,} of {self.rows:,} rows were left out: they name no user")
        for name, why in self.columns.items():
            said.append(f"{shown(name)} is empty: {why}")
        for name, count in self.no_value.items():
            said.append(f"{shown(name)}: {count:,} values did not fit, and are NULL")
        for name, count in self.cut.items():
            said.append(f"{shown(name)}: {count:,} texts were cut to {MOST_TEXT:,} characters")
        return said


class IncomingRows:
    """Rows from files or from memory.

    Args:
        source: Paths, or one Arrow table (or anything with `__arrow_c_stream__`).
        schema: How they are read. None: a table is being made, and `declared` and the first rows
            say how.
        declared: What the curator says about that.
        user: The column of identifiers, where types are guessed.
        wanted: Columns that a file should have besides those of the schema.

    Raises:
        DataError: A file is missing, of no known kind, or without header or schema.
        ParameterError: A declared type is none.
    """

    def __init__(
        self,
        source: Sequence[str | Path] | Any,
        schema: Schema | None = None,
        declared: Declarations | None = None,
        user: str = "",
    ) -> None:
        declared = declared or Declarations()
        wanted = schema.types if schema else [user] if user else []
        separator = schema.separator if schema else ""
        multiline = schema.multiline if schema else declared.multiline
        if isinstance(source, (str, Path)):
            source = [source]
        self.sources: list[Source] = (
            [source_of(Path(p), wanted, separator, multiline) for p in source]
            if isinstance(source, (list, tuple))
            else [Memory(as_arrow(source))]
        )
        if not self.sources:
            raise DataError("no file was given")
        self.told = Intake()
        self.left_out: list[str] = []
        """Columns of a type that is not stored."""
        self.ambiguous: dict[str, Guess] = {}
        """Columns whose texts fit several formats."""
        self._failure: DataError | None = None
        self.schema = schema or self._guessed(declared, user)

    def usable(self) -> dict[str, str]:
        """Return the columns that a store can hold, with the type that it gives them."""
        return dict(self.schema.types)

    def has(self, column: str) -> bool:
        """Tell whether any file has a column: by its frame."""
        return any(_found(s, column) is not None or s.open_ended for s in self.sources)

    def stage(
        self, connection: duckdb.DuckDBPyConnection, types: Mapping[str, str], user: str = ""
    ) -> None:
        """Write the rows into the temporary table `staged`, with columns of some types.

        Args:
            connection: The store's.
            types: Column to its type.
            user: The column that says whom a row is about.

        Raises:
            DataError: A file has no such column, or can't be read to its end.
        """
        for source in self.sources:
            for name in types:
                if _found(source, name) is None and not source.open_ended:
                    raise DataError(  # what the file has instead may be a row
                        f"{shown(source.name)} has no column {shown(name)!r}",
                        f"every file of the table has a header, and {', '.join(map(shown, types))}",
                    )
        given = dict.fromkeys(types, 0)
        for k, source in enumerate(self.sources):
            self._stage(connection, source, types, user, given, first=k == 0)
        counts = ", ".join(f"count({quote(name)})" for name in types)
        ((rows, *valid),) = connection.execute(f"SELECT count(*), {counts} FROM staged").fetchall()
        self.told.rows = rows
        self.told.lines = sum(s.left_out for s in self.sources)
        for name, count in zip(types, valid, strict=True):
            if given[name] > count:
                self.told.no_value[name] = given[name] - count
            if name == user:
                self.told.no_user = rows - count

    def _stage(
        self, connection: duckdb.DuckDBPyConnection, source: Source, types: Mapping[str, str],
        user: str, given: dict[str, int], first: bool,
    ) -> None:  # fmt: skip
        names = {name: _found(source, name) or name for name in types}
        kinds = {name: _tidy_of(source, actual) for name, actual in names.items()}
        readers = {
            name: _TextColumn(target, self.schema.formats.get(name, ""))
            for name, target in types.items()
            if _is_text(kinds[name]) and target in ARROW
        }
        fields = [
            (f"c{k}", ARROW[types[name]] if name in readers else kind or pa.string())
            for k, (name, kind) in enumerate(kinds.items())
        ]
        for name, kind in kinds.items():
            if kind is None:
                self.told.columns[name] = f"nothing of its type can be read as {types[name]}"
        made = []
        for k, ((name, target), (_, kind)) in enumerate(zip(types.items(), fields, strict=True)):
            sql = expression(f"c{k}", duck_type(kind), target, self.schema.formats.get(name, ""))
            sql = f"nullif({sql}, '')" if name == user and target == "VARCHAR" else sql
            made.append(f"{sql} AS {quote(name)}")

        def tidied(array: pa.Array, name: str) -> pa.Array:
            array = self._tidied(array, name, kinds[name], name == user, given)
            return readers[name].values(array) if name in readers else array

        becoming = {names[name]: target for name, target in types.items()}

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                for arrays in ahead(source.batches(list(names.values()), becoming)):
                    yield pa.RecordBatch.from_arrays(
                        [tidied(array, name) for name, array in zip(names, arrays, strict=True)],
                        schema=pa.schema(fields),
                    )
            except DAMAGE as error:
                self._failure = damaged(source.name, error)
                raise

        into = "CREATE OR REPLACE TEMP TABLE staged AS" if first else "INSERT INTO staged"
        reader = pa.RecordBatchReader.from_batches(pa.schema(fields), batches())
        connection.register("incoming", reader)
        try:
            connection.execute(f"{into} SELECT {', '.join(made)} FROM incoming")
        except duckdb.Error:
            if self._failure is not None:
                raise self._failure from None
            raise
        finally:
            connection.unregister("incoming")

    def _tidied(
        self,
        array: pa.Array,
        name: str,
        kind: pa.DataType | None,
        user: bool,
        given: dict[str, int],
    ) -> pa.Array:
        """Return an array as it goes into DuckDB, and count what it has."""
        given[name] += len(array) - array.null_count
        if kind is None:
            return pa.nulls(len(array), pa.string())
        array = tidy(array)
        if _is_text(kind):
            long = long_texts(array, MOST_TEXT)
            if long is not None and user:  # two people could begin alike
                array = pc.if_else(long, pa.scalar(None, kind), array)
            elif long is not None:
                count = pc.sum(long).as_py() or 0
                if count:
                    self.told.cut[name] = self.told.cut.get(name, 0) + count
                array = pc.if_else(long, pc.utf8_slice_codeunits(array, 0, MOST_TEXT), array)
        return array

    # -- when a table is made ----------------------------------------------------------------------

    def _guessed(self, declared: Declarations, user: str) -> Schema:
        """Return a schema: what is declared, and for the other columns what the first rows say."""
        said = declared.parsed()
        types: dict[str, str] = {}
        formats: dict[str, str] = {}
        for source in self.sources:
            for name, found in self._guesses(source, said, user).items():
                actual = next((t for t in types if t.lower() == name.lower()), name)
                if found is None:
                    if not any(name in text for text in self.left_out):
                        self.left_out.append(f"{shown(name)} ({_raw_type(source, name)})")
                    continue
                known = types.get(actual)
                types[actual] = found.type if known is None else _wider(known, found.type)
                if known in (None, found.type) and found.format:
                    formats.setdefault(actual, found.format)
                if found.also:
                    self.ambiguous[actual] = found
        separator = next((s.separator for s in self.sources if s.separator), "")
        return Schema(types, formats, separator, declared.multiline)

    def _guesses(
        self, source: Source, said: Mapping[str, tuple[str, str]], user: str
    ) -> dict[str, Guess | None]:
        found: dict[str, Guess | None] = {}
        names = {}
        for name in source.types:
            if name.lower() not in names:
                names[name.lower()] = name
        for lower, name in names.items():
            kind = source.types[name]
            if lower in said:
                found[name] = Guess(*said[lower])
            elif kind is None:
                found[name] = None
            elif not _is_text_file(source):
                found[name] = Guess(_stored_type(kind, _raw_of(source, name)))
            else:
                found[name] = Guess("")
        unknown = [name for name, g in found.items() if g is not None and not g.type]
        with scratch() as con:
            for name, texts in zip(unknown, _first_texts(source, unknown), strict=True):
                words = isinstance(source, JsonFile) and str in source.seen[name]
                found[name] = guess(con, texts, name.lower() == user.lower(), words)
        return found

    def close(self) -> None:
        """Let go of the files."""
        self.sources = []


def _first_texts(source: Source, names: list[str]) -> list[pa.Array]:
    if not names:
        return []
    try:
        for arrays in source.batches(names):
            if len(arrays[0]):
                return [array.slice(0, FIRST) for array in arrays]
    except DAMAGE as error:
        raise damaged(source.name, error) from None
    return [pa.nulls(0, pa.string()) for _ in names]


class _TextColumn:
    """Texts in a column of a type: `convert.from_text`, by way of `usual` where that can."""

    def __init__(self, target: str, format: str) -> None:
        self._target, self._format = target, format

    def values(self, texts: pa.Array) -> pa.Array:
        """Return what texts say, as an array of `ARROW`'s type; NULL for what they don't."""
        plain = iso(texts, self._format) if self._format else texts
        found = None if plain is None else usual(plain, self._target)
        if found is not None:
            return found
        odd = None if self._format else unusual(texts, self._target)
        if odd is None or not 0 < odd.sum() * FEW < len(odd):
            return self._slowly(texts)
        mask = pa.array(odd)
        found = usual(pc.if_else(mask, pa.scalar(None, texts.type), texts), self._target)
        if found is None:
            return self._slowly(texts)
        return pc.replace_with_mask(found, mask, self._slowly(texts.filter(mask)))

    def _slowly(self, texts: pa.Array) -> pa.Array:
        with scratch() as con:
            con.register("texts", pa.table({"x": texts}))
            sql = from_text("x", self._target, self._format)
            table = con.sql(f"SELECT {sql} AS x FROM texts").to_arrow_table()
        return one_array(table.column(0)).cast(ARROW[self._target])


def _is_text(kind: pa.DataType | None) -> bool:
    return kind is not None and (pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_text_file(source: Source) -> bool:
    return not hasattr(source, "raw_types")


def _raw_of(source: Source, name: str) -> pa.DataType:
    raw: dict[str, pa.DataType] = source.raw_types()  # type: ignore[attr-defined]
    return raw[name]


def _raw_type(source: Source, name: str) -> str:
    return shown(_raw_of(source, name)) if not _is_text_file(source) else "JSON"


def _found(source: Source, name: str) -> str | None:
    """Return what a source calls a column: in these letters, or else in any case."""
    if source.open_ended or name in source.types:
        return name
    return next((n for n in source.types if n.lower() == name.lower()), None)


def _tidy_of(source: Source, name: str) -> pa.DataType | None:
    if _is_text_file(source):
        return pa.string()
    return tidy_type(_raw_of(source, name), binary=True)


def duck_type(kind: pa.DataType) -> str:
    """Return DuckDB's name of a tidy type."""
    if isinstance(kind, pa.BaseExtensionType):
        return "UUID"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return _DUCK[str(kind)]


def _stored_type(kind: pa.DataType, raw: pa.DataType) -> str:
    """Return the type that a column of a tidy type is stored in, if nothing is declared."""
    if (pa.types.is_decimal(kind) and kind.precision > MOST_DIGITS) or (
        pa.types.is_decimal(raw) and not pa.types.is_decimal(kind)
    ):
        return "DOUBLE"
    return duck_type(kind)


def _wider(one: str, other: str) -> str:
    """Return a type for what files of one table have as two."""
    types = {one, other}
    if len(types) == 1:
        return one
    if types <= INTEGER_TYPES:
        return "BIGINT"
    if all(t in INTEGER_TYPES or t in ("FLOAT", "DOUBLE") or t[:7] == "DECIMAL" for t in types):
        return "DOUBLE"
    return "TIMESTAMP" if types == {"DATE", "TIMESTAMP"} else "VARCHAR"
