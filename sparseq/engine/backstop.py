"""The backstop: where the engine fails on some rows, whose rows they are is found, and left out.

Expressions are total and work is bounded, so that an engine should have nothing to fail on. It will
have errors that nobody knows. One that comes up on one person's row must not tell of the row: not
by a refusal, and not by an answer of nothing either, where the neighbour's answer is everybody's
sum. So the set of people is halved, with the same engine, until those are found who fail alone:

    A(S) = what the engine makes of S               where it does not fail on S
    A({i}) = nothing, and i is written down         where it fails on {i}
    A(S) = A(left half of S) + A(right half of S)   else

What the engine makes of a set is the sum over its people of vectors of their own rows (see
`sparseq.query.scope`), in integers, so any way of halving gives the same sum. Claim: if an engine
that fails on {i} fails on every set with i in it, then A(S) is the sum over those of S on whom it
doesn't fail alone. By induction: a set that doesn't fail has nobody in it who fails alone, and is
its sum; for the others it is the rule. So who contributes is decided for each person by that
person's rows, and take i away and nothing of the others' vectors or charges changes.

Each set is tried in a DuckDB of its own, in memory, that has the rows of its people only, and only
the strings that are in them: nobody else's rows can be met there, whatever order the optimiser has
its filters in, and if it comes to a fatal error it isn't the store that has it. At most
2 · failing · log2(people) sets are tried, of all people's rows in all at each level.

The analyst sees an ordinary answer; who failed is for the curator's log. What fails on a database
without people is not about people: then the query is refused, as it would be on any rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb

from sparseq.engine.connection import connected
from sparseq.engine.contributions import Batch
from sparseq.engine.load import quote
from sparseq.engine.people import USER
from sparseq.engine.reader import Reader
from sparseq.errors import QueryRefused
from sparseq.query.catalog import Catalog, Table
from sparseq.query.plan import Plan

MAX_SAID = 300


@dataclass(frozen=True)
class Failure:
    """The engine failed on one person's rows alone: private.

    Attributes:
        user: The person's index.
        error: What the engine said.
    """

    user: int
    error: str


def is_interrupt(error: Exception) -> bool:
    """Tell whether it was not the engine that failed, but somebody who stopped it."""
    return isinstance(error, duckdb.InterruptException) or "Query interrupted" in str(error)


class Backstop:
    """Reads a plan's rows where the store's own engine has failed on them.

    Args:
        connection: The store's.
        catalog: Of its tables.
        read: Reads a plan's rows, as a batch, by some reader.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        catalog: Catalog,
        read: Callable[[Reader, Plan, bool], Batch],
    ) -> None:
        self._con = connection
        self._catalog = catalog
        self._read = read

    def batches(
        self, plan: Plan, first: int, last: int, failures: dict[int, Failure]
    ) -> Iterator[Batch]:
        """Yield the rows of the people `first` to `last` in ranges, ascending.

        Args:
            plan: What failed on all of them together.
            first, last: Indices.
            failures: Takes those who fail alone; their rows are in no batch.

        Raises:
            QueryRefused: It fails without people.
        """
        room = _Room(self._con, self._catalog, plan, self._read)
        try:
            if isinstance(room.attempt(0, -1), Exception):
                raise QueryRefused(
                    "the query could not be evaluated; nothing was charged",
                    "simplify its expressions, or ask the curator",
                )
            pending = halves(first, last)
            while pending:
                a, b = pending.pop(0)
                found = room.attempt(a, b)
                if isinstance(found, Batch):
                    yield found
                elif a == b:
                    failures[a] = Failure(a, _said(found))
                else:
                    pending = halves(a, b) + pending
        finally:
            room.close()


def halves(first: int, last: int) -> list[tuple[int, int]]:
    """Return two halves of a range of people; of one person, the same again; of none, none.

    >>> halves(0, 4), halves(3, 3), halves(0, -1)
    ([(0, 2), (3, 4)], [(3, 3)], [])
    """
    if first >= last:
        return [(first, last)] if first == last else []
    middle = (first + last) // 2
    return [(first, middle), (middle + 1, last)]


def _said(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= MAX_SAID else text[: MAX_SAID - 1] + "…"


class _Room:
    """A database with the rows of some people only, those that one plan looks at."""

    def __init__(
        self,
        store: duckdb.DuckDBPyConnection,
        catalog: Catalog,
        plan: Plan,
        read: Callable[[Reader, Plan, bool], Batch],
    ) -> None:
        self._store, self._plan, self._read = store, plan, read
        relation = plan.query.relation
        text = " ".join([relation.sql, relation.where, *(cap.sql for cap in relation.caps)])
        self._private = [t for t in catalog.private if quote(t.name) in text]
        self._public = [t for t in catalog.tables if not t.private and quote(t.name) in text]
        self._names = "ledger.users" in text
        tables = store.execute(
            "SELECT schema_name, table_name, sql FROM duckdb_tables() WHERE schema_name IN "
            "('by_user', 'by_time', 'dictionary', 'public') "
            "OR (schema_name = 'ledger' AND table_name = 'users')"
        ).fetchall()
        self._tables: dict[tuple[str, str], str] = {(s, t): sql for s, t, sql in tables}
        self._con: duckdb.DuckDBPyConnection | None = None

    def attempt(self, first: int, last: int) -> Batch | Exception:
        """Return the rows of some people, or the error that comes up on them."""
        try:
            con = self._filled(first, last)
            reader = Reader(con)
            reader.have(self._plan.query.relation.caps)
            batch = self._read(reader, self._plan, first < last)
            reader.forget_caps()
            return batch
        except Exception as error:
            if is_interrupt(error):
                raise
            self.close()  # whatever state it is in
            return error

    def _filled(self, first: int, last: int) -> duckdb.DuckDBPyConnection:
        con = self._con = self._con or self._empty()
        for table in self._private:
            self._fill(con, table, f"{USER} BETWEEN {first} AND {last}")
        if self._names:
            self._copy(con, "ledger", "users", f"WHERE {USER} BETWEEN {first} AND {last}")
        return con

    def _empty(self) -> duckdb.DuckDBPyConnection:
        con = connected()
        for schema in ("by_user", "by_time", "dictionary", "public", "ledger"):
            con.execute(f"CREATE SCHEMA {schema}")
        for sql in self._tables.values():
            con.execute(sql)
        for table in self._public:
            self._copy(con, "public", table.name, "")
        return con

    def _fill(self, con: duckdb.DuckDBPyConnection, table: Table, who: str) -> None:
        own = f"by_user.{quote(table.name)}"
        for schema in ("by_user", "by_time") if table.time else ("by_user",):
            self._copy(con, schema, table.name, f"WHERE {who}")
        for column in table.columns:
            if column.coded:
                used = f"SELECT {quote(column.name)} FROM {own} WHERE {who}"
                strings = f"{table.name}.{column.name}"
                self._copy(con, "dictionary", strings, f"WHERE code IN ({used})")

    def _copy(self, con: duckdb.DuckDBPyConnection, schema: str, table: str, where: str) -> None:
        """Have some of the store's rows of a table, and no others."""
        name = f"{schema}.{quote(table)}"
        rows: Any = self._store.sql(f"SELECT * FROM {name} {where}").to_arrow_table()
        con.execute(f"DROP TABLE {name}")
        con.execute(self._tables[schema, table])
        con.register("incoming", rows)
        con.execute(f"INSERT INTO {name} SELECT * FROM incoming")
        con.unregister("incoming")

    def close(self) -> None:
        """Let go of the memory."""
        if self._con is not None:
            self._con.close()
            self._con = None
