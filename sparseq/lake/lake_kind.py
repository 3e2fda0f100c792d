"""Lakes as a kind of stores: see `sparseq.store.store_kind`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sparseq.base.errors import ParameterError

if TYPE_CHECKING:
    from sparseq.lake.fleets import Fleet
    from sparseq.store._duckdb.create_file import Declaration
    from sparseq.store._duckdb.doctor import Finding
    from sparseq.store.backend import Backend


class Lakes:
    """Stores in folders with many small stores, at addresses lake://FOLDER."""

    scheme = "lake://"
    marker = "lake.json"

    @staticmethod
    def open(folder: Path, fleet: Fleet | None = None) -> Backend:
        """See `StoreKind`."""
        from sparseq.lake.lake_store import open_lake

        return open_lake(folder, fleet)

    @staticmethod
    def create(folder: Path, declaration: Declaration, buckets: int) -> None:
        """See `StoreKind`."""
        from sparseq.lake.lake_store import create_lake

        if declaration.read_as.window:
            raise ParameterError("a lake has no windows", "leave window out, or make one file")
        create_lake(folder, declaration, buckets)

    @staticmethod
    def examine(folder: Path, deep: bool) -> Iterator[Finding]:
        """See `StoreKind`."""
        from sparseq.lake.doctor import examine

        return examine(folder, deep)

    @staticmethod
    def sweep(folder: Path) -> int:
        """See `StoreKind`."""
        from sparseq.lake.doctor import swept

        return swept(folder)


LAKES = Lakes()
