"""What may be asked while a query is lowered: types, and values that are public.

A DuckDB in memory with the store's empty private tables and its whole public ones. Whatever it
says, it says without a look at a row about a person, so its errors may be shown.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from sparseq.engine._duckdb.connection import connected
from sparseq.errors import QueryRefused
from sparseq.query.catalog import Catalog
from sparseq.query.limits import check_most
from sparseq.query.patience import interrupted_after
from sparseq.query.plan import Cap

_REMEMBERED = 4096
_MOST_CAPS = 1024  # of lowered queries, many times as many as one query can have
PATIENCE = 30.0
"""Seconds that a look at public tables may take; the store waits meanwhile."""


class PublicFacts:
    """A twin of the store without its private rows.

    Args:
        catalog: Of the store.
        schema: SQL that makes its schemas and tables, empty.
        rows: Of its public tables, by name.
        most: Limits on one person (see `sparseq.query.work`).

    Attributes:
        subqueries: How many subqueries of queries it has answered.
        patience: Seconds that one look may take.
        most_work: Row combinations that a person may have in a join.
    """

    def __init__(
        self,
        catalog: Catalog,
        schema: Sequence[str],
        rows: Mapping[str, pa.Table],
        most: Mapping[str, int] | None = None,
    ) -> None:
        self.catalog = catalog
        self.most_work = check_most(most)["work"]
        self._con = connected()
        self._lock = threading.Lock()
        self._constants: dict[str, Any] = {}
        self._most_rows: dict[tuple[str, tuple[str, ...]], int] = {}
        self._caps: OrderedDict[str, None] = OrderedDict()
        self.subqueries = 0
        self.patience = PATIENCE
        for statement in schema:
            self._con.execute(statement)
        for name, table in rows.items():
            self._con.register("incoming", table)
            self._con.execute(f"INSERT INTO public.{_quoted(name)} SELECT * FROM incoming")
            self._con.unregister("incoming")
        self._con.execute("SET python_enable_replacements = false")
        self._con.execute("SET lock_configuration = true")

    def types(self, sql: str) -> list[str]:
        """Return the types of a SELECT's columns, having run it on no private rows.

        Raises:
            QueryRefused: DuckDB finds a mistake in it.
        """
        return [type for _, type in self._run(sql)[0]]

    def columns(self, sql: str) -> dict[str, str]:
        """Return the names and types of a SELECT's columns."""
        return dict(self._run(sql)[0])

    def values(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT over public tables and constants.

        Raises:
            QueryRefused: DuckDB finds a mistake in it.
        """
        return self._run(sql)[1]

    def constant(self, sql: str) -> Any:
        """Return the value of an expression without columns.

        Raises:
            QueryRefused: It has none: a date that doesn't exist, a number out of range.
        """
        if sql not in self._constants:
            if len(self._constants) >= _REMEMBERED:
                self._constants.clear()
            ((self._constants[sql],),) = self.values(f"SELECT {sql}")
        return self._constants[sql]

    def most_rows(self, rows: str, keys: Sequence[str]) -> int:
        """Return the most rows of a public source that agree in `keys`, and have them all.

        Args:
            rows: SQL of the source, with its alias.
            keys: SQL of expressions over it; none: all rows agree.

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
        """Have the table of a cap, empty, so that SQL that looks at it can be checked."""
        if cap.name not in self._caps:
            self._run(f"CREATE TEMP TABLE {_quoted(cap.name)} (_user INTEGER NOT NULL)")
            self._caps[cap.name] = None
            while len(self._caps) > _MOST_CAPS:
                oldest, _ = self._caps.popitem(last=False)
                self._run(f"DROP TABLE temp.{_quoted(oldest)}")
        self._caps.move_to_end(cap.name)

    def _run(self, sql: str) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
        with self._lock:
            try:
                with interrupted_after(self.patience, self._con.interrupt):
                    result = self._con.execute(sql)
                    described = [(str(c[0]), str(c[1])) for c in result.description or []]
                    return described, result.fetchall()
            except duckdb.InterruptException:
                raise QueryRefused(
                    "the part of the query about public tables takes too long",
                    "join fewer of them, each ON a.x = b.x",
                ) from None
            except duckdb.Error as error:
                raise QueryRefused(*_in_callers_words(error)) from None

    def close(self) -> None:
        """Let go of the memory."""
        self._con.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _in_callers_words(error: duckdb.Error) -> tuple[str, str]:
    """Return DuckDB's message without the names of the store's insides, and a hint."""
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
