"""Functions that open a store of any kind at an address."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparseq.base.errors import StoreInUse
from sparseq.store._duckdb.open_file import open_backend
from sparseq.store.address import kind_at, served_at

if TYPE_CHECKING:
    from sparseq.store.backend import Backend


def backend_at(path: str | Path, accept_loss: bool = False, fleet: Any = None) -> Backend:
    """Open the store at a path: see `sparseq.connect`."""
    found = kind_at(path)
    if found is not None:
        kind, folder = found
        return kind.open(folder, fleet)
    try:
        return open_backend(Path(path), accept_loss)
    except StoreInUse as error:
        raise _in_use_by_server(Path(path)) or error from None


def _in_use_by_server(path: Path) -> StoreInUse | None:
    """Return the error for a store in use by a server; None: no server has it."""
    said = served_at(path)
    return (
        StoreInUse(f"{path} is served: {said[0]}", "ask the server, with a token") if said else None
    )
