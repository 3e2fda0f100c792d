"""The layout of a store's rows in its DuckDB file.

    by_user.T       the rows of private table T, ordered by user: a full scan meets each user once
    by_time.T       the same rows, ordered by time and user: a query about one day reads one day
    public.T        a public table
    main.meta       what the curator declared
    main.taken      keys of what was taken in under a key, and so is not taken in again

Two orders of the same rows make both kinds of queries fast; compressed, they take about as much
space as the rows once. Later rows are appended as another ordered run, and after many runs both
orders are rewritten.

A table may have a row key. Then the data are the last version of every row, and they change between
queries. Section 4.2 of Feldman & Zrnic (2021) allows that: "our results apply to a more general
setting in which the users' data can be updated after each query". In short: a key is used together
with the user, so a row can replace only rows of its own user, and user i's data at query t are a
function of the rows ever loaded about i. Without all of these, at all times, no other user's vector
q_t(X_j), charge or activity changes, for an equal released past. So two neighbouring streams differ
at every t only in user i's vector, whose charge, computed from the data as they are at t, is what
the filter adds up; Theorem 4.5 holds as it stands. The charge for an earlier version is not given
back, because its release is public.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import numpy as np
import pyarrow as pa

from sparseq.accounting.charge import budget_units
from sparseq.base.errors import DataError, SparseqError
from sparseq.base.private import Private
from sparseq.base.sql_text import first_line, quote
from sparseq.engine._duckdb.people import People, kind_of
from sparseq.engine._duckdb.tables import orders, table_sql, value_order, write_anew
from sparseq.engine.protocol import USER
from sparseq.ledger._duckdb import facts as store_facts
from sparseq.ledger._duckdb.curator_log import CuratorLog
from sparseq.ledger._duckdb.session import StoreSession
from sparseq.ledger._duckdb.write_errors import cannot_write, not_written
from sparseq.load.read_schema import NAME, Schema, schema_of
from sparseq.question.catalog import TIME_TYPES, Catalog, KeyLink, Table, columns_of
from sparseq.question.limits import ROWS

if TYPE_CHECKING:
    from sparseq.engine.reduction import Ints
    from sparseq.load._duckdb.load_tables import Loading
    from sparseq.load.load_rows import IncomingRows

Done = TypeVar("Done")

MAX_RUNS = 8
"""This number of runs is left as it is, and more as long as they have few rows."""
MIN_SHARE = 4
"""Few means less than 1 / MIN_SHARE of all rows."""

SCHEMAS = """
CREATE SCHEMA by_user; CREATE SCHEMA by_time; CREATE SCHEMA public;
"""
FACTS = """
CREATE TABLE meta (key VARCHAR PRIMARY KEY, value VARCHAR NOT NULL);
CREATE TABLE taken (key VARCHAR PRIMARY KEY, note VARCHAR NOT NULL);
"""


class Storage:
    """Reads and writes the stored tables; every write is in the caller's transaction.

    Args:
        connection: The connection to the database.
        session: The session, which marks the file as open.
        held_bytes: The maximum number of bytes of new rows in memory.

    Attributes:
        half_done: True after a transaction that was stopped at a moment when its result in memory
            and on disk is unknown: the store must be read again.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        session: StoreSession | None = None,
        held_bytes: int = 0,
    ) -> None:
        self._con = self.connection = connection
        self._session = session or StoreSession(connection)
        self._held_bytes = held_bytes
        self.half_done = False

    def get(self, key: str) -> Any:
        """Return the value that was stored under `key`, or None."""
        return store_facts.get(self._con, key)

    def put(self, key: str, value: Any) -> None:
        """Store plain data under `key`."""
        store_facts.put(self._con, key, value)

    def taken(self) -> dict[str, str]:
        """Return the keys of the loads under a key, each with its note."""
        return dict(self._con.execute("SELECT key, note FROM taken ORDER BY rowid").fetchall())

    def has_taken(self, key: str) -> bool:
        """Tell whether there was a load under `key`."""
        return bool(self._con.execute("SELECT 1 FROM taken WHERE key = ?", [key]).fetchall())

    def take(self, key: str, note: str) -> None:
        """Record a load, in the transaction of its rows."""
        self._con.execute("INSERT INTO taken VALUES (?, ?)", [key, note])

    def remember(self, notes: Mapping[str, str]) -> None:
        """Store notes by their keys; they replace earlier ones."""
        self._con.execute(
            "INSERT OR REPLACE INTO taken SELECT unnest(?::VARCHAR[]), unnest(?::VARCHAR[])",
            [list(notes), list(notes.values())],
        )

    def drop(self, key: str) -> None:
        """Delete the value under `key`."""
        self._con.execute("DELETE FROM meta WHERE key = ?", [key])

    def identify_users(self, name: str, type: str) -> None:
        """Create the table of users, for identifiers of the kind that private table `name` has.

        Raises:
            DataError: The type can't identify users, or differs from that of another table.
        """
        kind, known = kind_of(type), self.get("users")
        if known not in (None, kind):
            raise DataError(
                f"the user column of {name} is {type}, that of another table {known}",
                "the same person needs the same identifier everywhere",
            )
        if known is None:
            self.put("users", kind)
            self.people().create_tables()

    def people(self) -> People:
        """Return the accounts by identifier."""
        whole = self.get("settings").get("lifetime") is not None
        return People(self._con, self.get("users"), self.secret(), whole)

    def secret(self) -> bytes | None:
        """Return the key of the hashes of erased identifiers and keys; None: no user was erased."""
        key = self.get("erasure_key")
        return bytes.fromhex(key) if key else None

    def create_private(
        self,
        name: str,
        types: dict[str, str],
        user: str,
        time: str,
        row_key: Sequence[str] = (),
        link: KeyLink | None = None,
        not_null: Collection[str] = (),
        zoned: Collection[str] = (),
    ) -> Table:
        """Create the empty tables of a private table.

        Raises:
            DataError: A column's name is invalid, or a named column does not exist.
        """
        for column in types:
            if not NAME.fullmatch(column):
                raise DataError(
                    f"a column can't be called {column!r}",
                    f"--rename {shlex.quote(f'{column}=NAME')}",
                )
        if time and types[time].endswith("[]"):
            raise DataError(f"{time} has lists", "use --time with a column of dates or times")
        columns = columns_of(types, {user, *not_null}, zoned)
        if not time:
            time = next((c.name for c in columns if c.type in TIME_TYPES), "")
        return Table(name, columns, user, time, _row_key(name, types, user, row_key), link=link)

    def create_public(self, name: str, rows: IncomingRows) -> Table:
        """Store a whole public table."""
        types = rows.usable()
        rows.read(self._con, types)
        self._con.execute(f"CREATE TABLE public.{quote(name)} AS SELECT * FROM staged")
        self._con.execute("DROP TABLE staged")
        log = CuratorLog(self._con)
        for message in rows.told.messages():
            log.add("ingest", f"{name}: {message}")
        return Table(name, columns_of(types, rows.schema.not_null, rows.schema.zoned))

    def public_rows(self, table: Table) -> pa.Table:
        """Return a public table."""
        return self._con.sql(f"SELECT * FROM public.{quote(table.name)}").to_arrow_table()

    def empty_tables(self, catalog: Catalog) -> str:
        """Return SQL that creates, empty, all tables that queries can read."""
        made = [table_sql(table) for table in catalog.tables]
        return "".join([SCHEMAS, "CREATE SCHEMA ledger;", self.people().users_table(), *made])

    def keep_schema(self, table: str, schema: Schema) -> None:
        """Store the schema by which rows of a private table are read."""
        self.put(f"schema.{table}", schema.to_dict())

    def schema(self, table: Table) -> Schema:
        """Return the schema by which rows of a private table are read: public."""
        return schema_of(table, self.get(f"schema.{table.name}"))

    def load(
        self,
        table: Table,
        rows: IncomingRows,
        default_budget: int,
        budget_column: str,
        new: bool,
        below: Sequence[tuple[str, ...]] = (),
    ) -> Private[int]:
        """Add rows to a private table; return their number.

        If the table has a row key, a row replaces the row of the same user and key, and the last of
        several versions among the new rows counts. NULL in a key is a value like any other.
        Messages about values that did not fit are written to the curator's log.

        Raises:
            DataError: A file can't be read, or lacks a column.
        """
        from sparseq.load._duckdb.load_tables import Loading

        loading = Loading(self._con, self.people(), table, new, below, self.secret())
        before = self._number("SELECT count(*) FROM ledger.users")
        opened = loading.load(rows, default_budget, budget_column, self._held_bytes)
        said = [*rows.told.messages(), *opened.messages(), *loading.told()]
        self._settle(loading, new, said, self._below_least(before))
        return Private(loading.count)

    def release(self, catalog: Catalog, table: Table) -> Private[int]:
        """Load rows that have waited for rows of a table; return their number.

        Rows of other tables may have waited for these in turn.
        """
        from sparseq.load._duckdb.load_tables import Loading

        count = 0
        for child in catalog.children(table):
            below = catalog.below(child)
            loading = Loading(self._con, self.people(), child, False, below, self.secret())
            if loading.release():
                waited = f"{loading.count:,} waiting rows were added"
                self._settle(loading, False, [waited, *loading.told()], [])
                count += loading.count + self.release(catalog, child).inside()
        return Private(count)

    def _settle(
        self, loading: Loading, new: bool, said: Sequence[str], then: Sequence[str]
    ) -> None:
        """Finish a table after a load, and write messages about values that did not fit to the
        curator's log.
        """
        if new:
            self._remember_order(loading.table, 1, 0)
        else:
            self._order_again(loading.table, loading.count)
        log = CuratorLog(self._con)
        for message in (*said, *self._cut_rows(loading.table), *then):
            log.add("ingest", f"{loading.table.name}: {message}")

    def _cut_rows(self, table: Table) -> list[str]:
        """Delete each user's rows beyond the declared maximum; return a message with their number.

        The first rows in order of their values are kept: a rule that depends on that user alone.
        """
        most = (self.get("settings").get("most") or {}).get(ROWS)
        if most is None:
            return []
        gone = 0
        for schema, _ in orders(table):
            name = f"{schema}.{quote(table.name)}"
            many = f"SELECT {USER} FROM {name} GROUP BY ALL HAVING count(*) > {most}"
            order = f"PARTITION BY {USER} ORDER BY {value_order(table)}"
            numbered = (
                f"SELECT rowid AS r, row_number() OVER ({order}) AS k "
                f"FROM {name} WHERE {USER} IN ({many})"
            )
            gone = self._number(
                f"DELETE FROM {name} WHERE rowid IN (SELECT r FROM ({numbered}) WHERE k > {most})"
            )
        if not gone:
            return []
        return [f"{gone:,} rows were left out: the declared maximum for one person is {most:,}"]

    def _below_least(self, before: int) -> list[str]:
        """Return a message with the number of new users who have less than the declared minimum.

        Their budget is kept, because it is theirs. Intervals may not account for it.
        """
        weights = self.get("settings").get("weights")
        if not weights:
            return []
        least = budget_units(weights["least"])
        some = f"FROM ledger.users WHERE {USER} >= {before} AND budget < {least}"
        people = self._number(f"SELECT count(*) {some}")
        if not people:
            return []
        return [
            f"{people:,} people have less than the declared minimum; intervals may not cover them"
        ]

    def _order_again(self, table: Table, count: int) -> None:
        """Rewrite both orders if there are many runs, with enough rows to be worth it.

        So each row is rewritten a few times in its life, for any number of earlier rows.
        """
        runs = self.get(f"runs.{table.name}") + 1
        since = self.get(f"rows since.{table.name}") + count
        rows = self._number(f"SELECT count(*) FROM by_user.{quote(table.name)}")
        if runs >= MAX_RUNS and since * MIN_SHARE >= rows:
            self.write_anew(table, "true")
        else:
            self._remember_order(table, runs, since)

    def _remember_order(self, table: Table, runs: int, since: int) -> None:
        self.put(f"runs.{table.name}", runs)
        self.put(f"rows since.{table.name}", since)

    def write_anew(self, table: Table, where: str) -> None:
        """Rewrite both orders, with the rows that fulfil `where`."""
        for schema, order in orders(table):
            write_anew(self._con, schema, table.name, where, order)
        self._remember_order(table, 1, 0)

    def count_rows(self, table: Table, users: Sequence[int]) -> Private[int]:
        """Return the number of rows of a table about some users."""
        listed = ", ".join(map(str, users))
        sql = f"SELECT count(*) FROM by_user.{quote(table.name)} WHERE {USER} IN ({listed})"
        return Private(self._number(sql))

    def rows_of_each(self, table: Table, accounts: int) -> Private[Ints]:
        """Return the number of rows of a table about each of the first users."""
        sql = f"SELECT {USER} AS u, count(*) AS n FROM by_user.{quote(table.name)} GROUP BY 1"
        found, rows = self._con.execute(sql).fetchnumpy(), np.zeros(accounts, np.int64)
        rows[np.asarray(found["u"])] = np.asarray(found["n"])
        return Private(rows)

    def _number(self, sql: str) -> int:
        ((number,),) = self._con.execute(sql).fetchall()
        return int(number)

    @property
    def revision(self) -> int:
        """Number of loads of rows that may be about an earlier question: public."""
        return int(self.get("revision") or 0)

    def revise(self) -> None:
        """Count one more such load, in the transaction of its rows."""
        self.put("revision", self.revision + 1)

    def catalog(self) -> Catalog:
        """Return the public facts about the tables."""
        return Catalog.from_dict(self.get("catalog"))

    def in_transaction(
        self,
        work: Callable[[], Done],
        then: Callable[[], None] = lambda: None,
        counted: bool = True,
    ) -> Done:
        """Run `work` in a transaction: all of it is written, or nothing.

        Args:
            work: Writes.
            then: Updates the memory with the written data.
            counted: True if the change is among those that the store must have, whose number is
                public (`StoreSession.count_write`). False for changes that only rows cause.

        After any interruption, either the transaction was rolled back, and memory is unchanged; or
        `half_done` is set: memory may differ from the disk, and must be dropped.

        Raises:
            DataError: DuckDB refuses the rows; nothing was written.
            StoreError: The disk is full, or fails.
        """
        try:
            self._session.begin()
        except duckdb.Error as error:
            raise not_written(error, "nothing was changed") from None
        self.half_done = True
        self._con.execute("BEGIN")
        committing = False
        try:
            done = work()
            number = self._session.count_write() if counted else None
            committing = True
            self._con.execute("COMMIT")
        except BaseException as error:
            if not committing:
                self._con.rollback()
                self.half_done = False
            if isinstance(error, duckdb.Error):
                raise _refusal(error, committing) from None
            raise
        self._session.reached(writes=number)
        then()
        self.half_done = False
        return done


def _refusal(error: duckdb.Error, committing: bool) -> SparseqError:
    if committing:
        return not_written(error, "the store is closed", "the change was made")
    if cannot_write(error):  # the disk failed, and the rows are fine
        return not_written(error, "nothing was changed")
    return DataError(f"the rows could not be stored: {first_line(error)}", "nothing was loaded")


def _row_key(
    name: str, types: dict[str, str], user: str, columns: Sequence[str]
) -> tuple[str, ...]:
    """Return the key's columns in the table's spelling, without the user."""
    actual = {c.lower(): c for c in types}
    for column in columns:
        if column.lower() not in actual:
            raise DataError(
                f"{name} has no column {column!r}; it has {', '.join(types)}",
                "the row key names columns that identify a row, together with the user",
            )
    return tuple(dict.fromkeys(actual[c.lower()] for c in columns if c.lower() != user.lower()))
