"""The protocol of a ledger: who has spent what, and every release, durable, for the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    from sparseq.ledger.accounts import Index, Ints
    from sparseq.ledger.departures import Departures
    from sparseq.ledger.entry import Entry, Release
    from sparseq.ledger.lifetimes import Lifetimes
    from sparseq.ledger.notes import Note, NoteTable
    from sparseq.ledger.pots import Pot, Pots
    from sparseq.ledger.request_id import RequestId


class Ledger(Protocol):
    """The accounts of one store, and its releases: numbers 1, 2, … without a gap.

    Opened anew after any crash, a ledger has the entries of every `commit` that returned, and of
    the one that was interrupted all or none; accounts and departures are those of its entries.

    Attributes:
        pots: What everybody may spend and has spent: private, in memory. The stream charges them,
            and then commits.
        departures: Who has been left out of a query, and of which first: private, in memory.
        lifetimes: What people have spent over all windows: private, in memory. None: no cap.
    """

    pots: Pots
    departures: Departures
    lifetimes: Lifetimes | None

    @property
    def next_id(self) -> int:
        """The number of the release to come."""

    def recover(self) -> None:
        """Get rid of what an interrupt may have left half read."""

    def commit(self, entries: Sequence[Entry]) -> None:
        """Make releases durable with their charges and notes, all or none.

        Args:
            entries: Numbered from `next_id` on.

        Raises:
            StoreInUse: Another was first: nothing of them is durable. What was read may be out of
                date, so the ledger must be opened anew.
            StoreError: They are not durable, or nobody can tell; the ledger must not be used
                again. Nothing of them may have been given to anybody.
        """

    def fold(self, at_least: int) -> None:
        """Sum up what has been spent, if so many charges have piled up: opening is quicker then."""

    def recorded(self, request: RequestId | None, query: str) -> Release | None:
        """Return the release that a request stands for, if there is one.

        Raises:
            ParameterError: The name is empty.
            QueryRefused: The name was given to another query.
        """

    def under(self, request: RequestId) -> Release | None:
        """Return what was released for a request, whatever its query, if anything was."""

    def number(self, request: RequestId) -> int | None:
        """Return the release of a request, whatever its query, if there is one."""

    def numbers(self, requests: Iterable[RequestId]) -> dict[RequestId, int]:
        """Return the releases of requests, of those that have one."""

    def names(self, releases: Iterable[int]) -> dict[int, RequestId]:
        """Return what releases were called, of those that have a name."""

    def read_ahead(self, requests: Iterable[RequestId]) -> None:
        """Read the releases of these requests together; it changes nothing but the time."""

    def read(self, release_id: int) -> Release:
        """Return one release; raises `StoreError` if there is none of that number."""

    def releases(self, last: int | None = None, before: int | None = None) -> list[Release]:
        """Return the releases, or those before one, oldest first; the `last` of them if given."""

    def charges(self, release_id: int) -> tuple[Index, Ints]:
        """Return who paid how much for a release: private."""

    def payments(self, user: int) -> list[tuple[int, int]]:
        """Return the releases that a person has paid for, each with the charge: private."""

    def paid_from(self, pot: Pot) -> int:
        """Return how many releases were paid for from a pot."""

    def notes(
        self, table: NoteTable, users: Index | None = None, latest: int | None = None, **equal: Any
    ) -> pa.Table:
        """Return the rows of a table of notes, in the order of writing: private, mostly.

        Args:
            table: Which.
            users: About these people only.
            latest: So many at most, those that were written last.
            equal: Where columns have these values.
        """

    def fact(self, key: str) -> Any:
        """Return the fact under a key, or None."""

    def in_transaction(self, work: Callable[[], Any]) -> Any:
        """Run what writes: it is durable all, or none; the following may be called in it only.

        Raises:
            StoreError: It is not durable.
        """

    def write(self, note: Note) -> None:
        """Write a note."""

    def drop(self, table: NoteTable, besides: Index, **equal: Any) -> None:
        """Take away the rows of a table of notes, but for those about some people."""

    def rewrite(self, table: NoteTable, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        """Change a table of notes, some rows at a time; what goes is erased for good."""

    def identifiers(self, users: Iterable[int]) -> dict[int, Any]:
        """Return what people are called, None where that was erased: private."""

    def __len__(self) -> int:
        """How many releases there are."""
