"""Faults that are planted in sparseq, one at a time: the simulator has to find each.

Each takes away one thing that the promises rest on, as a mistake in a later change would. Its name
says what is missing; the settings beside it are those in which it can do harm.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from sparseq.base import whole_files
from sparseq.base.errors import StoreError
from sparseq.lake import fenced_log
from sparseq.lake.fenced_log import FencedLog, Overtaken
from sparseq.lake.lake_ledger import LakeLedger
from sparseq.ledger._duckdb.journal import Journal
from sparseq.ledger._duckdb.mark import HighWaterMark, MarkFile, Record
from sparseq.ledger._duckdb.session import StoreSession
from sparseq.ledger.notes import RequestId
from sparseq.mechanisms import entropy
from sparseq.series import query_series
from sparseq.series.series_file import CsvFormat, SeriesFile
from sparseq.server import thread
from sparseq.server.quota_desk import QuotaTotals
from sparseq.store import population
from sparseq.store._duckdb import backup, open_file
from sparseq.store.store import Store
from sparseq.stream.release_charges import Bill
from sparseq.stream.step import Stream

Place = tuple[Any, str, Any]


@dataclass(frozen=True)
class Fault:
    """A fault to be planted.

    Attributes:
        settings: Where it can do harm.
        places: Says what is put in the place of what, once for each planting.
    """

    settings: tuple[str, ...]
    places: Callable[[], list[Place]]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Have the fault in sparseq."""
        with ExitStack() as stack:
            for of, name, value in self.places():
                stack.enter_context(patch.object(of, name, value))
            yield


LAKE, FILE, MARKED = ("lake",), ("file", "marked"), ("marked",)
MONITORS, SERVERS = ("monitors", "monitor"), ("servers", "server")
PLANTED: dict[str, Fault] = {}


def plant(*settings: str) -> Callable[[Callable[[], list[Place]]], Callable[[], list[Place]]]:
    """Have a function's fault in `PLANTED`, under the function's name."""

    def kept(places: Callable[[], list[Place]]) -> Callable[[], list[Place]]:
        PLANTED[places.__name__.replace("_", "-")] = Fault(settings, places)
        return places

    return kept


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing."""


_here = threading.local()


def _unflushed(of: Any, name: str) -> list[Place]:
    """Have a function flush nothing, in whichever thread it runs; others go on meanwhile."""
    real, fsync = getattr(of, name), os.fsync

    def call(*given: Any) -> Any:
        _here.off = True
        try:
            return real(*given)
        finally:
            _here.off = False

    def flush(file: Any) -> None:
        if not getattr(_here, "off", False):
            fsync(file)

    return [(of, name, call), (os, "fsync", flush)]


# -- a lake ----------------------------------------------------------------------------------------


@plant(*LAKE)
def fence_out() -> list[Place]:
    """Whoever is late puts its entry on top of what it has not read."""

    def extend(log: FencedLog, new: Any, old: Any, number: str) -> None:
        table = fenced_log.open_table(log.folder)
        parts = [[(f.path, f.kind, f.size) for f in some] for some in (new, old)]
        fenced_log.extend(table, *parts, {"commit": number}, retries=15)

    return [(FencedLog, "_extend", extend), (FencedLog, "_is_entry", lambda *_: True)]


@plant(*LAKE)
def entry_not_synced() -> list[Place]:
    """The log's entry is not flushed before the answer leaves."""
    return _unflushed(FencedLog, "_extend")


@plant(*LAKE)
def fsync_skipped() -> list[Place]:
    """The bytes of a new file of the log are not flushed, its name is."""

    def write(self: FencedLog, path: Path, data: bytes) -> None:
        path.parent.mkdir(exist_ok=True)
        whole_files.make_durable(path.parent)
        working = path.with_name(f".{path.name}.working")
        working.write_bytes(data)
        os.replace(working, path)
        whole_files.sync_folder(path)

    return [(FencedLog, "_write", write)]


@plant(*LAKE)
def rename_not_synced() -> list[Place]:
    """A new file of the log is flushed before it has its name, and its name is not."""

    def write(self: FencedLog, path: Path, data: bytes) -> None:
        path.parent.mkdir(exist_ok=True)
        whole_files.make_durable(path.parent)
        working = path.with_name(f".{path.name}.working")
        with open(working, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(working, path)

    return [(FencedLog, "_write", write)]


@plant(*LAKE)
def folder_not_synced() -> list[Place]:
    """The name of a folder of the log is not flushed."""
    write = FencedLog._write

    def unnamed(self: FencedLog, path: Path, data: bytes) -> None:
        path.parent.mkdir(exist_ok=True)
        self._named.add(path.parent)
        write(self, path, data)

    return [(FencedLog, "_write", unnamed)]


@plant(*LAKE)
def head_not_flushed() -> list[Place]:
    """What another has put, and may have died before it was durable, is read and built on."""
    return _unflushed(FencedLog, "__init__")


@plant(*LAKE)
def sweep_without_a_fence() -> list[Place]:
    """Files are removed that another is about to refer to."""
    return [(LakeLedger, "fence", _nothing)]


@plant(*LAKE)
def checkpoint_not_flushed() -> list[Place]:
    """Entries of the log are removed while the checkpoint that sums them up is not durable."""
    return _unflushed(FencedLog, "trim")


@plant(*LAKE)
def lost_reply_is_a_yes() -> list[Place]:
    """A commit of which nobody knows whether it happened is taken to have happened."""
    return [(FencedLog, "_did_happen", lambda *_: True)]


@plant(*LAKE)
def overtaken_goes_on() -> list[Place]:
    """A driver that was overtaken answers all the same."""
    commit = FencedLog.commit

    def going_on(self: FencedLog, *given: Any) -> None:
        with suppress(Overtaken):
            commit(self, *given)

    return [(FencedLog, "commit", going_on)]


@plant(*LAKE)
def charges_after_the_sum_ignored() -> list[Place]:
    """When a lake is opened, what was spent is the last sum alone."""
    return [(LakeLedger, "_charge", _nothing)]


# -- a store in a file -----------------------------------------------------------------------------


@plant("marked", "population")
def mark_ignored() -> list[Place]:
    """A store opens whatever its mark says."""
    return [(open_file, "behind", lambda *_: "")]


@plant(*MARKED)
def mark_not_synced() -> list[Place]:
    """The mark is written and not flushed."""
    return _unflushed(MarkFile, "write")


@plant(*MARKED)
def mark_written_too_late() -> list[Place]:
    """The mark tells of an answer when the next one is made."""
    wrote = MarkFile.write

    def late(self: MarkFile, record: Record) -> None:
        reached = HighWaterMark(max(record.reached.releases - 1, 0), record.reached.writes)
        wrote(self, Record(record.store, record.session, reached, record.open))

    return [(MarkFile, "write", late)]


@plant(*MARKED)
def mark_not_flushed_when_read() -> list[Place]:
    """What a process that was killed wrote to the mark is taken as durable."""
    return _unflushed(MarkFile, "take")


@plant(*MARKED)
def sessions_of_copies_mixed_up() -> list[Place]:
    """A copy that has gone on by itself is taken for the one that was asked last."""

    def behind(found: Record, sessions: list[str], has: HighWaterMark) -> str:
        return "" if has.covers(found.reached) else "it is behind"

    return [(open_file, "behind", behind)]


@plant(*FILE)
def name_of_the_log_not_synced() -> list[Place]:
    """DuckDB's log is flushed, and its name is not."""
    return [(StoreSession, "_keep_log", _nothing)]


@plant(*FILE)
def log_not_flushed_when_read() -> list[Place]:
    """What a process that was killed wrote to the log is taken as durable."""
    return [(open_file, "flush_log", _nothing)]


@plant("file")
def record_ignored() -> list[Place]:
    """A store opens whatever the record beside it says."""
    return [(open_file, "_check_whole", _nothing)]


@plant(*FILE)
def answers_before_the_commit() -> list[Place]:
    """Answers leave while their transaction is open; the next one ends it."""
    commit = Journal.commit

    class Late:
        def __init__(self, con: Any) -> None:
            self.con, self.open = con, False

        def __getattr__(self, name: str) -> Any:
            return getattr(self.con, name)

        def execute(self, sql: str, *given: Any) -> Any:
            if sql == "COMMIT":
                self.open = True
                return None
            if sql == "BEGIN" and self.open:
                self.con.execute("COMMIT")
                self.open = False
            return self.con.execute(sql, *given)

    def late(self: Journal, entries: Any) -> None:
        if not isinstance(self._con, Late):
            self._con = Late(self._con)  # type: ignore[assignment]
            self._segments._con = self._con
        commit(self, entries)

    return [(Journal, "commit", late)]


@plant(*FILE)
def failed_commit_goes_on() -> list[Place]:
    """After a commit that failed the stream goes on as if it had been written."""
    flush = Stream.flush

    def going_on(self: Stream) -> None:
        self._abandon = _nothing
        try:
            flush(self)
        except StoreError:
            self._staged, self.staged_bytes, self.half_done = [], 0, False

    return [(Stream, "flush", going_on)]


# -- the stream, in all of them --------------------------------------------------------------------


@plant("lake", "file", "marked")
def everybody_can_pay() -> list[Place]:
    """Nobody is left out, whatever they have spent."""

    def admit(self: Bill, users: Any, charges: Any, apart: bool = False) -> Any:
        self.users, self._owed, self._final = users, charges, True
        return np.ones(len(users), np.bool_)

    return [(Bill, "admit", admit)]


@plant("lake", "file", "marked")
def request_forgotten() -> list[Place]:
    """A request that was answered is answered anew."""
    return [(Stream, "recorded", lambda *_: None)]


@plant("lake", "file", "marked")
def noise_from_a_constant() -> list[Place]:
    """Each answer has the same noise."""
    return [(Stream, "_entropy", lambda *_: entropy.SeededEntropy(1))]


# -- monitors --------------------------------------------------------------------------------------


@plant(*MONITORS)
def tick_asked_anew() -> list[Place]:
    """A tick has another name each time, so what it was answered is not found again."""
    named = query_series.tick_request

    def anew(series: str, tick: Any, query: Any) -> RequestId:
        return replace(named(series, tick, query), question=secrets.token_hex(4))

    return [(query_series, "tick_request", anew)]


@plant(*MONITORS)
def file_taken_twice() -> list[Place]:
    """That a file was taken in is written down after its rows, in another transaction."""
    ingest = Store.ingest

    def late(self: Store, *given: Any, once: str, note: str, late: bool) -> int:
        rows = ingest(self, *given, once=f"{once}.{secrets.token_hex(4)}", late=late)
        self.remember(once, note)
        return rows

    return [(Store, "ingest", late)]


@plant(*MONITORS)
def series_written_in_place() -> list[Place]:
    """The file of a series is written to where it is, and not flushed."""

    def flush(self: SeriesFile) -> None:
        if self._pending or not self.path.exists():
            rows = pa.concat_tables([self._schema.empty_table(), *self._pending])
            text = CsvFormat().text(rows, head=not self.path.exists())
            with open(self.path, "a") as file:
                file.write(text)
            self._length, self._pending, self._waiting = self._length + self._waiting, [], 0

    return [(SeriesFile, "flush", flush)]


# -- servers ---------------------------------------------------------------------------------------


@plant(*SERVERS)
def answers_mixed_up() -> list[Place]:
    """An asker gets the answer that the one before it was to have."""
    last: dict[str, Any] = {}

    def mixed(turn: Any, outcome: Any) -> None:
        if outcome.refused is not None:
            turn.done.set_exception(outcome.refused)
        else:
            turn.done.set_result(last.get("outcome", outcome))
            last["outcome"] = outcome

    return [(thread, "_end", mixed)]


@plant(*SERVERS)
def quota_begins_with_the_server() -> list[Place]:
    """What a name has had is counted anew by each server that begins."""
    return [(QuotaTotals, "of", classmethod(lambda cls, _: cls(release=2**40, summed=2**40)))]


@plant(*SERVERS)
def reply_before_the_commit() -> list[Place]:
    """Answers leave while they wait for the commit of the next."""
    flush = Stream.flush

    def late(self: Stream) -> None:
        if not 0 < len(self._staged) < 4:
            flush(self)

    return [(Stream, "flush", late)]


# -- populations, upgrades -------------------------------------------------------------------------


@plant("population")
def draw_added_twice() -> list[Place]:
    """A draw that is done is not noted as done, so it is added again."""
    added = population._add

    def again(stream: Any, backend: Any, drawn: Any, *given: Any) -> Any:
        done = added(stream, backend, drawn, *given)
        population._note(stream.ledger, replace(done, begun=drawn.begun))
        return done

    return [(population, "_add", again)]


@plant("upgrade")
def upgraded_step_by_step() -> list[Place]:
    """Each step of an upgrade is a transaction of its own."""

    def apart(step: Any) -> Any:
        def apply(connection: Any) -> None:
            step.apply(connection)
            connection.execute("COMMIT")
            connection.execute("BEGIN")

        return replace(step, apply=apply)

    return [(backup, "STEPS", tuple(map(apart, backup.STEPS)))]


@plant("upgrade")
def upgrade_not_flushed_when_read() -> list[Place]:
    """A store is said to be of this version by what a killed process has left in its log."""
    return [(backup, "flush_log", _nothing)]
