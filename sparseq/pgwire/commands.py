"""Commands beside questions and look-ups: transactions, settings, cursors. None of it charges."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sparseq.pgwire import messages
from sparseq.pgwire.messages import (
    FEATURE_NOT_SUPPORTED,
    NO_CURSOR,
    NO_STATEMENT,
    TOO_LARGE,
    WireError,
)
from sparseq.pgwire.pg_settings import REQUEST_ID, Settings
from sparseq.pgwire.pg_values import StatementResult
from sparseq.pgwire.statement_kinds import SqlStatement, StatementForm, TokenReader, change
from sparseq.sql.plan import INTERVAL, PLAIN

# -- the state of one client: its transaction, settings, prepared statements, portals --------------

IDLE, INSIDE, FAILED = b"I", b"T", b"E"
MOST_OPEN = 1_000
"""PreparedStatement statements, and portals, that one client may have."""
_PROGRAMS = (
    *("apache superset", "dbt", "ibis", "looker", "metabase", "microsoft power bi", "mashup"),
    *("npgsql", "postgresql jdbc driver", "sqlalchemy", "superset", "tableau"),
)
"""Beginnings of `application_name` of programs that lay out columns for those they asked for."""
_FIRST, _FIRST_SAID = 8, ("set timezone = utc", "show standard_conforming_strings")
"""Statements, among the first of a connection, that ibis sends; SQLAlchemy (Superset is one)."""


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
        finds_by_place: Its client takes columns by their place, or checks how many there are.
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
        """The columns that answers are shown with: as was set, else as its client needs them.

        Clients that describe statements before they run them, and programs that lay out columns
        for those they asked for, have the SELECT's own; people and scripts have intervals too.
        """
        chosen, named = self.settings.options().columns, self.settings.show("application_name")[1]
        laid_out = self.finds_by_place or named.lower().startswith(_PROGRAMS)
        return chosen or (PLAIN if laid_out else INTERVAL)

    def hear(self, text: str) -> None:
        """Tell by its first statements whether a driver is one that lays out columns."""
        self._heard += 1
        if self._heard <= _FIRST and text.strip().rstrip(";").lower() in _FIRST_SAID:
            self.finds_by_place = True

    def notice(self, message: str, hint: str = "", code: str = "00000") -> None:
        """Send a notice; of a code that warns, a warning."""
        severity = "NOTICE" if code == "00000" else "WARNING"
        self.notices.append(messages.notice(message, hint, code=code, severity=severity))

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


# -- commands beside questions and look-ups --------------------------------------------------------

KEPT = "answers that were given stay released, and what they cost stays charged"


def transaction(statement: SqlStatement, state: State) -> StatementResult:
    """BEGIN, COMMIT, ROLLBACK, SAVEPOINT and their like.

    An answer can't be taken back: ROLLBACK undoes settings, and no charge.
    """
    reader, word = TokenReader(statement), statement.word
    match word:
        case "BEGIN" | "START":
            if state.status != IDLE:
                state.notice("there is already a transaction in progress", code="25001")
            else:
                state.begin()
            return StatementResult("BEGIN" if word == "BEGIN" else "START TRANSACTION")
        case "SAVEPOINT":
            _only_inside(state, "SAVEPOINT")
            state.savepoints.append(reader.name())
            return StatementResult("SAVEPOINT")
        case "RELEASE":
            reader.accept("SAVEPOINT")
            del state.savepoints[_savepoint(state, reader.name()) :]
            return StatementResult("RELEASE")
    reader.accept("WORK", "TRANSACTION")
    if reader.accept("TO"):
        reader.accept("SAVEPOINT")
        del state.savepoints[_savepoint(state, reader.name()) + 1 :]
        state.status = INSIDE
        return StatementResult("ROLLBACK")
    if reader.accept("PREPARED") or word == "PREPARE":
        raise WireError(FEATURE_NOT_SUPPORTED, "transactions are not prepared here")
    return _end(state, word in ("COMMIT", "END"))


def _end(state: State, commit: bool) -> StatementResult:
    committed = commit and state.status != FAILED
    if state.status == IDLE:
        state.notice("there is no transaction in progress", code="25P01")
    elif not committed and state.asked:
        state.notice(f"nothing that was asked is rolled back: {KEPT}")
    state.end(committed)
    return StatementResult("COMMIT" if committed else "ROLLBACK")


def _only_inside(state: State, what: str) -> None:
    if state.status == IDLE:
        raise WireError("25P01", f"{what} can only be used in transaction blocks")


def _savepoint(state: State, name: str) -> int:
    _only_inside(state, "a savepoint")
    if name not in state.savepoints:
        raise WireError("3B001", f'savepoint "{name}" does not exist')
    return len(state.savepoints) - 1 - state.savepoints[::-1].index(name)


def run_setting(statement: SqlStatement, state: State) -> StatementResult:
    """SET, RESET, SHOW, DISCARD."""
    reader, word = TokenReader(statement), statement.word
    if word == "SHOW":
        return StatementResult("SHOW", _shown(_setting_name(reader), state))
    if word == "RESET":
        state.settings.reset("all" if reader.accept("ALL") else _setting_name(reader))
        return StatementResult("RESET")
    if word == "DISCARD":
        what = reader.expect("ALL", "PLANS", "SEQUENCES", "TEMP", "TEMPORARY")
        if what == "ALL":
            if state.status != IDLE:
                raise WireError("25001", "DISCARD ALL cannot run inside a transaction block")
            state.settings.reset("all")
            state.prepared.clear()
            state.portals.clear()
        return StatementResult(f"DISCARD {what}")
    said = change(statement)
    if said is not None and said.value is None:
        state.settings.reset(said.name)
    elif said is not None and said.value is not None:
        if said.local and state.status == IDLE:
            state.notice("SET LOCAL can only be used in transaction blocks", code="25P01")
        else:
            state.settings.set(said.name, said.value, said.local)
    return StatementResult("SET")


def _setting_name(reader: TokenReader) -> str:
    if reader.accept("TRANSACTION"):
        reader.expect("ISOLATION")
        reader.expect("LEVEL")
        return "transaction_isolation"
    if reader.accept("SESSION"):
        reader.expect("AUTHORIZATION")
        return "session_authorization"
    name = reader.name()
    if name == "time":
        reader.expect("ZONE")
        return "timezone"
    while reader.accept("."):
        name += "." + reader.name()
    reader.end()
    return name


def _shown(name: str, state: State) -> pa.Table:
    if name == "all":
        every = state.settings.all()
        return pa.table({"name": list(every), "setting": list(every.values())})
    if name == REQUEST_ID:
        return pa.table({name: [""]})
    said, value = state.settings.show(name)
    return pa.table({said: [value]})


def shown_schema(statement: SqlStatement, state: State) -> pa.Schema | None:
    """Return the columns of a command; None: it has none."""
    if statement.word != "SHOW":
        return None
    table = _shown(_setting_name(TokenReader(statement)), state)
    return table.schema


def prepare(statement: SqlStatement, state: State, types: Callable[[str], int]) -> StatementResult:
    """PREPARE name (types) AS statement, and DEALLOCATE.

    Args:
        statement, state: What is done to what.
        types: The number of a type's name.
    """
    reader = TokenReader(statement)
    if statement.word == "DEALLOCATE":
        reader.accept("PREPARE")
        if reader.accept("ALL"):
            state.prepared.clear()
            return StatementResult("DEALLOCATE ALL")
        name = reader.name()
        state.statement(name)
        del state.prepared[name]
        return StatementResult("DEALLOCATE")
    name = reader.name()
    token = reader.peek()
    named = reader.group() if token is not None and token.text == "(" else ""
    reader.expect("AS")
    prepared = SqlStatement.of(reader.rest())
    known = tuple(types(part.strip()) for part in named.split(",")) if named else ()
    state.prepare(
        name, PreparedStatement(prepared, known + (0,) * (prepared.parameters - len(known)))
    )
    return StatementResult("PREPARE")


async def cursor(
    statement: SqlStatement, state: State, run: Callable[[Portal], Awaitable[None]]
) -> StatementResult:
    """DECLARE, FETCH, MOVE, CLOSE.

    Args:
        statement, state: What is done to what.
        run: Has a portal have its result. A question is asked when its first row is fetched.
    """
    reader, word = TokenReader(statement), statement.word
    if word == "DECLARE":
        return _declare(reader, state)
    if word == "CLOSE":
        if reader.accept("ALL"):
            state.portals.clear()
            return StatementResult("CLOSE CURSOR ALL")
        name = reader.name()
        state.portal(name, cursor=True)
        del state.portals[name]
        return StatementResult("CLOSE CURSOR")
    count, name = _fetch(reader)
    portal = state.portal(name, cursor=True)
    await run(portal)
    part, _ = portal.take(count)
    if word == "MOVE":
        return StatementResult(f"MOVE {part.num_rows}")
    return StatementResult("FETCH", part)


def find_cursor(statement: SqlStatement, state: State) -> Portal:
    """Return the cursor that a FETCH is about."""
    return state.portal(_fetch(TokenReader(statement))[1], cursor=True)


def _declare(reader: TokenReader, state: State) -> StatementResult:
    name = reader.name()
    while reader.accept("BINARY", "ASENSITIVE", "INSENSITIVE", "NO", "SCROLL"):
        pass
    reader.expect("CURSOR")
    hold = bool(reader.accept("WITH"))
    if hold or reader.accept("WITHOUT"):
        reader.expect("HOLD")
    if not hold:
        _only_inside(state, "DECLARE CURSOR")
    reader.expect("FOR")
    inner = SqlStatement.of(reader.rest())
    if inner.form is not StatementForm.SELECT:
        raise WireError("42P11", "a cursor is for a SELECT")
    state.open(name, Portal(inner, hold=hold), cursor=True)
    return StatementResult("DECLARE CURSOR")


def _fetch(reader: TokenReader) -> tuple[int | None, str]:
    """Read the direction of a FETCH: how many rows (None: all), and of which cursor."""
    word = reader.accept(
        "NEXT", "FORWARD", "ALL", "FIRST", "RELATIVE", "ABSOLUTE", "PRIOR", "LAST", "BACKWARD"
    )
    if word in ("PRIOR", "LAST", "BACKWARD", "ABSOLUTE", "FIRST"):
        raise WireError("55000", "cursor can only scan forward", "FETCH 100 FROM name")
    count: int | None = None if word == "ALL" else 1
    token = reader.peek()
    if word in ("FORWARD", "RELATIVE", "") and token is not None:
        if token.text.isdecimal():
            if len(token.text) > 18:
                raise WireError("22003", f"FETCH takes fewer rows than {token.text[:20]}…")
            count = int(reader.next().text)
        elif word == "FORWARD" and reader.accept("ALL"):
            count = None
    reader.accept("FROM", "IN")
    return count, reader.name()
