"""Commands other than SELECT: transactions, settings, cursors. None is charged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pyarrow as pa

from sparseq.pgwire.client_state import FAILED, IDLE, INSIDE, KEPT, Portal, PreparedStatement, State
from sparseq.pgwire.pg_settings import REQUEST_ID
from sparseq.pgwire.results import StatementResult
from sparseq.pgwire.statement_kinds import SqlStatement, StatementForm, TokenReader, change
from sparseq.pgwire.wire_errors import FEATURE_NOT_SUPPORTED, WireError


def transaction(statement: SqlStatement, state: State) -> StatementResult:
    """Run BEGIN, COMMIT, ROLLBACK, SAVEPOINT and similar commands.

    An answer can't be taken back: ROLLBACK undoes settings, but no charge.
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
    """Run SET, RESET, SHOW and DISCARD."""
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
    """Run PREPARE name (types) AS statement, and DEALLOCATE.

    Args:
        statement, state: The command, and the state that it changes.
        types: Returns the number of a type by its name.
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
    """Run DECLARE, FETCH, MOVE and CLOSE.

    Args:
        statement, state: The command, and the state that it changes.
        run: Runs a portal. The fetch of its first row asks a question.
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
    """Return the cursor of a FETCH."""
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
    """Read the direction of a FETCH: the number of rows (None: all), and the cursor."""
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
