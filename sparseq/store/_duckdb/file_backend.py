"""A store in a DuckDB file, or in memory: see `sparseq.store.backend.Backend`.

All memory of a store is a part of one limit:

a quarter   loaded columns and rows, while a store is open
a sixth     rows being ingested; three times as much while they are sorted
a half      DuckDB, at most; the rest of its need goes to the disk
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime as dt
import os
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.accounting import Budget, budget_units
from sparseq.base._duckdb.connection import ReplaceableConnection
from sparseq.base.errors import ParameterError, StoreError
from sparseq.base.private import Private
from sparseq.base.sql_text import first_line, quote
from sparseq.engine._duckdb.contributed_rows import numbers_of, triplets
from sparseq.ledger._duckdb.curator_log import CuratorLog
from sparseq.ledger._duckdb.former_request_ids import FORMER
from sparseq.ledger._duckdb.ledger import DuckLedger
from sparseq.ledger._duckdb.release_archive import DuckReleaseArchive
from sparseq.ledger._duckdb.session import LOSSES, StoreSession
from sparseq.ledger._duckdb.write_errors import not_written
from sparseq.ledger.pots import Pot
from sparseq.ledger.purposes import read
from sparseq.ledger.releases import Loss
from sparseq.load._duckdb.erasure import erase, scrub
from sparseq.load._duckdb.storage import Storage

if TYPE_CHECKING:
    from sparseq.engine._duckdb.engine import DuckEngine
    from sparseq.engine.reduction import Index, Ints
    from sparseq.ledger.accounts import Person
    from sparseq.ledger.notes import LoggedLine
    from sparseq.load.read_schema import Schema
    from sparseq.question.catalog import Table
    from sparseq.store.backend import Backend

MEMORY = "SPARSEQ_MEMORY"
"""The environment variable with the limit; without it the limit is the machine's memory."""
LEAST = 512 << 20
_UNITS = {"MB": 20, "MIB": 20, "GB": 30, "GIB": 30, "TB": 40, "TIB": 40}
_LEAST_MB, _MB_A_CORE, _BYTES_A_PERSON = 384, 128, 256
"""Memory of DuckDB for an open store: pages of the file, which it would otherwise keep while memory
is free; memory for a query, which spills to `STORE.tmp` beyond this; and data that can't spill: the
charges of a release (about 2 bytes a person) and those read when a store is opened.
"""


CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files with the memory limit of a group of processes on Linux."""


def limit_memory(connection: duckdb.DuckDBPyConnection) -> None:
    """Limit the memory of an open store's database."""
    ((people,),) = connection.execute("SELECT count(*) FROM ledger.users").fetchall()
    cores = os.cpu_count() or 1
    most = max(_LEAST_MB, _MB_A_CORE * cores, (_BYTES_A_PERSON * people) >> 20)
    connection.execute(f"SET memory_limit = '{min(most, loading_bytes() >> 20)}MiB'")


def loading_bytes() -> int:
    """Return the most bytes that DuckDB may hold while a store is made."""
    return machine_memory() // 2


def bytes_of(size: str) -> int:
    """Return a size in bytes.

    Raises:
        ParameterError: The text is no size, or too small to work with.

    Example:
        >>> bytes_of("2GB") == bytes_of("2048 MiB") == 2 << 30
        True
    """
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)\s*([MGT]i?B)", size.strip(), re.IGNORECASE)
    number = int(float(found[1]) * (1 << _UNITS[found[2].upper()])) if found else 0
    if number < LEAST:
        raise ParameterError(
            f"the memory {size!r} is {'too little' if found else 'no size'}",
            "for example 2GB; at least 512MB",
        )
    return number


def machine_memory() -> int:
    """Return the limit in bytes: the given one, or the memory of the machine or container.

    Raises:
        ParameterError: The value of SPARSEQ_MEMORY is no size.
    """
    said = os.environ.get(MEMORY)
    if said:
        return bytes_of(said)
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        machine = 1 << 32
    return min([machine, *filter(None, map(_limit_in, CONTAINER_LIMITS))])


def _limit_in(file: str) -> int:
    """Return the number of bytes that is written in a file, 0 if there is no number."""
    try:
        return int(Path(file).read_text())
    except (OSError, ValueError):
        return 0


def held_bytes() -> int:
    """Return the most bytes of rows that may be held while they are loaded."""
    return machine_memory() // 6  # while they are sorted they take up to three times as much


FORMAT, FORMAT_WITH_KEYS, FORMAT_WITH_LINKS = 8, 9, 10
FORMATS = (FORMAT, FORMAT_WITH_KEYS, FORMAT_WITH_LINKS)
"""Formats of a store, of a store with keys_delta, and of a store with links, with or without
keys_delta: so a version that does not know these features does not open it.
"""
POPULATION_FORMAT = 7
"""Format of a population's file, which is no store: see `sparseq.store.population`."""
UPGRADED_FROM = {
    3: FORMAT,
    4: FORMAT,
    5: FORMAT_WITH_KEYS,
    6: FORMAT_WITH_LINKS,
}
"""Formats that `sparseq upgrade` starts from, each with its result."""
_open: weakref.WeakSet[DuckBackend] = weakref.WeakSet()


def _forked() -> None:
    """Keep a forked child's copies of the databases from ever being destroyed.

    DuckDB's destructor checkpoints: it would write the copy's state over the parent's file, and
    clear the parent's log with the releases in it. A reference that is never dropped prevents this.
    """
    for backend in _open:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(backend.database))
        backend.session.release()  # the parent keeps its lock


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_forked)


def as_duckdb(backend: Backend) -> DuckBackend:
    """Return a backend as a DuckDB backend.

    Raises:
        StoreError: It is of another kind.
    """
    if not isinstance(backend, DuckBackend):
        raise StoreError(
            "this works for stores in a file only", "docs/lake.md says what works in a lake"
        )
    return backend


class DuckBackend:
    """See `sparseq.store.backend.Backend`.

    Args:
        connection: A connection to the complete, locked database.
        path: Path of its file; None: it is in memory.
        on_close: Called when the backend is closed.
        session: The session that marks the file as open.
        reopen: Opens the file again.

    Attributes:
        storage: Its tables of rows and settings: private.
        session: The session that marks the file as open.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        path: Path | None,
        on_close: Callable[[], None] = lambda: None,
        session: StoreSession | None = None,
        reopen: Callable[[], duckdb.DuckDBPyConnection] | None = None,
    ) -> None:
        self._held, self._reopen = ReplaceableConnection(connection), reopen
        connection = self.database = cast(duckdb.DuckDBPyConnection, self._held)
        self.path, self._on_close = path, on_close
        self.session = session or StoreSession(connection)
        self.session.goes_over(connection)
        _open.add(self)
        self.storage = Storage(connection, self.session, held_bytes())
        scrub(connection)  # after a killed erasure
        self.settings: Mapping[str, Any] = self.storage.get("settings")
        self.losses = tuple(Loss(**loss) for loss in self.storage.get(LOSSES) or ())
        self.catalog = self.storage.catalog()
        reserves = {Pot[k.upper()]: float(v) for k, v in self.settings["reserves"].items()}
        self.ledger = DuckLedger(
            connection,
            reserves,
            self.settings["halt"],
            self.storage.get(FORMER) or 0,
            self.session,
            self.storage.in_transaction,
            self.settings.get("lifetime"),
            read(self.settings.get("purposes")),
            Budget(self.settings["kappa"], self.settings["norm_budget"]),
            self.settings.get("population") is not None,
        )

    @cached_property
    def engine(self) -> DuckEngine:
        """See `Backend`; made when it is first needed."""
        from sparseq.engine._duckdb.engine import DuckEngine

        held = machine_memory() // 4
        return DuckEngine(self.database, held, self.catalog, self._weak_open_anew())

    @cached_property
    def records(self) -> DuckReleaseArchive:
        """See `Backend`."""
        return DuckReleaseArchive(lambda: None if self.database is None else self.database.cursor())

    def public_twin(self) -> tuple[str, dict[str, pa.Table]]:
        """See `Backend`."""
        rows = {t.name: self.storage.public_rows(t) for t in self.catalog.tables if not t.private}
        return self.storage.empty_tables(self.catalog), rows

    def triplets(self, table: pa.Table, size: int) -> tuple[Index, Index, NDArray[Any]]:
        """See `Backend`."""
        return triplets(self.database, table, size)

    def numbers_of(self, identifiers: pa.Array) -> Ints:
        """See `Backend`."""
        return numbers_of(self.database, identifiers)

    def people(self) -> Private[Index]:
        """See `Backend`."""
        return Private(np.arange(len(self.ledger.pots), dtype=np.int32))

    def count_rows(self, table: Table, user: int | None = None) -> Private[int]:
        """See `Backend`."""
        if user is not None:
            return self.storage.count_rows(table, [user])
        sql = f"SELECT count(*) FROM by_user.{quote(table.name)}"
        ((rows,),) = self.database.execute(sql).fetchall()
        return Private(int(rows))

    def rows_of_each(self, table: Table) -> Private[Ints]:
        """See `Backend`."""
        return self.storage.rows_of_each(table, len(self.ledger.pots))

    def find(self, identifier: str) -> Private[Person | None]:
        """See `Backend`."""
        return self.storage.people().find(identifier)

    def forget(
        self, users: Sequence[int], also: Callable[[], None], identifiers: Sequence[str] = ()
    ) -> Private[dict[str, int]]:
        """See `Backend`: old blocks of the file are overwritten."""

        def work() -> Private[dict[str, int]]:
            also()
            return erase(self.storage, self.catalog, users)

        self._let_go_of_besides()  # they see the rows to be erased
        rows = Private({t.name: 0 for t in self.catalog.private})
        if len(users):
            rows = self.storage.in_transaction(work, self.engine.rows_arrived)
        try:
            with self.records.still():
                scrub(self.database)
        except duckdb.Error as error:
            raise StoreError(
                f"the rows are erased, but their bytes are still in the file: {first_line(error)}",
                "they are overwritten when the store is opened next",
            ) from None
        return rows

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
        """See `Backend`."""
        from sparseq.load._duckdb.outside_keys import Outside
        from sparseq.load.load_rows import IncomingRows
        from sparseq.load.loaded_files import FilesSeen

        if once is not None and self.storage.has_taken(once):
            return Private(0)
        rows = IncomingRows(
            source,
            self.storage.schema(table),
            bounds=table.bounds,
            since=(table.time, since) if since else None,
            refuse_lost=once is None,
        )
        files = FilesSeen(self.storage, table.name, rows)
        if not again and once is None and not table.row_key:
            files.check()
        own_budget = self.settings.get("population") is None
        units = budget_units(self.settings["norm_budget"]) if own_budget else 0
        column = self.settings["budget_column"]
        own = column if column and table.link is None and rows.has(column) else ""

        def load() -> Private[int]:
            if once is not None:
                self.storage.take(once, note)
            if late:
                self.storage.revise()
            reached = self.catalog.reached(table)
            before = [Outside.of(self.database, one) for one in reached]
            below = self.catalog.below(table)
            count = self.storage.load(table, rows, units, own, new=False, below=below).inside()
            count += self.storage.release(self.catalog, table).inside()
            files.keep()
            for one, known in zip(reached, before, strict=True):
                known.tell(self.database, one)
            return Private(count)

        try:
            return self.storage.in_transaction(load, self._catch_up)
        finally:
            rows.close()

    def _catch_up(self) -> None:
        """Load changes of the file into memory: new accounts, and the change of rows."""
        self.ledger.people_arrived()
        self.engine.rows_arrived()

    def taken(self) -> dict[str, str]:
        """See `Backend`."""
        return self.storage.taken()

    def remember(self, key: str, note: str) -> None:
        """See `Backend`."""
        self.storage.in_transaction(lambda: self.storage.remember({key: note}))

    @property
    def revision(self) -> int:
        """See `Backend`."""
        return self.storage.revision

    def schema(self, table: Table) -> Schema:
        """See `Backend`."""
        return self.storage.schema(table)

    def tell_curator(self, kind: str, message: str) -> None:
        """See `Backend`."""
        log = CuratorLog(self.database)
        self.storage.in_transaction(lambda: log.add(kind, message), counted=False)

    def curator_log(self, last: int | None = None) -> Private[list[LoggedLine]]:
        """See `Backend`."""
        return Private(CuratorLog(self.database).entries(last))

    @contextlib.contextmanager
    def at_rest(self, facts: Mapping[str, Any]) -> Iterator[Path]:
        """Write everything to the file and empty its log, for a backup.

        Args:
            facts: Facts to write to the store first.

        Raises:
            StoreError: The file can't be written.
        """
        assert self.path is not None

        def remember() -> None:
            for key, value in facts.items():
                self.storage.put(key, value)

        if any(self.storage.get(key) != value for key, value in facts.items()):
            self.storage.in_transaction(remember)
        self._let_go_of_besides()
        with self.records.still():  # a checkpoint waits for nobody
            self.database.execute("CHECKPOINT")
        yield self.path.resolve()

    @property
    def half_done(self) -> bool:
        """See `Backend`."""
        return self.storage.half_done

    @property
    def behind(self) -> bool:
        """See `Backend`: a file is open in one process."""
        return False

    def _let_go_of_besides(self) -> None:
        if "engine" in vars(self):  # it was needed
            self.engine.let_go_of_besides()

    def _weak_open_anew(self) -> Callable[[], None]:
        """Return a function that calls `_open_anew` without keeping this object alive."""
        known = weakref.WeakMethod(self._open_anew)

        def call() -> None:
            if found := known():
                found()

        return call

    def _open_anew(self) -> None:
        """Open the file again after an error that invalidated DuckDB's database.

        Raises:
            StoreError: It can't be opened, or the store is in memory. No more queries are possible.
        """
        before, self.storage.half_done = self.storage.half_done, True
        if self._reopen is None:
            raise StoreError(
                "the engine gave the store up, and it was in memory only",
                "make it again, in a file",
            )
        self._let_go_of_besides()
        with self.records.still():
            self._held.replace(self._reopen)
        self.storage.half_done = before

    def abandon(self) -> None:
        """See `Backend`: with its log and record the store is complete at the next opening."""
        if self.database is not None:
            self._let_go_of_besides()
            with self.records.still():
                self.database.close()
                self.database = None  # type: ignore[assignment]
        self.release()

    def close(self) -> None:
        """See `Backend`: the file is marked as closed, and its log is empty."""
        try:
            if self.session.begun:
                self.ledger.snapshot(self.ledger.pots, len(self.ledger.pots))
            self.session.finish()
        except (duckdb.Error, OSError) as error:
            raise not_written(error, "every answer that was given is in it") from None
        finally:  # else this process could not open it again
            self._let_go_of_besides()
            with self.records.still():
                self.database.close()
                self.database = None  # type: ignore[assignment]

    def release(self) -> None:
        """See `Backend`."""
        self.database = None  # type: ignore[assignment]
        self.session.release()
        self._on_close()
        self.storage.half_done = False
