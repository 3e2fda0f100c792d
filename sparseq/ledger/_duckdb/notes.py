"""Notes (see `sparseq.ledger.notes`) as tables of a DuckDB file, in schema `ledger`.

The curator's log: private lines in the store.

Whatever depends on a row and should not get lost (a value that did not fit, a row that was left
out, an engine's error and whom it was about) is written here, and to nothing that an analyst sees.

Request ids of stores of format 3, which had one namespace for all: who asked is told from them.

A watch's releases are paid from what only a watch is paid from, and a training step's text is no
SQL: these are told for certain. A monitor's are told by how they are spelled, `monitor/NAME/TICK`;
an analyst's who spelled one so becomes that series' answer to that very text, as it was before.
A replay's (`NAME: LINE`) look like any analyst's, and stay there: where one is replayed again, what
was released up to the upgrade is found under the former spelling (`Journal`), and nothing later.
"""

from __future__ import annotations

import datetime as dt
import errno
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from sparseq.base.errors import StoreError
from sparseq.engine.protocol import first_line
from sparseq.ledger.notes import (
    USER,
    Asker,
    CuratorLine,
    Fact,
    LoggedLine,
    Note,
    NoteTable,
    RequestId,
)
from sparseq.ledger.purposes import Pot

if TYPE_CHECKING:
    from sparseq.ledger.accounts import Index

# -- the store's table of facts by key: settings, the catalogue, marks -----------------------------


def get(connection: duckdb.DuckDBPyConnection, key: str) -> Any:
    """Return what was put under `key`, or None."""
    rows = connection.execute("SELECT value FROM meta WHERE key = ?", [key]).fetchall()
    return json.loads(rows[0][0]) if rows else None


def put(connection: duckdb.DuckDBPyConnection, key: str, value: Any) -> None:
    """Remember plain data under `key`, in place of what was there.

    In two statements, which together take half as long as `INSERT OR REPLACE`.
    """
    text = json.dumps(value, default=str)
    ((known,),) = connection.execute(
        "UPDATE meta SET value = ? WHERE key = ?", [text, key]
    ).fetchall()
    if not known:
        connection.execute("INSERT INTO meta VALUES (?, ?)", [key, text])


# -- the curator's log: private lines in the store -------------------------------------------------

TABLE = """
CREATE TABLE IF NOT EXISTS curator_log (
    written_at TIMESTAMP NOT NULL, kind VARCHAR NOT NULL, message VARCHAR NOT NULL);
"""


class CuratorLog:
    """The log of one store; every write is in the caller's transaction, if there is one."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._con = connection

    def add(self, kind: str, message: str) -> None:
        """Write a line."""
        self._con.execute(*statement(kind, message))

    def add_once(self, kind: str, message: str) -> None:
        """Write a line, unless it is there already."""
        there = "FROM curator_log WHERE kind = ? AND message = ? LIMIT 1"
        if not self._con.execute(there, [kind, message]).fetchall():
            self.add(kind, message)

    def entries(self, last: int | None = None) -> list[LoggedLine]:
        """Return the lines, oldest first; `last`: no more than so many of the newest."""
        rows = self._con.execute(
            "SELECT written_at, kind, message FROM curator_log ORDER BY rowid DESC LIMIT ?",
            [2**62 if last is None else last],
        ).fetchall()
        return [LoggedLine(*row) for row in reversed(rows)]


def statement(kind: str, message: str) -> tuple[str, list[object]]:
    """Return the SQL that writes a line, and its parameters: to go with a release's."""
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    return "INSERT INTO curator_log VALUES (?, ?, ?)", [now, kind, message]


# -- notes (see `sparseq.ledger.notes`) as tables of a DuckDB file, in schema `ledger` -------------

_HANDED, _THEM = "handed_notes", "handed_people"
_FEW = 2  # rows that are written soonest one by one
_AT_ONCE = 1 << 20  # rows that are changed in memory together


class DuckNotes:
    """Reads and writes notes; every write is in the caller's transaction.

    Args:
        connection: To the store.
        made: Tables that are known to be there. Those that a write makes are added, so that after a
            transaction that failed it says too much.
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
        """Return notes of a table, in the order in which they were written; the latest, or all."""
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
        return found.cast(notes.schema)

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
        """Delete notes of a table, but for those about some people."""
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
        """Write all notes of a table anew: what is deleted is then no longer in the file's blocks.

        DuckDB only marks deleted rows.
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
        # Row ids of this transaction's own rows are far from the others', so ranges won't do.
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


# -- request ids of stores of format 3 -------------------------------------------------------------

FORMER = "last_release_without_askers"
"""Key in `meta`: up to which release names are former ones."""
_TICK = re.compile(r"monitor/(.+)/(\d{4}-\d\d-\d\d(?:T[\d:.]+)?)", re.DOTALL)
_NODE = re.compile(r"watch/(\d+)(/alarm)?")


def name_askers(connection: duckdb.DuckDBPyConnection) -> None:
    """Move the request ids of a store of format 3 into their askers' namespaces.

    In a transaction of the caller; nothing but the column `request_id` changes.
    """
    segments = connection.execute(
        "SELECT table_name FROM duckdb_tables() "
        "WHERE schema_name = 'ledger' AND table_name SIMILAR TO 'release_[0-9]+'"
    ).fetchall()
    last = 0
    for (segment,) in segments:
        rows = connection.execute(
            f"SELECT id, request_id, query, pot FROM ledger.{segment} ORDER BY id"
        ).fetchall()
        last = max([last, *(row[0] for row in rows)])
        ids = [(n, named(id, query, Pot(pot)).stored) for n, id, query, pot in rows if id]
        numbers, stored = zip(*ids, strict=True) if ids else ((), ())
        columns = [pa.array(numbers, pa.int64()), pa.array(stored, pa.string())]
        connection.register("named", pa.table(columns, names=["id", "request_id"]))
        connection.execute(
            f"UPDATE ledger.{segment} AS r SET request_id = named.request_id "
            "FROM named WHERE r.id = named.id"
        )
        connection.unregister("named")
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [FORMER, str(last)])


def named(id: str, query: str, pot: Pot) -> RequestId:
    """Return the request that a release of format 3 had as its id.

    >>> str(named("watch/3/alarm", "watch", Pot.WATCH)), named("watch/3", "SELECT", Pot.QUERIES)
    ('watch/3/alarm', RequestId(asker=<Asker.ANALYST: 'analyst'>, text='watch/3', question=''))
    """
    if pot is Pot.WATCH and (node := _NODE.fullmatch(id)):
        return RequestId.of(Asker.WATCH, *([node[1], "alarm"] if node[2] else [node[1]]))
    if tick := _TICK.fullmatch(id):
        return RequestId.of(Asker.MONITOR, tick[1], tick[2], question=query)
    run, slash, what = id.rpartition("/")
    if slash and query.startswith(f"train {run} (") and f"): {what}" in query:
        return RequestId.of(Asker.TRAIN, run, what)
    return RequestId.of_analyst(id)


# -- a store that could not be written, told in plain words ----------------------------------------

_CLOSED = {errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}
_FULL = re.compile(
    "no space left|disk (is )?full|file too large|quota exceeded|not enough space|out of disk", re.I
)


def is_full(error: BaseException) -> bool:
    """Tell whether an error is that of a full disk.

    >>> is_full(OSError(28, "No space left on device")), is_full(OSError("no such file"))
    (True, False)
    """
    return bool(_FULL.search(str(error)))


def cannot_write(error: BaseException) -> bool:
    """Tell whether an error is that of a place that can't be written: full, or not allowed.

    >>> cannot_write(OSError(30, "Read-only file system")), cannot_write(OSError(2, "no such file"))
    (True, False)
    """
    if isinstance(error, OSError) and not is_full(error):
        return error.errno in _CLOSED
    return isinstance(error, duckdb.IOException) or is_full(error)


_AGAIN = ", and open the store again: it is whole"


def not_written(
    error: BaseException, consequence: str, unsure: str = "", then: str = _AGAIN
) -> StoreError:
    """Return what is said of a write that failed.

    Args:
        error: DuckDB's.
        consequence: What is sure, such as "the answer was not given".
        unsure: What isn't: it failed in the middle of a commit, and only the file knows.
        then: What to do when the disk is in order.

    >>> print(not_written(OSError("No space left"), "no answer was given", "it was charged"))
    the disk is full; no answer was given; whether it was charged, the file knows
      hint: make room, and open the store again: it is whole
    """
    why = "the disk is full" if is_full(error) else f"the store can't be written: {_line(error)}"
    known = f"; whether {unsure}, the file knows" if unsure else ""
    do = "make room" if is_full(error) else "look at the disk, and whether you may write there"
    return StoreError(f"{why}; {consequence}{known}", do + then)


@contextmanager
def told_where_not_written(consequence: str, then: str = "") -> Iterator[None]:
    """Tell of an error in the block that a place can't be written: see `not_written`.

    Raises:
        StoreError: There was one; others pass.

    >>> with told_where_not_written("there is no store"):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    sparseq.base.errors.StoreError: the disk is full; there is no store
      hint: make room
    """
    try:
        yield
    except (OSError, duckdb.Error) as error:
        if not cannot_write(error):
            raise
        raise not_written(error, consequence, then=then) from None


def _line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return first_line(error) if str(error) else type(error).__name__
