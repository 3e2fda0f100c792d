"""The backstop: where the engine fails on some rows, whose rows they are is found, and left out.

Expressions are total and work is bounded, so that an engine should have nothing to fail on. It will
have errors that nobody knows. One that comes up on one person's row must not tell of the row: not
by a refusal, and not by an answer of nothing either, where the neighbour's answer is everybody's
sum. So the set of people is halved, with the same engine, until those are found who fail alone:

    A(S) = what the engine makes of S               where it does not fail on S
    A({i}) = nothing                                where it fails on {i}
    A(S) = A(left half of S) + A(right half of S)   else

What the engine makes of a set is the sum over its people of vectors of their own rows (see
`sparseq.sql.scope`), in integers, so any way of halving gives the same sum. Claim: if an engine
that fails on {i} fails on every set with i in it, then A(S) is the sum over S of A({i}). By
induction: a set that doesn't fail has nobody in it who fails alone, and is its sum; for the others
it is the rule. So what a person contributes is decided by that person's rows, and take i away and
nothing of the others' vectors or charges changes.

Each set is tried in a DuckDB of its own, in memory, that has the rows of its people only, and only
the strings that are in them: nobody else's rows can be met there, whatever order the optimiser has
its filters in, and if it comes to a fatal error it isn't the store that has it. At most
2 · failing · log2(people) sets are tried, of all people's rows in all at each level.

The analyst sees an ordinary answer; who failed is for the curator's log. What fails on a database
without people is not about people: then the query is refused, as it would be on any rows.

The last line: a few people's rows, evaluated alone, against the crowd.

What a person contributes is to be a function of that person's rows alone, whichever range, thread
or loop made it. Here that is looked at while the store is in use, for a few people chosen by the
operating system's entropy: in a database that has their rows alone (as the backstop has it).
Squared norms and sums are integers, and must be equal.

A difference changes nothing for the analyst, as it would tell of a row: it is found after the
commit, it raises nothing, and only the curator is told. Time is what it costs: `SHARE` of what
questions take, saved up, so that short questions are checked one in so many. Chance of being told:
where a fault concerns a part f of all people, a check of one of them finds it with probability at
least f/2, so k checks miss it with probability at most (1 - f/2)^k.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import duckdb
import numpy as np

from sparseq.base.cancellation import check, interruptible
from sparseq.base.errors import QueryRefused
from sparseq.engine._duckdb.connection import connect, damaged_file, is_damage
from sparseq.engine._duckdb.reader import Reader
from sparseq.engine.contributions import Contributions, RowBatch, of_batch
from sparseq.engine.protocol import USER, Difference, EngineFailure, quote
from sparseq.sql.catalog import Catalog, Table
from sparseq.sql.plan import Cap, Plan

# -- the backstop ----------------------------------------------------------------------------------

MAX_SAID = 300


Result = TypeVar("Result")


@dataclass(frozen=True)
class Failure:
    """The end of work that failed: private."""

    error: Exception


@dataclass(frozen=True)
class Work(Generic[Result]):
    """Something that is made of people's rows.

    Attributes:
        text: SQL that names all the tables that are read.
        make: Makes it of what a reader finds; told whether there may be several people.
        caps: Whose tables `make` looks at.
    """

    text: str
    make: Callable[[Reader, bool], Result]
    caps: tuple[Cap, ...] = ()


def pass_on(error: Exception) -> None:
    """Raise what it was, where it was not the engine that failed on rows.

    Somebody stopped it, or the disk has other bytes than were written. Nothing else that an error
    says is looked at: it may come from a row. What runs when the work is cancelled may end in any
    error, or in one of its own: it is not looked at either.

    Raises:
        QueryCancelError: The work was cancelled.
        KeyboardInterrupt: It was stopped.
        StoreError: The store's file is damaged.
    """
    check()
    if is_damage(error):
        raise damaged_file() from None
    stopped = type(error) is RuntimeError and str(error) == "Query interrupted"  # by Ctrl-C
    if stopped or isinstance(error, duckdb.InterruptException):
        raise KeyboardInterrupt from None


class Backstop:
    """Reads people's rows where the store's own engine has failed on them.

    Args:
        connection: The store's.
        catalog: Of its tables.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, catalog: Catalog) -> None:
        self._con = connection
        self._catalog = catalog

    def parts(
        self, work: Work[Result], first: int, last: int, failures: list[EngineFailure]
    ) -> Iterator[Result]:
        """Yield what comes of the rows of the people `first` to `last`, in ranges, ascending.

        Args:
            work: What failed on all of them together.
            first, last: Indices.
            failures: Takes those who fail alone; private.

        Raises:
            QueryRefused: It fails without people.
        """
        room = Room(self._con, self._catalog)
        room.use(work)
        try:
            if isinstance(room.attempt(0, -1), Failure):  # what it says is nobody's business
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
    """Return two halves of a range of people; of one person, the same again; of none, none.

    >>> halves(0, 4), halves(3, 3), halves(0, -1)
    ([(0, 2), (3, 4)], [(3, 3)], [])
    """
    if first >= last:
        return [(first, last)] if first == last else []
    middle = (first + last) // 2
    return [(first, middle), (middle + 1, last)]


def said(error: Exception) -> str:
    """Return what an error says, on one line: private."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= MAX_SAID else text[: MAX_SAID - 1] + "…"


class Room:
    """A database with the rows of some people only, in the tables that some work looks at.

    Args:
        store: The store's connection.
        catalog: Of its tables.
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
        """Have what some work looks at from now on."""
        self._work = work
        text = " ".join([work.text, *(cap.sql for cap in work.caps)])
        self._private = [t for t in self._catalog.private if quote(t.name) in text]
        self._public = [t for t in self._catalog.tables if not t.private and quote(t.name) in text]
        self._names = "ledger.users" in text

    def attempt(self, first: int, last: int) -> Any | Failure:
        """Return what comes of the rows of some people, or of trying."""
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
        """Leave nothing of an attempt that failed; after a fatal error nothing can be kept."""
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
            "('by_user', 'by_time', 'dictionary', 'public') "
            "OR (schema_name = 'ledger' AND table_name = 'users')"
        ).fetchall()
        self._tables = {(schema, table): sql for schema, table, sql in tables}
        con = connect()
        for schema in ("by_user", "by_time", "dictionary", "public", "ledger"):
            con.execute(f"CREATE SCHEMA {schema}")
        for sql in self._tables.values():
            con.execute(sql)
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
            self._there.clear()


# -- the last line ---------------------------------------------------------------------------------

SHARE = 0.05
"""Of the time that questions take: what checks may take."""
PEOPLE = 2
"""At most, after one question."""
_SAVED = 0.1  # seconds of checks that can be saved up
_FIRST = 0.005  # seconds that a check takes, until one was made


@dataclass(frozen=True)
class _Held:
    """A question that was answered: private.

    Attributes:
        plan, made: What was asked, and what came of everybody's rows.
        users: How many people there are.
    """

    plan: Plan
    made: Contributions
    users: int


class AloneCheck:
    """Compares what a few people contribute in a crowd and alone.

    Args:
        read: Reads one person's rows for a plan, where there are no others.
        clock: Seconds.
    """

    def __init__(
        self,
        read: Callable[[Plan, int], RowBatch | Failure],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._read, self._clock = read, clock
        self._saved, self._cost = 0.0, _FIRST
        self._held: _Held | None = None

    def consider(self, plan: Plan, made: Contributions, users: int) -> None:
        """Hold what was made of a plan until `run`, where there is time for it."""
        if users and self._saved >= self._cost:
            self._held = _Held(plan, made, users)

    def save(self, seconds: float) -> None:
        """Take note that a question took so long."""
        self._saved = min(self._saved + SHARE * seconds, _SAVED)

    def run(self) -> list[Difference]:
        """Check a few people of what is held, and let go of it; it raises nothing."""
        held, self._held = self._held, None
        found: list[Difference] = []
        if held is None:
            return found
        for _ in range(PEOPLE):
            begun = self._clock()
            user = _somebody(held)
            said = self._differs(held, user)
            if said:
                found.append(Difference(user, said))
            took = self._clock() - begun
            self._saved -= took
            self._cost = (self._cost + took) / 2
            if self._saved < self._cost:
                break
        return found

    def forget(self) -> None:
        """Forget what is held, as rows are not what they were."""
        self._held = None

    def _differs(self, held: _Held, user: int) -> str:
        """Return how a person's part in the crowd and alone differ, "" if they don't."""
        read = self._read(held.plan, user)
        if isinstance(read, Failure):
            return ""  # the backstop tells of it, where it is asked
        alone, crowd = of_batch(held.plan, read).measures, held.made.measures
        pulled = None if held.made.rereads else held.made.pull(np.array([user], np.int32))
        for i, (one, all_) in enumerate(zip(alone, crowd, strict=True)):
            norms = all_.norm_of(user), one.norm_of(user)
            label = held.plan.query.measures[i].label
            if norms[0] != norms[1]:
                return f"{label}: squared norms {norms[0]:,} among all and {norms[1]:,} alone"
            if pulled is not None and not np.array_equal(pulled[i], one.totals):
                return f"{label}: other sums among all than alone"
        return ""


def _somebody(held: _Held) -> int:
    """Return somebody: as often one of those who contribute as one of all."""
    there = held.made.measures[0].users
    if len(there) and secrets.randbelow(2):
        return int(there[secrets.randbelow(len(there))])
    return secrets.randbelow(held.users)
