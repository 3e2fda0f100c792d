"""The protocol of a ledger: accounts of users, and durable releases, for the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from sparseq.ledger.accounts import Index, Ints
from sparseq.ledger.notes import NoteTable
from sparseq.ledger.pots import Pot
from sparseq.ledger.releases import Entry, Release
from sparseq.ledger.request_id import RequestId
from sparseq.ledger.root_chain import Parts, RootChain

if TYPE_CHECKING:
    from sparseq.ledger.accounts import Index, Ints
    from sparseq.ledger.departures import Departures
    from sparseq.ledger.lifetimes import Lifetimes
    from sparseq.ledger.notes import Note, NoteTable
    from sparseq.ledger.pots import Pot, Pots
    from sparseq.ledger.request_id import RequestId


class ReleaseArchive(Protocol):
    """The recorded releases of one store, and its notes, to be read.

    A store has such a reader for threads beside the stream: it reads what is durable.
    """

    @property
    def next_id(self) -> int:
        """The number of the next release."""

    def read(self, release_id: int) -> Release:
        """Return one release; raise `StoreError` if the number has none."""

    def releases(self, last: int | None = None, before: int | None = None) -> list[Release]:
        """Return all releases, or those before one, oldest first; or the newest `last`."""

    def notes(
        self, table: NoteTable, users: Index | None = None, latest: int | None = None, **equal: Any
    ) -> pa.Table:
        """Return the rows of a table of notes, in the order of writing: mostly private.

        Args:
            table: The table.
            users: Only rows about these users.
            latest: At most this number of rows, the newest ones.
            equal: Only rows in which columns have these values.
        """

    def fact(self, key: str) -> Any:
        """Return the fact under a key, or None."""

    def __len__(self) -> int:
        """Return the number of releases."""


class Ledger(ReleaseArchive, Protocol):
    """The accounts of one store and its releases, numbered 1, 2, … without a gap.

    A ledger that is opened after a crash has the entries of every `commit` that returned. Of an
    interrupted `commit` it has all entries or none. Accounts and departures are those of its
    entries.

    Attributes:
        pots: The budgets and the spent amounts of all users: private, in memory. The stream charges
            them and then commits.
        departures: The users who were left out of a query, each with the first such release:
            private, in memory.
        lifetimes: Amounts spent by persons over all windows: private, in memory. None: no cap.
    """

    pots: Pots
    departures: Departures
    lifetimes: Lifetimes | None

    def recover(self) -> None:
        """Discard results that an interrupt may have left half read."""

    def commit(self, entries: Sequence[Entry]) -> None:
        """Make releases durable with their charges and notes, all or none.

        Args:
            entries: The entries, numbered from `next_id` on.

        Raises:
            StoreInUse: Another process committed first: nothing of these entries is durable. The
                data in memory may be out of date, so the ledger must be opened again.
            StoreError: The entries are not durable, or it is unknown whether they are; the ledger
                must not be used again. No part of the answers may have been returned to a caller.
        """

    def fold(self, at_least: int) -> None:
        """Store totals if at least `at_least` charges were added, so that opening is faster."""

    def recorded(self, request: RequestId | None, query: str) -> Release | None:
        """Return the release that a request was answered with, if there is one.

        Raises:
            ParameterError: The name is empty.
            QueryRefused: The name belongs to another query.
        """

    def under(self, request: RequestId) -> Release | None:
        """Return the release of a request, for any query, or None."""

    def number(self, request: RequestId) -> int | None:
        """Return the number of the release of a request, for any query, or None."""

    def numbers(self, requests: Iterable[RequestId]) -> dict[RequestId, int]:
        """Return the numbers of the releases of requests, for those that have one."""

    def names(self, releases: Iterable[int]) -> dict[int, RequestId]:
        """Return the request names of releases, for those that have a name."""

    def read_ahead(self, requests: Iterable[RequestId]) -> None:
        """Read the releases of these requests together; this only saves time."""

    def charges(self, release_id: int) -> tuple[Index, Ints]:
        """Return the users charged for a release, and their charges: private."""

    def past(self) -> Iterable[tuple[Release, Parts]]:
        """Yield all stored releases in order, with the records of their charges: private."""

    def chain(self) -> RootChain:
        """Return the chain that gives the next release its root; the caller must commit its
        additions.
        """

    def payments(self, user: int) -> list[tuple[int, int]]:
        """Return the releases for which a user was charged, each with the charge: private."""

    def paid_from(self, pot: Pot) -> int:
        """Return the number of releases that were paid from a pot."""

    def in_transaction(self, work: Callable[[], Any]) -> Any:
        """Run a function that writes in one transaction; only in it the following may be called.

        Raises:
            StoreError: The writes are not durable.
        """

    def write(self, note: Note) -> None:
        """Write a note."""

    def drop(self, table: NoteTable, besides: Index, **equal: Any) -> None:
        """Delete the rows of a table of notes, except those about some users."""

    def rewrite(self, table: NoteTable, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        """Change a table of notes, a block of rows at a time; removed rows are erased for good."""

    def identifiers(self, users: Iterable[int]) -> dict[int, Any]:
        """Return the identifiers of users; None for an erased one: private."""
