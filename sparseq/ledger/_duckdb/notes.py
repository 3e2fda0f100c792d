"""Notes (see `sparseq.ledger.notes`) as tables of a DuckDB file, in schema `ledger`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from sparseq.ledger._duckdb.curator_log import statement
from sparseq.ledger._duckdb.facts import get, put
from sparseq.ledger.notes import USER, CuratorLine, Fact, Note, NoteTable

if TYPE_CHECKING:
    from sparseq.ledger.accounts import Index

_HANDED, _THEM = "handed_notes", "handed_people"
_FEW = 2  # up to this number of rows, single inserts are fastest
_AT_ONCE = 1 << 20  # rows that are changed in memory at a time


class DuckNotes:
    """Reads and writes notes; every write is in the caller's transaction.

    Args:
        connection: The store's.
        made: The tables that are known to exist. Tables that a write creates are added, so after a
            failed transaction it may contain too many.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, made: set[str] | None = None) -> None:
        self._con = connection
        self._made = set() if made is None else made

    def read(
        self,
        notes: NoteTable,
        users: Index | None,
        equal: dict[str, Any],
        latest: int | None = None,
    ) -> pa.Table:
        """Return notes of a table in the order of writing: all, or the latest."""
        conditions = [f"{name} = ?" for name in equal]
        if users is not None:
            self._con.register(_THEM, pa.table({"u": users}))
            conditions.append(f"{USER} IN (SELECT u FROM {_THEM})")
        chosen = f"FROM ledger.{notes.name} WHERE {' AND '.join(conditions) or 'true'}"
        if latest is not None:
            chosen = f"FROM (SELECT *, rowid {chosen} ORDER BY rowid DESC LIMIT {latest:d})"
        try:
            found = self._con.sql(
                f"SELECT {', '.join(notes.columns)} {chosen} ORDER BY rowid",
                params=list(equal.values()),
            ).to_arrow_table()
        except duckdb.CatalogException:
            if self._exists(notes):
                raise
            return notes.schema.empty_table()  # nothing has been written
        finally:
            if users is not None:
                self._con.unregister(_THEM)
        if found.schema.types != notes.schema.types:
            return found.cast(notes.schema)
        # a cast, even to the same types, imports pyarrow.compute, which is slow
        return pa.Table.from_arrays(found.columns, schema=notes.schema)

    def write(self, note: Note) -> None:
        """Write a note."""
        if isinstance(note, CuratorLine):
            self._con.execute(*statement(note.kind, note.message))
        elif isinstance(note, Fact):
            put(self._con, note.key, note.value)
        elif note.table.num_rows:
            if note.of.name not in self._made:
                self._create(note.of, note.of.name)
                self._made.add(note.of.name)
            self._insert(note.of, note.of.name, note.table)

    def fact(self, key: str) -> Any:
        """Return the fact under a key, or None."""
        return get(self._con, key)

    def drop(self, notes: NoteTable, besides: Index, equal: dict[str, Any]) -> None:
        """Delete the notes of a table, except those about some users."""
        if not self._exists(notes):
            return
        self._con.register(_THEM, pa.table({"u": besides}))
        try:
            self._con.execute(
                f"DELETE FROM ledger.{notes.name} WHERE {USER} NOT IN (SELECT u FROM {_THEM})"
                + "".join(f" AND {name} = ?" for name in equal),
                list(equal.values()),
            )
        finally:
            self._con.unregister(_THEM)

    def rewrite(self, notes: NoteTable, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        """Rewrite all notes of a table, so that deleted ones are no longer in the file's blocks.

        DuckDB's DELETE only marks rows.
        """
        if not self._exists(notes):
            return
        anew = f"{notes.name}_anew"
        self._create(notes, anew)
        last = -1
        while (some := self._after(notes, last)).num_rows:
            last = some["rowid"][-1].as_py()
            rows = some.drop_columns("rowid").cast(notes.schema)
            changed = [change(batch) for batch in rows.to_batches()]
            self._insert(notes, anew, pa.Table.from_batches(changed, notes.schema))
        self._con.execute(f"DROP TABLE ledger.{notes.name}")
        self._con.execute(f"ALTER TABLE ledger.{anew} RENAME TO {notes.name}")

    def _after(self, notes: NoteTable, last: int) -> pa.Table:
        # Row ids of this transaction's own rows are far from the others, so a range does not work.
        return self._con.sql(
            f"SELECT {', '.join(notes.columns)}, rowid FROM ledger.{notes.name} "
            f"WHERE rowid > {last} ORDER BY rowid LIMIT {_AT_ONCE}"
        ).to_arrow_table()

    def _exists(self, notes: NoteTable) -> bool:
        sql = "SELECT 1 FROM duckdb_tables() WHERE schema_name = 'ledger' AND table_name = ?"
        return bool(self._con.execute(sql, [notes.name]).fetchall())

    def _create(self, notes: NoteTable, name: str) -> None:
        columns = ", ".join(f"{column} {type} NOT NULL" for column, type in notes.columns.items())
        self._con.execute(f"CREATE TABLE IF NOT EXISTS ledger.{name} ({columns})")

    def _insert(self, notes: NoteTable, name: str, table: pa.Table) -> None:
        columns = ", ".join(notes.columns)
        if table.num_rows <= _FEW:
            marks = ", ".join("?" * len(notes.columns))
            for row in table.select(list(notes.columns)).to_pylist():
                self._con.execute(
                    f"INSERT INTO ledger.{name} ({columns}) VALUES ({marks})", list(row.values())
                )
            return
        self._con.register(_HANDED, table)
        try:
            self._con.execute(
                f"INSERT INTO ledger.{name} ({columns}) SELECT {columns} FROM {_HANDED}"
            )
        finally:
            self._con.unregister(_HANDED)
