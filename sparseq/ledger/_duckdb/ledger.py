"""A ledger in a DuckDB file: the journal, with the accounts of all users in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.accounting.budget import Budget
from sparseq.base._duckdb.connection import damaged_file
from sparseq.ledger._duckdb.journal import Journal
from sparseq.ledger._duckdb.notes import DuckNotes
from sparseq.ledger._duckdb.write_errors import not_written
from sparseq.ledger.departures import Departures
from sparseq.ledger.lifetimes import LIFETIMES, Lifetimes
from sparseq.ledger.notes import CuratorLine, Note, NoteTable
from sparseq.ledger.packed_integers import unpack, unpack_set
from sparseq.ledger.pots import DRAWS, Pot, Pots
from sparseq.ledger.purposes import PURPOSES, Purpose, read

if TYPE_CHECKING:
    from sparseq.ledger._duckdb.session import StoreSession
    from sparseq.ledger.accounts import Index, Ints
    from sparseq.ledger.releases import Entry

WHOSE = "ledger.whose"
"""For each window, the first window of the same person."""
_THEM = "named_people"


class DuckLedger(Journal):
    """See `sparseq.ledger.protocol.Ledger`.

    Args:
        connection, former, session: See `Journal`.
        reserves: The share of every budget for each pot.
        halt: See `Accounts`.
        purposes: The purposes that were declared when the store was made.
        budget: The store's budget.
        in_transaction: Runs a function that writes in one transaction.
        lifetime: The budget of each person over all windows, in ledger units; None: no cap.
        draws: True if budgets are drawn from a population.

    Raises:
        StoreError: The records contradict each other.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        reserves: Mapping[Pot, float],
        halt: bool = False,
        former: int = 0,
        session: StoreSession | None = None,
        in_transaction: Callable[[Callable[[], Any]], Any] = lambda work: work(),
        lifetime: int | None = None,
        purposes: Sequence[Purpose] = (),
        budget: Budget | None = None,
        draws: bool = False,
    ) -> None:
        super().__init__(connection, former, session)
        self._in_transaction = in_transaction
        all_of_them = (*purposes, *read(self.fact(PURPOSES)))
        moves = {p.number: self.charges(p.came) for p in all_of_them if p.came}
        self.pots = Pots(self._budgets(), reserves, halt, all_of_them, budget, moves)
        if draws:
            self.pots.restore_draws(self.notes(DRAWS))
        self.restore(self.pots)
        self.departures = Departures()
        self.departures.add_users(len(self.pots))
        self.restore_departures(self.departures)
        self.lifetimes: Lifetimes | None = None
        if lifetime is not None:
            self.lifetimes = Lifetimes(lifetime, self._whose())
            self.lifetimes.restore(self.notes(LIFETIMES))

    def _budgets(self) -> Ints:
        return self._column("SELECT budget FROM ledger.users ORDER BY _user", np.int64)

    def _whose(self) -> Index:
        return self._column(f"SELECT person FROM {WHOSE} ORDER BY _user", np.int32)

    def _column(self, sql: str, kind: Any) -> NDArray[Any]:
        """Return the column of a SELECT, without NULL, whose type in DuckDB is that of `kind`.

        DuckDB's `fetchnumpy` imports numpy.ma, and PyArrow's conversion imports pandas.
        """
        size, parts = np.dtype(kind).itemsize, [np.zeros(0, kind)]
        for chunk in self._con.sql(sql).to_arrow_table().column(0).chunks:
            start = chunk.offset * size
            parts.append(np.frombuffer(chunk.buffers()[1], kind, len(chunk), start))
        return np.concatenate(parts)

    def people_arrived(self) -> None:
        """Load the accounts that were added to the file."""
        new = self._budgets()[len(self.pots) :]
        self.pots.add_users(new)
        self.departures.add_users(len(new))
        if self.lifetimes is not None:
            self.lifetimes.add_windows(self._whose()[len(self.lifetimes.people) :])

    def recover(self) -> None:
        """See `Ledger`: a half-read result would block every other query."""
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
        self._con.register(_THEM, pa.table({"u": pa.array(list(users), pa.int32())}))
        try:
            rows = self._con.execute(
                f"SELECT _user, id FROM ledger.users WHERE _user IN (SELECT u FROM {_THEM})"
            ).fetchall()
        finally:
            self._con.unregister(_THEM)
        return dict(rows)

    def _notes(self, entry: Entry) -> list[Note]:
        """Return the notes of a release; engine failures add lines for the curator."""
        whose = [f.user for f in entry.failed if f.user is not None]
        names = self.identifiers(whose) if whose else {}
        whole = [] if entry.lifetimes is None else entry.lifetimes.notes(entry.release.id)
        lines = [failure.told(entry.release.id, names) for failure in entry.failed]
        return [*entry.notes, *whole, *(CuratorLine("engine", line) for line in lines)]

    def payments(self, user: int) -> list[tuple[int, int]]:
        """See `Ledger`."""
        entries = self._con.execute("SELECT id, users, charges FROM ledger.release")
        found = []
        while some := entries.fetchmany(256):
            for release, users_blob, charges_blob in some:
                users = unpack_set(users_blob)
                at = int(np.searchsorted(users, user))
                if at < len(users) and users[at] == user:
                    found.append((release, int(unpack(charges_blob)[at])))
        return sorted(one for one in found if one[1])

    def paid_from(self, pot: Pot) -> int:
        """See `Ledger`."""
        sql = "SELECT count(*) FROM ledger.release WHERE pot = ?"
        ((number,),) = self._con.execute(sql, [int(pot)]).fetchall()
        return int(number)

    # Notes.

    def notes(
        self, table: NoteTable, users: Index | None = None, latest: int | None = None, **equal: Any
    ) -> pa.Table:
        """See `Ledger`."""
        try:
            return DuckNotes(self._con).read(table, users, equal, latest)
        except (duckdb.InterruptException, duckdb.OutOfMemoryException):
            raise  # a conflict of this transaction, and no error of the file
        except duckdb.Error as error:
            raise damaged_file() from error

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
