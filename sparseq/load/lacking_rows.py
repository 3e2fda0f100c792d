"""Removal of rows that have NULL in a NOT NULL column."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparseq.base.sql_text import quote


class LackingRows:
    """Removes rows that have NULL in a NOT NULL column, each independently, and counts them.

    Args:
        not_null: The columns that are NOT NULL.
        types: All columns.
        user: The column of users' identifiers; rows without one are left out anyway.

    Attributes:
        rows: The number of removed rows.
        valid: By column: the number of values in them.
        null: By NOT NULL column: the number of removed rows without a value there.
    """

    def __init__(self, not_null: Collection[str], types: Iterable[str], user: str) -> None:
        self._user, self.rows = user, 0
        self.valid = dict.fromkeys(types, 0)
        self.null = {name: 0 for name in self.valid if name in not_null and name != user}

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that stay."""
        if not any(batch[name].null_count for name in self.null):
            return batch
        named = batch[self._user].is_valid() if self._user else pa.scalar(True)
        out = pa.array(np.zeros(len(batch), bool))
        for name in self.null:
            lacking = pc.and_(batch[name].is_null(), named)
            self.null[name] += lacking.true_count
            out = pc.or_(out, lacking)
        left = batch.filter(out)
        self.rows += len(left)
        for name, column in zip(self.valid, left.columns, strict=True):
            self.valid[name] += len(column) - column.null_count
        return batch.filter(pc.invert(out))

    def cut_staged(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Delete such rows from the table `staged`."""
        if not self.null:
            return
        lacking = [f"{quote(name)} IS NULL" for name in self.null]
        out = f"({' OR '.join(lacking)})"
        if self._user:
            out += f" AND {quote(self._user)} IS NOT NULL"
        counts = [f"count({quote(name)})" for name in self.valid]
        counts += map("count(*) FILTER ({})".format, lacking)
        sql = f"SELECT {', '.join(counts)} FROM staged WHERE {out}"
        (found,) = connection.execute(sql).fetchall()
        for k, name in enumerate(self.valid):
            self.valid[name] += found[k]
        for k, name in enumerate(self.null, len(self.valid)):
            self.null[name] += found[k]
        ((rows,),) = connection.execute(f"DELETE FROM staged WHERE {out}").fetchall()
        self.rows += rows
