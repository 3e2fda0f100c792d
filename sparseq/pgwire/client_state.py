"""The state of one client: its transaction, settings, prepared statements and portals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sparseq.pgwire import server_messages
from sparseq.pgwire.pg_settings import Settings
from sparseq.pgwire.results import StatementResult
from sparseq.pgwire.statement_kinds import SqlStatement
from sparseq.pgwire.wire_errors import NO_CURSOR, NO_STATEMENT, TOO_LARGE, WireError
from sparseq.question.plan import INTERVAL, PLAIN

IDLE, INSIDE, FAILED = b"I", b"T", b"E"
KEPT = "answers that were given stay released, and what they cost stays charged"
MOST_OPEN = 1_000
"""The largest number of prepared statements, and of portals, of one client."""
_PROGRAMS = (
    *("apache superset", "dbt", "ibis", "looker", "metabase", "microsoft power bi", "mashup"),
    *("npgsql", "postgresql jdbc driver", "sqlalchemy", "superset", "tableau"),
)
"""Prefixes of `application_name` of programs that expect exactly the requested columns."""
_FIRST, _FIRST_SAID = 8, ("set timezone = utc", "show standard_conforming_strings")
"""Statements that ibis sends at the start of a connection; SQLAlchemy, which Superset uses."""


@dataclass(frozen=True)
class PreparedStatement:
    """A prepared statement, and the types of its parameters."""

    statement: SqlStatement
    types: tuple[int, ...]


@dataclass
class Portal:
    """A statement with its values, and the position in its rows.

    Attributes:
        statement: The statement with its values written out.
        formats: The formats of its columns.
        hold: True if it outlives its transaction.
        schema: The described columns, once described.
        result: Its result, once it ran.
        at: The number of rows taken.
    """

    statement: SqlStatement
    formats: Sequence[int] = ()
    hold: bool = False
    schema: pa.Schema | None = None
    result: StatementResult | None = None
    at: int = 0

    def take(self, count: int | None) -> tuple[pa.Table, bool]:
        """Return at most `count` of the next rows, and True if that limit was reached."""
        assert self.result is not None
        assert self.result.table is not None
        left = self.result.table.num_rows - self.at
        taken = left if count is None else min(left, max(count, 0))
        part = self.result.table.slice(self.at, taken)
        self.at += taken
        return part, count is not None and taken == count


@dataclass
class State:
    """The state of one session.

    Attributes:
        settings: See `Settings`.
        status: IDLE, INSIDE a transaction, or in one that FAILED.
        prepared, portals: Prepared statements and portals by name; "" is the unnamed one.
        notices: Notices to send before the next message.
        savepoints: Their names, the newest last.
        asked: Number of questions answered in this transaction.
        finds_by_place: True if its client takes columns by position or checks their number.
    """

    settings: Settings
    status: bytes = IDLE
    prepared: dict[str, PreparedStatement] = field(default_factory=dict)
    portals: dict[str, Portal] = field(default_factory=dict)
    notices: list[bytes] = field(default_factory=list)
    savepoints: list[str] = field(default_factory=list)
    asked: int = 0
    finds_by_place: bool = False
    _heard: int = 0

    @property
    def columns(self) -> str:
        """The columns of answers: as set, else as the client needs them.

        Clients that describe statements before they run them, and programs that expect exactly the
        requested columns, get the SELECT's own columns; people and scripts get intervals too.
        """
        chosen, named = self.settings.options().columns, self.settings.show("application_name")[1]
        laid_out = self.finds_by_place or named.lower().startswith(_PROGRAMS)
        return chosen or (PLAIN if laid_out else INTERVAL)

    @property
    def is_psql(self) -> bool:
        """True if the client is psql, which prints all digits: its numbers are rounded."""
        return self.settings.show("application_name")[1] == "psql"

    def hear(self, text: str) -> None:
        """Detect by its first statements a driver that expects exactly the requested columns."""
        self._heard += 1
        if self._heard <= _FIRST and text.strip().rstrip(";").lower() in _FIRST_SAID:
            self.finds_by_place = True

    def notice(self, message: str, hint: str = "", code: str = "00000") -> None:
        """Send a notice, or a warning if its code is one."""
        severity = "NOTICE" if code == "00000" else "WARNING"
        self.notices.append(server_messages.notice(message, hint, code=code, severity=severity))

    def statement(self, name: str) -> PreparedStatement:
        """Return a prepared statement.

        Raises:
            WireError: The name is unknown.
        """
        if name not in self.prepared:
            said = f'prepared statement "{name}" does not exist'
            raise WireError(NO_STATEMENT, said if name else "unnamed " + said.replace(' ""', ""))
        return self.prepared[name]

    def portal(self, name: str, cursor: bool = False) -> Portal:
        """Return a portal.

        Raises:
            WireError: The name is unknown.
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
        """Begin a transaction."""
        self.status, self.asked = INSIDE, 0
        self.settings.begin()

    def end(self, committed: bool) -> None:
        """End the transaction and its portals."""
        self.status = IDLE
        self.settings.end(committed)
        self.savepoints.clear()
        self.portals = {n: p for n, p in self.portals.items() if p.hold and committed}

    def series_ends(self) -> None:
        """Handle Sync: outside of a transaction, portals are closed."""
        if self.status == IDLE:
            self.portals = {n: p for n, p in self.portals.items() if p.hold}
