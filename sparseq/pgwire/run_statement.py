"""Statements of every form, run for one session."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from sparseq.base.errors import QueryRefused
from sparseq.pgwire import commands
from sparseq.pgwire.client_state import FAILED, Portal, PreparedStatement, State
from sparseq.pgwire.parameter_types import number_of, parameter_types, stand_in
from sparseq.pgwire.results import CopyFormat, StatementResult
from sparseq.pgwire.selects import Selects, as_described
from sparseq.pgwire.sql_tokens import with_parameters
from sparseq.pgwire.statement_kinds import ONLY_READ, SqlStatement, StatementForm, TokenReader
from sparseq.pgwire.wire_errors import FAILED_TRANSACTION, INVALID_PARAMETER, READ_ONLY, WireError
from sparseq.sql.parameters import literal

_CSV = CopyFormat("csv", delimiter=",", null="")


class Runner:
    """Runner of the statements of a session.

    Args:
        state: The state of the session.
        selects: The SELECTs of the session.
    """

    def __init__(self, state: State, selects: Selects) -> None:
        self.state, self._selects = state, selects

    def prepared(self, text: str, types: Sequence[int]) -> PreparedStatement:
        """Parse a statement to be prepared; its parameters' types follow from their positions.

        Raises:
            WireError: It can't be parsed.
        """
        statement = SqlStatement.of(text)
        self.check_alive(statement)
        known = parameter_types(statement.tokens, types, self._selects.column_of(statement.tokens))
        return PreparedStatement(statement, known)

    def check_alive(self, statement: SqlStatement) -> None:
        """Refuse all statements in a failed transaction, except its end."""
        ends = ("COMMIT", "END", "ROLLBACK", "ABORT")
        if self.state.status == FAILED and statement.word not in ends and statement.tokens:
            raise WireError(
                FAILED_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
                "ROLLBACK",
            )

    async def schema(self, statement: SqlStatement) -> pa.Schema | None:
        """Return the columns that a statement will have; None: none. Nothing is asked."""
        match statement.form:
            case StatementForm.SELECT:
                return await self._selects.schema(statement.text)
            case StatementForm.EXPLAIN:
                return pa.schema([("QUERY PLAN", pa.string())])
            case StatementForm.SETTING:
                return commands.shown_schema(statement, self.state)
            case StatementForm.CURSOR if statement.word == "FETCH":
                return await self.schema(commands.find_cursor(statement, self.state).statement)
            case StatementForm.PREPARED if statement.word == "EXECUTE":
                return await self.schema(self._execute(statement))
        return None

    async def schema_of(self, prepared: PreparedStatement) -> pa.Schema | None:
        """Return the columns of a prepared statement, for any values of its parameters."""
        if not prepared.statement.parameters:
            return await self.schema(prepared.statement)
        all_tokens = prepared.statement.tokens
        values = stand_in(all_tokens, prepared.types, self._selects.column_of(all_tokens))
        try:
            return await self.schema(bound(prepared.statement, values))
        except QueryRefused:  # a text is compared with another type: the literals decide the types
            if "" not in values:
                raise
            values = [None if value == "" else value for value in values]
            return await self.schema(bound(prepared.statement, values))

    async def run(self, portal: Portal) -> None:
        """Run a portal, unless it has run already."""
        if portal.result is not None:
            return
        result = await self._result(portal.statement)
        if result.table is not None and portal.schema is not None:
            table = as_described(result.table, portal.schema)
            result = StatementResult(result.tag, table, result.copying)
        portal.result = result

    async def _result(self, statement: SqlStatement) -> StatementResult:
        self.check_alive(statement)
        self.state.hear(statement.text)
        match statement.form:
            case StatementForm.SELECT:
                return StatementResult("SELECT", await self._selects.table(statement.text))
            case StatementForm.EXPLAIN:
                return await self._explain(statement)
            case StatementForm.COPY:
                return await self._copied(statement)
            case StatementForm.TRANSACTION:
                return commands.transaction(statement, self.state)
            case StatementForm.SETTING:
                return commands.run_setting(statement, self.state)
            case StatementForm.CURSOR:
                return await commands.cursor(statement, self.state, self.run)
            case StatementForm.PREPARED if statement.word == "EXECUTE":
                return await self._result(self._execute(statement))
            case StatementForm.PREPARED:
                return commands.prepare(statement, self.state, number_of)
        return StatementResult(statement.word)

    async def _explain(self, statement: SqlStatement) -> StatementResult:
        """Run EXPLAIN; EXPLAIN ANALYZE, which would ask, does the same."""
        reader = TokenReader(statement)
        token = reader.peek()
        if token is not None and token.text == "(" and not _opens_select(statement):
            reader.group()
        while said := reader.accept("ANALYZE", "VERBOSE"):
            if said == "ANALYZE":
                self.state.notice("EXPLAIN ANALYZE would ask; nothing was asked, nothing charged")
        inner = SqlStatement.of(reader.rest())
        if inner.form is StatementForm.PREPARED and inner.word == "EXECUTE":
            inner = self._execute(inner)
        if inner.form is not StatementForm.SELECT:
            raise reader.wrong(None)
        return StatementResult("EXPLAIN", await self._selects.explained(inner.text))

    async def _copied(self, statement: SqlStatement) -> StatementResult:
        text, how = _copy(statement)
        inner = SqlStatement.of(text)
        if inner.form is not StatementForm.SELECT:
            raise WireError("0A000", "COPY is of a SELECT, or of a table")
        schema = await self._selects.schema(inner.text)  # the types that drivers have seen
        table = await self._selects.table(inner.text)
        return StatementResult("COPY", as_described(table, schema), how)

    def _execute(self, statement: SqlStatement) -> SqlStatement:
        reader = TokenReader(statement)
        prepared = self.state.statement(reader.name())
        given = []
        if reader.peek() is not None:
            given = [SqlStatement.of(f"SELECT {part}") for part in _arguments(reader.group())]
        if len(given) != prepared.statement.parameters:
            said = (
                f"{len(given)} values are given; the statement needs "
                f"{prepared.statement.parameters}"
            )
            raise WireError(INVALID_PARAMETER, said)
        texts = [f"({s.text[len('SELECT ') :]})" for s in given]
        return SqlStatement.of(with_parameters(prepared.statement.text, lambda n, _: texts[n - 1]))


def bound(statement: SqlStatement, values: Sequence[Any]) -> SqlStatement:
    """Return a statement with the values of its parameters as literals.

    Raises:
        WireError: The numbers of values and parameters differ.
    """
    if len(values) != statement.parameters:
        said = (
            f"bind message supplies {len(values)} parameters, but the prepared statement requires"
        )
        raise WireError("08P01", f"{said} {statement.parameters}")
    if not values:
        return statement
    return SqlStatement.of(
        with_parameters(statement.text, lambda n, cast: _literal(values[n - 1], cast))
    )


def _literal(value: Any, cast: bool = False) -> str:
    if cast and isinstance(value, dt.date):
        return f"'{value}'"  # its type follows
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(_literal, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f"CAST('{value}' AS DOUBLE PRECISION)"
    if isinstance(value, Decimal | int | str | dt.date | float | None):
        return literal(value)
    raise WireError(INVALID_PARAMETER, f"a parameter is a {type(value).__name__}")


def _arguments(text: str) -> list[str]:
    """Split the arguments of EXECUTE at their commas."""
    parts, depth, start = [], 0, 0
    for token in SqlStatement.of(f"SELECT {text}").tokens[1:]:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0)
        if token.text == "," and depth == 0:
            parts.append(text[start : token.start - len("SELECT ")].strip())
            start = token.end - len("SELECT ")
    return [*parts, text[start:].strip()]


def _opens_select(statement: SqlStatement) -> bool:
    return statement.tokens[2].is_word("SELECT", "WITH", "VALUES", "FROM")


def _copy(statement: SqlStatement) -> tuple[str, CopyFormat]:
    """Return the SELECT that is copied, and the format.

    Raises:
        WireError: It would write, or can't be parsed.
    """
    reader = TokenReader(statement)
    token = reader.peek()
    if token is not None and token.text == "(":
        text = reader.group()
    else:
        name = reader.next().text
        while reader.accept("."):
            name += "." + reader.next().text
        columns = "*"
        if (token := reader.peek()) is not None and token.text == "(":
            columns = reader.group()
        text = f"SELECT {columns} FROM {name}"
    if reader.expect("TO", "FROM") == "FROM":
        said = "cannot execute COPY FROM in a read-only transaction"
        raise WireError(READ_ONLY, said, ONLY_READ)
    if not reader.accept("STDOUT"):
        said = "COPY writes to STDOUT only"
        raise WireError("42501", said, "psql's \\copy … TO 'file' writes on your machine")
    return text, _how(reader)


def _how(reader: TokenReader) -> CopyFormat:
    reader.accept("WITH")
    given: dict[str, str] = {}
    listed = bool(reader.accept("("))
    while (token := reader.peek()) is not None and token.text != ")":
        word = reader.name().upper()
        reader.accept("AS")
        if word in ("CSV", "BINARY", "TEXT"):
            given["FORMAT"] = word
        elif word == "FORCE":
            given[f"FORCE_{reader.name().upper()}"] = reader.next().value
        elif word == "HEADER" and not listed:
            given[word] = "true"
        else:
            following = reader.peek()
            bare = following is None or following.text in (",", ")")
            given[word] = "true" if bare else reader.next().value
        reader.accept(",")
    if listed:
        reader.expect(")")
    reader.end()
    return _copying(given)


def _copying(given: dict[str, str]) -> CopyFormat:
    format = given.pop("FORMAT", "text").lower()
    if format not in ("text", "csv", "binary"):
        raise WireError(INVALID_PARAMETER, f'COPY format "{format}" not recognized')
    default = _CSV if format == "csv" else CopyFormat(format)
    header = given.pop("HEADER", "false").lower() in ("true", "on", "1", "match")
    made = CopyFormat(
        format,
        header,
        given.pop("DELIMITER", default.delimiter),
        given.pop("NULL", default.null),
        given.pop("QUOTE", default.quote),
        given.pop("FORCE_QUOTE", "") == "*",
    )
    given.pop("ENCODING", None)
    given.pop("ESCAPE", None)
    if given:
        raise WireError("42601", f'option "{next(iter(given)).lower()}" not recognized')
    if len(made.delimiter.encode()) != 1 or len(made.quote.encode()) != 1:
        raise WireError("0A000", "COPY delimiter and quote must be single one-byte characters")
    return made
