"""The backstop: if the engine fails on rows, it finds the users of these rows and leaves them out.

Expressions are total and work is bounded, so an engine should never fail. But it may have unknown
faults. An error on one user's row must not reveal the row: neither by a refusal, nor by an empty
answer while the neighbouring data set's answer is the sum over all users. So the set of users is
halved, with the same engine, until the users who fail alone are found:

    A(S) = the engine's result for S                if it does not fail on S
    A({i}) = nothing                                if it fails on {i}
    A(S) = A(left half of S) + A(right half of S)   otherwise

The engine's result for a set is the sum over its users of vectors of their own rows (see
`sparseq.sql.scope`), in integers, so every way of halving gives the same sum. Claim: if an engine
that fails on {i} fails on every set that contains i, then A(S) is the sum over S of A({i}). Proof
by induction: a set without a failure contains no user who fails alone, and the result is its sum;
for other sets the claim follows from the third rule. So a user's contribution depends only on that
user's rows, and removing i changes no vector or charge of other users.

Each set is tried in a separate DuckDB in memory that contains only the rows of its users: no other
user's rows can be read there, in any order in which the optimiser applies its filters, and a fatal
error does not affect the store. At most 2 · failing · log2(users) sets are tried; the sets of each
level together contain all users' rows.

The analyst sees an ordinary answer; the failing users are named in the curator's log. A failure on
a database without users does not depend on users: the query is refused, as for any other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import duckdb

from sparseq.base._duckdb.connection import connect, damaged_file, is_damage
from sparseq.base.cancellation import check, interruptible
from sparseq.base.errors import QueryRefused
from sparseq.base.sql_text import quote
from sparseq.engine._duckdb.reader import Reader
from sparseq.engine.protocol import USER
from sparseq.ledger.engine_failure import EngineFailure
from sparseq.question.catalog import Catalog, Table
from sparseq.question.plan import Cap

MAX_SAID = 300


Result = TypeVar("Result")


@dataclass(frozen=True)
class Failure:
    """The error of failed work: private."""

    error: Exception


@dataclass(frozen=True)
class Work(Generic[Result]):
    """Work on users' rows.

    Attributes:
        text: SQL that names all tables that the work reads.
        make: Computes the result from a reader; its second argument is True if there may be several
            users.
        caps: Row limits whose tables `make` reads.
    """

    text: str
    make: Callable[[Reader, bool], Result]
    caps: tuple[Cap, ...] = ()


def pass_on(error: Exception) -> None:
    """Raise the error if it has another cause than a failure of the engine on rows.

    That is the case if the work was stopped, or if the disk returns bytes other than those written.
    Nothing else in an error is examined, because it may come from a row. Cancelled work may end in
    any error, which is not examined either.

    Raises:
        QueryCancelError: The work was cancelled.
        KeyboardInterrupt: The work was stopped.
        StoreError: The store's file is damaged.
    """
    check()
    if is_damage(error):
        raise damaged_file() from None
    stopped = type(error) is RuntimeError and str(error) == "Query interrupted"  # by Ctrl-C
    if stopped or isinstance(error, duckdb.InterruptException):
        raise KeyboardInterrupt from None


class Backstop:
    """A reader of users' rows on which the store's own engine has failed.

    Args:
        connection: The store's connection.
        catalog: The catalog of its tables.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, catalog: Catalog) -> None:
        self._con = connection
        self._catalog = catalog

    def parts(
        self, work: Work[Result], first: int, last: int, failures: list[EngineFailure]
    ) -> Iterator[Result]:
        """Yield results for the rows of the users `first` to `last`, in ascending ranges.

        Args:
            work: The work that failed on all these users together.
            first, last: The indices of the first and the last user.
            failures: Receives the users who fail alone; private.

        Raises:
            QueryRefused: The work fails without users.
        """
        room = Room(self._con, self._catalog)
        room.use(work)
        try:
            if isinstance(room.attempt(0, -1), Failure):  # the text of the error must not be shown
                raise QueryRefused(
                    "the query could not be evaluated; nothing was charged",
                    "simplify its expressions, or ask the curator",
                )
            pending = halves(first, last)
            while pending:
                a, b = pending.pop(0)
                found = room.attempt(a, b)
                if not isinstance(found, Failure):
                    yield found
                elif a == b:
                    failures.append(EngineFailure(a, said(found.error)))
                else:
                    pending = halves(a, b) + pending
        finally:
            room.close()


def halves(first: int, last: int) -> list[tuple[int, int]]:
    """Return two halves of a range of users; a single user twice; nothing for an empty range.

    >>> halves(0, 4), halves(3, 3), halves(0, -1)
    ([(0, 2), (3, 4)], [(3, 3)], [])
    """
    if first >= last:
        return [(first, last)] if first == last else []
    middle = (first + last) // 2
    return [(first, middle), (middle + 1, last)]


def said(error: Exception) -> str:
    """Return the text of an error on one line: private."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= MAX_SAID else text[: MAX_SAID - 1] + "…"


class Room:
    """A database with the rows of some users only, in the tables that the work reads.

    Args:
        store: The store's connection.
        catalog: The catalog of its tables.
    """

    def __init__(self, store: duckdb.DuckDBPyConnection, catalog: Catalog) -> None:
        self._store, self._catalog = store, catalog
        self._work: Work[Any] = Work("", lambda reader, many: None)
        self._private: list[Table] = []
        self._public: list[Table] = []
        self._names = False
        self._there: set[str] = set()  # public tables that are filled
        self._tables: dict[tuple[str, str], str] = {}
        self._con: duckdb.DuckDBPyConnection | None = None

    def use(self, work: Work[Any]) -> None:
        """Provide the tables that this work reads."""
        self._work = work
        text = " ".join([work.text, *(cap.sql for cap in work.caps)])
        self._private = [t for t in self._catalog.private if quote(t.name) in text]
        self._public = [t for t in self._catalog.tables if not t.private and quote(t.name) in text]
        self._names = "ledger.users" in text

    def attempt(self, first: int, last: int) -> Any | Failure:
        """Return the result for the rows of some users, or the failure."""
        try:
            with interruptible(self._interrupt):
                reader = Reader(self._filled(first, last))
                reader.have(self._work.caps)
                made = self._work.make(reader, first < last)
                reader.forget_caps()
                return made
        except Exception as error:
            pass_on(error)
            self._clean_up()
            return Failure(error)

    def _interrupt(self) -> None:
        for connection in (self._store, self._con):
            if connection is not None:
                connection.interrupt()

    def _clean_up(self) -> None:
        """Remove the remains of a failed attempt; after a fatal error nothing can be kept."""
        try:
            if self._con is not None:
                Reader(self._con).drop_caps(self._work.caps)
        except duckdb.Error:
            self.close()

    def _filled(self, first: int, last: int) -> duckdb.DuckDBPyConnection:
        con = self._con = self._con or self._empty()
        for public in self._public:
            if public.name not in self._there:
                self._copy(con, "public", public.name, "")
                self._there.add(public.name)
        for table in self._private:
            self._fill(con, table, f"{USER} BETWEEN {first} AND {last}")
        if self._names:
            self._copy(con, "ledger", "users", f"WHERE {USER} BETWEEN {first} AND {last}")
        return con

    def _empty(self) -> duckdb.DuckDBPyConnection:
        tables = self._store.execute(
            "SELECT schema_name, table_name, sql FROM duckdb_tables() WHERE schema_name IN "
            "('by_user', 'by_time', 'public') "
            "OR (schema_name = 'ledger' AND table_name = 'users')"
        ).fetchall()
        self._tables = {(schema, table): sql for schema, table, sql in tables}
        con = connect()
        for schema in ("by_user", "by_time", "public", "ledger"):
            con.execute(f"CREATE SCHEMA {schema}")
        for sql in self._tables.values():
            con.execute(sql)
        return con

    def _fill(self, con: duckdb.DuckDBPyConnection, table: Table, who: str) -> None:
        for schema in ("by_user", "by_time") if table.time else ("by_user",):
            self._copy(con, schema, table.name, f"WHERE {who}")

    def _copy(self, con: duckdb.DuckDBPyConnection, schema: str, table: str, where: str) -> None:
        """Copy some of the store's rows of a table, and no others."""
        name = f"{schema}.{quote(table)}"
        rows: Any = self._store.sql(f"SELECT * FROM {name} {where}").to_arrow_table()
        con.execute(f"DROP TABLE {name}")
        con.execute(self._tables[schema, table])
        con.register("incoming", rows)
        con.execute(f"INSERT INTO {name} SELECT * FROM incoming")
        con.unregister("incoming")

    def close(self) -> None:
        """Free the memory."""
        if self._con is not None:
            self._con.close()
            self._con = None
            self._there.clear()
