"""Files that were loaded into a table of a store: kept with their rows, in one transaction."""

from __future__ import annotations

from sparseq.engine._duckdb.storage import Storage
from sparseq.load.content_hashes import Contents, refused
from sparseq.load.load_rows import IncomingRows


class FilesSeen:
    """The files that are being loaded into a table, and those that were before.

    Args:
        storage: Of the store.
        table: Name of a private table.
        rows: What is being loaded.
    """

    def __init__(self, storage: Storage, table: str, rows: IncomingRows) -> None:
        self._storage, self._rows = storage, rows
        self._prefix = f"file/{table}/"
        self._contents = Contents(rows.files)

    def check(self, new: bool = False) -> None:
        """Raise `DataError` if a file with rows was loaded before, or is there twice.

        Args:
            new: The table is being made.
        """
        known = {
            key.removeprefix(self._prefix): note
            for key, note in self._storage.taken().items()
            if key.startswith(self._prefix)
        }
        found = [(k, n) for k, n in self._contents.repeated(known) if not self._rows.is_empty(k)]
        if found:
            names = [self._rows.sources[k].name for k, _ in found]
            raise refused(names, [n for _, n in found], new)

    def keep(self) -> None:
        """Remember the files, in the transaction of their rows."""
        contents = self._contents.all()
        if contents:
            self._storage.remember({self._prefix + c.key: c.note() for c in contents})
