"""The seams: functions that the code under test calls, replaced by those of a world.

`os`, `open`, `secrets`, the clocks, delta-rs's entries and DuckDB's statements are the machine's in
all threads except a world's tasks. The code in sparseq does not depend on it.
"""

from __future__ import annotations

import builtins
import datetime as dt
import fcntl
import importlib
import io
import os
import random
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pyarrow.parquet as parquet

from checks.simulation import delta
from checks.simulation.threads import Threads
from checks.simulation.world import World
from sparseq.ledger._duckdb.progress_record import Lock
from sparseq.ledger._duckdb.session import StoreSession
from sparseq.store._duckdb.open_file import Hold

_CLOCKS = (
    *("stream.draft", "stream.new_purpose", "lake.ledger_rows", "ledger._duckdb.curator_log"),
    *("ledger._duckdb.session", "store._duckdb.backup", "store.population", "server.tokens"),
    *("server.audit", "server.quota_desk", "server.saved_questions"),
)
_TIMES = (
    *("lake.fenced_log", "engine._duckdb.engine", "series.series_file", "store.population"),
    "server.tokens",
)
_THREADS = (
    *("stream.step", "server.thread", "server.fair_queue", "server.side_file", "server.audit"),
    *("server.quota_desk", "server.repeats"),
)
_WRITES = re.compile(r"\s*(BEGIN|COMMIT|CHECKPOINT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP)", re.I)


class Seams:
    """Between the code under test and a world.

    Args:
        world: Behind it.
        real_log: A lake's entries are put and read by delta-rs, each in one step.
    """

    def __init__(self, world: World, real_log: bool = False) -> None:
        self.world, self.real_log = world, real_log

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Replace the functions inside the block."""
        _READ.clear()
        with ExitStack() as stack:

            def put(of: Any, name: str, value: Any) -> None:
                stack.enter_context(patch.object(of, name, value))

            for name, what in _ONE_PATH.items():
                put(os, name, self._of_path(getattr(os, name), what))
            for name in ("replace", "rename", "link"):
                put(os, name, self._of_two(getattr(os, name), name))
            put(os, "open", self._open(os.open))
            put(builtins, "open", self._open_file(io.open))
            put(io, "open", self._open_file(io.open))
            put(os, "fsync", self._fsync(os.fsync))
            for name in ("pwrite", "write"):
                put(os, name, self._write(getattr(os, name), name))
            put(os, "getpid", self._getpid(os.getpid))
            put(os, "urandom", self._urandom(os.urandom))
            put(random, "_urandom", self._urandom(random._urandom))  # type: ignore[attr-defined]
            self._clocks(put)
            self._threads(put)
            self._lake(put)
            self._database(put)
            yield

    # -- files -------------------------------------------------------------------------------------

    def _of_path(self, real: Any, what: str) -> Any:
        def call(path: Any, *given: Any, **more: Any) -> Any:
            at = self.world.inside(path)
            if at is None:
                return real(path, *given, **more)
            may = () if what in ("unlink", "list", "rmdir") else ("full", "broken")
            self.world.step(what, at, may)
            if what in ("unlink", "rmdir") and os.path.exists(at):
                self.world.unseen(self.world.disk.forget, at)
            return real(path, *given, **more)

        return call

    def _of_two(self, real: Any, what: str) -> Any:
        def call(old: Any, new: Any, **more: Any) -> Any:
            at, to = self.world.inside(old), self.world.inside(new)
            if at is None or to is None:
                return real(old, new, **more)
            self.world.step(what, to, ("full", "broken"))
            disk = self.world.disk
            for folder in {os.path.dirname(at), os.path.dirname(to)}:
                self.world.unseen(disk.look, folder)
            if os.path.exists(to) and what != "link":
                self.world.unseen(disk.forget, to)
            done = real(old, new, **more)
            if what == "link":
                self.world.unseen(disk.look, os.path.dirname(to))
            else:
                self.world.unseen(disk.renamed, at, to)
            return done

        return call

    def _open(self, real: Any) -> Any:
        def call(path: Any, flags: int, *given: Any, **more: Any) -> Any:
            at = self.world.inside(path)
            if at is not None:
                new = flags & (os.O_CREAT | os.O_TRUNC)
                self.world.step("create" if new else "open", at, ("full",) if new else ())
            return real(path, flags, *given, **more)

        return call

    def _open_file(self, real: Any) -> Any:
        def call(file: Any, mode: str = "r", *given: Any, **more: Any) -> Any:
            at = self.world.inside(file)
            if at is not None:
                new = set(mode) & set("wxa")
                self.world.step("create" if new else "open", at, ("full",) if new else ())
            return real(file, mode, *given, **more)

        return call

    def _fsync(self, real: Any) -> Any:
        def call(file: Any) -> None:
            number = file if isinstance(file, int) else file.fileno()
            at = self.world.opened(number)
            if at is None:
                return real(file)
            self.world.step("fsync", at, ("broken", "full"))
            self.world.unseen(self.world.disk.flushed, at)
            return None

        return call

    def _write(self, real: Any, what: str) -> Any:
        def call(number: int, *given: Any) -> Any:
            at = self.world.opened(number)
            if at is not None:
                self.world.step(what, at, ("full", "broken"))
            return real(number, *given)

        return call

    # -- numbers, random bytes, clocks -------------------------------------------------------------

    def _getpid(self, real: Callable[[], int]) -> Callable[[], int]:
        def call() -> int:
            task = getattr(self.world.here, "task", None)
            return real() if task is None else task.process.number

        return call

    def _urandom(self, real: Callable[[int], bytes]) -> Callable[[int], bytes]:
        def call(count: int) -> bytes:
            inside = getattr(self.world.here, "task", None) is not None
            return self.world.bytes(count) if inside else real(count)

        return call

    def _clocks(self, put: Callable[[Any, str, Any], None]) -> None:
        world = self.world

        class Clock(dt.datetime):
            """The world's time of day."""

            @classmethod
            def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:  # type: ignore[override]
                if getattr(world.here, "task", None) is None:
                    return dt.datetime.now(tz)
                return dt.datetime.fromtimestamp(world.now, tz)

        for name in _CLOCKS:
            put(_module(name), "dt", _Standing(dt, datetime=Clock))
        times = _Standing(
            time,
            time=lambda: world.now,
            monotonic=lambda: world.clock,
            perf_counter=lambda: float(world.steps),
            sleep=lambda seconds: world.wait(lambda: False, seconds),
        )
        for name in _TIMES:
            put(_module(name), "time", times)

    def _threads(self, put: Callable[[Any, str, Any], None]) -> None:
        """Have threads, locks and clocks of a server be the world's; nothing times out in it."""
        world, threads = self.world, Threads(self.world)
        standing = _Standing(threading, **threads.names())
        for name in _THREADS:
            put(_module(name), "threading", standing)
        service, thread, cancellation = map(
            _module, ("server.service", "server.thread", "base.cancellation")
        )
        put(service, "ThreadPoolExecutor", threads.pool)
        put(service, "Desk", partial(service.Desk, seconds=lambda: world.clock))
        put(service, "Door", partial(service.Door, clock=lambda: world.clock))
        put(thread, "Health", partial(thread.Health, seconds=lambda: world.clock))
        put(thread, "monotonic", lambda: world.clock)
        put(_module("server.fair_queue"), "stand_behind", lambda: None)
        put(cancellation, "_watcher", _NobodyWatches())
        put(_module("server.audit"), "fcntl", _Standing(fcntl, flock=self._flock(fcntl.flock)))
        connected = _Standing(sqlite3, connect=self._side_file(sqlite3.connect))
        put(_module("server.side_file"), "sqlite3", connected)

    def _flock(self, real: Any) -> Any:
        def call(file: int, how: int) -> None:
            while self.world.opened(file):
                try:
                    return real(file, how | fcntl.LOCK_NB)
                except BlockingIOError:
                    self.world.wait(lambda: False, 0.001)
            return real(file, how)

        return call

    def _side_file(self, real: Any) -> Any:
        def call(path: Any, *given: Any, **more: Any) -> Any:
            at = self.world.inside(path)
            made = real(path, *given, **more)
            return made if at is None else SideConnection(made, self.world, at)

        return call

    # -- what writes files by itself: delta-rs, DuckDB ---------------------------------------------

    def _lake(self, put: Callable[[Any, str, Any], None]) -> None:
        fenced, tables = _module("lake.fenced_log"), _module("lake.delta_table")
        put(fenced, "pq", _Standing(parquet, read_table=self._read_table))
        if not self.real_log:
            put(fenced, "files", delta.files)
        extend = fenced.extend if self.real_log else delta.extend
        table_at = tables.table_at if self.real_log else delta.table_at

        def extending(*given: Any, **more: Any) -> None:
            self.world.step("put", "x.json", ("full", "broken"))
            extend(*given, **more)
            self.world.step("told", "x.json", ("lost",))

        put(fenced, "extend", extending)
        put(tables, "table_at", table_at)

    def _read_table(
        self, path: Path, columns: Any = None, filters: Any = None, partitioning: None = None
    ) -> pa.Table:
        """Read a file; a file is read only once (files of a log are small)."""
        with open(path, "rb") as file:
            data = file.read()
        key = (data, tuple(columns or ()), str(filters))
        if key not in _READ:
            _READ[key] = parquet.read_table(
                io.BytesIO(data), columns=columns, filters=filters, partitioning=partitioning
            )
        return _READ[key]

    def _database(self, put: Callable[[Any, str, Any], None]) -> None:
        connected = _module("base._duckdb.connection").connect

        def connecting(database: Any = ":memory:", *given: Any, **more: Any) -> Any:
            at = self.world.inside(database)
            if at is None or more.get("read_only"):
                return connected(database, *given, **more)
            self.world.step("open", at)
            more = {"threads": "1"} | more
            return Connection(connected(database, *given, **more), self.world, at)

        for name in ("store._duckdb.open_file", "store._duckdb.backup"):
            put(_module(name), "connect", connecting)
        put(Hold, "__init__", self._held(Hold.__init__))
        put(StoreSession, "__init__", self._held(StoreSession.__init__))
        put(Lock, "__init__", self._held(Lock.__init__))

    def _held(self, real: Any) -> Any:
        """Register an object to be closed when its process dies."""

        def call(this: Any, *given: Any, **more: Any) -> None:
            real(this, *given, **more)
            self.world.held(this.release)

        return call


_READ: dict[tuple[bytes, tuple[str, ...], str], pa.Table] = {}


class Connection:
    """A connection to a database of the world: each statement that writes is a step."""

    def __init__(self, real: duckdb.DuckDBPyConnection, world: World, path: str) -> None:
        self._real, self._world, self._path = real, world, path
        self._within = False  # a transaction
        world.held(real.close)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, sql: str, *given: Any) -> Any:
        """Run a statement."""
        found = _WRITES.match(sql)
        if found is None or self._world.current() is None:
            return self._real.execute(sql, *given)
        what = found[1].upper()
        may = () if what == "BEGIN" else ("full", "broken")
        try:
            self._world.step(what, self._path, may)
        except OSError as error:
            raise duckdb.IOException(f"IO Error: {error.strerror}") from None
        disk = self._world.disk
        self._world.unseen(disk.engine_writes, self._path)
        try:
            done = self._real.execute(sql, *given)
        finally:
            self._world.unseen(disk.engine_wrote, self._path, False)
        self._within = what == "BEGIN" or (self._within and what != "COMMIT")
        if not self._within:
            self._world.step(f"{what} done", self._path)
            self._world.unseen(disk.engine_wrote, self._path, True)
        return done

    def rollback(self) -> None:
        """Undo a transaction."""
        self._within = False
        self._real.rollback()


class SideConnection:
    """A connection to an SQLite file of the world: its commits are durable."""

    def __init__(self, real: sqlite3.Connection, world: World, path: str) -> None:
        self._real, self._world, self._path = real, world, path
        world.held(real.close)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, sql: str, *given: Any) -> Any:
        """Run a statement; each COMMIT is a step."""
        if sql == "COMMIT":
            self._world.step("COMMIT", self._path)
        done = self._real.execute(sql, *given)
        if sql == "COMMIT":
            self._world.unseen(self._world.disk.flushed, self._path)
        return done


class _NobodyWatches:
    """Stands for the thread that ends what takes too long."""

    def look(self, *_: Any) -> None:
        """Do nothing."""

    def forget(self, *_: Any) -> None:
        """Do nothing."""


class _Standing:
    """A module, with some of its names standing for others."""

    def __init__(self, module: Any, **names: Any) -> None:
        self.__dict__ |= names
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


_ONE_PATH = {
    "mkdir": "mkdir",
    "unlink": "unlink",
    "remove": "unlink",
    "rmdir": "rmdir",
    "listdir": "list",
    "scandir": "list",
}


def _module(name: str) -> Any:
    return importlib.import_module(f"sparseq.{name}")
