"""Faults of a store in a file."""

from __future__ import annotations

from typing import Any

from checks.simulation.faults.registry import FILE, MARKED, Place, do_nothing, plant, unflushed
from sparseq.base.errors import StoreError
from sparseq.ledger._duckdb.journal import Journal
from sparseq.ledger._duckdb.mark import MarkFile
from sparseq.ledger._duckdb.progress_record import HighWaterMark, Record
from sparseq.ledger._duckdb.session import StoreSession
from sparseq.store._duckdb import open_file
from sparseq.stream.step import Stream


@plant("marked", "population")
def mark_ignored() -> list[Place]:
    """A store opens whatever its mark says."""
    return [(open_file, "behind", lambda *_: "")]


@plant(*MARKED)
def mark_not_synced() -> list[Place]:
    """The mark is written and not flushed."""
    return unflushed(MarkFile, "write")


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
    """Data that a killed process wrote to the mark are taken as durable."""
    return unflushed(MarkFile, "take")


@plant(*MARKED)
def sessions_of_copies_mixed_up() -> list[Place]:
    """A copy that has continued by itself is taken for the copy that was asked last."""

    def behind(found: Record, sessions: list[str], has: HighWaterMark) -> str:
        return "" if has.covers(found.reached) else "it is behind"

    return [(open_file, "behind", behind)]


@plant(*FILE)
def name_of_the_log_not_synced() -> list[Place]:
    """DuckDB's log is flushed, and its name is not."""
    return [(StoreSession, "_keep_log", do_nothing)]


@plant(*FILE)
def log_not_flushed_when_read() -> list[Place]:
    """Data that a killed process wrote to the log are taken as durable."""
    return [(open_file, "flush_log", do_nothing)]


@plant("file")
def record_ignored() -> list[Place]:
    """A store opens even if its record contradicts it."""
    return [(open_file, "_check_whole", do_nothing)]


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
        self._abandon = do_nothing
        try:
            flush(self)
        except StoreError:
            self._staged, self.staged_bytes, self.half_done = [], 0, False

    return [(Stream, "flush", going_on)]
