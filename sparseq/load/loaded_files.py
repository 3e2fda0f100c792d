"""The files that were loaded into a table: recorded in the transaction of their rows."""

from __future__ import annotations

from sparseq.load._duckdb.storage import Storage
from sparseq.load.content_hashes import Contents, repeat_error
from sparseq.load.load_rows import IncomingRows


class FilesSeen:
    """The files that are being loaded into a table, and those that were loaded before.

    Args:
        storage: The store's.
        table: The name of a private table.
        rows: The rows that are being loaded.
    """

    def __init__(self, storage: Storage, table: str, rows: IncomingRows) -> None:
        self._storage, self._rows = storage, rows
        self._prefix = f"file/{table}/"
        self._contents = Contents(rows.files)

    def check(self, new: bool = False) -> None:
        """Raise `DataError` if a file with rows was loaded before, or is given twice.

        Args:
            new: True if the table is being created.
        """
        notes = {
            key.removeprefix(self._prefix): note
            for key, note in self._storage.taken().items()
            if key.startswith(self._prefix)
        }
        repeats = [(k, n) for k, n in self._contents.repeated(notes) if not self._rows.is_empty(k)]
        if repeats:
            names = [self._rows.sources[k].name for k, _ in repeats]
            raise repeat_error(names, [n for _, n in repeats], new)

    def keep(self) -> None:
        """Record the files, in the transaction of their rows."""
        contents = self._contents.all()
        if contents:
            self._storage.remember({self._prefix + c.key: c.note() for c in contents})
