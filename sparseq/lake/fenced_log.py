"""A log of files in a folder, as one Delta table: a commit names the head that its writer has read.

Files are written first, and no commit refers to them. A commit makes some of them current, and
removes others, at the version after the head that it names: Delta's log has one entry per version,
which is created only if it is absent, so the second of two writers with the same head gets
`Overtaken`. Its commit is never repeated on top of the other's: the second writer has not read the
other's charges.

A commit that fails in another way may have succeeded after all: a reply may be lost. Then the log
is searched for an entry with this commit's own number, and only if the log can't be read the result
is unknown.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sparseq.base.errors import StoreError, StoreInUse
from sparseq.base.whole_files import make_durable
from sparseq.lake.delta_table import create, extend, files, open_table, version_of
from sparseq.ledger._duckdb.mark import StoreMark
from sparseq.ledger._duckdb.progress_record import HighWaterMark, Record

_PATIENCE, _PAUSE = 60.0, 0.01  # seconds to wait for a mark that others write
_NUMBER = "commit"
_ROW_GROUP = 64


class Overtaken(Exception):
    """Another writer has committed a later head: nothing of this commit is durable."""


class Unknown(Exception):
    """It is unknown whether the commit is durable: the log can't be read."""


@dataclass(frozen=True)
class LogFile:
    """A file of the log: its path in the folder, its kind, and its size in bytes."""

    path: str
    kind: str
    size: int


@dataclass(frozen=True)
class LogHead:
    """One version of the log, and its current files, in no order."""

    version: int
    files: tuple[LogFile, ...]

    def of(self, kind: str) -> list[LogFile]:
        """Return the files of one kind, in no order."""
        return [file for file in self.files if file.kind == kind]


class LogMark:
    """The high-water mark of a log in a folder that may be copied or restored.

    It has the last recorded version, and the number of that version's commit, which no other copy's
    commit has. Each commit is recorded before its answers are returned, and a log is refused if it
    lacks the entry in the mark.

    Claim: no copy of a log is read or written that lacks a commit whose answer was returned from
    any copy. Proof. The mark has recorded that commit, or a later one of the same log; a copy that
    lacks the commit also lacks the later entry. And the mark records another copy's commit only if
    that copy has the earlier one.

    Several drivers of one log may write at the same time; a late one does not set the mark back.

    Args:
        mark: The mark.
        store: The identifier of the store.
    """

    def __init__(self, mark: StoreMark, store: str) -> None:
        self._mark, self._store = mark, store

    def begin(self, version: int, number: str) -> None:
        """Create the mark."""
        self._mark.write(Record(self._store, number, HighWaterMark(0, version)))
        self._mark.release()

    def tell(self, version: int, number: str, number_of: Callable[[int], str]) -> None:
        """Record that a version is durable.

        Args:
            version, number: The version, and the number of its commit.
            number_of: Returns the number of the commit of a version of the log.

        Raises:
            StoreError: The mark is missing, or has an entry that the log lacks.
            StoreInUse: Other processes held the mark for too long.
        """
        record = self._taken()
        try:
            if record is None or record.store != self._store:
                raise StoreError(
                    f"the high-water mark of the lake, {self._mark.place}, is missing or damaged:"
                    " it is unknown what this copy lacks",
                    "bring it back",
                )
            if number_of(record.reached.writes) != record.session:
                raise StoreError(
                    "the lake is not the copy that was asked last: its high-water mark, "
                    f"{self._mark.name}, counts answers that this copy lacks",
                    "continue with the copy that was asked last",
                )
            if version > record.reached.writes:
                reached = HighWaterMark(0, version)
                self._mark.write(replace(record, session=number, reached=reached))
        finally:
            self._mark.release()

    def _taken(self) -> Record | None:
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._mark.take()
            except StoreInUse:
                if time.monotonic() > until:
                    raise
                time.sleep(_PAUSE)


class FencedLog:
    """A log that one writer at a time can extend.

    Args:
        folder: The folder of the log.
        key: The key of the digests in names of files, which reveal nothing about the contents.
        mark: A high-water mark outside of the folder; None: there is none.

    Raises:
        StoreError: The folder has no log, the log can't be read, or it is not the copy that was
            written last.

    Attributes:
        head: The version that the next commit extends.
    """

    def __init__(self, folder: Path, key: bytes, mark: LogMark | None = None) -> None:
        self.folder, self._key, self._mark = folder, key, mark
        self._named: set[Path] = set()  # subfolders whose own names are durable
        self._table = open_table(folder)
        current = sorted(files(self._table))
        self.head = LogHead(self._table.version(), tuple(LogFile(*one) for one in current))
        try:
            with suppress(FileNotFoundError):  # it was trimmed, or only a checkpoint exists
                # its writer may have died before the flush
                make_durable(self._entry(self.head.version))
        except OSError as error:
            raise StoreError(
                f"the ledger's log can't be flushed: {error}", "open it again"
            ) from None
        if mark is not None:
            self._tell(mark)

    @classmethod
    def create(cls, folder: Path, key: bytes, columns: pa.Schema) -> FencedLog:
        """Create a log in an empty folder.

        Args:
            folder, key: See `FencedLog`.
            columns: The columns of all kinds of files together, without the kind.
        """
        create(folder, columns)
        make_durable(folder / "_delta_log" / f"{0:020d}.json")
        make_durable(folder / "_delta_log")
        return cls(folder, key)

    def put(self, kind: str, rows: pa.Table) -> LogFile:
        """Write a file that no commit refers to yet, under a new and unique name."""
        buffer = io.BytesIO()
        pq.write_table(rows, buffer, row_group_size=_ROW_GROUP, compression="zstd")
        data = buffer.getvalue()
        path = f"kind={kind}/{self._digest(data)}-{secrets.token_hex(4)}.parquet"
        self._write(self.folder / path, data)
        return LogFile(path, kind, len(data))

    def commit(self, new: Sequence[LogFile], old: Sequence[LogFile] = ()) -> None:
        """Make files current, and remove others, at the version after the head; or change nothing.

        Raises:
            Overtaken: Another writer was first.
            Unknown: It is unknown whether the commit succeeded.
        """
        wanted, number = self.head.version + 1, secrets.token_hex(16)
        try:
            self._extend(new, old, number)
        except (Unknown, Overtaken):
            raise
        except Exception as error:
            if not self._did_happen(wanted, number, error):
                raise Overtaken(str(error)) from None
        gone = {file.path for file in old}
        kept = [file for file in self.head.files if file.path not in gone]
        self.head = LogHead(wanted, (*kept, *new))
        self._table.update_incremental()
        if self._table.version() != wanted:  # another writer has continued from there already
            self._table = open_table(self.folder, wanted)
        if self._mark is not None:
            self._tell(self._mark)

    @property
    def behind(self) -> bool:
        """True if another writer has committed since the head: one or two reads of the folder."""
        if self._entry(self.head.version + 1).exists():
            return True
        if self._entry(self.head.version).exists():
            return False
        entries = (self.folder / "_delta_log").glob("*.json")  # some were trimmed
        return any(version_of(path) > self.head.version for path in entries)

    def begin_mark(self, mark: LogMark) -> None:
        """Use a high-water mark from now on."""
        mark.begin(self.head.version, self._number_of(self.head.version))

    def _tell(self, mark: LogMark) -> None:
        """Record the log's progress in the mark: only then may an answer be returned."""
        version = self.head.version
        mark.tell(version, self._number_of(version), self._number_of)

    def _number_of(self, version: int) -> str:
        """Return the number of the commit of an entry; "": it has none, or is missing."""
        if not self._entry(version).exists():
            return ""
        lines = self._entry(version).read_text().splitlines()
        infos = [json.loads(line).get("commitInfo", {}) for line in lines]
        return next((str(info[_NUMBER]) for info in infos if _NUMBER in info), "")

    def rows(
        self,
        files: Iterable[LogFile],
        columns: list[str] | None = None,
        where: pc.Expression | None = None,
    ) -> Iterator[pa.Table]:
        """Yield the rows of files, one table each; parts that `where` excludes are not read."""
        for file in files:
            path = self.folder / file.path
            try:
                found = pq.read_table(path, columns=columns, filters=where, partitioning=None)
            except FileNotFoundError:
                raise StoreError(
                    f"the ledger has no file {file.path} any more",
                    "open the lake again; if it is still missing, restore a copy",
                ) from None
            except (OSError, pa.ArrowInvalid):
                raise StoreError(
                    f"the ledger's file {file.path} is damaged", "restore a copy"
                ) from None
            yield found

    def delete(self, files: Iterable[LogFile]) -> None:
        """Remove files that no version from the head on refers to."""
        for file in files:
            (self.folder / file.path).unlink(missing_ok=True)

    def orphans(self) -> list[Path]:
        """Return the files that the head does not refer to: of failed commits, or merged.

        A file of another writer may still be on its way into a commit. So a commit must come before
        the removal: then no commit will ever refer to such a file.
        """
        known = {self.folder / file.path for file in self.head.files}
        return sorted(set(self.folder.glob("kind=*/*")) - known)

    def trim(self) -> list[Path]:
        """Remove the entries before the last checkpoint, which contains them all; return them.

        The oldest goes first. So if the place after an entry is free again, the entry itself is
        gone, and a writer that has read it last and creates the next one sees that (`commit`).
        """
        folder = self.folder / "_delta_log"
        try:
            whole = int(json.loads((folder / "_last_checkpoint").read_text())["version"])
            found = sorted(folder.glob("[0-9]*.*"))
            for path in found:
                if ".checkpoint." in path.name and version_of(path) == whole:
                    make_durable(path)  # delta-rs does not
            make_durable(folder / "_last_checkpoint")
        except (OSError, ValueError, KeyError, TypeError):
            return []  # there is none, it can't be flushed, or a loss of power removed its data
        gone = [path for path in found if version_of(path) < whole]
        for path in gone:
            path.unlink(missing_ok=True)
        return gone

    def damaged(self) -> list[LogFile]:
        """Read all files of the head, and return the missing and changed ones."""
        return [file for file in self.head.files if not self._is_whole(file)]

    def _is_whole(self, file: LogFile) -> bool:
        try:
            data = (self.folder / file.path).read_bytes()
        except OSError:
            return False
        return Path(file.path).name.startswith(f"{self._digest(data)}-")

    def _digest(self, data: bytes) -> str:
        return hashlib.blake2b(data, key=self._key, digest_size=20).hexdigest()

    # Steps that can fail.

    def _write(self, path: Path, data: bytes) -> None:
        """Write a whole file: another file of the same name has the same bytes."""
        if path.parent not in self._named:  # its maker may have died before it was durable
            path.parent.mkdir(exist_ok=True)
            make_durable(path.parent)
            self._named.add(path.parent)
        working = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        with open(working, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(working, path)
        make_durable(path)

    def _extend(self, new: Sequence[LogFile], old: Sequence[LogFile], number: str) -> None:
        """Create the log's next entry, if it is absent; no retries, which would rebase it."""
        come, go = map(astuple, new), map(astuple, old)
        extend(self._table, come, go, {_NUMBER: number})
        if not self._is_entry(self.head.version + 1, number):
            raise Unknown(
                "the entry is at another version than expected: the ledger has two writers"
            )
        if not self._entry(self.head.version).exists():  # the next one may be gone as well
            raise Overtaken("the entry that was read last has been removed since")
        make_durable(self._entry(self.head.version + 1))

    def _did_happen(self, wanted: int, number: str, error: Exception) -> bool:
        """Tell whether a failed commit is in the log after all."""
        try:
            if not self._entry(self.head.version).exists():
                return False  # it was removed by a writer that has committed since
            found = self._is_entry(wanted, number)
            if found:
                make_durable(self._entry(wanted))
            elif not self._entry(wanted).exists():
                raise Unknown(f"no other writer has committed, but it failed: {error}")
        except OSError as lost:
            raise Unknown(f"{error}; {lost}") from None
        return found

    def _is_entry(self, version: int, number: str) -> bool:
        """Tell whether a version's entry belongs to this commit."""
        return self._number_of(version) == number

    def _entry(self, version: int) -> Path:
        return self.folder / "_delta_log" / f"{version:020d}.json"
