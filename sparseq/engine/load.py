"""Files of events become Arrow, each kind known by its name, with errors a person can mend.

Reading happens on a DuckDB connection of its own, so that the store's never touches a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from sparseq.errors import DataError
from sparseq.query.catalog import INTEGER_TYPES

_READERS = {
    ".parquet": "read_parquet",
    ".pq": "read_parquet",
    ".csv": "read_csv",
    ".tsv": "read_csv",
    ".csv.gz": "read_csv",
    ".csv.zst": "read_csv",
    ".jsonl": "read_ndjson",
    ".jsonl.gz": "read_ndjson",
    ".jsonl.zst": "read_ndjson",
    ".ndjson": "read_ndjson",
}
_ARROW = (".arrow", ".ipc", ".feather", ".arrows")
_USABLE = frozenset(
    ("BOOLEAN", "VARCHAR", "FLOAT", "DOUBLE", "DATE", "TIME", "TIMESTAMP", "UUID", *INTEGER_TYPES)
)


class Rows:
    """Rows from files or from memory, on a connection of their own.

    Args:
        source: Paths, or one Arrow table (or anything with `__arrow_c_stream__`).

    Raises:
        DataError: A file is missing, of no known kind, or damaged, or files don't fit together.
    """

    def __init__(self, source: Sequence[str | Path] | Any) -> None:
        self._con = duckdb.connect(":memory:")
        if isinstance(source, (str, Path)):
            source = [source]
        self.relation = (
            self._from_files([Path(p) for p in source])
            if isinstance(source, (list, tuple))
            else self._from_arrow(source)
        )
        self.left_out = [
            f"{name} ({kind})" for name, kind in self.types().items() if not _usable(kind)
        ]

    def types(self) -> dict[str, str]:
        """Return each column's name and DuckDB type."""
        return {
            name: str(kind)
            for name, kind in zip(self.relation.columns, self.relation.types, strict=True)
        }

    def usable(self) -> dict[str, str]:
        """Return the columns that a store can hold, with the type that it gives them."""
        return {name: _stored_type(kind) for name, kind in self.types().items() if _usable(kind)}

    def reader(self, columns: dict[str, str]) -> pa.RecordBatchReader:
        """Return the rows, cast to `columns` (name and type), as a stream of Arrow batches.

        Raises:
            DataError: A column is missing or does not fit its type.
        """
        have = {name.lower(): name for name in self.types()}
        missing = [name for name in columns if name.lower() not in have]
        if missing:
            raise DataError(
                f"the file has no column {missing[0]!r}; it has {', '.join(have.values())}",
                "every file of a table has the same columns",
            )
        casts = ", ".join(
            f"CAST({quote(have[name.lower()])} AS {kind}) AS {quote(name)}"
            for name, kind in columns.items()
        )
        try:
            return self.relation.project(casts).to_arrow_reader(1 << 17)
        except duckdb.Error as error:
            raise DataError(f"the file does not fit the table: {first_line(error)}") from None

    def _from_files(self, paths: list[Path]) -> duckdb.DuckDBPyRelation:
        if not paths:
            raise DataError("no file was given")
        for path in paths:
            if not path.is_file():
                raise DataError(f"there is no file {str(path)!r}")
        kinds = {kind_of(path) for path in paths}
        if len(kinds) > 1:
            raise DataError("the files are of different kinds", "load one kind at a time")
        kind = kinds.pop()
        try:
            if kind == "arrow":
                return self._from_arrow(pa.concat_tables([_read_arrow(p) for p in paths]))
            self._con.execute("SET VARIABLE paths = ?", [[str(p) for p in paths]])
            return self._con.sql(f"SELECT * FROM {kind}(getvariable('paths'), union_by_name=true)")
        except (duckdb.Error, pa.ArrowException) as error:
            raise DataError(f"{paths[0]} can't be read: {first_line(error)}") from None

    def _from_arrow(self, table: Any) -> duckdb.DuckDBPyRelation:
        return self._con.from_arrow(as_arrow(table))

    def close(self) -> None:
        """Let go of the files."""
        self._con.close()


def as_arrow(table: Any) -> pa.Table:
    """Return an Arrow table made from what is one, or gives one.

    Raises:
        DataError: It is nothing of the kind.
    """
    try:
        return table if isinstance(table, pa.Table) else pa.table(table)
    except (TypeError, ValueError, pa.ArrowException):
        raise DataError(
            f"rows are a {type(table).__name__}", "give paths, or an Arrow-compatible table"
        ) from None


def quote(name: str) -> str:
    """Return an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def kind_of(path: Path) -> str:
    """Return what reads a file of this name; raises `DataError` for none that is known."""
    name = path.name.lower()
    if name.endswith(_ARROW):
        return "arrow"
    for suffix, reader in _READERS.items():
        if name.endswith(suffix):
            return reader
    raise DataError(
        f"{path.name}: what kind of file is this?",
        "names end in .parquet, .csv, .tsv, .jsonl (also .gz, .zst) or .arrow",
    )


def _read_arrow(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as source:
        try:
            return pa.ipc.open_file(source).read_all()
        except pa.ArrowInvalid:
            source.seek(0)
            return pa.ipc.open_stream(source).read_all()


def _usable(kind: str) -> bool:
    return kind.split("(")[0] in {*_USABLE, "DECIMAL", "ENUM"} or kind.startswith("TIMESTAMP")


def _stored_type(kind: str) -> str:
    if kind.startswith("ENUM"):
        return "VARCHAR"
    return "TIMESTAMP" if kind.startswith("TIMESTAMP_") else kind
