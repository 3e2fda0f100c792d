"""DuckDB connections: every optimiser rule is judged, and all access to the outside is off.

Whether a query is answered must not depend on a row (DESIGN: "no error tells"). An optimiser that
evaluates a query's expressions on stored values, or on a column's smallest and largest value, does
so before any row is read, outside of every guard: if it fails, the query is refused, and the
refusal is an exact answer about an extreme. So a rule of the optimiser is off if it evaluates
expressions on stored values or on statistics of them; the other rules move, merge or drop parts of
a plan, and read the query, the schema and estimated sizes only. The main protection is that
expressions can't fail on any value (`sparseq.language.functions`); this is the second one.

A rule that is not judged, of a DuckDB newer than this list, is off too, everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from sparseq.base.errors import StoreError

if TYPE_CHECKING:
    import duckdb

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
    "extension": (False, "runs code of extensions; there are none"),
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
    "remote_pushdown": (False, "sends work to other databases; there are none"),
    "reorder_filter": (True, _SIZES),
    "row_group_pruner": (True, _RANGES),
    "sampling_pushdown": (True, _SHAPE),
    "scalar_fn_pushdown": (False, _VALUES),
    "self_join_aggregate": (
        False,
        "stores the least and greatest values of a group instead of pairs",
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
"""Each rule of DuckDB's optimiser: whether it is on, and why. A test fails if a rule is missing."""

JUDGED = ("2.0.0", "2.0.1")
"""The versions of DuckDB whose rules are all listed above."""
SETTINGS: dict[str, Any] = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "preserve_insertion_order": "true",  # columns that are kept have rows at the same places
    "wal_autocheckpoint": "64MB",
    "experimental_metadata_reuse": "false",  # erased values would stay in reused blocks
}


@cache
def off() -> frozenset[str]:
    """Return the optimiser's rules that are off in this DuckDB: judged unsafe, or not judged.

    Example:
        >>> "statistics_propagation" in off(), "filter_pushdown" in off()
        (True, False)
    """
    with duckdb.connect() as con:
        rules = con.execute("SELECT name FROM duckdb_optimizers()").fetchall()
    return frozenset(name for (name,) in rules if not OPTIMIZERS.get(name, (False, ""))[0])


def not_judged() -> str:
    """Return a message for the curator about a DuckDB that is not judged; none for another."""
    if duckdb.__version__ in JUDGED:
        return ""
    new = ", ".join(sorted(off() - set(OPTIMIZERS))) or "none"
    return (
        f"DuckDB {duckdb.__version__} was not judged for this version of sparseq, which knows "
        f"{' and '.join(JUDGED)}; new rules of its optimiser, which are off: {new}"
    )


def connect(
    database: str | Path = ":memory:",
    *,
    locked: bool = False,
    read_only: bool = False,
    memory: int | None = None,
    **more: str,
) -> duckdb.DuckDBPyConnection:
    """Return a connection that may plan a query about users.

    This is the only place that opens connections, so no rule is on that is not judged.

    Args:
        database: The path of a DuckDB file; by default a database in memory.
        locked: True if settings can't be changed from now on.
        read_only: True if nothing is written to the file; other processes can read it meanwhile.
        memory: The memory limit in bytes; by default DuckDB's own.
        more: Further settings of DuckDB.

    Raises:
        StoreError: This DuckDB lacks a setting that protects users' rows.

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
            f"install a supported version: pip install duckdb=={JUDGED[-1]}",
        ) from None


_kept: dict[tuple[int, str, str], duckdb.DuckDBPyConnection] = {}  # a forked child has its own


def scratch(purpose: str = "values") -> duckdb.DuckDBPyConnection:
    """Return a connection to a database in memory; the caller closes it.

    Connections with one purpose share a database, because a new one takes some 20 ms; registered or
    temporary tables of one connection are invisible in another.

    Example:
        >>> with scratch() as con:
        ...     con.sql("SELECT 1 + 1").fetchall()
        [(2,)]
    """
    known = os.getpid(), purpose, f"{SETTINGS}{sorted(off())}"
    try:
        _kept[known].execute("SELECT 1")
    except (KeyError, duckdb.Error):  # none yet, or closed after an error that DuckDB calls fatal
        _kept[known] = connect(locked=True)
    return _kept[known].cursor()


_AT_ONCE = 2048  # rows that DuckDB computes at a time


class TooLarge(Exception):
    """A result exceeds a limit; `limit` is the name of the limit, `most` its number."""

    def __init__(self, limit: str, most: int) -> None:
        super().__init__(f"a result has more than {most:,} {limit}")
        self.limit, self.most = limit, most


def fetch_at_most(
    connection: duckdb.DuckDBPyConnection, sql: str, most: Mapping[str, int]
) -> pa.Table:
    """Return the rows of a SELECT, computed in steps up to a limit.

    Args:
        connection: Runs the SELECT.
        sql: The SELECT.
        most: The limits "cells" (rows times columns) and "bytes".

    Raises:
        TooLarge: The result exceeds a limit.

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
    """Tell whether DuckDB found other bytes in a file than it wrote.

    Only checksum errors say so, in an error without a kind. Errors that come from rows have a kind,
    which begins their texts (`Conversion Error: …`): no row can cause this text.
    """
    return type(error) is duckdb.Error and str(error).startswith("Corrupt database file")


def damaged_file() -> StoreError:
    """Return the error for a store's file that turns out to be damaged while it is open."""
    return StoreError(
        "the store is damaged: its file lacks something that was written to it",
        "restore a backup: `sparseq backup` makes them",
    )


class ReplaceableConnection:
    """A connection that can be replaced for all of its users.

    After a fatal error DuckDB closes a database: nothing is answered until the file has been opened
    again. The state in memory (accounts, charges that are not written yet) then continues with the
    new connection.

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
        """Close the connection, and replace it by a new one."""
        self._connection.close()
        self._connection = open()
