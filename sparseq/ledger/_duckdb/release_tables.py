"""Reading releases from the tables of a journal."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from sparseq.base.errors import StoreError
from sparseq.ledger._duckdb.segments import public_columns
from sparseq.ledger.pots import Pot
from sparseq.ledger.releases import Release
from sparseq.ledger.request_id import RequestId


class ReleaseTables:
    """The releases of one store, on a connection that nothing else uses.

    Args:
        connection: The connection.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._con = connection

    @property
    def public(self) -> str:
        """The columns of a `Release`."""
        rows = self._con.sql("FROM ledger.release LIMIT 0")
        return public_columns(rows.columns)

    @property
    def next_id(self) -> int:
        """The number of the next release."""
        sql = "SELECT coalesce(max(id), 0) FROM ledger.release"
        ((last,),) = self._con.execute(sql).fetchall()
        return int(last) + 1

    def read(self, release_id: int) -> Release:
        """Return one release.

        Raises:
            StoreError: No release has this number.
        """
        rows = self._con.execute(
            f"SELECT {self.public} FROM ledger.release WHERE id = ?", [release_id]
        ).fetchall()
        if not rows:
            raise StoreError(
                f"there is no release {release_id}", "`sparseq history` lists the releases"
            )
        return as_release(rows[0])

    def releases(self, last: int | None = None, before: int | None = None) -> list[Release]:
        """Return all releases, or those before one, oldest first; or the newest `last`."""
        until = self.next_id if before is None else min(before, self.next_id)
        first = 1 if last is None else max(until - last, 1)
        rows = self._con.execute(
            f"SELECT {self.public} FROM ledger.release WHERE id >= ? AND id < ? ORDER BY id",
            [first, until],
        ).fetchall()
        return [as_release(row) for row in rows]


def as_release(row: Sequence[object]) -> Release:
    """Return a row of the columns `Segments.public` as a release."""
    values = list(row)
    values[1] = None if values[1] is None else RequestId.read(str(values[1]))
    values[5], values[6] = tuple(values[5]), tuple(values[6])  # type: ignore[arg-type]
    values[9] = Pot(values[9])  # type: ignore[arg-type]
    values[10:] = [b.hex() if b else "" for b in values[10:]]  # type: ignore[attr-defined]
    return Release(*values)  # type: ignore[arg-type]
