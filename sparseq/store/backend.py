"""The storage backend that `Store` needs; `_duckdb` keeps a store in one file on one machine."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sparseq.base.private import Private
    from sparseq.engine.protocol import Engine
    from sparseq.engine.reduction import Index, Ints
    from sparseq.ledger.accounts import Person
    from sparseq.ledger.notes import LoggedLine
    from sparseq.ledger.protocol import Ledger, ReleaseArchive
    from sparseq.ledger.releases import Loss
    from sparseq.load.read_schema import Schema
    from sparseq.question.catalog import Catalog, Table


class Backend(Protocol):
    """Rows, accounts and releases of one store, opened by this process alone.

    Attributes:
        path: The store's path; None: it is in memory.
        settings: The settings given at its creation: public.
        losses: The times at which it was opened with a missing part: public.
        catalog: Its tables: public.
        database: The database, used only by parts made for this backend; None: it is closed.
    """

    path: Path | None
    settings: Mapping[str, Any]
    losses: tuple[Loss, ...]
    catalog: Catalog
    database: Any

    @property
    def engine(self) -> Engine:
        """The engine that evaluates queries: private."""

    @property
    def ledger(self) -> Ledger:
        """Accounts and releases: private."""

    @property
    def half_done(self) -> bool:
        """True if a change was interrupted, so its effect is unknown: open the store again."""

    @property
    def behind(self) -> bool:
        """True if another process has written to the store since it was opened: open it again."""

    @property
    def records(self) -> ReleaseArchive:
        """Durable releases and notes, for threads outside the stream: mostly private."""

    def public_twin(self) -> tuple[str, dict[str, pa.Table]]:
        """Return SQL that makes its empty tables in DuckDB, and the rows of the public tables."""

    def triplets(self, table: pa.Table, size: int) -> tuple[Index, Index, NDArray[Any]]:
        """Return users, coordinates and values of a table of contributions made elsewhere.

        Raises:
            DataError: It does not fit, or a user has no account.
        """

    def numbers_of(self, identifiers: pa.Array) -> Ints:
        """Return the numbers of people by identifier, -1 for people without an account."""

    def people(self) -> Private[Index]:
        """Return the numbers of all people with an account, ascending."""

    def count_rows(self, table: Table, user: int | None = None) -> Private[int]:
        """Return the number of rows of a private table, or of one person in it."""

    def rows_of_each(self, table: Table) -> Private[Ints]:
        """Return the number of rows of each account in a private table, by account number."""

    def find(self, identifier: str) -> Private[Person | None]:
        """Return the person with an identifier, or None."""

    def forget(
        self, users: Sequence[int], also: Callable[[], None], identifiers: Sequence[str] = ()
    ) -> Private[dict[str, int]]:
        """Erase people's rows and identifiers for good, and other records in the same transaction.

        Args:
            users: The people, by number.
            also: A function that erases other records in the same transaction.
            identifiers: The people's identifiers, for backends that know people by more than
                numbers.

        Returns:
            The number of erased rows, by private table.

        Raises:
            StoreError: The rows are erased, but their bytes are still on disk.
        """

    def ingest(
        self,
        table: Table,
        source: Any,
        once: str | None,
        note: str,
        late: bool,
        again: bool,
        since: dt.date | None = None,
    ) -> Private[int]:
        """Add all rows or none, and return the number of added rows. See `Store.ingest`."""

    def taken(self) -> dict[str, str]:
        """Return the keys under which rows were ingested, each with its note."""

    def remember(self, key: str, note: str) -> None:
        """Write a note under a key, in place of an earlier one."""

    @property
    def revision(self) -> int:
        """Number of ingests whose rows may change the answer to an earlier question: public."""

    def schema(self, table: Table) -> Schema:
        """Return the schema for reading the rows of a private table: public."""

    def tell_curator(self, kind: str, message: str) -> None:
        """Write a line to the curator's log: private."""

    def curator_log(self, last: int | None = None) -> Private[list[LoggedLine]]:
        """Return the curator's log, oldest first, or its newest lines."""

    def abandon(self) -> None:
        """Close without another write; the next opening finds the durable state."""

    def close(self) -> None:
        """Write pending changes and close; raises `StoreError` if that fails."""

    def release(self) -> None:
        """Let other processes open the store; the state in memory is dropped."""
