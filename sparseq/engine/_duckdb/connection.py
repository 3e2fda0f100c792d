"""DuckDB connections: every rule of the optimiser judged, and everything outside switched off.

Whether a query is answered must not depend on a row (DESIGN: "no error tells"). An optimiser that
evaluates a query's expressions on stored values, or on a column's smallest and largest value, does
so before any row is read, outside of every guard: where it fails, the query is refused, and the
refusal is an exact answer about an extreme. So a rule of the optimiser is off if it evaluates
expressions on stored values or on statistics of them; the others move, merge or drop parts of a
plan, and look at the query, the schema and estimated sizes only. That expressions can't fail on any
value (`sparseq.language.functions`) is the cure; this is the second lock on the same door.

A rule that nobody judged, of a DuckDB that is newer than this list, is off too, everywhere.

Engines for reading beside the stream, on connections of their own: one for each question.

They see what is committed. Whoever is about to rewrite, copy or close the file lets go of them
first: what reads is interrupted, and its connection closed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from sparseq.base.errors import StoreError
from sparseq.engine.contributions import Contributions, release_freed
from sparseq.engine.protocol import Engine
from sparseq.sql.plan import Plan

if TYPE_CHECKING:
    import duckdb

# -- duckDB connections ----------------------------------------------------------------------------

_STATISTICS = "evaluates expressions on the extremes of columns while it plans"
_VALUES = "evaluates functions on stored, compressed values, before filters have been applied"
_SHAPE = "moves, merges or drops parts of the plan"
_SIZES = "chooses by estimated sizes, which change the time and not the answer"
_CONSTANTS = "evaluates constants of the query only"
_NULLS = "drops a test for NULL where the statistics of a column say that it has none"
_RANGES = "compares constants with ranges of stored values; a comparison can't fail"

OPTIMIZERS: dict[str, tuple[bool, str]] = {
    "aggregate_function_rewriter": (True, _SHAPE),
    "aggregate_reuse": (True, _SHAPE),
    "build_side_probe_side": (True, _SIZES),
    "column_lifetime": (True, _SHAPE),
    "common_aggregate": (True, _SHAPE),
    "common_subexpressions": (True, _SHAPE),
    "common_subplan": (True, _SHAPE),
    "compressed_materialization": (False, _STATISTICS),
    "cte_filter_pusher": (True, _SHAPE),
    "cte_inlining": (True, _SHAPE),
    "deliminator": (True, _SHAPE),
    "distinct_aggregate_rewrite": (True, _SHAPE),
    "duplicate_groups": (True, _SHAPE),
    "empty_result_pullup": (True, _SHAPE),
    "expression_rewriter": (False, _NULLS),
    "extension": (False, "runs code of extensions, of which there are none"),
    "filter_pullup": (True, _SHAPE),
    "filter_pushdown": (True, _SHAPE),
    "grouping_sets": (True, _SHAPE),
    "in_clause": (True, _SHAPE),
    "join_elimination": (True, _SHAPE),
    "join_filter_pushdown": (True, _RANGES),
    "join_order": (True, _SIZES),
    "late_materialization": (True, _SHAPE),
    "limit_pushdown": (True, _SHAPE),
    "materialized_cte": (True, _SHAPE),
    "outer_join_simplification": (True, _SHAPE),
    "partial_aggregate_pushdown": (False, _VALUES),
    "partitioned_execution": (True, _SIZES),
    "projection_placement": (True, _SHAPE),
    "projection_pullup": (True, _SHAPE),
    "redundant_order_keys": (True, _SHAPE),
    "regex_range": (True, _CONSTANTS),
    "remote_pushdown": (False, "asks other databases, of which there are none"),
    "reorder_filter": (True, _SIZES),
    "row_group_pruner": (True, _RANGES),
    "sampling_pushdown": (True, _SHAPE),
    "scalar_fn_pushdown": (False, _VALUES),
    "self_join_aggregate": (
        False,
        "has least and greatest values of a group in the place of pairs",
    ),
    "statistics_propagation": (False, _STATISTICS),
    "top_n": (True, _SHAPE),
    "top_n_window_elimination": (True, _SHAPE),
    "type_pushdown": (False, _VALUES),
    "unnest_rewriter": (True, _SHAPE),
    "unused_columns": (True, _SHAPE),
    "window_rewriter": (True, _SHAPE),
    "window_self_join": (True, _SHAPE),
}
"""Each rule of DuckDB's optimiser: whether it is on, and why. A test fails if one is not here."""

JUDGED = ("2.0.0", "2.0.1")
"""The versions of DuckDB all of whose rules are above."""
SETTINGS: dict[str, Any] = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "wal_autocheckpoint": "64MB",
    "experimental_metadata_reuse": "false",  # erased values would stay in what is reused
}


@cache
def off() -> frozenset[str]:
    """Return the optimiser's rules that are off in this DuckDB: judged so, or not judged at all.

    Example:
        >>> "statistics_propagation" in off(), "filter_pushdown" in off()
        (True, False)
    """
    with duckdb.connect() as con:
        rules = con.execute("SELECT name FROM duckdb_optimizers()").fetchall()
    return frozenset(name for (name,) in rules if not OPTIMIZERS.get(name, (False, ""))[0])


def not_judged() -> str:
    """Return what the curator is told of a DuckDB that nobody judged; nothing of another."""
    if duckdb.__version__ in JUDGED:
        return ""
    new = ", ".join(sorted(off() - set(OPTIMIZERS))) or "none"
    return (
        f"DuckDB {duckdb.__version__} was not judged for this version of sparseq, which knows "
        f"{' and '.join(JUDGED)}; rules of its optimiser that are new, and off: {new}"
    )


def connect(
    database: str | Path = ":memory:",
    *,
    locked: bool = False,
    read_only: bool = False,
    memory: int | None = None,
    **more: str,
) -> duckdb.DuckDBPyConnection:
    """Return a connection that may plan a query about people.

    Every connection is made here, so that no rule of the optimiser is on that nobody judged.

    Args:
        database: Path of a DuckDB file; by default one in memory.
        locked: Settings can't be changed from now on.
        read_only: Nothing is written to the file, and other processes can read it meanwhile.
        memory: Most bytes that it holds; else DuckDB's own limit.
        more: More of DuckDB's settings.

    Raises:
        StoreError: This DuckDB lacks a setting that keeps people's rows in their place.

    Example:
        >>> con = connect(locked=True)
        >>> con.sql("SELECT current_setting('enable_external_access')").fetchall()
        [(False,)]
    """
    settings = SETTINGS | {"disabled_optimizers": ",".join(sorted(off()))} | more
    settings |= {"lock_configuration": "true"} if locked else {}
    settings |= {} if memory is None else {"memory_limit": f"{memory >> 20}MiB"}
    try:
        return duckdb.connect(str(database), read_only, config=settings)
    except duckdb.InvalidInputException as error:
        if "not recognized" not in str(error):
            raise
        raise StoreError(
            f"DuckDB {duckdb.__version__} does not know a setting that sparseq needs: "
            f"{str(error).rpartition(': ')[2]}",
            f"install one that sparseq knows: pip install duckdb=={JUDGED[-1]}",
        ) from None


_kept: dict[tuple[int, str, str], duckdb.DuckDBPyConnection] = {}  # a forked child has its own


def scratch(purpose: str = "values") -> duckdb.DuckDBPyConnection:
    """Return a connection to a database in memory, to be closed after use.

    All of one purpose share a database, as a new one takes some 20 ms; what is registered or made
    temporary in one is not seen in another.

    Example:
        >>> with scratch() as con:
        ...     con.sql("SELECT 1 + 1").fetchall()
        [(2,)]
    """
    known = os.getpid(), purpose, f"{SETTINGS}{sorted(off())}"
    try:
        _kept[known].execute("SELECT 1")
    except (KeyError, duckdb.Error):  # none yet, or given up after an error that DuckDB calls fatal
        _kept[known] = connect(locked=True)
    return _kept[known].cursor()


_AT_ONCE = 2048  # rows, as many as DuckDB computes at a time


class TooLarge(Exception):
    """A result has more than it may; `limit` is the name of the limit, `most` its number."""

    def __init__(self, limit: str, most: int) -> None:
        super().__init__(f"a result has more than {most:,} {limit}")
        self.limit, self.most = limit, most


def fetch_at_most(
    connection: duckdb.DuckDBPyConnection, sql: str, most: Mapping[str, int]
) -> pa.Table:
    """Return the rows of a SELECT, computed bit by bit up to a limit.

    Args:
        connection: Runs it.
        sql: The SELECT.
        most: The limits "cells" (rows times columns) and "bytes".

    Raises:
        TooLarge: It has more.

    Example:
        >>> fetch_at_most(connect(), "SELECT 1 AS x", {"cells": 1, "bytes": 100}).to_pylist()
        [{'x': 1}]
    """
    reader = connection.sql(sql).to_arrow_reader(_AT_ONCE)
    batches: list[pa.RecordBatch] = []
    cells = size = 0
    for batch in reader:
        cells, size = cells + batch.num_rows * batch.num_columns, size + batch.nbytes
        if cells > most["cells"]:
            raise TooLarge("cells", most["cells"])
        if size > most["bytes"]:
            raise TooLarge("bytes", most["bytes"])
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)


def is_damage(error: BaseException) -> bool:
    """Tell whether DuckDB has found that bytes in a file are not those that it wrote.

    It says so of checksums alone, in an error without a kind. Errors that come of rows have one,
    and their texts begin with it (`Conversion Error: …`): no row can say this.
    """
    return type(error) is duckdb.Error and str(error).startswith("Corrupt database file")


def damaged_file() -> StoreError:
    """Return what is said where a store's file turns out to be damaged while it is open."""
    return StoreError(
        "the store is damaged: its file lacks something that was written to it",
        "restore a backup: `sparseq backup` makes them",
    )


class ReplaceableConnection:
    """A connection that can be replaced under all who hold it.

    DuckDB gives a database up after an error that it calls fatal: nothing is answered until the
    file has been opened anew. What is in memory (accounts, what is charged and not yet written)
    then goes on over the new connection.

    Example:
        >>> held = ReplaceableConnection(connect())
        >>> held.replace(connect)
        >>> held.sql("SELECT 1").fetchall()
        [(1,)]
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def replace(self, open: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        """Close the connection, and put a new one in its place."""
        self._connection.close()
        self._connection = open()


# -- engines for reading beside the stream ---------------------------------------------------------

_IDLE = 2  # that are kept for the next questions
_AGAIN = 0.01


class ClosedError(Exception):
    """The store has let go of an engine beside it."""


class BesideEngine:
    """See `sparseq.engine.protocol.SideReader`: an engine that one thread at a time uses."""

    def __init__(
        self,
        engine: Engine,
        connection: duckdb.DuckDBPyConnection,
        back: Callable[[BesideEngine], None],
    ) -> None:
        self._engine, self._connection, self._back = engine, connection, back
        self._used = threading.Lock()
        self._closed = False

    def contributions(self, plan: Plan, users: int) -> Contributions:
        """Return what everybody contributes, with all that needs the rows done."""
        with self._used:
            if self._closed:
                raise ClosedError
            try:
                made = self._engine.contributions(plan, users)
            except KeyboardInterrupt:  # by `shut`
                raise ClosedError from None
            finally:
                release_freed()
            made.measures  # noqa: B018 - made here, and not when somebody looks
            if self._engine.take_failures():
                raise ClosedError  # the backstop's work: the store's own engine does it, and tells
            return made

    def at(self, version: int) -> None:
        """Forget what is kept of rows of another version."""
        if self._engine.version != version:
            self._engine.rows_arrived()
            self._engine.version = version

    def close(self) -> None:
        """Give it back."""
        self._back(self)

    def shut(self) -> None:
        """End what it does, and close its connection."""
        self._closed = True
        while not self._used.acquire(timeout=_AGAIN):
            self._connection.interrupt()
        try:
            self._connection.close()
        finally:
            self._used.release()


class BesideEngines:
    """All that one store has lent, and some that wait for the next question."""

    def __init__(self) -> None:
        self._idle: list[BesideEngine] = []
        self._lent: list[BesideEngine] = []
        self._lock = threading.Lock()

    def lend(
        self, version: int, make: Callable[[Callable[[BesideEngine], None]], BesideEngine]
    ) -> BesideEngine:
        """Return one that reads rows of a version."""
        with self._lock:
            found = self._idle.pop() if self._idle else make(self._give_back)
            self._lent.append(found)
        found.at(version)
        return found

    def _give_back(self, engine: BesideEngine) -> None:
        with self._lock:
            if engine not in self._lent:
                return
            self._lent.remove(engine)
            if len(self._idle) < _IDLE:
                self._idle.append(engine)
                return
        engine.shut()

    def let_go(self) -> None:
        """Shut them all."""
        with self._lock:
            engines = self._lent + self._idle
            self._lent, self._idle = [], []
        for engine in engines:
            engine.shut()
