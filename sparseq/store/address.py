"""The address of a store: a file, or a lake's folder; its name in messages, and its opener."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sparseq.base.errors import StoreInUse
from sparseq.store._duckdb.open_file import open_backend

if TYPE_CHECKING:
    from sparseq.lake.fleets import Fleet
    from sparseq.store.backend import Backend

LAKE = "lake://"
SERVED = ".served"
"""Ending of the file beside a store that says where it is served, while it is."""
CONTROL = "control "
"""Beginning of that file's line that says where its operator may ask the server."""


def backend_at(
    path: str | Path,
    accept_loss: bool = False,
    fleet: Fleet | None = None,
) -> Backend:
    """Open what lies at a path: see `sparseq.connect`."""
    folder = lake_folder(path)
    if folder is not None:
        from sparseq.lake.lake_store import open_lake

        return open_lake(folder, fleet)
    try:
        return open_backend(Path(path), accept_loss)
    except StoreInUse as error:
        raise _in_use_by_server(Path(path)) or error from None


def lake_folder(path: str | Path | None) -> Path | None:
    """Return the folder of a lake; None: the path is another store's.

    >>> lake_folder("lake://events"), lake_folder("shop.sparseq")
    (PosixPath('events'), None)
    """
    if isinstance(path, str) and path.startswith(LAKE):
        return Path(path.removeprefix(LAKE))
    found = isinstance(path, (str, Path)) and Path(path, "lake.json").is_file()
    return Path(path) if found and path is not None else None


def address(path: str | Path | None) -> str:
    """Return how a store is called in messages, so that it can be given to any command.

    >>> address("lake://events"), address(Path("shop.sparseq"))
    ('lake://events', 'shop.sparseq')
    """
    folder = lake_folder(path)
    return str(path or "memory") if folder is None else f"{LAKE}{folder}"


def served_at(path: Path) -> list[str]:
    """Return what a server says of where it serves a store; nothing: no server has it."""
    try:
        return path.with_name(path.name + SERVED).read_text("utf-8").splitlines()
    except OSError:
        return []


def _in_use_by_server(path: Path) -> StoreInUse | None:
    """Return what to say of a store in use that a server has; None: no server has it."""
    said = served_at(path)
    return (
        StoreInUse(f"{path} is served: {said[0]}", "ask the server, with a token") if said else None
    )
