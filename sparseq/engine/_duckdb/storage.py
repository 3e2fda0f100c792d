"""The layout of a store's rows in its DuckDB file.

    by_user.T       the rows of private table T, ordered by user: a full scan meets each user once
    by_time.T       the same rows, ordered by time and user: a query about one day reads one day
    dictionary."T.c"    the strings of a coded column c, private: (code, value)
    public.T        a public table
    main.meta       what the curator declared
    main.taken      keys of what was taken in under a key, and so is not taken in again

Two orders of the same rows are what makes both kinds of query fast; compressed, they take about as
much room as the rows once. Rows that arrive later are appended as another ordered run, and when
many have piled up both orders are written anew.

A table may have a row key. Then the data are what the last version of every row says, and they
change between queries. Section 4.2 of Feldman & Zrnic (2021) allows that: "our results apply to a
more general setting in which the users' data can be updated after each query". In short: a key
stands beside the user, so that a row can replace only rows of its own user, and user i's data at
query t are a function of the rows ever taken in about i. Take all of them away, at all times, and
no other user's vector q_t(X_j), charge or activity changes, the released past being equal. So two
neighbouring streams differ at every t by user i's vector alone, whose charge, made of the data as
they are at t, is what the filter adds up; Theorem 4.5 holds as it stands. What was charged for
an earlier version is not given back, as its release is out.

Columns of stores of format 3, made what columns are now: of the closed list, and within it.

Format 3 stored whole numbers of 128 bits, decimals of 38 digits, moments with a time zone, infinite
dates and texts of any length. What becomes of each value is decided by that value and its type.

Erasing people: their rows, what only they brought, and the bytes that are left of both.

`erase` runs in a transaction: after it, nothing that can be asked of the store shows the rows. That
they are gone from the file as well takes two steps more. Every table that knew them is written
anew, since DuckDB only marks deleted rows, and keeps the extremes of a column. And the old blocks,
which DuckDB leaves in the file until it needs them, are overwritten: `scrub` fills all free blocks
with a throw-away table. A store that was killed in between does so when it is opened next.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from sparseq.accounting.charge import budget_units
from sparseq.base.errors import DataError, SparseqError
from sparseq.engine._duckdb.people import People, kind_of
from sparseq.engine._duckdb.tables import dictionary_table, orders, table_sql, write_anew
from sparseq.engine.protocol import USER, first_line, quote
from sparseq.language.types import Family, find_type
from sparseq.ledger._duckdb import notes
from sparseq.ledger._duckdb.notes import CuratorLog, cannot_write, not_written
from sparseq.ledger._duckdb.session import StoreSession
from sparseq.load.convert import MOST_TEXT
from sparseq.load.read_schema import MOST_DIGITS, NAME, Schema, schema_of
from sparseq.sql.catalog import TIME_TYPES, Catalog, Column, KeyLink, Table, columns_of
from sparseq.sql.plan import ROWS

if TYPE_CHECKING:
    from sparseq.load._duckdb.load_tables import Loading
    from sparseq.load.load_rows import IncomingRows

# -- the layout of a store's rows in its DuckDB file -----------------------------------------------

MAX_RUNS = 8
"""So many runs are left as they are, and more while few rows are in them."""
MIN_SHARE = 4
"""Few are less than 1 / MIN_SHARE of all rows."""

SCHEMAS = """
CREATE SCHEMA by_user; CREATE SCHEMA by_time; CREATE SCHEMA dictionary; CREATE SCHEMA public;
"""
FACTS = """
CREATE TABLE meta (key VARCHAR PRIMARY KEY, value VARCHAR NOT NULL);
CREATE TABLE taken (key VARCHAR PRIMARY KEY, note VARCHAR NOT NULL);
"""


class Storage:
    """Reads and writes the stored tables; every write is the caller's transaction.

    Args:
        connection: To its database.
        session: What marks the file as open.
        held_bytes: Of rows that come, so many may be held in memory.

    Attributes:
        half_done: A transaction was stopped in a moment in which nobody can tell what it has left
            in memory and on disk: whoever has the store must read it anew.
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
        """Return what was put under `key`, or None."""
        return notes.get(self._con, key)

    def put(self, key: str, value: Any) -> None:
        """Remember plain data under `key`."""
        notes.put(self._con, key, value)

    def taken(self) -> dict[str, str]:
        """Return the keys of what was taken in under a key, each with its note."""
        return dict(self._con.execute("SELECT key, note FROM taken ORDER BY rowid").fetchall())

    def has_taken(self, key: str) -> bool:
        """Tell whether something was taken in under `key`."""
        return bool(self._con.execute("SELECT 1 FROM taken WHERE key = ?", [key]).fetchall())

    def take(self, key: str, note: str) -> None:
        """Remember that something was taken in, in the transaction of its rows."""
        self._con.execute("INSERT INTO taken VALUES (?, ?)", [key, note])

    def remember(self, notes: Mapping[str, str]) -> None:
        """Remember notes by their keys, in place of earlier ones."""
        self._con.execute(
            "INSERT OR REPLACE INTO taken SELECT unnest(?::VARCHAR[]), unnest(?::VARCHAR[])",
            [list(notes), list(notes.values())],
        )

    def drop(self, key: str) -> None:
        """Forget what was put under `key`."""
        self._con.execute("DELETE FROM meta WHERE key = ?", [key])

    def identify_users(self, name: str, type: str) -> None:
        """Make the table of users, for identifiers of the kind that private table `name` has.

        Raises:
            DataError: The type is none that identifies people, or other than another table's.
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
        """Return what erased identifiers and keys are hashed under; None: nobody was erased."""
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
        """Make the empty tables of a private table, strings not yet coded.

        Raises:
            DataError: A column has a name that can't be, or there is no such column.
        """
        for column in types:
            if not NAME.fullmatch(column):
                raise DataError(
                    f"a column can't be called {column!r}",
                    f"--rename {shlex.quote(f'{column}=NAME')}",
                )
        if time and types[time].endswith("[]"):
            raise DataError(f"{time} has lists", "--time names a column of dates or times")
        columns = columns_of(types, {user, *not_null}, zoned)
        if not time:
            time = next((c.name for c in columns if c.type in TIME_TYPES), "")
        return Table(name, columns, user, time, _row_key(name, types, user, row_key), link=link)

    def create_public(self, name: str, rows: IncomingRows) -> Table:
        """Store a public table, all of it."""
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
        """Return SQL that makes, empty, all tables that queries can be about."""
        made = [table_sql(table) for table in catalog.tables]
        return "".join([SCHEMAS, "CREATE SCHEMA ledger;", self.people().users_table(), *made])

    def keep_schema(self, table: str, schema: Schema) -> None:
        """Remember how the rows of a private table are read."""
        self.put(f"schema.{table}", schema.to_dict())

    def schema(self, table: Table) -> Schema:
        """Return how the rows of a private table are read: public."""
        return schema_of(table, self.get(f"schema.{table.name}"))

    def load(
        self,
        table: Table,
        rows: IncomingRows,
        default_budget: int,
        budget_column: str,
        new: bool,
        coded: frozenset[str] | None = None,
        below: Sequence[tuple[str, ...]] = (),
    ) -> tuple[Table, int]:
        """Add rows to a private table; return the table (its coding decided if new) and how many.

        Where the table has a row key, a row replaces the one of the same user and key, and the last
        of several versions among the new rows counts. A missing value in a key is a value like any
        other. What did not fit is written to the curator's log. `coded`: see `Loading`.

        Raises:
            DataError: A file can't be read, or lacks a column.
        """
        from sparseq.load._duckdb.load_tables import Loading

        loading = Loading(self._con, self.people(), table, new, coded, below, self.secret())
        before = self._number("SELECT count(*) FROM ledger.users")
        opened = loading.load(rows, default_budget, budget_column, self._held_bytes)
        said = [*rows.told.messages(), *opened.messages(), *loading.told()]
        self._settle(loading, new, said, self._below_least(before))
        return loading.table, loading.count

    def release(self, catalog: Catalog, table: Table) -> int:
        """Take in the rows that have waited for rows that came to a table; return how many.

        Rows of other tables may have waited for these in turn.
        """
        from sparseq.load._duckdb.load_tables import Loading

        count = 0
        for child in catalog.children(table):
            below = catalog.below(child)
            loading = Loading(self._con, self.people(), child, False, None, below, self.secret())
            if loading.release():
                waited = f"{loading.count:,} rows that have waited came in"
                self._settle(loading, False, [waited, *loading.told()], [])
                count += loading.count + self.release(catalog, child)
        return count

    def _settle(
        self, loading: Loading, new: bool, said: Sequence[str], then: Sequence[str]
    ) -> None:
        """Keep a table in order after rows came in, and tell the curator what did not fit."""
        if new:
            self._remember_order(loading.table, 1, 0)
        else:
            self._order_again(loading.table, loading.count)
        log = CuratorLog(self._con)
        for message in (*said, *self._cut_rows(loading.table), *then):
            log.add("ingest", f"{loading.table.name}: {message}")

    def _cut_rows(self, table: Table) -> list[str]:
        """Take out what a person has beyond the declared most rows of a table; say how much it was.

        Kept are the first rows, in order of time and then of all other columns: a rule that looks
        at that person alone.
        """
        most = (self.get("settings").get("most") or {}).get(ROWS)
        if most is None:
            return []
        gone = 0
        for schema, _ in orders(table):
            name = f"{schema}.{quote(table.name)}"
            others = [
                quote(c.name) for c in table.columns if c.name not in (table.time, table.user)
            ]
            by = ", ".join([quote(table.time), *others] if table.time else others) or "rowid"
            many = f"SELECT {USER} FROM {name} GROUP BY ALL HAVING count(*) > {most}"
            numbered = (
                f"SELECT rowid AS r, row_number() OVER (PARTITION BY {USER} ORDER BY {by}) AS k "
                f"FROM {name} WHERE {USER} IN ({many})"
            )
            gone = self._number(
                f"DELETE FROM {name} WHERE rowid IN (SELECT r FROM ({numbered}) WHERE k > {most})"
            )
        if not gone:
            return []
        return [f"{gone:,} rows were left out: nobody has more than {most:,}, as declared"]

    def _below_least(self, before: int) -> list[str]:
        """Say how many people who came after the first `before` have less than the declared least.

        Their budget is kept, since it is theirs. They may count less than intervals allow for.
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
            f"{people:,} people have less than the least that was declared; intervals may not "
            "cover them"
        ]

    def _order_again(self, table: Table, count: int) -> None:
        """Write both orders anew if there are many runs, and enough rows in them to pay for it.

        So each row is written a few times in its life, however many there are before it.
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
        """Write both orders anew, with the rows that `where` holds for."""
        for schema, order in orders(table):
            write_anew(self._con, schema, table.name, where, order)
        self._remember_order(table, 1, 0)

    def drop_unused_codes(self, table: Table) -> None:
        """Write dictionaries anew without the strings that no row has; codes stay as they are."""
        for column in table.columns:
            if column.coded:
                used = f"SELECT {quote(column.name)} FROM by_user.{quote(table.name)}"
                name = f"{table.name}.{column.name}"
                write_anew(self._con, "dictionary", name, f"code IN ({used})", "code")

    def count_rows(self, table: Table, users: Sequence[int]) -> int:
        """Return how many rows of a table are about some users."""
        return self._number(
            f"SELECT count(*) FROM by_user.{quote(table.name)} "
            f"WHERE {USER} IN ({', '.join(map(str, users))})"
        )

    def _number(self, sql: str) -> int:
        ((number,),) = self._con.execute(sql).fetchall()
        return int(number)

    @property
    def revision(self) -> int:
        """Number of times that rows came which may be about an earlier question: public."""
        return int(self.get("revision") or 0)

    def revise(self) -> None:
        """Count one more such arrival, in the transaction of its rows."""
        self.put("revision", self.revision + 1)

    def catalog(self) -> Catalog:
        """Return the public facts about the tables."""
        return Catalog.from_dict(self.get("catalog"))

    def in_transaction(
        self, work: Callable[[], Any], then: Callable[[], None] = lambda: None, counted: bool = True
    ) -> Any:
        """Run `work` in a transaction: all of it is written, or none.

        Args:
            work: Writes.
            then: Takes into memory what was written.
            counted: It is among the changes that the store must have, whose number is public
                (`StoreSession.count_write`). False for what only rows bring about.

        After whatever stopped it, either the transaction was rolled back, and memory is as it was;
        or `half_done` says that memory may not be what is on disk, and must be thrown away.

        Raises:
            DataError: DuckDB does not take the rows; nothing was written.
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
    if cannot_write(error):  # it is the disk's fault, not the rows'
        return not_written(error, "nothing was changed")
    return DataError(f"the rows could not be stored: {first_line(error)}", "nothing was loaded")


def _row_key(
    name: str, types: dict[str, str], user: str, columns: Sequence[str]
) -> tuple[str, ...]:
    """Return the key's columns as they are spelled in the table, without the user."""
    actual = {c.lower(): c for c in types}
    for column in columns:
        if column.lower() not in actual:
            raise DataError(
                f"{name} has no column {column!r}; it has {', '.join(types)}",
                "the row key names columns that say, with the user, which row is meant",
            )
    return tuple(dict.fromkeys(actual[c.lower()] for c in columns if c.lower() != user.lower()))


# -- columns of stores of format 3 -----------------------------------------------------------------

_RANGES = {
    "DATE": "BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'",
    "TIMESTAMP": "BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31 23:59:59.999999'",
}


def keep_to_types(connection: duckdb.DuckDBPyConnection) -> None:
    """Write tables anew that have a column, or a value, which is not on the list any more.

    In a transaction of the caller.
    """
    storage = Storage(connection)
    tables = tuple(_kept(connection, table) for table in storage.catalog().tables)
    storage.put("catalog", Catalog(tables).to_dict())


def _kept(connection: duckdb.DuckDBPyConnection, table: Table) -> Table:
    columns, projections = [], []
    for column in table.columns:
        if column.name == table.user:
            columns.append(column)
            continue
        if column.coded:
            _cut(connection, dictionary_table(table.name, column.name))
        type, sql = _becomes(column)
        columns.append(replace(column, type=type))
        projections.append(f"{sql} AS {quote(column.name)}")
    for schema in _schemas(table):
        name, new = quote(table.name), quote(f"{table.name} rewritten")
        user = [USER] if table.private else []
        connection.execute(
            f"CREATE TABLE {schema}.{new} AS SELECT {', '.join([*user, *projections])} "
            f"FROM {schema}.{name}"
        )
        connection.execute(f"DROP TABLE {schema}.{name}")
        connection.execute(f"ALTER TABLE {schema}.{new} RENAME TO {name}")
    return replace(table, columns=tuple(columns))


def _schemas(table: Table) -> tuple[str, ...]:
    if not table.private:
        return ("public",)
    return ("by_user", "by_time") if table.time else ("by_user",)


def _becomes(column: Column) -> tuple[str, str]:
    """Return a column's type, and SQL of its values in it.

    >>> _becomes(Column("n", "HUGEINT")), _becomes(Column("s", "VARCHAR", coded=True))
    (('DOUBLE', 'CAST("n" AS DOUBLE)'), ('VARCHAR', '"s"'))
    """
    name = quote(column.name)
    if column.coded:
        return column.type, name
    if column.type in _RANGES:
        return column.type, f"CASE WHEN {name} {_RANGES[column.type]} THEN {name} END"
    if column.type == "VARCHAR":
        return column.type, f"left({name}, {MOST_TEXT})"
    if column.type == "TIMESTAMP WITH TIME ZONE":
        moment = f"CAST(CASE WHEN isfinite({name}) THEN epoch_us({name}) END AS BIGINT)"
        within = f"CASE WHEN {moment} BETWEEN -62135596800000000 AND 253402300799999999"
        return "TIMESTAMP", f"{within} THEN make_timestamp({moment}) END"
    kind = find_type(column.type)
    wide = kind is not None and kind.family is Family.DECIMAL and kind.width > MOST_DIGITS
    if kind is None or wide:
        return "DOUBLE", f"CAST({name} AS DOUBLE)"
    return column.type, name


def _cut(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    connection.execute(
        f"UPDATE {table} SET value = left(value, {MOST_TEXT}) WHERE length(value) > {MOST_TEXT}"
    )


# -- erasing people: their rows, what only they brought, and the bytes that are left of both -------

_PENDING = "scrub"
_BLOCK, _SMALL_BLOCK = 1 << 18, 1 << 12  # bytes, of DuckDB's data and catalogue
_MARGIN = 4  # blocks


def erase(storage: Storage, catalog: Catalog, users: Sequence[int]) -> dict[str, int]:
    """Delete all rows of some users, in a transaction of the caller; return how many, by table.

    Args:
        storage: The store's.
        catalog: Its tables.
        users: By index.
    """
    from sparseq.load._duckdb.linked_rows import forget_linked

    if storage.get("erasure_key") is None:
        storage.put("erasure_key", secrets.token_hex(32))
    rows = {}
    for table in catalog.private:
        rows[table.name] = storage.count_rows(table, users)
        if rows[table.name]:
            storage.write_anew(table, f"{USER} NOT IN ({', '.join(map(str, users))})")
        storage.drop_unused_codes(table)
    secret = storage.secret()
    assert secret is not None
    for name, waited in forget_linked(storage.connection, catalog, users, secret).items():
        rows[name] += waited
    storage.people().forget(users)
    scrub_later(storage)
    return rows


def scrub_later(storage: Storage) -> None:
    """Note, in the transaction of an erasure, that what it leaves is to be overwritten."""
    storage.put(_PENDING, True)


def scrub(connection: duckdb.DuckDBPyConnection) -> None:
    """Overwrite what an erasure has left in the file, if one has.

    A checkpoint empties the log, and frees the blocks of every table that was dropped. All free
    space is overwritten then, twice: DuckDB writes blocks with whatever its memory had at their
    unused ends, and the first time has put nothing of anybody's there.
    """
    storage = Storage(connection)
    if not storage.get(_PENDING):
        return
    connection.execute("DROP TABLE IF EXISTS filling")  # of a process that was killed
    connection.execute("CHECKPOINT")
    _overwrite_free_space(connection)
    _overwrite_free_space(connection)
    storage.drop(_PENDING)
    connection.execute("CHECKPOINT")


def _overwrite_free_space(connection: duckdb.DuckDBPyConnection) -> None:
    """Make, store and drop a table as large as the free space.

    Its rows fill data blocks (hashes, which don't compress). What DuckDB keeps about columns, their
    extremes among it, lies in small blocks of its catalogue, which a long comment fills; they are
    freed in every checkpoint, as the connection does not reuse them.
    """
    ((blocks, small),) = connection.execute(
        "SELECT (SELECT free_blocks FROM pragma_database_size()), "
        "(SELECT coalesce(sum(free_blocks), 0)::BIGINT FROM pragma_metadata_info())"
    ).fetchall()
    words = (blocks + _MARGIN) * _BLOCK // 8
    connection.execute(f"CREATE TABLE filling AS SELECT hash(range) AS x FROM range({words})")
    comment = "-" * (small * _SMALL_BLOCK + _BLOCK)
    connection.execute(f"COMMENT ON TABLE filling IS '{comment}'")
    connection.execute("CHECKPOINT")
    connection.execute("DROP TABLE filling")
    connection.execute("CHECKPOINT")
