"""A plan's rows from kept columns: one SELECT reads missing columns, others are in memory.

The rows are all rows of one stored table, in order of user; a condition is one bit per row (see
`engine._duckdb.wanted_columns`). The result has the same integers as a read with DuckDB's filters:
`AloneCheck` compares the two while a store is in use.

**Order.** Columns that were read at different times must have the same rows at the same places.
Reads of a single table rely on DuckDB's `preserve_insertion_order`, which is set; a column that
will be kept is read with its row identifiers, and these are compared. A join has no order: its rows
are sorted by their row identifiers.

**The choice of path.** It depends on earlier questions, on the text of this question and on the
number of stored rows, and never on a value. The number of rows is private, so both paths must give
the same integers: tests compare them (`tests/engine/test_kept_rows.py`, `checks.evaluators`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.base.cancellation import check
from sparseq.base.sql_text import quote
from sparseq.compiled import order_of
from sparseq.engine._duckdb.reader import ReadColumn, Reader
from sparseq.engine._duckdb.row_ids import OrderError, RowIds
from sparseq.engine._duckdb.wanted_columns import DerivedColumn, KeptColumn, TableSource, WantedRows
from sparseq.engine.contributions import RowBatch
from sparseq.engine.kept_columns import KeptColumns
from sparseq.engine.protocol import USER
from sparseq.engine.reduction import Runs
from sparseq.question.plan import Plan

LEAST_ROWS = 1 << 18
"""Smaller tables are read quickly enough."""
_ROW_BYTES = 24
"""The approximate memory of one value during a read; tables that need too much are not kept."""


@dataclass(frozen=True)
class TableRows:
    """Places of the rows of a table, by user.

    Attributes:
        runs: The rows of each user, in order of user.
        order: The stored places of the rows in order of user; None: they are stored in this order.
        ids: The row identifiers, ascending, in stored order.
    """

    runs: Runs
    order: NDArray[Any] | None
    ids: RowIds

    @property
    def nbytes(self) -> int:
        """Number of bytes in use."""
        runs = self.runs
        order = 0 if self.order is None else self.order.nbytes
        return runs.owners.nbytes + runs.first.nbytes + runs.stop.nbytes + order + self.ids.nbytes


class KeptRows:
    """A reader of plans from kept columns.

    Args:
        reader: Reads missing columns.
        most: The limit of kept data, in bytes.
    """

    def __init__(self, reader: Reader, most: int) -> None:
        self._reader = reader
        self._kept, self._masks = KeptColumns(most - most // 8), KeptColumns(most // 8)

    def clear(self) -> None:
        """Drop everything: rows have changed."""
        self._kept.clear()
        self._masks.clear()

    def batch(self, plan: Plan, rows: Callable[[str], int]) -> RowBatch | None:
        """Return a plan's rows; None: kept columns are not used for it.

        Args:
            plan: A plan over one stored table.
            rows: Returns the number of rows of a table.

        Raises:
            OrderError: The stored order of rows is unknown.
        """
        source = TableSource.of(plan)
        if source is None:
            return None
        count = rows(plan.query.relation.stored)
        if not LEAST_ROWS <= count <= self._kept.most // _ROW_BYTES:
            return None
        wanted = WantedRows.of(plan, source)
        mentioned = source.columns(" ".join([source.whole, plan.query.relation.where, wanted.text]))
        again = {name: self._kept.known([name]) for name in wanted.names}
        if not self._kept.known(mentioned):
            return None
        if count * _ROW_BYTES * max(len(again), 1) > self._kept.most:
            return None
        return self._made(source, wanted, again, count)

    def _made(
        self, source: TableSource, wanted: WantedRows, again: dict[Hashable, bool], count: int
    ) -> RowBatch:
        meets = source.condition(wanted.where)
        passing = self._masks.find(meets) if wanted.filtered else None
        found: dict[Hashable, Any] = {}
        lacking: dict[Hashable, KeptColumn] = {}
        for column in wanted.shown if passing is not None else wanted.columns:
            self._find(column, found, lacking)
        table = self._table(source, list(lacking.values()), again, count, found)
        check()
        for column in wanted.columns:
            if isinstance(column, DerivedColumn):
                self._derive(column, again, found)
        if wanted.filtered and passing is None:
            passing = wanted.passing(found, table.runs)
            made, own = passing
            size = made.nbytes + 20 * len(own.owners)
            self._masks.keep(meets, passing, size)
        mask, runs = passing if passing is not None else (None, table.runs)
        check()
        return wanted.batch(found, runs, mask)

    def _find(
        self,
        column: KeptColumn | DerivedColumn,
        found: dict[Hashable, Any],
        lacking: dict[Hashable, KeptColumn],
    ) -> None:
        """Put a column, or a column from which it is derived, into `found`, or into `lacking`."""
        while True:
            kept = self._kept.find(column.name) if column.name not in found else None
            if kept is not None:
                found[column.name] = kept
            if column.name in found:
                return
            if isinstance(column, KeptColumn):
                lacking[column.name] = column
                return
            column = column.of

    def _derive(
        self, column: DerivedColumn, again: dict[Hashable, bool], found: dict[Hashable, Any]
    ) -> None:
        """Put a derived column into `found`; if it has a separate array, keep the array."""
        if column.name not in found:
            if isinstance(column.of, DerivedColumn):
                self._derive(column.of, again, found)
            found[column.name] = made = column.make(found[column.of.name])
            if isinstance(made, np.ndarray):
                self._kept.keep(column.name, made, made.nbytes, again[column.name])

    def _table(
        self,
        source: TableSource,
        lacking: Sequence[KeptColumn],
        again: dict[Hashable, bool],
        count: int,
        found: dict[Hashable, Any],
    ) -> TableRows:
        """Read missing columns into `found`; return the places of the table's rows."""
        name = (source.table.rpartition(" AS ")[0], "rows")
        table: TableRows | None = self._kept.find(name)
        own = [c for c in lacking if not c.joined]
        joined = [c for c in lacking if c.joined]
        stays = any(again[c.name] for c in own)
        if table is None or own:
            user = f"{source.alias}.{quote(USER)}"
            extra = [user, f"{source.alias}.rowid"] if table is None else []
            extra += [f"{source.alias}.rowid"] if table is not None and stays else []
            read = self._read(source.table, [*(c.sql for c in own), *extra])
            if len(read[0]) != count:
                raise OrderError
            if table is None:
                ids = RowIds.of(read.pop())
                table = _table_rows(read.pop(), ids)
                self._kept.keep(name, table, table.nbytes, again=True)
            elif extra:
                table.ids.compare(read.pop())
            self._take(own, read, table, None, again, found)
        if joined:
            read = self._read(source.whole, [*(c.sql for c in joined), f"{source.alias}.rowid"])
            places = table.ids.places(read.pop(), some=bool(source.public))
            self._take(joined, read, table, places, again, found)
        return table

    def _take(
        self,
        columns: Sequence[KeptColumn],
        read: list[pa.ChunkedArray],
        table: TableRows,
        places: NDArray[np.int64] | None,
        again: dict[Hashable, bool],
        found: dict[Hashable, Any],
    ) -> None:
        """Put columns in order, and keep them.

        Args:
            places: The stored places of the rows that were read; None: they are in stored order.
        """
        for column in columns:
            array = column.array(read.pop(0))
            if places is not None:
                lying = np.zeros(table.ids.count, array.dtype)
                lying[places] = array
                array = lying
            array = array if table.order is None else array[table.order]
            found[column.name] = array
            self._kept.keep(column.name, array, array.nbytes, again[column.name])

    def _read(self, origin: str, texts: Sequence[str]) -> list[pa.ChunkedArray]:
        listed = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(texts))
        return self._reader.fetch(f"SELECT {listed} {origin}")


def _table_rows(read: pa.ChunkedArray, ids: RowIds) -> TableRows:
    """Return the places of a table's rows, from their users."""
    users = ReadColumn("", -1, lambda some, out: np.copyto(out, some)).array(read)
    order = order_of(users)
    runs = Runs.of(users if order is None else users[order])
    return TableRows(runs, None if order is None else order.astype(np.uint32), ids)
