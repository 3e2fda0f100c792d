"""A store in a lake: a folder of buckets, and a ledger that lists the current ones.

    lake.json       the settings, the number of buckets, the key of hash and names
    buckets/        small stores, read only; their names contain digests of their contents
    ledger/         a Delta table (`sparseq.lake`)

See docs/lake.md.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.accounting import Budget
from sparseq.base.errors import DataError, ParameterError, StoreError
from sparseq.base.private import Private
from sparseq.base.whole_files import make_durable, whole_file
from sparseq.engine.reduction import Index, Ints
from sparseq.lake import ledger_rows
from sparseq.lake._duckdb.bucket import Bucket, bucket_at
from sparseq.lake._duckdb.key_file import KeyFile, digest_of
from sparseq.lake._duckdb.layout import Laid, NewBuckets, Shuffle, homes, rewritten
from sparseq.lake.fenced_log import FencedLog, LogMark
from sparseq.lake.fleets import Fleet, Here, Processes
from sparseq.lake.lake_engine import LakeEngine
from sparseq.lake.lake_ledger import LakeLedger, manifest_of
from sparseq.lake.spark_fleet import SparkFleet
from sparseq.ledger._duckdb.mark import mark_at
from sparseq.ledger._duckdb.write_errors import told_where_not_written
from sparseq.ledger.accounts import Person
from sparseq.ledger.notes import CuratorLine, Fact, LoggedLine, Note
from sparseq.ledger.pots import Pot
from sparseq.ledger.protocol import ReleaseArchive
from sparseq.ledger.purposes import read
from sparseq.ledger.releases import Loss
from sparseq.load.load_rows import IncomingRows
from sparseq.load.read_schema import Schema, schema_of
from sparseq.question.catalog import Catalog, Table
from sparseq.store._duckdb.create_file import Declaration
from sparseq.store._duckdb.file_backend import FORMAT as BUCKET_FORMAT
from sparseq.store._duckdb.file_backend import DuckBackend

FORMAT = {"lake": 1, "buckets": BUCKET_FORMAT}
FORMAT_WITH_LINKS = {"lake": 2, "buckets": BUCKET_FORMAT}
"""The format of a lake with a file of keys, so that versions without such files do not open it."""
MANIFEST = "lake.json"
_TAKEN, _REVISION, _KEYS = "taken", "revision", "keys"
SPARK = "SPARSEQ_SPARK"
"""The environment variable with the address of Spark, such as sc://host or local[*]."""
_SMALL = 1 << 20
"""Lakes with fewer rows are answered by this process alone, which is as fast."""


class LakeBackend:
    """See `sparseq.store.backend.Backend`.

    Args:
        folder: The folder of the lake.
        fleet: Runs its tasks; None: processes of this machine.

    Raises:
        StoreError: There is no lake, or its records contradict each other.
    """

    def __init__(self, folder: Path, fleet: Fleet | None = None) -> None:
        self.path: Path | None = folder
        self._said = _read(folder)
        self._count = int(self._said["buckets"])
        self._key = bytes.fromhex(self._said["key"])
        self.settings: Mapping[str, Any] = self._said["settings"]
        self.losses: tuple[Loss, ...] = ()
        self.catalog = Catalog.from_dict(self._said["catalog"])
        log = FencedLog(folder / "ledger", self._key, _mark_of(self.settings))
        manifest = manifest_of(log)
        self._files = [row["file"] for row in manifest]
        reserves = {Pot[k.upper()]: float(v) for k, v in self.settings["reserves"].items()}
        budgets = ledger_rows.budgets_of(manifest)
        self.ledger = LakeLedger(
            log,
            self._count,
            budgets,
            reserves,
            self.settings["halt"],
            self._names,
            read(self.settings.get("purposes")),
            Budget(self.settings["kappa"], self.settings["norm_budget"]),
        )
        small = sum(row["rows"] for row in manifest) <= _SMALL
        self._fleet: Fleet = fleet or (Here() if small else Processes())
        self.database: Any = self._fleet
        self.engine = LakeEngine(self._fleet, lambda: list(map(self._file, range(self._count))))
        self.half_done = False

    @property
    def behind(self) -> bool:
        """See `Backend`."""
        return self.database is not None and self.ledger.behind

    def _file(self, bucket: int) -> str:
        assert self.path is not None
        return str(self.path / "buckets" / self._files[bucket])

    @contextmanager
    def _bucket(self, bucket: int) -> Iterator[Bucket]:
        opened = bucket_at(self._file(bucket))
        with opened.lock:
            yield opened

    def _names(self, users: Iterable[int]) -> dict[int, Any]:
        names_of: dict[int, Any] = {}
        for bucket, places, _ in ledger_rows.by_bucket(np.array(list(users)), self._count):
            with self._bucket(bucket) as opened:
                names = opened.identifiers(places.tolist())
            numbers = ledger_rows.numbers_in(bucket, places, self._count)
            names_of |= dict(zip(numbers.tolist(), names, strict=True))
        return dict(sorted(names_of.items()))

    @property
    def records(self) -> ReleaseArchive:
        """See `Backend`: a ledger of a lake reads files that nobody changes."""
        return self.ledger

    def public_twin(self) -> tuple[str, dict[str, pa.Table]]:
        """See `Backend`."""
        with self._bucket(0) as opened:
            return opened.public_twin()

    def triplets(self, table: pa.Table, size: int) -> tuple[Index, Index, NDArray[Any]]:
        """See `Backend`: refused."""
        raise StoreError(
            "a lake does not accept contributions that were computed elsewhere",
            "docs/lake.md lists the features that a lake lacks",
        )

    def numbers_of(self, identifiers: pa.Array) -> Ints:
        """See `Backend`."""
        table = self.catalog.private[0]
        kind = table.column(table.user).type
        try:
            whose = np.array(homes(identifiers, kind, self._key, self._count), float)
        except ValueError as error:
            raise DataError(f"the identifiers don't fit: {error}") from None
        numbers = np.full(len(whose), -1, np.int64)
        for bucket in np.unique(whose[~np.isnan(whose)]).astype(int).tolist():
            at = np.flatnonzero(whose == bucket)
            with self._bucket(bucket) as opened:
                places = opened.numbers_of(identifiers.take(pa.array(at)))
            numbers[at] = np.where(places < 0, -1, places * self._count + bucket)
        return numbers

    def people(self) -> Private[Index]:
        """See `Backend`."""
        return Private(ledger_rows.people_in(self.ledger.manifest()))

    def find(self, identifier: str) -> Private[Person | None]:
        """See `Backend`."""
        table = self.catalog.private[0]
        kind = table.column(table.user).type
        try:
            (bucket,) = homes(pa.array([identifier]), kind, self._key, self._count)
        except ValueError:  # no user can have it
            return Private(None)
        assert bucket is not None
        with self._bucket(bucket) as opened:
            person = opened.find(identifier).inside()
        return Private(person and replace(person, user=person.user * self._count + bucket))

    def forget(
        self, users: Sequence[int], also: Callable[[], None], identifiers: Sequence[str] = ()
    ) -> Private[dict[str, int]]:
        """See `Backend`: the users' buckets are rewritten, and leftover files are removed."""
        erased = {table.name: 0 for table in self.catalog.private}

        def change(places: Index) -> Callable[[DuckBackend], None]:
            def forget(backend: DuckBackend) -> None:
                gone = backend.forget(places.tolist(), lambda: None).inside()
                for name, rows in gone.items():
                    erased[name] += rows

            return forget

        if len(users):
            parts = ledger_rows.by_bucket(np.array(users), self._count)
            laid = [self._anew(bucket, change(places)) for bucket, places, _ in parts]
            keys = ""
            if self._is_linked():
                with self._new_keys() as file:
                    for name, rows in file.forget(identifiers).inside().items():
                        erased[name] += rows
                    keys = file.named()
            self._lay_out(laid, also, keys)
            self.sweep()
        return Private(erased)

    def _is_linked(self) -> bool:
        return any(table.link is not None for table in self.catalog.private)

    def _new_keys(self) -> KeyFile:
        """Return a new file of keys, made from the current one."""
        assert self.path is not None
        return KeyFile(self.path / "buckets", self._key, self.catalog, self.ledger.fact(_KEYS))

    def count_rows(self, table: Table, user: int | None = None) -> Private[int]:
        """See `Backend`: all buckets are opened."""
        if user is not None:
            with self._bucket(user % self._count) as opened:
                return opened.count_rows(table.name, user // self._count)
        rows = 0
        for bucket in range(self._count):
            with self._bucket(bucket) as opened:
                rows += opened.count_rows(table.name).inside()
        return Private(rows)

    def rows_of_each(self, table: Table) -> Private[Ints]:
        """See `Backend`: all buckets are opened."""
        rows, people = np.zeros(len(self.ledger.pots), np.int64), self.people().inside()
        for bucket, places, _ in ledger_rows.by_bucket(people, self._count):
            with self._bucket(bucket) as opened:
                here = opened.rows_of_each(table.name, int(places.max()) + 1).inside()
            rows[ledger_rows.numbers_in(bucket, places, self._count)] = here[places]
        return Private(rows)

    # Loading.

    def ingest(
        self,
        table: Table,
        source: Any,
        once: str | None,
        note: str,
        late: bool,
        again: bool,
        since: dt.date | None = None,
    ) -> Private[int]:
        """See `Backend`: buckets with new rows are rewritten, in one commit."""
        taken = self.taken()
        if once is not None and once in taken:
            return Private(0)
        if once is None and not again and not table.row_key:
            raise ParameterError(
                "a lake does not recognise repeated files",
                "use once=… with a key for these rows, or again=True (--again)",
            )
        assert self.path is not None
        folder = self.path / "buckets"
        rows = IncomingRows(
            source,
            self.schema(table),
            bounds=table.bounds,
            since=(table.time, since) if since else None,
            refuse_lost=once is None,
        )
        column = self.settings["budget_column"]
        types = table.in_files
        if column and table.link is None and rows.has(column):
            types[column] = "DOUBLE"
        shuffle, came, keys = Shuffle(folder, self._key, self._count), list[int](), ""

        def load(new: Mapping[str, pa.Table], backend: DuckBackend) -> None:
            for name, some in new.items():
                target = backend.catalog.table(name)
                added = backend.ingest(target, some, None, "", late=True, again=True)
                came.append(added.inside())

        try:
            names = [table.name]
            if self._is_linked():
                names, keys = self._take_linked(shuffle, table, rows, types)
            else:
                shuffle.take(table.name, rows, types, table.user)
            laid = []
            for b in sorted({b for name in names for b in shuffle.buckets_of(name)}):
                new = {n: shuffle.rows(n, b) for n in names if b in shuffle.buckets_of(n)}
                laid.append(self._anew(b, partial(load, new)))
        finally:
            shuffle.close()
            rows.close()

        def tell() -> None:
            if once is not None:
                self.ledger.write(Fact(_TAKEN, taken | {once: note}))
            if late:
                self.ledger.write(Fact(_REVISION, self.revision + 1))
            for message in (*shuffle.told, *(m for one in laid for m in one.told)):
                self.ledger.write(CuratorLine("ingest", message))

        self._lay_out(laid, tell, keys)
        return Private(sum(came))

    def _take_linked(
        self, shuffle: Shuffle, table: Table, rows: IncomingRows, types: Mapping[str, str]
    ) -> tuple[list[str], str]:
        """Lay out rows that have a user; return their tables, and a new file of keys."""
        names = []
        with self._new_keys() as file:
            for led in file.take(table, rows, types):
                kinds = dict(types) if led.table is table else led.table.in_files
                kinds.setdefault(led.table.user, led.table.column(led.table.user).type)
                shuffle.told += led.told
                whole = IncomingRows(led.rows, Schema(kinds))
                shuffle.take(led.table.name, whole, kinds, led.table.user)
                names.append(led.table.name)
            return names, file.named()

    def _anew(self, bucket: int, change: Callable[[DuckBackend], None]) -> Laid:
        """Write a new version of a bucket with a change, for a commit."""
        assert self.path is not None
        with told_where_not_written("nothing was changed"):
            return rewritten(self.path / "buckets", self._key, bucket, self._files[bucket], change)

    def _lay_out(self, laid: Sequence[Laid], also: Callable[[], None], keys: str = "") -> None:
        """Make buckets current, and write the other changes, in one commit.

        Args:
            laid: The buckets.
            also: Writes in the same commit.
            keys: The name of the new file of keys; "": it does not change.
        """

        def work() -> None:
            also()
            if keys:
                self.ledger.write(Fact(_KEYS, keys))
            self.ledger.lay_out([_row(one) for one in laid])

        self.half_done = True
        self.ledger.in_transaction(work)
        for one in laid:
            self._files[one.bucket] = one.file
        self.ledger.people_arrived()
        self.engine.rows_arrived()
        self.half_done = False

    def taken(self) -> dict[str, str]:
        """See `Backend`."""
        return dict(self.ledger.fact(_TAKEN) or {})

    def remember(self, key: str, note: str) -> None:
        """See `Backend`."""
        fact = Fact(_TAKEN, self.taken() | {key: note})
        self.ledger.in_transaction(lambda: self.ledger.write(fact))

    @property
    def revision(self) -> int:
        """See `Backend`."""
        return int(self.ledger.fact(_REVISION) or 0)

    def schema(self, table: Table) -> Schema:
        """See `Backend`."""
        declared = self._said["schemas"][table.name]
        return schema_of(table, declared | {"user": ()})

    def tell_curator(self, kind: str, message: str) -> None:
        """See `Backend`."""
        line = CuratorLine(kind, message)
        self.ledger.in_transaction(lambda: self.ledger.write(line))

    def curator_log(self, last: int | None = None) -> Private[list[LoggedLine]]:
        """See `Backend`."""
        return Private(self.ledger.lines[-last if last else None :])

    # Files without references.

    def orphans(self) -> list[Path]:
        """Return the files that no commit refers to: see `FencedLog.orphans`."""
        assert self.path is not None
        current = {self.path / "buckets" / file for file in self._files}
        if keys := self.ledger.fact(_KEYS):
            current.add(self.path / "buckets" / keys)
        return [*self.ledger.orphans(), *sorted(set((self.path / "buckets").iterdir()) - current)]

    def sweep(self) -> list[Path]:
        """Remove the files that no commit refers to, and old entries of the log; return them.

        They are listed, and then an empty entry is committed. A writer that wrote one of them for a
        later commit has read an earlier version, and can't commit any more; names are never used
        twice. So no commit will ever refer to one. Readers of an earlier version must open the lake
        again.

        Raises:
            StoreInUse: Another driver was first; nothing is removed.
        """
        gone = self.orphans()
        self.ledger.fence()
        for path in gone:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        return [*gone, *self.ledger.trim()]

    def check_buckets(self, deep: bool) -> None:
        """Open every bucket; `deep`: read each completely, and compare it with its name.

        Raises:
            StoreError: A bucket has changed.
        """
        assert self.path is not None
        if keys := self.ledger.fact(_KEYS):
            file = self.path / "buckets" / keys
            if not file.is_file() or (deep and keys.split("-")[1] != digest_of(file, self._key)):
                raise StoreError(f"{keys} is damaged or missing", "restore a copy")
        for row in self.ledger.manifest():
            path = Path(self._file(row["bucket"]))
            if deep and not path.name.split("-")[1] == digest_of(path, self._key):
                raise StoreError(f"{path.name} is damaged", "restore a copy")
            opened = Bucket(str(path))
            people = opened.people
            rows = sum(opened.count_rows(table.name).inside() for table in self.catalog.private)
            opened.close()
            if people != len(row["budgets"]) // 8 or rows != row["rows"]:
                raise StoreError(f"{path.name} has other users or rows", "restore a copy")

    # Closing.

    def abandon(self) -> None:
        """See `Backend`."""
        self.release()

    def close(self) -> None:
        """See `Backend`: the ledger has all durable data, and nothing is pending."""

    def release(self) -> None:
        """See `Backend`."""
        self.database = None
        self.half_done = False
        self._fleet.close()


def open_lake(folder: Path, fleet: Fleet | None = None) -> LakeBackend:
    """Open a lake: any number of drivers can have it open, and one at a time can commit.

    Args:
        folder: The folder of the lake.
        fleet: Runs its tasks; None: Spark's executors, if SPARSEQ_SPARK is its address, and
            otherwise processes of this machine.

    Raises:
        StoreError: There is no lake, or its records contradict each other.
    """
    address = os.environ.get(SPARK, "")
    return LakeBackend(folder, fleet or (SparkFleet.at(address) if address else None))


def create_lake(folder: Path, declaration: Declaration, buckets: int) -> None:
    """Create a lake from rows: the folder appears complete or not at all.

    Args:
        folder: The folder of the lake; it must not exist.
        declaration: See `sparseq.create`.
        buckets: The number of buckets, which never changes.

    Raises:
        StoreError: The folder exists.
        DataError, ParameterError: See `sparseq.create`.
    """
    if not 1 <= buckets <= 100_000:
        raise ParameterError(f"buckets is {buckets!r}; it must be from 1 to 100,000")
    if folder.exists():
        raise StoreError(f"{folder} exists already", "choose another path")
    if not folder.parent.is_dir():
        raise StoreError(f"there is no folder {folder.parent}", "make it first")
    working = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(working, ignore_errors=True)  # of a killed process with the same number
    try:
        with told_where_not_written(f"there is no lake at {folder}"):
            working.mkdir(mode=0o700)  # all new files in it belong to their owner only
            (working / "buckets").mkdir()
            _fill(working, declaration, buckets)
            os.rename(working, folder)
            make_durable(folder)
    finally:
        shutil.rmtree(working, ignore_errors=True)


def _fill(folder: Path, declaration: Declaration, buckets: int) -> None:
    key = secrets.token_bytes(32)
    new = NewBuckets(folder / "buckets", key, buckets, declaration)
    laid = list(new.written())
    first = Bucket(str(folder / "buckets" / laid[0].file))
    tables = (replace(t, link=new.links.get(t.name)) for t in first.catalog.tables)
    settings = declaration.settings()
    manifest = {
        "format": FORMAT_WITH_LINKS if new.links else FORMAT,
        "buckets": buckets,
        "key": key.hex(),
        "settings": settings,
        "catalog": Catalog(tuple(tables)).to_dict(),
        "schemas": {name: schema.to_dict() for name, schema in new.schemas.items()},
    }
    first.close()
    log = FencedLog.create(folder / "ledger", key, ledger_rows.all_columns())
    lines: list[Note] = [CuratorLine("ingest", message) for one in laid for message in one.told]
    facts: list[Note] = [Fact(_KEYS, new.keys)] if new.keys else []
    notes = [ledger_rows.note_row(line, 1, place) for place, line in enumerate(facts + lines)]
    files = [log.put("buckets", ledger_rows.table("buckets", [_row(one) for one in laid]))]
    if notes:
        files.append(log.put("notes", ledger_rows.table("notes", notes)))
    log.commit(files)
    if (mark := _mark_of(settings)) is not None:
        log.begin_mark(mark)
    with whole_file(folder / MANIFEST, private=True) as file:
        file.write_text(json.dumps(manifest, indent=1), "utf-8")


def _mark_of(settings: Mapping[str, Any]) -> LogMark | None:
    """Return the mark of a lake that draws from a population; others have none."""
    if settings.get("population") is None:
        return None
    place = f"{settings['population']['marks']}/{settings['store']}.mark"
    return LogMark(mark_at(place), settings["store"])


def _row(laid: Laid) -> list[Any]:
    return ledger_rows.bucket_row(laid.bucket, laid.file, laid.rows, laid.budgets)


def _read(folder: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError):
        raise StoreError(
            f"there is no lake at lake://{folder}", "`sparseq create` makes one"
        ) from None
    if manifest.get("format") not in (FORMAT, FORMAT_WITH_LINKS):
        raise StoreError(
            f"lake://{folder} was made by another version of sparseq, and lakes are not upgraded:"
            f" its format is {manifest.get('format')}, and not {FORMAT}",
            "create the lake again from its source files, with this version; answers of both "
            "count together. The version that made this one can still open it",
        )
    return manifest
