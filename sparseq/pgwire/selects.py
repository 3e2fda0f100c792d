"""SELECTs: questions go to the stream, look-ups to the catalogue; only questions are charged."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar

import pyarrow as pa

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
from sparseq.pgwire.commands import State
from sparseq.pgwire.messages import CANCELLED, FEATURE_NOT_SUPPORTED, WireError
from sparseq.pgwire.pg_values import cast_table
from sparseq.pgwire.route import Aim, Destination, find_route
from sparseq.pgwire.statement_kinds import TokenKind, tokens
from sparseq.pictures.answer_texts import said, terminal_text
from sparseq.released.render import ERROR_SUFFIX, shown_columns
from sparseq.server.service import Service, done_in
from sparseq.server.service import Statement as Question
from sparseq.server.tokens import Principal
from sparseq.sql.catalog import Column
from sparseq.sql.plan import INTERVAL
from sparseq.store.answer import Answer

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
    """One session's view of the catalogue: a database without people."""

    def table(self, sql: str) -> pa.Table:
        """Answer a look-up."""

    def schema(self, sql: str) -> pa.Schema:
        """Return the columns of a look-up."""

    def public(self, sql: str) -> pa.Table:
        """Answer a SELECT over constants and empty twins of people's tables."""

    def after(self, sql: str, answer: pa.Table) -> pa.Table:
        """Answer a SELECT over an answer, which it calls `answer_`."""

    def has(self, schema: str, name: str) -> bool:
        """Tell whether there is such a table."""

    def put(self, schema: str, name: str, table: pa.Table) -> None:
        """Have a table that is public."""


class Selects:
    """The SELECTs of one session.

    Args:
        service: Answers questions.
        who: Asks.
        state: Of the session; notices go there.
        look: Of the session.
    """

    def __init__(self, service: Service, who: Principal, state: State, look: Look) -> None:
        self._service, self._who, self._state, self._look = service, who, state, look
        self._aims: OrderedDict[str, Destination] = OrderedDict()

    def column(self, name: str) -> Column | None:
        """Return the column of people's tables of a name, if there is one."""
        for table in self._service.catalog.private:
            for column in table.columns:
                if column.name.lower() == name.lower():
                    return column
        return None

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
        """Answer a SELECT: a question is asked, and charged for; nothing else is."""
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
        """Say what a SELECT would be. Nothing is asked."""
        at = await self._aim(text)
        if at.aim in _QUESTIONS:
            lines = repr(await self._service.explain(self._who, self._question(at, ""))).split("\n")
        else:
            await self.schema(text)
            lines = ["Result: from the catalogue and what is declared; no row about a person"]
        return pa.table({"QUERY PLAN": lines})

    async def _told(self, at: Destination) -> pa.Table:
        """Ask a question, and do what follows its answer."""
        request_id = self._state.settings.request_id
        reply = await self._service.ask(self._who, self._question(at, request_id))
        self._state.asked += 1
        self._tell(reply.answer, reply.repeat)
        whole = uniform(reply.answer.arrow())
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
        else:  # the intervals are told of here
            lines = [terminal_text(answer.arrow(), answer.facts, _WIDE)]
        for line in lines:
            self._state.notice(line)

    def _set_config(self, sql: str) -> None:
        """Do what `set_config('name', 'value', is_local)` says, where it is said so plainly."""
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
        """Return what is made of an answer."""
        if at.aim is not Aim.AFTER:
            return shown_columns(answer, self._state.columns)
        return await self._looked(lambda: self._look.after(at.after, answer))

    async def _read_back(self, sql: str) -> None:
        """Have the recorded answers that a look-up names (`released.r12`) in the catalogue."""
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
        if len(text) > _QUICK:  # others are served while it is read
            destination = await asyncio.to_thread(find_route, text, self._service.catalog)
        else:
            destination = find_route(text, self._service.catalog)
        self._aims[text] = destination
        if len(self._aims) > _REMEMBERED:
            self._aims.popitem(last=False)
        return destination


def uniform(table: pa.Table) -> pa.Table:
    """Return an answer with the types that were described: noised numbers are floats, all."""
    noised = {n for n in table.column_names if n + ERROR_SUFFIX in table.column_names}
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
    """Return an error as clients read it; of what nobody expected, nothing is told.

    Args:
        error: What was raised.
        text: The statement, to say where in it the mistake is.
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
    """Return where the name stands that a message quotes; 0: it quotes none."""
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
    """Return a table as it was described, if it was."""
    return table if schema is None else cast_table(table, schema)
