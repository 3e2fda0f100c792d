"""The protocol of a kind of stores that an extension offers, such as lakes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from sparseq.store._duckdb.create_file import Declaration
    from sparseq.store._duckdb.doctor import Finding
    from sparseq.store.backend import Backend


class StoreKind(Protocol):
    """Stores in folders, at addresses that begin with a scheme.

    Attributes:
        scheme: The beginning of an address, such as lake://.
        marker: The file that each folder of this kind has.
    """

    scheme: str
    marker: str

    def open(self, folder: Path, fleet: Any = None) -> Backend:
        """Open a store.

        Args:
            folder: The folder of the store.
            fleet: The `fleet` of `sparseq.connect`.
        """

    def create(self, folder: Path, declaration: Declaration, buckets: int) -> None:
        """Make a store in a new folder.

        Raises:
            ParameterError: The declaration has something that this kind lacks.
        """

    def examine(self, folder: Path, deep: bool) -> Iterator[Finding]:
        """Check a store; `deep`: read all rows, too."""

    def sweep(self, folder: Path) -> int:
        """Remove the files that nothing refers to; return their number."""
