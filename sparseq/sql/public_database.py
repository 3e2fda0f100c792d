"""The public database used by lowering: it finds types and public values.

An in-memory database with the store's private tables, empty, and its public tables, complete. Its
results use no private row, so its errors may be shown. The databases of all stores of a process
share one DuckDB instance, each under its own name.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import os
import re
import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from sparseq.base._duckdb.connection import fetch_at_most, scratch
from sparseq.base.cancellation import Cancellation, check
from sparseq.base.errors import QueryRefused
from sparseq.language import types as T
from sparseq.language.calendar import DAY, UNITS, ZONES_SINCE
from sparseq.question.catalog import Catalog, KnownBounds
from sparseq.question.limits import LIMITS, all_limits
from sparseq.question.plan import Cap
from sparseq.released.sql_over_noise import ends_function
from sparseq.sql.parsed_expressions import ENDS_FUNCTION
from sparseq.sql.plain_constants import plain_value

_names = itertools.count(1)
_CONSTANT = re.compile(
    r"""CAST\('(?P<number>-?\d{1,15}(?:\.\d{1,15})?)' AS DOUBLE\)"""
    r"""|CAST\('(?P<date>\d{4}-\d\d-\d\d)' AS DATE\)"""
    r"""|(?<=[ <>!][=<>] )(?P<integer>[1-9]\d{0,8})(?=[ )])"""
    r"""|"(?:[^"]|"")*"|'(?:[^']|'')*'"""
)
_REMEMBERED, _FEW = 4096, 64  # results, and rows of each
_AT_ONCE = 1000  # rows
_CAP = "CREATE TEMP TABLE {} (_user INTEGER NOT NULL)"
_MOST_CAPS = 1024  # of lowered queries, far more than one query can have
PATIENCE = 5.0
"""Time limit for a query of public tables, in seconds."""
PATIENCE_AFTER = 2.0
"""Time limit for SQL over an answer, in seconds; after it, the questions' own answers are shown."""


class PublicFacts:
    """A copy of the store without its private rows.

    Args:
        catalog: The store's catalog.
        schema: SQL that creates the store's schemas and tables, empty.
        rows: The rows of its public tables, by name.
        most: The limits that were set (see `sparseq.question.plan`).
        weighted: People have weights in answers; otherwise a person is included or excluded.
        least_people: The least number of people, by a noised count, of a shown value; 0: no limit.
        found_bounds: Found bounds of values without declared ones.
        finds_keys: The store has a budget for finding keys.

    Attributes:
        assumes_bounds: Assume bounds for columns whose bounds a charged release would find.
        subqueries: The number of subqueries of queries that it has answered.
        patience: The time limit of one query, in seconds.
        limits: All limits, by name.
        most_work: The most row combinations that a person may have in a join.
    """

    def __init__(
        self,
        catalog: Catalog,
        schema: str,
        rows: Mapping[str, pa.Table],
        most: Mapping[str, int] | None = None,
        weighted: bool = False,
        least_people: int = 0,
        found_bounds: KnownBounds | None = None,
        finds_keys: bool = False,
    ) -> None:
        self.catalog, self.weighted, self.least_people = catalog, weighted, least_people
        self.finds_keys = finds_keys
        self.found_bounds = found_bounds or KnownBounds({})
        self.assumes_bounds = False
        self.limits = all_limits(most)
        self.most_work = self.limits["work"]
        self._schema, self._rows = schema, dict(rows)
        self._lock = threading.Lock()
        self._values: dict[str, list[tuple[Any, ...]]] = {}
        self._types: dict[str, list[str]] = {}  # by SQL, with irrelevant constants removed
        self._most_rows: dict[tuple[str, tuple[str, ...]], int] = {}
        self._caps: OrderedDict[str, None] = OrderedDict()
        self.subqueries = 0
        self.patience = PATIENCE
        self._open()

    def _open(self) -> None:
        self._con, name = scratch("public"), f"public_{next(_names)}"
        self._con.execute(f"ATTACH ':memory:' AS {name}; USE {name}; {self._schema}")
        self._close = weakref.finalize(self, _let_go, self._con, name, os.getpid())
        _make_ends_function(self._con)
        for table, rows in self._rows.items():
            self._con.register("incoming", rows)
            self._con.execute(f"INSERT INTO public.{_quote(table)} SELECT * FROM incoming")
            self._con.unregister("incoming")
        for cap in self._caps:
            self._con.execute(_CAP.format(_quote(cap)))

    def types(self, sql: str) -> list[str]:
        """Return the types of a SELECT's columns, found by a run without private rows.

        Raises:
            QueryRefused: DuckDB reports an error in it.
        """
        shape = _without_constants(sql)
        if shape not in self._types:
            if len(self._types) >= _REMEMBERED:
                self._types.clear()
            self._types[shape] = [type for _, type in self._run(sql)[0]]
        return list(self._types[shape])

    def columns(self, sql: str) -> dict[str, str]:
        """Return the names and types of a SELECT's columns."""
        return dict(self._run(sql)[0])

    def ends(self, table: str, column: str) -> tuple[float, float] | None:
        """Return the least and the greatest finite number in a public table's column."""
        field = f"TRY_CAST({_quote(column)} AS DOUBLE)"
        sql = f"SELECT min({field}), max({field}) FROM public.{_quote(table)}"
        ((low, high),) = self.values(f"{sql} WHERE isfinite({field})")
        return None if low is None else (low, high)

    def values(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT over public tables and constants.

        Raises:
            QueryRefused: DuckDB reports an error in it.
        """
        if sql not in self._values:
            rows = self._run(sql)[1]
            if len(rows) > _FEW:
                return rows
            if len(self._values) >= _REMEMBERED:
                self._values.clear()
            self._values[sql] = rows
        return list(self._values[sql])

    def constant(self, sql: str) -> Any:
        """Return the value of an expression without columns.

        Raises:
            QueryRefused: It has no value: a date that does not exist, a number out of range.
        """
        plain = plain_value(sql)
        if plain is not None:
            return plain
        ((value,),) = self.values(f"SELECT {sql}")
        return value

    def unit_of_zone(self, name: str) -> str:
        """Return the unit of time such that a zone's clocks change only at its ends, from 1973 on.

        The unit is hours, or quarters of an hour, if the clocks differ from UTC by a whole number
        of these at each midnight, and also, on days with a change, by the same whole number at the
        first and the last moment of each unit; otherwise minutes. Years after 2100 are assumed to
        be like those before.
        """
        zone = "'" + name.replace("'", "''") + "'"
        off = f"(epoch_us(timezone({zone}, make_timestamptz({{0}}))) - {{0}})"
        day = f"SELECT d, {off.format(f'({DAY} * d)')} AS own FROM range({ZONES_SINCE}, 48000) t(d)"
        for unit in ("hour", "15 minutes"):
            size = UNITS[unit].length
            first = f"({DAY} * d + {size} * h)"
            inside = (
                f"SELECT {off.format(first)} AS a, {off.format(f'({first} + {size - 1})')} AS b "
                f"FROM days, range({DAY // size}) AS t(h) WHERE own <> later"
            )
            whole = self.values(
                "WITH days AS MATERIALIZED (SELECT d, own, lead(own) OVER (ORDER BY d) AS later "
                f"FROM ({day})) SELECT bool_and(a % {size} = 0 AND a = b) FROM "
                f"(SELECT own AS a, own AS b FROM days UNION ALL {inside})"
            )
            if whole == [(True,)]:
                return unit
        return "minute"

    def rows(self, sql: str) -> pa.Table:
        """Return the rows of a SELECT over public tables.

        Raises:
            QueryRefused: DuckDB reports an error in it, or it takes too long.
            TooLarge: It has too many rows.
        """
        with self._lock:
            try:
                with Cancellation(self.patience) as look, look.interrupts(self._con.interrupt):
                    return fetch_at_most(self._con, sql, self.limits)
            except duckdb.Error as error:
                raise _refusal(error) from None

    def answer(self, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Return the rows of a SELECT over public tables and released ones.

        Args:
            sql: Typed and total.
            tables: The released tables, by their names in `sql`.

        Raises:
            duckdb.Error: It exceeds the limit of time or memory.
            TooLarge: It has too many rows.
        """
        with self._lock:
            try:
                for name, table in tables.items():
                    self._con.register(name, table)
                with Cancellation(PATIENCE_AFTER) as look, look.interrupts(self._con.interrupt):
                    return fetch_at_most(self._con, sql, self.limits)
            finally:
                for name in tables:
                    self._con.unregister(name)

    def most_rows(self, rows: str, keys: Sequence[str]) -> int:
        """Return the most rows of a public source that agree in all of `keys`, without NULL keys.

        Args:
            rows: SQL of the source, with its alias.
            keys: SQL of expressions over it; if empty, all rows agree.

        Raises:
            QueryRefused: It takes too long.
        """
        known = (rows, tuple(keys))
        if known not in self._most_rows:
            if len(self._most_rows) >= _REMEMBERED:
                self._most_rows.clear()
            counted = f"SELECT count(*) AS n FROM {rows}"
            if keys:
                there = " AND ".join(f"{k} IS NOT NULL" for k in keys)
                counted += f" WHERE {there} GROUP BY {', '.join(keys)}"
            ((most,),) = self.values(f"SELECT coalesce(max(n), 0) FROM ({counted})")
            self._most_rows[known] = int(most)
        return self._most_rows[known]

    def know_cap(self, cap: Cap) -> None:
        """Create the empty table of a cap, so that SQL that uses it can be checked."""
        if cap.name not in self._caps:
            self._run(_CAP.format(_quote(cap.name)))
            self._caps[cap.name] = None
            while len(self._caps) > _MOST_CAPS:
                oldest, _ = self._caps.popitem(last=False)
                self._run(f"DROP TABLE temp.{_quote(oldest)}")
        self._caps.move_to_end(cap.name)

    def _run(self, sql: str) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
        with self._lock:
            try:
                try:
                    return self._execute(sql)
                except duckdb.FatalException:  # perhaps of another store's query
                    self.close()
                    self._open()
                    return self._execute(sql)
            except duckdb.Error as error:
                raise _refusal(error) from None

    def _execute(self, sql: str) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
        with Cancellation(self.patience) as look, look.interrupts(self._con.interrupt):
            result = self._con.execute(sql)
            described = [(str(c[0]), str(c[1])) for c in result.description or []]
            rows = list[tuple[Any, ...]]()
            while found := result.fetchmany(_AT_ONCE):
                rows += found
                LIMITS["cells"].check(len(rows) * len(described), self.limits)
            return described, rows

    def close(self) -> None:
        """Release the database."""
        self._close()


def _refusal(error: duckdb.Error) -> QueryRefused:
    if isinstance(error, duckdb.InterruptException):
        check()
        return QueryRefused(
            "the part of the query about public tables takes too long",
            "join fewer of them, each ON a.x = b.x",
        )
    return QueryRefused(*_in_callers_words(error))


_makers: list[duckdb.DuckDBPyConnection] = []
"""Connections that registered a function; the function exists as long as they do."""


def _make_ends_function(connection: duckdb.DuckDBPyConnection) -> None:
    """Register our interval arithmetic with DuckDB, for all databases of a connection's process."""
    maker = connection.cursor()
    try:
        maker.create_function(  # type: ignore[call-overload]  # as it takes Arrow
            ENDS_FUNCTION,
            ends_function,
            None,  # any number of arguments
            T.ENDS.sql,
            type="arrow",
            null_handling="special",
        )
    except (duckdb.CatalogException, duckdb.NotImplementedException):  # it exists already
        maker.close()
    else:
        _makers.append(maker)


def _let_go(connection: duckdb.DuckDBPyConnection, name: str, process: int) -> None:
    """Drop a store's database, unless the database belongs to the parent of this forked process."""
    if process == os.getpid():
        with contextlib.suppress(duckdb.Error):
            connection.execute(f"USE memory; DETACH {name}")
        connection.close()


def _without_constants(sql: str) -> str:
    r"""Return SQL with all surely valid numbers and dates replaced by one of each.

    The types of the columns and the validity of the SQL stay the same.

    Example:
        >>> _without_constants("SELECT x > CAST('1.5' AS DOUBLE), '1.5', \"CAST('1.5' AS DOUBLE)\"")
        'SELECT x > CAST(0.0 AS DOUBLE), \'1.5\', "CAST(\'1.5\' AS DOUBLE)"'
        >>> _without_constants("SELECT (x = 12) OR (x < 300) OR x > 5::TINYINT")
        'SELECT (x = 99) OR (x < 999) OR x > 5::TINYINT'
    """

    def other(token: re.Match[str]) -> str:
        if token["number"] is not None:
            return "CAST(0.0 AS DOUBLE)"
        if token["integer"] is not None:
            return _largest_like(token["integer"])
        if token["date"] is None or not _is_date(token["date"]):
            return token[0]  # an identifier, a text
        return "CAST(0 AS DATE)"

    return _CONSTANT.sub(other, sql)


def _largest_like(integer: str) -> str:
    """Return the largest integer with the same number of digits that fits in the same type."""
    most = 10 ** len(integer) - 1
    return str(next(min(most, m) for m in (2**7 - 1, 2**15 - 1, most) if int(integer) <= m))


def _is_date(text: str) -> bool:
    try:
        dt.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _in_callers_words(error: duckdb.Error) -> tuple[str, str]:
    """Return DuckDB's message without internal names of the store, and a hint."""
    text = str(error).split("\n")[0].strip()
    text = re.sub(r"^[A-Z][\w ]* Error: ", "", text)
    if "max_expression_depth" in text:
        return "the query is nested too deeply", "split it into parts; use IN for a long OR"
    text = re.sub(r'"?(by_user|by_time|public)"?\.', "", text)
    cast = " - an explicit cast is required"
    kinds = cast in text or "No function matches" in text
    text = text.replace(cast, "").split(" You might need")[0].split(" Use TRY(")[0]
    if kinds:
        return text, "write CAST(x AS type) where the types differ"
    if isinstance(error, duckdb.ConversionException | duckdb.OutOfRangeException):
        return text, "a constant in the query doesn't fit its type"
    return text, ""
