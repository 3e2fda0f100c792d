"""Tools for agents: the Model Context Protocol, as far as tools need it (JSON-RPC 2.0).

An agent gets every number with its interval in words, since what it overlooks it reports wrongly. A
token without a quota of its own has `QUOTA` here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TextIO

import sparseq
from sparseq.answer import Answer
from sparseq.errors import ParameterError, SparseqError, did_you_mean
from sparseq.json_text import json_text
from sparseq.pictures.answer_texts import terminal_text
from sparseq.query.plan import Options
from sparseq.server.service import Service, Statement
from sparseq.server.tokens import Principal, Quota

QUOTA = Quota.parse("20/day,25%")
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
MOST_ROWS = 200
"""Rows of an answer that an agent is given; its table has the first 40."""
INSTRUCTIONS = """\
Ask about people, privately. Only SELECTs that aggregate (count, sum, avg, histogram, GROUP BY) are
answered. First look: `tables` and `explain` are free, and so is `answers`, what was asked already.
`ask` is charged to the people in the rows that it reads; the same thing in other words is waste.
Every number x stands between x_low and x_high: the truth about everybody is in there with the
stated confidence, and nothing more is known. Never report x without its interval. Two numbers
differ only if their intervals don't meet. If an error comes back, its hint says what to write
instead."""
_TEXT, _NUMBER, _WHOLE = {"type": "string"}, {"type": "number"}, {"type": "integer"}
_SQL = _TEXT | {"description": "One SELECT that aggregates, in DuckDB's dialect."}
_NOT_FOUND, _INVALID, _PARSE = -32601, -32600, -32700

Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class Tool:
    """One tool: what it is for, what it takes, and what it does; the first argument is needed."""

    about: str
    takes: Mapping[str, Mapping[str, str]]
    run: Callable[[Service, Principal, Arguments], Awaitable[tuple[str, Any]]]
    free: bool = True


async def _tables(service: Service, who: Principal, given: Arguments) -> tuple[str, Any]:
    facts = [
        {
            "table": table.name,
            "about_people": table.private,
            "columns": [
                {"name": c.name, "type": c.type, "bounds": c.bounds, "keys": c.keys}
                for c in table.columns
            ],
        }
        for table in service.catalog.tables
    ]
    return json_text(facts), {"tables": facts}


async def _explain(service: Service, who: Principal, given: Arguments) -> tuple[str, Any]:
    found = await service.explain(who, _statement(given))
    return repr(found), found.facts


async def _ask(service: Service, who: Principal, given: Arguments) -> tuple[str, Any]:
    reply = await service.ask(who, _statement(given))
    if reply.repeat:
        return _told(reply.answer, "It was recorded already: nothing was charged.")
    price = f"{reply.answer.facts.price:g} each at most"
    return _told(reply.answer, f"People were charged for it, {price}, and for its pilots.")


async def _answers(service: Service, who: Principal, given: Arguments) -> tuple[str, Any]:
    service.check(who)
    last = min(max(int(given.get("last") or 20), 1), MOST_ROWS)
    word = str(given.get("contains") or "").lower()
    found = [
        {"release": one.id, "query": one.query}
        for one in reversed(service.latest.held)
        if word in one.query.lower()
    ][:last]
    lines = [f"{one['release']}: {one['query']}" for one in found]
    return "\n".join(lines) or "nothing was answered yet", {"answers": found}


async def _answer(service: Service, who: Principal, given: Arguments) -> tuple[str, Any]:
    number = given.get("release")
    if not isinstance(number, int):
        raise ParameterError("release is not a number", "`answers` lists them")
    return _told(await service.release(who, number), "Reading it again is free.")


TOOLS = {
    "tables": Tool("Tables and columns, with what is declared about them. Free.", {}, _tables),
    "explain": Tool(
        "What a question would be: its price, and about how wide its intervals. Free.",
        {"sql": _SQL}, _explain,
    ),
    "ask": Tool(
        "Ask one question. It is charged to the people in the rows that it reads.",
        {
            "sql": _SQL,
            "precision": _NUMBER | {"description": "Wanted half-width of the noise, as a part of "
                                    "the answer, such as 0.02. Finer noise costs more."},
            "request_id": _TEXT | {"description": "Send it again to get the same answer, free."},
        },
        _ask, free=False,
    ),
    "answers": Tool(
        "What was answered already, newest first. Free.",
        {"contains": _TEXT | {"description": "A word of the question."}, "last": _WHOLE}, _answers,
    ),
    "answer": Tool("An earlier answer, by its number. Free.", {"release": _WHOLE}, _answer),
}  # fmt: skip
_NEEDED = {"explain": ["sql"], "ask": ["sql"], "answer": ["release"]}


def _statement(given: Arguments) -> Statement:
    sql, precision = given.get("sql"), given.get("precision")
    if not isinstance(sql, str):
        raise ParameterError("sql is missing", "one SELECT that aggregates")
    if precision is not None and (
        isinstance(precision, bool) or not isinstance(precision, int | float)
    ):
        raise ParameterError("precision is not a number", "such as 0.02")
    options = Options(precision=None if precision is None else float(precision))
    return Statement(sql, options=options, request_id=str(given.get("request_id") or ""))


def _told(answer: Answer, about: str) -> tuple[str, Any]:
    """Return an answer in words that can't be overlooked, and as data."""
    rows = answer.rows()[:MOST_ROWS]
    text = f"{terminal_text(answer.arrow(), answer.facts, 200)}\n{about}"
    facts = {"release": answer.facts.release, "confidence": answer.facts.confidence, "rows": rows}
    return text, facts


async def handle(service: Service, who: Principal, text: str | bytes) -> str | None:
    """Return the response to one message of JSON-RPC; None: it is a notification."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return _error(None, _PARSE, "the message is not JSON")
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return _error(None, _INVALID, "the message is no request")
    if "id" not in message:
        return None
    params = message.get("params")
    result = await _result(
        service, who, message["method"], params if isinstance(params, dict) else {}
    )
    if result is None:
        return _error(message["id"], _NOT_FOUND, f"there is no method {message['method'][:60]!r}")
    return json_text({"jsonrpc": "2.0", "id": message["id"], "result": result}, None)


async def _result(
    service: Service, who: Principal, method: str, params: Mapping[str, Any]
) -> dict[str, Any] | None:
    if method == "initialize":
        asked = params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "sparseq", "version": sparseq.__version__},
            "instructions": INSTRUCTIONS,
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": [_described(name, tool) for name, tool in TOOLS.items()]}
    if method == "tools/call":
        return await _called(service, who, params)
    return None


async def _called(service: Service, who: Principal, params: Mapping[str, Any]) -> dict[str, Any]:
    name, given = str(params.get("name")), params.get("arguments") or {}
    try:
        if name not in TOOLS:
            raise ParameterError(f"there is no tool {name[:60]!r}", did_you_mean(name, TOOLS))
        if not isinstance(given, dict) or set(given) - set(TOOLS[name].takes):
            known = ", ".join(TOOLS[name].takes) or "nothing"
            raise ParameterError("the arguments are not known", f"{name} takes {known}")
        with_quota = who if str(who.quota) else replace(who, quota=QUOTA)
        text, facts = await TOOLS[name].run(service, with_quota, given)
    except SparseqError as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": json.loads(json_text(facts, None)),
        "isError": False,
    }


def _described(name: str, tool: Tool) -> dict[str, Any]:
    schema = {
        "type": "object", "properties": dict(tool.takes), "required": _NEEDED.get(name, []),
        "additionalProperties": False,
    }  # fmt: skip
    hints = {"readOnlyHint": tool.free, "destructiveHint": False, "openWorldHint": False}
    return {
        "name": name, "description": tool.about, "inputSchema": schema, "annotations": hints,
    }  # fmt: skip


def _error(number: Any, code: int, message: str) -> str:
    error = {"code": code, "message": message}
    return json_text({"jsonrpc": "2.0", "id": number, "error": error}, None)


async def over_lines(service: Service, who: Principal, given: TextIO, out: TextIO) -> None:
    """Answer messages that come line by line, until they end: MCP by standard input and output."""
    while line := await asyncio.to_thread(given.readline):
        if line.strip():
            response = await handle(service, who, line)
            if response is not None:
                out.write(response + "\n")
                out.flush()
