"""The state of one client: its transaction, settings, prepared statements, portals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sparseq.pgwire import replies
from sparseq.pgwire.pg_settings import Settings
from sparseq.pgwire.results import StatementResult
from sparseq.pgwire.sqlstates import NO_CURSOR, NO_STATEMENT, TOO_LARGE, WireError
from sparseq.pgwire.statement_kinds import SqlStatement

IDLE, INSIDE, FAILED = b"I", b"T", b"E"
MOST_OPEN = 1_000
"""PreparedStatement statements, and portals, that one client may have."""


@dataclass(frozen=True)
class PreparedStatement:
    """A prepared statement, and the types of its parameters."""

    statement: SqlStatement
    types: tuple[int, ...]


@dataclass
class Portal:
    """A statement with its values, and how far its rows were taken.

    Attributes:
        statement: With the values written out.
        formats: Of its columns.
        hold: It outlives its transaction.
        schema: What was described, once it was.
        result: What came of it, once it ran.
        at: Rows that were taken.
    """

    statement: SqlStatement
    formats: Sequence[int] = ()
    hold: bool = False
    schema: pa.Schema | None = None
    result: StatementResult | None = None
    at: int = 0

    def take(self, count: int | None) -> tuple[pa.Table, bool]:
        """Return up to so many of its next rows, and whether the count was reached."""
        assert self.result is not None
        assert self.result.table is not None
        left = self.result.table.num_rows - self.at
        taken = left if count is None else min(left, max(count, 0))
        part = self.result.table.slice(self.at, taken)
        self.at += taken
        return part, count is not None and taken == count


@dataclass
class State:
    """Of one session.

    Attributes:
        settings: See `Settings`.
        status: IDLE, INSIDE a transaction, or in one that FAILED.
        prepared, portals: By name; "" is the unnamed one.
        notices: To be sent before what comes next.
        savepoints: Their names, the newest last.
        asked: Questions that were answered in this transaction.
    """

    settings: Settings
    status: bytes = IDLE
    prepared: dict[str, PreparedStatement] = field(default_factory=dict)
    portals: dict[str, Portal] = field(default_factory=dict)
    notices: list[bytes] = field(default_factory=list)
    savepoints: list[str] = field(default_factory=list)
    asked: int = 0

    def notice(self, message: str, hint: str = "", code: str = "00000") -> None:
        """Send a notice; of a code that warns, a warning."""
        severity = "NOTICE" if code == "00000" else "WARNING"
        self.notices.append(replies.notice(message, hint, code=code, severity=severity))

    def statement(self, name: str) -> PreparedStatement:
        """Return a prepared statement.

        Raises:
            WireError: There is none of this name.
        """
        if name not in self.prepared:
            said = f'prepared statement "{name}" does not exist'
            raise WireError(NO_STATEMENT, said if name else "unnamed " + said.replace(' ""', ""))
        return self.prepared[name]

    def portal(self, name: str, cursor: bool = False) -> Portal:
        """Return a portal.

        Raises:
            WireError: There is none of this name.
        """
        if name not in self.portals:
            raise WireError(
                NO_CURSOR, f'{"cursor" if cursor else "portal"} "{name}" does not exist'
            )
        return self.portals[name]

    def prepare(self, name: str, prepared: PreparedStatement) -> None:
        """Keep a prepared statement; the unnamed one is replaced.

        Raises:
            WireError: The name is taken, or there are too many.
        """
        if name and name in self.prepared:
            raise WireError("42P05", f'prepared statement "{name}" already exists')
        if len(self.prepared) >= MOST_OPEN:
            raise WireError(TOO_LARGE, f"{MOST_OPEN:,} statements are prepared", "DEALLOCATE ALL")
        self.prepared[name] = prepared

    def open(self, name: str, portal: Portal, cursor: bool = False) -> None:
        """Keep a portal; the unnamed one is replaced.

        Raises:
            WireError: The name is taken, or there are too many.
        """
        if name and name in self.portals:
            raise WireError("42P03", f'{"cursor" if cursor else "portal"} "{name}" already exists')
        if len(self.portals) >= MOST_OPEN:
            raise WireError(TOO_LARGE, f"{MOST_OPEN:,} cursors are open", "CLOSE ALL")
        self.portals[name] = portal

    def begin(self) -> None:
        """A transaction begins."""
        self.status, self.asked = INSIDE, 0
        self.settings.begin()

    def end(self, committed: bool) -> None:
        """The transaction ends, and with it its portals."""
        self.status = IDLE
        self.settings.end(committed)
        self.savepoints.clear()
        self.portals = {n: p for n, p in self.portals.items() if p.hold and committed}

    def series_ends(self) -> None:
        """Sync: outside of a transaction, what was bound goes."""
        if self.status == IDLE:
            self.portals = {n: p for n, p in self.portals.items() if p.hold}
