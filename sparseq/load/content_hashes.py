"""Hashes of loaded files: a repeated file is recognised by its content, under any name.

A store keeps a digest of every file that was loaded into a table. Loading the same file again would
count every user's rows twice, so it is refused, unless the curator asks for it. If the table has a
row key, a repeated file changes nothing, and is not refused. The comparison depends on rows, so
only the curator sees its result, and decides.
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
from sparseq.load.file_patterns import Found

_AGAIN = "use --again (in Python again=True) to count its rows once more"
_ONCE = "name each file once; `sparseq ingest --again` counts its rows once more"


def sha256(path: Path) -> str:
    """Return the digest of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Content:
    """The content of a file: its digest, with the other settings that decide about the rows."""

    name: str
    bytes: int
    key: str

    def note(self) -> str:
        """Return the content as the store keeps it."""
        return json.dumps({"name": self.name, "bytes": self.bytes})


class Contents:
    """The contents of files that are being loaded; the digests are computed in parallel.

    Args:
        files: The files as they were found; None for a source that is no file.
    """

    def __init__(self, files: Iterable[Found | None]) -> None:
        self._files = [(k, f, f.path.stat().st_size) for k, f in enumerate(files) if f is not None]
        self._pool = ThreadPoolExecutor(1)
        self._made: dict[int, Future[Content]] = {
            k: self._pool.submit(_content, file, size) for k, file, size in self._files
        }
        self._pool.shutdown(wait=False)

    def all(self) -> list[Content]:
        """Return all contents, when they are complete."""
        return [made.result() for made in self._made.values()]

    def repeated(self, notes: Mapping[str, str]) -> list[tuple[int, str]]:
        """Return the repeated files: the position of each, and the name of the earlier file.

        Only files with the size of an earlier one are waited for.

        Args:
            notes: Notes about the loaded files, by their keys.
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
    """Return the key of a file's name; bytes that are not UTF-8 are spelled out."""
    return name.encode("utf-8", "backslashreplace").decode()


def repeat_error(names: list[str], same_as: list[str], new: bool = False) -> DataError:
    """Return an error: files were loaded before or, for a new table, are given twice."""
    hint = _ONCE if new else _AGAIN
    if len(names) == 1:
        problem = f"{shown(names[0])} is there already"
        if names != same_as:
            problem = f"{shown(names[0])} has the same content as {shown(same_as[0])}"
        return DataError(f"{problem}; nothing was loaded", hint)
    some = ", ".join(map(shown, names[:3])) + ", …" * (len(names) > 3)
    return DataError(f"{len(names):,} files were loaded before: {some}; nothing was loaded", hint)
