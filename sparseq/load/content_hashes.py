"""Hashes of files that have come before: told by their contents, whatever they are called.

A store keeps a digest of every file that was loaded into a table. Loading the same file again would
count everybody twice, so it is refused, unless the curator says that it is meant. Where the table
has a row key it changes nothing, and is not refused. Whether two files are the same depends on
rows: it is the curator who is told, and who decides.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from sparseq.base.errors import DataError
from sparseq.base.texts import shown
from sparseq.engine._duckdb.storage import Storage
from sparseq.load.file_patterns import Found
from sparseq.load.load_rows import IncomingRows

# -- hashes of files that have come before: told by their contents, whatever they are called -------

_AGAIN = "say --again (in Python again=True) if its rows are to be counted once more"
_ONCE = "name each file once; `sparseq ingest --again` counts its rows once more"


def sha256(path: Path) -> str:
    """Return a file's digest."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Content:
    """The content of a file: its digest, with what else says which rows are read from it."""

    name: str
    bytes: int
    key: str

    def note(self) -> str:
        """Return it as it is kept in a store."""
        return json.dumps({"name": self.name, "bytes": self.bytes})


class Contents:
    """The contents of files that are being loaded; their digests are made meanwhile.

    Args:
        files: As they were found; None for what is no file.
    """

    def __init__(self, files: Iterable[Found | None]) -> None:
        self._files = [(k, f, f.path.stat().st_size) for k, f in enumerate(files) if f is not None]
        self._pool = ThreadPoolExecutor(1)
        self._made: dict[int, Future[Content]] = {
            k: self._pool.submit(_content, file, size) for k, file, size in self._files
        }
        self._pool.shutdown(wait=False)

    def all(self) -> list[Content]:
        """Return them all, when they are there."""
        return [made.result() for made in self._made.values()]

    def repeated(self, notes: Mapping[str, str]) -> list[tuple[int, str]]:
        """Return the files that came before, or twice now: place, and what it is the same as.

        Only files of a size that came before are waited for.

        Args:
            notes: Notes on the files that were loaded, by their keys.
        """
        before = {key: json.loads(note) for key, note in notes.items()}
        sizes = Counter([n["bytes"] for n in before.values()] + [size for *_, size in self._files])
        names = {key: note["name"] for key, note in before.items()}
        repeats = []
        for k, _, size in self._files:
            if sizes[size] > 1:
                content = self._made[k].result()
                if content.key in names:
                    repeats.append((k, names[content.key]))
                names.setdefault(content.key, content.name)
        return repeats


def _content(file: Found, size: int) -> Content:
    more = json.dumps([dict(file.values), file.part]) if file.values or file.part else ""
    digest = sha256(file.path)
    key = hashlib.sha256((digest + more).encode()).hexdigest() if more else digest
    return Content(key_of(file.path.name), size, key)


def key_of(name: str) -> str:
    """Return what stands for a file's name; bytes that are no UTF-8 are spelled out."""
    return name.encode("utf-8", "backslashreplace").decode()


def repeat_error(names: list[str], same_as: list[str], new: bool = False) -> DataError:
    """Return that files were loaded before; or, of a new table, that they are there twice."""
    hint = _ONCE if new else _AGAIN
    if len(names) == 1:
        problem = f"{shown(names[0])} is there already"
        if names != same_as:
            problem = f"{shown(names[0])} has the contents of {shown(same_as[0])}"
        return DataError(f"{problem}; nothing was loaded", hint)
    some = ", ".join(map(shown, names[:3])) + ", …" * (len(names) > 3)
    return DataError(f"{len(names):,} files are there already: {some}; nothing was loaded", hint)


# -- files that were loaded into a table of a store: kept with their rows, in one transaction ------


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
        """Remember the files, in the transaction of their rows."""
        contents = self._contents.all()
        if contents:
            self._storage.remember({self._prefix + c.key: c.note() for c in contents})
