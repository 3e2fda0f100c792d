"""A log of files in a folder, as one Delta table: whoever commits names the head that it has seen.

Files are written first, and nothing refers to them. A commit makes some of them current, and takes
others out, at the version after the head that it names: Delta's log has one entry a version, which
is put if it is absent, so of two writers that have seen the same head one is told `Overtaken`. It
is never tried again on top of what the other wrote: the other's charges were not seen.

A commit that fails otherwise may have happened all the same: a reply is lost. The log is then asked
for an entry with this commit's own number, and only where it can't be read is nobody able to tell.
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
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sparseq.base.errors import StoreError, StoreInUse
from sparseq.base.whole_files import make_durable
from sparseq.ledger._duckdb.mark import HighWaterMark, Record, StoreMark

# -- delta tables by delta-rs (PyPI: deltalake), an optional package: what a log needs of it -------

KIND = "kind"
"""The column that files are partitioned by."""


def create(folder: Path, columns: pa.Schema) -> None:
    """Begin a table in an empty folder, partitioned by the kind of file."""
    schema = columns.insert(0, pa.field(KIND, pa.string()))
    _deltalake().DeltaTable.create(str(folder), schema, mode="error", partition_by=[KIND])


def open_table(folder: Path, version: int | None = None) -> Any:
    """Return a table; raises `StoreError` if there is none, or it can't be read."""
    try:
        try:
            return table_at(folder, version)
        except Exception:
            if not _drop_torn(folder / "_delta_log"):
                raise
            return table_at(folder, version)
    except Exception as error:
        raise StoreError(f"the ledger's log can't be read: {error}", "open it again") from None


def _drop_torn(log: Path) -> bool:
    """Remove what a loss of power has left of checkpoints; the entries that they sum up are there.

    delta-rs does not flush a checkpoint, and whoever trims the log does it first (`trim`). One may
    be left of an entry that is lost: the last one, which nobody was told of before it was durable.
    """
    names = os.listdir(log)
    entries = {_version_of(Path(name)) for name in names if name.endswith(".json")}
    whole, gone = -1, False
    for path in sorted(log / name for name in names if name.endswith(".parquet")):
        version, last = _version_of(path), max([whole, *entries])
        if _is_readable(path):
            whole = version
        elif version <= last + 1 and entries.issuperset(range(whole + 1, min(version, last) + 1)):
            path.unlink(missing_ok=True)
            gone = True
    hint = log / "_last_checkpoint"
    if hint.exists():  # of one that is not there; others are found by their names
        hint.unlink(missing_ok=True)
        gone = True
    return gone


def _is_readable(path: Path) -> bool:
    try:
        pq.read_table(path, partitioning=None)
    except (OSError, pa.ArrowInvalid):
        return False
    return True


def table_at(folder: Path, version: int | None = None) -> Any:
    """Return a table as delta-rs reads it; raise whatever it says."""
    return _deltalake().DeltaTable(str(folder), version=version)


def files(table: Any) -> list[tuple[str, str, int]]:
    """Return path, kind and size of the files that a table has."""
    found = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return [(row["path"], row[f"partition.{KIND}"], row["size_bytes"]) for row in found]


def extend(
    table: Any,
    new: Iterable[tuple[str, str, int]],
    old: Iterable[tuple[str, str, int]],
    facts: dict[str, str],
    retries: int | None = 0,
) -> None:
    """Put the entry after the version that was read, if nobody has.

    Args:
        table: As it was read.
        new, old: Path, kind and size of files that come and go.
        facts: To be written into the entry.
        retries: 0: whoever is late fails. Any other number would put the entry on top of what has
            been written meanwhile, unread.
    """
    from deltalake import CommitProperties, PostCommitHookProperties
    from deltalake.transaction import AddAction, RemoveAction

    now = int(time.time() * 1000)
    actions = [AddAction(path, size, {KIND: kind}, now, True, "{}") for path, kind, size in new] + [
        RemoveAction(path, True, now, size, {KIND: kind}) for path, kind, size in old
    ]
    table.create_write_transaction(
        actions,
        "append",
        table.schema(),
        partition_by=[KIND],
        commit_properties=CommitProperties(facts, max_commit_retries=retries),
        post_commithook_properties=PostCommitHookProperties(True, False),
    )


def _deltalake() -> Any:
    try:
        import deltalake
    except ImportError:
        raise StoreError(
            "a lake needs a package that is not installed: deltalake", "pip install 'sparseq[lake]'"
        ) from None
    return deltalake


# -- a log of files in a folder --------------------------------------------------------------------

_PATIENCE, _PAUSE = 60.0, 0.01  # seconds to wait for a mark that others write
_NUMBER = "commit"
_ROW_GROUP = 64


class Overtaken(Exception):
    """Somebody else has committed since the head was read: nothing of this commit is durable."""


class Unknown(Exception):
    """Nobody can tell whether the commit is durable: the log can't be read."""


@dataclass(frozen=True)
class LogFile:
    """A file of the log: its path in the folder, its kind, and its size in bytes."""

    path: str
    kind: str
    size: int


@dataclass(frozen=True)
class LogHead:
    """One version of the log, and the files that are current in it, in no order."""

    version: int
    files: tuple[LogFile, ...]

    def of(self, kind: str) -> list[LogFile]:
        """Return the files of one kind, in no order."""
        return [file for file in self.files if file.kind == kind]


class LogMark:
    """The high-water mark of a log that lies in a folder which may be copied or put back.

    It has the last version that was told of, and the number of that version's commit, which no
    other copy's commit has. Each commit is told of before its answers leave, and a log is refused
    that has not the entry which the mark tells of.

    Claim: of all copies of a log none is read or written that lacks a commit whose answer has left
    any of them. Proof. The mark was told of that commit, or of a later one of the same log, whose
    entry a copy lacks that lacks the commit; and it is told of another copy's only if that has it.

    Several drivers of one log may write at a time; whoever is late does not put the mark back.

    Args:
        mark: Where it lies.
        store: Whose.
    """

    def __init__(self, mark: StoreMark, store: str) -> None:
        self._mark, self._store = mark, store

    def begin(self, version: int, number: str) -> None:
        """Make the mark."""
        self._mark.write(Record(self._store, number, HighWaterMark(0, version)))
        self._mark.release()

    def tell(self, version: int, number: str, number_of: Callable[[int], str]) -> None:
        """Say that a version is durable.

        Args:
            version, number: Which, and of which commit.
            number_of: Says of which commit a version of the log is.

        Raises:
            StoreError: The mark is missing, or tells of what the log has not.
            StoreInUse: Others have had it for too long.
        """
        record = self._taken()
        try:
            if record is None or record.store != self._store:
                raise StoreError(
                    f"the high-water mark of the lake, {self._mark.place}, is missing or damaged: "
                    "nobody can tell what this copy lacks",
                    "bring it back",
                )
            if number_of(record.reached.writes) != record.session:
                raise StoreError(
                    "the lake is not the copy that was asked last: its high-water mark, "
                    f"{self._mark.name}, tells of answers that this one lacks",
                    "go on with the copy that was asked last",
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
        folder: Of the log.
        key: Of the digests in names of files, which tell nothing of what is in them.
        mark: A high-water mark outside of the folder; None: there is none.

    Raises:
        StoreError: There is no log in the folder, it can't be read, or it is not the copy that was
            written to last.

    Attributes:
        head: The version that the next commit builds on.
    """

    def __init__(self, folder: Path, key: bytes, mark: LogMark | None = None) -> None:
        self.folder, self._key, self._mark = folder, key, mark
        self._named: set[Path] = set()  # folders in it whose own names are durable
        self._table = open_table(folder)
        current = sorted(files(self._table))
        self.head = LogHead(self._table.version(), tuple(LogFile(*one) for one in current))
        try:
            with suppress(FileNotFoundError):  # it was trimmed, or a checkpoint is all there is
                make_durable(self._entry(self.head.version))  # whoever put it may have died before
        except OSError as error:
            raise StoreError(
                f"the ledger's log can't be flushed: {error}", "open it again"
            ) from None
        if mark is not None:
            self._tell(mark)

    @classmethod
    def create(cls, folder: Path, key: bytes, columns: pa.Schema) -> FencedLog:
        """Begin a log in an empty folder.

        Args:
            folder, key: See `FencedLog`.
            columns: Of all kinds of files together, without the kind.
        """
        create(folder, columns)
        make_durable(folder / "_delta_log" / f"{0:020d}.json")
        make_durable(folder / "_delta_log")
        return cls(folder, key)

    def put(self, kind: str, rows: pa.Table) -> LogFile:
        """Write a file that nothing refers to yet, under a name that no other file ever has."""
        buffer = io.BytesIO()
        pq.write_table(rows, buffer, row_group_size=_ROW_GROUP, compression="zstd")
        data = buffer.getvalue()
        path = f"kind={kind}/{self._digest(data)}-{secrets.token_hex(4)}.parquet"
        self._write(self.folder / path, data)
        return LogFile(path, kind, len(data))

    def commit(self, new: Sequence[LogFile], old: Sequence[LogFile] = ()) -> None:
        """Make files current, and others not, at the version after the head; or nothing of it.

        Raises:
            Overtaken: Another was first.
            Unknown: It may have happened or not.
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
        if self._table.version() != wanted:  # another has gone on from there already
            self._table = open_table(self.folder, wanted)
        if self._mark is not None:
            self._tell(self._mark)

    @property
    def behind(self) -> bool:
        """Another has committed since the head: one look at the folder, or two."""
        if self._entry(self.head.version + 1).exists():
            return True
        if self._entry(self.head.version).exists():
            return False
        entries = (self.folder / "_delta_log").glob("*.json")  # some were trimmed
        return any(_version_of(path) > self.head.version for path in entries)

    def begin_mark(self, mark: LogMark) -> None:
        """Have a high-water mark from now on."""
        mark.begin(self.head.version, self._number_of(self.head.version))

    def _tell(self, mark: LogMark) -> None:
        """Tell the mark how far the log has come: only then may an answer leave."""
        version = self.head.version
        mark.tell(version, self._number_of(version), self._number_of)

    def _number_of(self, version: int) -> str:
        """Return the number of the commit that an entry is; "": it is none, or not there."""
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
        """Yield the rows of files, one table each; parts that `where` rules out are not read."""
        for file in files:
            path = self.folder / file.path
            try:
                found = pq.read_table(path, columns=columns, filters=where, partitioning=None)
            except FileNotFoundError:
                raise StoreError(
                    f"the ledger has no file {file.path} any more",
                    "open the lake again; if it is still not there, restore a copy",
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
        """Return the files that the head does not refer to: of commits that failed, or folded.

        One that is not the last writer's may still be on its way into a commit. Whoever removes
        them has to commit in between: then no commit will ever refer to one of them.
        """
        known = {self.folder / file.path for file in self.head.files}
        return sorted(set(self.folder.glob("kind=*/*")) - known)

    def trim(self) -> list[Path]:
        """Remove the entries before the last checkpoint, which has all of them; return them.

        The oldest goes first. So where the place after an entry is free again, the entry itself is
        gone, and whoever has read it last and puts the next one sees that (`commit`).
        """
        folder = self.folder / "_delta_log"
        try:
            whole = int(json.loads((folder / "_last_checkpoint").read_text())["version"])
            found = sorted(folder.glob("[0-9]*.*"))
            for path in found:
                if ".checkpoint." in path.name and _version_of(path) == whole:
                    make_durable(path)  # delta-rs does not
            make_durable(folder / "_last_checkpoint")
        except (OSError, ValueError, KeyError, TypeError):
            return []  # there is none, it can't be flushed, or a loss of power took what it says
        gone = [path for path in found if _version_of(path) < whole]
        for path in gone:
            path.unlink(missing_ok=True)
        return gone

    def damaged(self) -> list[LogFile]:
        """Return the files of the head that are not there as they were written; all are read."""
        return [file for file in self.head.files if not self._is_whole(file)]

    def _is_whole(self, file: LogFile) -> bool:
        try:
            data = (self.folder / file.path).read_bytes()
        except OSError:
            return False
        return Path(file.path).name.startswith(f"{self._digest(data)}-")

    def _digest(self, data: bytes) -> str:
        return hashlib.blake2b(data, key=self._key, digest_size=20).hexdigest()

    # -- what can fail -----------------------------------------------------------------------------

    def _write(self, path: Path, data: bytes) -> None:
        """Write a file whole: another of the same name has the same bytes."""
        if path.parent not in self._named:  # whoever made it may have died before it was durable
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
        """Put the log's next entry, if nobody has; no retries, which would rebase it."""
        come, go = map(astuple, new), map(astuple, old)
        extend(self._table, come, go, {_NUMBER: number})
        if not self._is_entry(self.head.version + 1, number):
            raise Unknown("it is not where it was to be: the ledger has two writers")
        if not self._entry(self.head.version).exists():  # the next one may be gone as well
            raise Overtaken("the entry that was read last has been removed since")
        make_durable(self._entry(self.head.version + 1))

    def _did_happen(self, wanted: int, number: str, error: Exception) -> bool:
        """Tell whether a commit that has failed is in the log all the same."""
        try:
            if not self._entry(self.head.version).exists():
                return False  # it was removed, by one who has committed since
            found = self._is_entry(wanted, number)
            if found:
                make_durable(self._entry(wanted))
            elif not self._entry(wanted).exists():
                raise Unknown(f"nobody has committed, and it failed: {error}")
        except OSError as lost:
            raise Unknown(f"{error}; {lost}") from None
        return found

    def _is_entry(self, version: int, number: str) -> bool:
        """Tell whether a version's entry is this commit's."""
        return self._number_of(version) == number

    def _entry(self, version: int) -> Path:
        return self.folder / "_delta_log" / f"{version:020d}.json"


def _version_of(path: Path) -> int:
    """Return the version that an entry or a checkpoint is of."""
    return int(path.name.partition(".")[0])
