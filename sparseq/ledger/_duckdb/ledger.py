"""A ledger in a DuckDB file: the journal, with what everybody has in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from sparseq.ledger._duckdb.failure import not_written
from sparseq.ledger._duckdb.journal import Journal
from sparseq.ledger._duckdb.notes import DuckNotes
from sparseq.ledger._duckdb.session import StoreSession
from sparseq.ledger.accounts import Index, Ints
from sparseq.ledger.departed import Departures
from sparseq.ledger.entry import Entry
from sparseq.ledger.notes import CuratorLine, Note, NoteTable
from sparseq.ledger.pots import Pot, Pots


class DuckLedger(Journal):
    """See `sparseq.ledger.protocol.Ledger`.

    Args:
        connection, former, session: See `Journal`.
        reserves: Shares of everybody's budget, by pot.
        halt: See `Accounts`.
        in_transaction: Runs what writes, all or none.

    Raises:
        StoreError: The ledger contradicts itself.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        reserves: Mapping[Pot, float],
        halt: bool = False,
        former: int = 0,
        session: StoreSession | None = None,
        in_transaction: Callable[[Callable[[], Any]], Any] = lambda work: work(),
    ) -> None:
        super().__init__(connection, former, session)
        self._in_transaction = in_transaction
        self.pots = Pots(self._budgets(), reserves, halt)
        self.restore(self.pots)
        self.departures = Departures()
        self.departures.add_users(len(self.pots))
        self.restore_departures(self.departures)

    def _budgets(self) -> Ints:
        found = self._con.execute("SELECT budget FROM ledger.users ORDER BY _user").fetchnumpy()
        return np.asarray(found["budget"], np.int64)

    def people_arrived(self) -> None:
        """Take into memory the accounts that have come into the file."""
        new = self._budgets()[len(self.pots) :]
        self.pots.add_users(new)
        self.departures.add_users(len(new))

    def recover(self) -> None:
        """See `Ledger`: a result that is half read is in everybody's way."""
        self._con.abort()

    def commit(self, entries: Sequence[Entry]) -> None:
        """See `Ledger`."""
        try:
            super().commit(entries)
        except duckdb.Error as error:
            if self.committing:
                raise not_written(error, "the answer was not given", "it was charged") from None
            consequence = "the answer was not given, and nobody was charged"
            raise not_written(error, consequence) from None

    def fold(self, at_least: int) -> None:
        """See `Ledger`."""
        try:
            self.snapshot(self.pots, at_least)
        except duckdb.Error as error:
            raise not_written(error, "the answer was charged, and is in the history") from None

    def identifiers(self, users: Iterable[int]) -> dict[int, Any]:
        """See `Ledger`."""
        rows = self._con.execute(
            "SELECT _user, id FROM ledger.users WHERE _user IN (SELECT unnest(?::INTEGER[]))",
            [list(users)],
        ).fetchall()
        return dict(rows)

    def _notes(self, entry: Entry) -> list[Note]:
        """Return what is noted with a release: also whom the engine failed on, for the curator."""
        names = self.identifiers(entry.failed) if entry.failed else {}
        return [
            *entry.notes,
            *(
                CuratorLine(
                    "engine",
                    f"release {entry.release.id}: the engine failed on the rows of "
                    f"{names.get(user)!s}, who was left out of it and pays nothing: {error}",
                )
                for user, error in entry.failed.items()
            ),
        ]

    # -- notes -------------------------------------------------------------------------------------

    def notes(self, table: NoteTable, users: Index | None = None, **equal: Any) -> pa.Table:
        """See `Ledger`."""
        return DuckNotes(self._con).read(table, users, equal)

    def fact(self, key: str) -> Any:
        """See `Ledger`."""
        return DuckNotes(self._con).fact(key)

    def write(self, note: Note) -> None:
        """See `Ledger`."""
        DuckNotes(self._con).write(note)

    def drop(self, table: NoteTable, besides: Index, **equal: Any) -> None:
        """See `Ledger`."""
        DuckNotes(self._con).drop(table, besides, equal)

    def rewrite(self, table: NoteTable, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        """See `Ledger`."""
        DuckNotes(self._con).rewrite(table, change)

    def in_transaction(self, work: Callable[[], Any]) -> Any:
        """See `Ledger`."""
        return self._in_transaction(work)
