"""SELECTs: questions go to the stream, look-ups to the catalogue; only questions are charged."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import pyarrow as pa

from sparseq.answers.answer import Answer
from sparseq.answers.answer_texts import said, terminal_text
from sparseq.answers.short_numbers import with_digits
from sparseq.base.errors import (
    NotSql,
    ParameterError,
    QueryCancelError,
    QueryRefused,
    ServerError,
    SparseqError,
    StoreError,
    Why,
)
from sparseq.pgwire.client_state import State
from sparseq.pgwire.results import cast_table
from sparseq.pgwire.route import Aim, Destination, find_route
from sparseq.pgwire.sql_tokens import Token, TokenKind, tokens
from sparseq.pgwire.wire_errors import CANCELLED, FEATURE_NOT_SUPPORTED, WireError
from sparseq.question.catalog import Column
from sparseq.question.plan import INTERVAL
from sparseq.released.result_columns import noised_of, shown_columns
from sparseq.server.service import Service, done_in
from sparseq.server.service import Statement as Question
from sparseq.server.tokens import Principal

T = TypeVar("T")
_REMEMBERED, _QUICK, _WIDE = 256, 4_000, 100
_QUESTIONS = (Aim.QUESTION, Aim.AFTER)
_RELEASE = re.compile(r"r[1-9]\d{0,11}")
_GUARANTEE = ("kappa", "keys_delta", "norm_budget", "mu", "releases")
_RELEASES = pa.schema(
    [
        ("release", pa.int64()),
        ("released_at", pa.timestamp("us")),
        ("query", pa.string()),
        ("coordinates", pa.int64()),
        ("sigma", pa.float64()),
        ("confidence", pa.float64()),
    ]
)
_STATES = {
    Why.SIGN_IN: "28000",
    Why.ROLE: "42501",
    Why.QUOTA: "53400",
    Why.BUSY: "53300",
    Why.CLOSING: "57P01",
    Why.SIZE: "54000",
    Why.ABSENT: "42P01",
    Why.FAILED: "40003",
}


class Look(Protocol):
    """One session's view of the catalogue: a database without users."""

    def table(self, sql: str) -> pa.Table:
        """Answer a look-up."""

    def schema(self, sql: str) -> pa.Schema:
        """Return the columns of a look-up."""

    def public(self, sql: str) -> pa.Table:
        """Answer a SELECT over constants and empty twins of private tables."""

    def after(self, sql: str, answer: pa.Table) -> pa.Table:
        """Answer a SELECT over an answer, which it calls `answer_`."""

    def has(self, schema: str, name: str) -> bool:
        """Tell whether a table exists."""

    def put(self, schema: str, name: str, table: pa.Table) -> None:
        """Add a public table."""


class Selects:
    """The SELECTs of one session.

    Args:
        service: Answers questions.
        who: The user.
        state: The state of the session, for notices.
        look: The session's view of the catalogue.
    """

    def __init__(self, service: Service, who: Principal, state: State, look: Look) -> None:
        self._service, self._who, self._state, self._look = service, who, state, look
        self._aims: OrderedDict[str, Destination] = OrderedDict()

    def column_of(self, statement: Sequence[Token]) -> Callable[[str], Column | None]:
        """Return a function that finds a column of private tables by its name in a statement.

        The column is in one of the statement's tables. None: there is no such column, or several
        with different types or declared values.
        """
        named = {token.name.lower() for token in statement if token.name}
        tables = [t for t in self._service.catalog.tables if t.name.lower() in named]

        def column(name: str) -> Column | None:
            found = [(t, c) for t in tables for c in t.columns if c.name.lower() == name.lower()]
            private = [c for t, c in found if t.private]
            alike = {(c.shown, c.bounds, c.keys) for _, c in found}
            return private[0] if private and len(alike) == 1 else None

        return column

    async def schema(self, text: str) -> pa.Schema:
        """Return the columns that a SELECT will have. Nothing is asked."""
        at = await self._aim(text)
        if at.aim in _QUESTIONS:
            schema = await self._service.describe(self._who, self._question(at, ""))
            return (await self._after(at, schema.empty_table())).schema
        self._service.check(self._who)
        if at.aim is Aim.LOOK_UP:
            await self._read_back(at.sql)
            return await self._looked(lambda: self._look.schema(at.sql))
        return (await self._looked(lambda: self._look.public(at.sql))).schema

    async def table(self, text: str) -> pa.Table:
        """Answer a SELECT: only a question is asked, and charged."""
        at = await self._aim(text)
        if at.aim in _QUESTIONS:
            return await self._told(at)
        self._service.check(self._who)
        if at.aim is Aim.LOOK_UP:
            await self._read_back(at.sql)
            self._set_config(at.sql)
            return await self._looked(lambda: self._look.table(at.sql))
        table = await self._looked(lambda: self._look.public(at.sql))
        self._state.notice(*_about_people(at))
        return table if at.aim is Aim.PUBLIC else table.slice(0, 0)

    async def explained(self, text: str) -> pa.Table:
        """Explain a SELECT. Nothing is asked."""
        at = await self._aim(text)
        if at.aim in _QUESTIONS:
            lines = repr(await self._service.explain(self._who, self._question(at, ""))).split("\n")
        else:
            await self.schema(text)
            lines = ["Result: from the catalogue and the declarations; no row about a person"]
        return pa.table({"QUERY PLAN": lines})

    async def _told(self, at: Destination) -> pa.Table:
        """Ask a question, and run the SELECT over its answer."""
        request_id = self._state.settings.request_id
        reply = await self._service.ask(self._who, self._question(at, request_id))
        self._state.asked += 1
        self._tell(reply.answer, reply.repeat)
        whole = uniform(reply.answer.arrow())
        if self._state.is_psql:
            whole = with_digits(whole)
        try:
            return await self._after(at, whole)
        except QueryCancelError as error:
            number = reply.answer.facts.release
            hint = f"the question was answered before; SELECT * FROM released.r{number} is free"
            raise WireError(CANCELLED, f"cancelled after release {number}", hint) from error

    def _question(self, at: Destination, request_id: str) -> Question:
        options = replace(self._state.settings.options(), columns=None)
        fresh = self._state.settings.fresh
        return Question(at.sql, options=options, request_id=request_id, fresh=fresh)

    def _tell(self, answer: Answer, repeat: bool) -> None:
        number = answer.facts.release
        if repeat:
            self._state.notice(f"release {number} again, as it was recorded: nothing was charged")
        if self._state.columns == INTERVAL:
            lines = said(answer.arrow(), answer.facts)
        else:  # the notice reports the intervals
            lines = [terminal_text(answer.arrow(), answer.facts, _WIDE)]
        for line in lines:
            self._state.notice(line)

    def _set_config(self, sql: str) -> None:
        """Run `set_config('name', 'value', is_local)`, if its arguments are literals."""
        if "set_config" not in sql.lower():
            return
        all_tokens = tokens(sql)
        for i, token in enumerate(all_tokens):
            called = all_tokens[i + 1 : i + 7]
            if token.is_word("SET_CONFIG") and [t.text for t in called[::2]] == ["(", ",", ","]:
                name, value, local = called[1::2]
                if name.kind is value.kind is TokenKind.STRING:
                    self._state.settings.set(name.value, value.value, local.is_word("TRUE"))

    async def _after(self, at: Destination, answer: pa.Table) -> pa.Table:
        """Return the result of the SELECT over an answer."""
        if at.aim is not Aim.AFTER:
            return shown_columns(answer, self._state.columns)
        return await self._looked(lambda: self._look.after(at.after, answer))

    async def _read_back(self, sql: str) -> None:
        """Add the recorded answers that a look-up names (`released.r12`) to the catalogue."""
        if "released" not in sql.lower() and "budget" not in sql.lower():
            return
        all_tokens = tokens(sql)
        for schema, dot, table in zip(all_tokens, all_tokens[1:], all_tokens[2:], strict=False):
            if dot.text != "." or schema.name not in ("released", "budget"):
                continue
            name = table.name
            if name in ("releases", "guarantee"):
                self._look.put(schema.name, name, self._ours(name))
            elif _RELEASE.fullmatch(name) and not self._look.has("released", name):
                answer = await self._service.release(self._who, int(name[1:]))
                self._look.put("released", name, uniform(answer.arrow()))

    def _ours(self, name: str) -> pa.Table:
        latest, budget = self._service.latest, self._service.guarantee
        if name == "guarantee":
            row = (budget.kappa, budget.keys_delta, budget.norm_budget, budget.mu, len(latest))
            return pa.table(dict(zip(_GUARANTEE, ([x] for x in row), strict=True)))
        if len(latest) > len(latest.held):
            self._state.notice(
                f"these are the latest {len(latest.held):,} of {len(latest):,} releases",
                "released.r12 is the answer of any of them",
            )
        rows = [
            (r.id, r.released_at, r.query, r.coordinates, max(r.sigma, default=None), r.confidence)
            for r in latest.held
        ]
        columns = zip(*rows, strict=True) if rows else [[]] * len(_RELEASES)
        arrays = [pa.array(list(c), f.type) for c, f in zip(columns, _RELEASES, strict=True)]
        return pa.Table.from_arrays(arrays, schema=_RELEASES)

    async def _looked(self, look: Callable[[], T]) -> T:
        return await done_in(self._service.lookups, self._who, look)

    async def _aim(self, text: str) -> Destination:
        if text in self._aims:
            self._aims.move_to_end(text)
            return self._aims[text]
        if len(text) > _QUICK:  # other clients are served while it is parsed
            destination = await asyncio.to_thread(find_route, text, self._service.catalog)
        else:
            destination = find_route(text, self._service.catalog)
        if destination.aim is Aim.SAMPLE:
            destination = await self._sample(destination)
        self._aims[text] = destination
        if len(self._aims) > _REMEMBERED:
            self._aims.popitem(last=False)
        return destination

    async def _sample(self, at: Destination) -> Destination:
        """Return the destination of a count over a few rows: the stream, if it can be answered."""
        asked = Destination(Aim.QUESTION, at.question, at.tables)
        try:
            await self._service.describe(self._who, self._question(asked, ""))
        except QueryRefused:
            return replace(at, aim=Aim.NO_ROWS)
        return asked


def uniform(table: pa.Table) -> pa.Table:
    """Return an answer with the described types: noised numbers are all floats."""
    noised = noised_of(table)
    fields = [f.with_type(pa.float64()) if f.name in noised else f for f in table.schema]
    return cast_table(table, pa.schema(fields))


def _about_people(at: Destination) -> tuple[str, str]:
    tables = ", ".join(at.tables)
    if at.aim is Aim.PUBLIC:
        which = f"of {at.column} " if at.column else ""
        message = f"these are the declared values {which}in {tables}, whatever rows there are"
        return message, "nothing was asked, and nothing charged"
    return (
        f"rows of {tables} are about people: none are shown, and nothing was charged",
        f"ask for counts, sums and averages: SELECT count(*) FROM {at.tables[0]}",
    )


def failure(error: Exception, text: str = "") -> WireError:
    """Return an error for clients; the text of an unexpected error is never shown.

    Args:
        error: The error.
        text: The statement, to find the position of the mistake in it.
    """
    if isinstance(error, WireError):
        error.position = error.position or _position(error.message, text)
        return error
    if isinstance(error, ServerError):
        fatal = error.why in (Why.SIGN_IN, Why.CLOSING)
        return WireError(_STATES[error.why], error.message, error.hint, fatal=fatal)
    if not isinstance(error, SparseqError):
        return WireError("XX000", f"the server failed: {type(error).__name__}")
    position, code = _position(error.message, text), "XX000"
    if isinstance(error, NotSql):
        code = "42601"
    elif isinstance(error, QueryRefused):
        code = next((c for said, c in _UNKNOWN if said in error.message), FEATURE_NOT_SUPPORTED)
    elif isinstance(error, ParameterError):
        code = "22023"
    elif isinstance(error, StoreError):
        code = "58000"
    return WireError(code, error.message, error.hint, position=position)


_UNKNOWN = (
    ("there is no table", "42P01"),
    ("no column", "42703"),
    ("there is no function", "42883"),
)


_PLACE = re.compile(r"\(line (\d+), column (\d+)[,)]")


def _position(message: str, text: str) -> int:
    """Return the position of the name that a message quotes; 0: it quotes none."""
    if (at := _PLACE.search(message)) is not None:
        before = text.split("\n")[: int(at[1]) - 1]
        return sum(map(len, before)) + len(before) + int(at[2])
    quoted = re.search(r"(?<!\w)['\"](?:\w+\.)?([^'\"]{1,63})['\"]", message)
    if quoted is None:
        return 0
    try:
        found = tokens(text)
    except WireError:
        return 0
    names = (t for t in found if t.kind in (TokenKind.WORD, TokenKind.QUOTED))
    return next((t.start + 1 for t in names if t.name.lower() == quoted[1].lower()), 0)


def as_described(table: pa.Table, schema: pa.Schema | None) -> pa.Table:
    """Return a table with the described columns, if it was described."""
    return table if schema is None else cast_table(table, schema)
