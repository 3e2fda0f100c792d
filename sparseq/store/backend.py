"""The backend that `Store` needs where a store lives; `_duckdb` is one file of one machine."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sparseq.engine.contributions import Index, Ints
    from sparseq.engine.protocol import Engine
    from sparseq.ledger.accounts import Person
    from sparseq.ledger.notes import LoggedLine
    from sparseq.ledger.protocol import Ledger, Loss
    from sparseq.load.read_schema import Schema
    from sparseq.sql.catalog import Catalog, Table


class Backend(Protocol):
    """Rows, accounts and releases of one store, opened by this process alone.

    Attributes:
        path: Of the store; None: it is in memory.
        settings: What was said at its creation: public.
        losses: When it was opened although a part of it was missing: public.
        catalog: Its tables: public.
        database: What only parts made for this backend use; None: it is closed.
    """

    path: Path | None
    settings: Mapping[str, Any]
    losses: tuple[Loss, ...]
    catalog: Catalog
    database: Any

    @property
    def engine(self) -> Engine:
        """Evaluates what is asked: private."""

    @property
    def ledger(self) -> Ledger:
        """Accounts and releases: private."""

    @property
    def half_done(self) -> bool:
        """A change was stopped, and nobody can tell what it has left: open the store anew."""

    @property
    def behind(self) -> bool:
        """Another process has written to it since it was opened: open it anew."""

    def public_twin(self) -> tuple[str, dict[str, pa.Table]]:
        """Return SQL that makes its tables in DuckDB, empty, and the rows of the public ones."""

    def triplets(self, table: pa.Table, size: int) -> tuple[Index, Index, NDArray[Any]]:
        """Return users, coordinates and values of a table of contributions made elsewhere.

        Raises:
            DataError: It does not fit, or a user has no account.
        """

    def numbers_of(self, identifiers: pa.Array) -> Ints:
        """Return the numbers of people by identifier, -1 for whom there is no account."""

    def people(self) -> Index:
        """Return the numbers of all who have an account, ascending: private."""

    def count_rows(self, table: Table, user: int | None = None) -> int:
        """Return how many rows a private table has, or has of one person: private."""

    def find(self, identifier: str) -> Person | None:
        """Return whose identifier it is, None if nobody's: private."""

    def forget(
        self, users: Sequence[int], also: Callable[[], None], identifiers: Sequence[str] = ()
    ) -> dict[str, int]:
        """Erase people's rows and identifiers for good, and what else there is to erase.

        Args:
            users: By number.
            also: Erases in the same transaction.
            identifiers: Theirs, for backends that know people by more than numbers.

        Returns:
            How many rows are gone, by private table.

        Raises:
            StoreError: The rows are erased, and their bytes are still there.
        """

    # -- rows that come ----------------------------------------------------------------------------

    def ingest(
        self,
        table: Table,
        source: Any,
        once: str | None,
        note: str,
        late: bool,
        again: bool,
        since: dt.date | None = None,
    ) -> int:
        """Add rows, all or none; return how many came in. See `Store.ingest`."""

    def taken(self) -> dict[str, str]:
        """Return the keys under which rows were taken in, each with its note."""

    def remember(self, key: str, note: str) -> None:
        """Write a note under a key, in place of an earlier one."""

    @property
    def revision(self) -> int:
        """Number of times that rows came which may be about an earlier question: public."""

    def schema(self, table: Table) -> Schema:
        """Return how the rows of a private table are read: public."""

    def tell_curator(self, kind: str, message: str) -> None:
        """Write a line to the curator's log: private."""

    def curator_log(self, last: int | None = None) -> list[LoggedLine]:
        """Return the curator's log, oldest first, or its newest lines: private."""

    # -- the end -----------------------------------------------------------------------------------

    def abandon(self) -> None:
        """Close without another write: opened anew it has what was made durable."""

    def close(self) -> None:
        """Write what is pending, and close; raises `StoreError` if that can't be."""

    def release(self) -> None:
        """Let others open it; what is in memory is forgotten."""
