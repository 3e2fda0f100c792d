"""A database in memory without users' rows: the catalogue of a fresh PostgreSQL, and our tables.

It declares the private tables, without rows. Every session has a separate connection, with its
user's name and settings as variables; DuckDB's own functions, settings and tables can't be reached
(see `rewrite_catalogue`).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping

import duckdb
import pyarrow as pa

from sparseq.base._duckdb.connection import TooLarge, connect, fetch_at_most
from sparseq.base.cancellation import Cancellation, check
from sparseq.pgwire._duckdb.pg_catalog import Postgresql, declare
from sparseq.pgwire._duckdb.rewrite_catalogue import Rewriter
from sparseq.pgwire.pg_settings import Settings
from sparseq.pgwire.route import ANSWER
from sparseq.pgwire.wire_errors import CANCELLED, WireError
from sparseq.question.catalog import Catalog
from sparseq.question.limits import all_limits

PATIENCE = 8.0
"""The time-out of a look-up, in seconds."""
MEMORY = "256MB"
MOST = all_limits()
"""The limits of rows, columns and bytes of a look-up, which are those of an answer."""
MOST_KEPT = 200
"""The number of recorded answers that are kept as tables."""


class Catalogue:
    """The database.

    Args:
        catalog: The store's tables.
        name: The name of the database for clients.
        public: Rows of public tables, by name.
    """

    def __init__(self, catalog: Catalog, name: str, public: Mapping[str, pa.Table]) -> None:
        self._db = connect(memory_limit=MEMORY, threads="1")
        self._lock = threading.Lock()
        self._kept: list[tuple[str, str]] = []
        postgresql = Postgresql.fresh()
        with self._db.cursor() as loading:
            self._tables = declare(loading, postgresql, catalog, name, public)
            loading.execute("SET lock_configuration = true")
        self._functions = postgresql.functions

    def look(self, user: str, settings: Settings) -> CatalogueLook:
        """Return the view of one session."""
        rewriter = Rewriter(self._tables, self._functions)
        return CatalogueLook(self, self._db.cursor(), rewriter, user, settings)

    def put(self, schema: str, name: str, table: pa.Table) -> None:
        """Add a public table; it replaces an earlier one with the name."""
        with self._lock, self._db.cursor() as loading:
            loading.register("incoming", table)
            loading.execute(f'CREATE OR REPLACE TABLE "{schema}"."{name}" AS FROM incoming')
            loading.unregister("incoming")
            self._tables[schema].add(name)
            self._kept = [*(k for k in self._kept if k != (schema, name)), (schema, name)]
            for oldest in self._kept[:-MOST_KEPT]:
                loading.execute('DROP TABLE "{}"."{}"'.format(*oldest))
                self._tables[oldest[0]].discard(oldest[1])
            self._kept = self._kept[-MOST_KEPT:]

    def has(self, schema: str, name: str) -> bool:
        """Tell whether a table exists."""
        return name in self._tables.get(schema, ())

    def close(self) -> None:
        """Close the database."""
        self._db.close()


class CatalogueLook:
    """One session's connection."""

    def __init__(
        self,
        catalogue: Catalogue,
        connection: duckdb.DuckDBPyConnection,
        rewriting: Rewriter,
        user: str,
        settings: Settings,
    ) -> None:
        self._connection, self._rewriting = connection, rewriting
        self._user, self._settings, self._known = user, settings, -1
        self._seen: dict[str, str] = {}
        self.put, self.has = catalogue.put, catalogue.has
        self._lock = threading.Lock()

    def table(self, sql: str) -> pa.Table:
        """Answer a look-up.

        Raises:
            WireError: It names an unknown object, or exceeds its time-out.
        """
        return self._run(self._rewritten(sql))

    def schema(self, sql: str) -> pa.Schema:
        """Return the columns of a look-up."""
        return self._run(f"SELECT * FROM ({self._rewritten(sql)}) LIMIT 0").schema

    def public(self, sql: str) -> pa.Table:
        """Answer a SELECT over constants and private tables, which are empty here."""
        return self._run(self._rewriting.over_empty(sql))

    def after(self, sql: str, answer: pa.Table) -> pa.Table:
        """Answer a SELECT over an answer, which it calls `answer_`."""
        made = self._rewriting.over_answer(sql)
        with self._lock:
            self._connection.register(ANSWER, answer)
        try:
            return self._run(made)
        finally:
            with self._lock:
                self._connection.unregister(ANSWER)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _rewritten(self, sql: str) -> str:
        if sql not in self._seen:
            if len(self._seen) >= MOST_KEPT:
                self._seen.clear()
            self._seen[sql] = self._rewriting.rewritten(sql)
        return self._seen[sql]

    def _run(self, sql: str) -> pa.Table:
        with self._lock:
            try:
                with Cancellation(PATIENCE) as look, look.interrupts(self._connection.interrupt):
                    if self._known != self._settings.version:
                        for name, value in self._variables():
                            self._connection.execute(f"SET VARIABLE {name} = {value}")
                        self._known = self._settings.version
                    return fetch_at_most(self._connection, sql, MOST)
            except TooLarge as large:
                hint = "use LIMIT, or select less"
                raise WireError(
                    "54000", f"a look-up has at most {large.most:,} {large.limit}", hint
                ) from None
            except duckdb.InterruptException:
                check()
                raise WireError(
                    CANCELLED, f"a look-up may take {PATIENCE:.0f} seconds", "ask for less"
                ) from None
            except duckdb.Error as error:
                raise _in_words(error) from None

    def _variables(self) -> Iterable[tuple[str, str]]:
        yield "pg_user", _quote(self._user)
        pairs = ", ".join(f"{_quote(k)}: {_quote(v)}" for k, v in self._settings.all().items())
        yield "pg_settings", f"MAP {{{pairs}}}"


_STATES = (
    (r"Scalar Function with name (\S+) does not exist", "42883", "function {} does not exist"),
    (r"Aggregate Function with name (\S+) does not exist", "42883", "function {} does not exist"),
    (r"Table Function with name (\S+) does not exist", "42883", "function {} does not exist"),
    (r"Table with name (\S+) does not exist", "42P01", 'relation "{}" does not exist'),
    (
        r"[Rr]eferenced (?:column|table) \"([^\"]+)\" not found",
        "42703",
        'column "{}" does not exist',
    ),
    (
        r"[Cc]olumn (?:named )?\"?(\w+)\"? (?:not found|does not exist)",
        "42703",
        'column "{}" does not exist',
    ),
)


def _in_words(error: duckdb.Error) -> WireError:
    """Return DuckDB's error in PostgreSQL's words."""
    text = str(error).split("\n")[0]
    for pattern, code, said in _STATES:
        if found := re.search(pattern, text):
            return WireError(code, said.format(found[1].strip('"').removeprefix("pg_")))
    if isinstance(error, duckdb.ConversionException):
        return WireError("22P02", re.sub(r"^[\w ]+ Error: ", "", text))
    plain = re.sub(r"^[\w ]+ Error: ", "", text)
    return WireError("0A000", f"the catalogue of this server can't answer this: {plain}")


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
