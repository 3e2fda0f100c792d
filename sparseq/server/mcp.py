"""Tools for agents: the subset of the Model Context Protocol that tools need (JSON-RPC 2.0).

An agent gets every number with its interval in words, because an agent that overlooks the interval
reports the number wrongly. A token without a quota has `QUOTA` here.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, BinaryIO, TextIO

import sparseq
from sparseq.answers.answer import Answer
from sparseq.answers.answer_texts import terminal_text
from sparseq.base.errors import ParameterError, SparseqError, did_you_mean
from sparseq.base.json_text import json_text
from sparseq.question.catalog import TIME_TYPES, bound_text
from sparseq.question.plan import Options
from sparseq.released.result_columns import other_names
from sparseq.server.fields import (
    NUMBER,
    OPTION_FIELDS,
    InputField,
    InputFields,
    InputType,
    object_schema,
    read_json,
    read_object,
)
from sparseq.server.service import MOST_ID, Service, Statement
from sparseq.server.tokens import Principal, Quota

LOG = logging.getLogger("sparseq.server")
QUOTA = Quota.parse("20/day,25%")
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
MOST_ROWS = 200
"""Rows of an answer for an agent; its table has the first 40."""
INSTRUCTIONS = """\
Ask about people, privately. Only SELECTs that aggregate (count, sum, avg, histogram, GROUP BY) are
answered. First look: `tables` and `explain` are free, and so is `answers`, what was asked already.
`ask` is charged to the people in the rows that it reads; the same thing in other words is waste.
Every number x stands between x_low and x_high, or what `names` says instead: the truth about
everybody is in there with the stated confidence, and nothing more is known. Never report x without
its interval. Two numbers differ only if their intervals don't meet. If an error comes back, its
hint says what to write instead."""
MOST_LINE = 2 << 20
"""The maximum bytes of a message."""
MOST_AT_ONCE = 128
"""Messages that are answered in parallel; further ones are not read yet."""
_SQL = InputField(
    InputType.TEXT, needed=True, about="One SELECT that aggregates, in DuckDB's dialect."
)
_PARSE, _INVALID, _NOT_FOUND, _PARAMETERS, _FAILED = -32700, -32600, -32601, -32602, -32603

Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class Tool:
    """One tool: its purpose, its fields, and its function."""

    about: str
    takes: InputFields
    run: Callable[[Service, Principal, Arguments], Awaitable[tuple[str, Any]]]
    free: bool = True


async def _tables(service: Service, who: Principal, given: Arguments) -> tuple[str, Any]:
    facts = [
        {
            "table": table.name,
            "about_people": table.private,
            "columns": [
                {
                    "name": c.name,
                    "type": c.shown,
                    "not_null": c.not_null,
                    "bounds": [bound_text(c, end) for end in c.bounds]
                    if c.bounds and c.type in TIME_TYPES
                    else c.bounds,
                    "keys": c.keys,
                }
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
    charge = f"{reply.answer.facts.charge:g} each at most"
    return _told(reply.answer, f"People were charged for it and its pilots: {charge}.")


async def _answers(service: Service, who: Principal, given: Arguments) -> tuple[str, Any]:
    service.check(who)
    word = given["contains"].lower()
    fitting = (one for one in reversed(service.latest.held) if word in one.query.lower())
    found = [{"release": one.id, "query": one.query} for one in islice(fitting, given["last"])]
    lines = [f"{one['release']}: {one['query']}" for one in found]
    return "\n".join(lines) or "nothing was answered yet", {"answers": found}


async def _answer(service: Service, who: Principal, given: Arguments) -> tuple[str, Any]:
    return _told(await service.release(who, given["release"]), "Reading it again is free.")


TOOLS = {
    "tables": Tool("Tables and columns, with what is declared about them. Free.", {}, _tables),
    "explain": Tool(
        "What a question would be: its price, and about how wide its intervals. Free.",
        {"sql": _SQL},
        _explain,
    ),
    "ask": Tool(
        "Ask one question. It is charged to the people in the rows that it reads.",
        {
            "sql": _SQL,
            **OPTION_FIELDS,
            "request_id": InputField(
                InputType.TEXT, 0, MOST_ID, "", about="Send it again to get the same answer, free."
            ),
        },
        _ask,
        free=False,
    ),
    "answers": Tool(
        "What was answered already, newest first. Free.",
        {
            "contains": InputField(InputType.TEXT, 0, 1000, "", about="A word of the question."),
            "last": InputField(InputType.WHOLE, 1, MOST_ROWS, 20),
        },
        _answers,
    ),
    "answer": Tool("An earlier answer, by its number. Free.", {"release": NUMBER}, _answer),
}


def _statement(given: Arguments) -> Statement:
    options = Options(**{name: given[name] for name in OPTION_FIELDS if name in given})
    return Statement(given["sql"], options=options, request_id=given.get("request_id", ""))


def _told(answer: Answer, about: str) -> tuple[str, Any]:
    """Return an answer in words with all warnings, and as data."""
    rows = answer.arrow().slice(0, MOST_ROWS).to_pylist()
    whole = answer.showing(None).arrow()  # an agent needs the intervals
    text = f"{terminal_text(whole, answer.facts, 200)}\n{about}"
    facts = {"release": answer.facts.release, "confidence": answer.facts.confidence, "rows": rows}
    if names := other_names(whole):
        facts["names"] = names
    return text, facts


async def handle(service: Service, who: Principal, text: str | bytes) -> str | None:
    """Return the response to one message of JSON-RPC; None: it is a notification.

    Every message gets a response: only errors that end the task are raised.
    """
    try:
        message = read_json(text)
    except ParameterError as error:
        return _error(None, _PARSE, error.message)
    number = message.get("id") if isinstance(message, dict) else None
    if (
        not isinstance(message, dict)
        or not isinstance(message.get("method"), str)
        or isinstance(number, bool)
        or not isinstance(number, str | int | float | None)
    ):
        return _error(None, _INVALID, "the message is not a request")
    method, params = message["method"], message.get("params")
    if method == "notifications/cancelled" and isinstance(params, dict):
        service.cancel(who, json.dumps(params.get("requestId")))
    if "id" not in message:
        return None
    try:
        if not isinstance(params, dict | None):
            raise ParameterError("params is not an object", "leave it out, or give its fields")
        with service.cancellable(who, json.dumps(number)):
            result = await _result(service, who, method, params or {})
    except ParameterError as error:
        return _error(number, _PARAMETERS, str(error))
    except Exception:
        LOG.exception("a message failed")
        return _error(number, _FAILED, "the server failed; its operator finds why in its log")
    if result is None:
        return _error(number, _NOT_FOUND, f"there is no method {method[:60]!r}")
    return json_text({"jsonrpc": "2.0", "id": number, "result": result}, None)


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
        return {"tools": [_describe(name, tool) for name, tool in TOOLS.items()]}
    if method == "tools/call":
        return await _call(service, who, params)
    return None


async def _call(service: Service, who: Principal, params: Mapping[str, Any]) -> dict[str, Any]:
    """Call a tool; `ParameterError`: the tool does not exist, or its arguments are wrong."""
    tool, given = _chosen(params)
    try:
        with_quota = who if str(who.quota) else replace(who, quota=QUOTA)
        text, facts = await tool.run(service, with_quota, given)
    except SparseqError as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": json.loads(json_text(facts, None)),
        "isError": False,
    }


def _chosen(params: Mapping[str, Any]) -> tuple[Tool, dict[str, Any]]:
    name, given = params.get("name"), params.get("arguments")
    if not isinstance(name, str) or name not in TOOLS:
        said = repr(name[:60]) if isinstance(name, str) else "without a name"
        raise ParameterError(f"there is no tool {said}", did_you_mean(str(name)[:60], TOOLS))
    tool = TOOLS[name]
    return tool, read_object(tool.takes, {} if given is None else given)


def _describe(name: str, tool: Tool) -> dict[str, Any]:
    hints = {"readOnlyHint": tool.free, "destructiveHint": False, "openWorldHint": False}
    return {
        "name": name,
        "description": tool.about,
        "inputSchema": object_schema(tool.takes),
        "annotations": hints,
    }


def _error(number: Any, code: int, message: str) -> str:
    error = {"code": code, "message": message}
    return json_text({"jsonrpc": "2.0", "id": number, "error": error}, None)


async def over_lines(
    answer: Callable[[bytes], Awaitable[str | None]], given: BinaryIO, out: TextIO
) -> None:
    """Answer messages that come line by line, until they end: MCP by standard input and output.

    A long request does not block the next lines: one of them may cancel it.

    Args:
        answer: Returns the response to a message; None: there is none.
        given, out: The input of messages, and the output of responses.
    """

    async def respond(line: bytes) -> None:
        if len(line) > MOST_LINE:
            response: str | None = _error(None, _INVALID, f"{MOST_LINE:,} bytes at most")
        else:
            response = await answer(line) if line.strip() else None
        if response is not None:
            out.write(response + "\n")
            out.flush()

    room = asyncio.Semaphore(MOST_AT_ONCE)
    async with asyncio.TaskGroup() as running:
        while line := await asyncio.to_thread(given.readline, MOST_LINE + 1):
            await room.acquire()
            running.create_task(respond(line)).add_done_callback(lambda _: room.release())
            part, long = line, len(line) > MOST_LINE
            while long and part and not part.endswith(b"\n"):
                part = await asyncio.to_thread(given.readline, MOST_LINE)


def told(text: bytes, error: SparseqError) -> str | None:
    """Return the response to a message that could not be passed to a server."""
    try:
        message = read_json(text)
    except ParameterError as wrong:
        return _error(None, _PARSE, wrong.message)
    known = isinstance(message, dict)
    if known and "id" not in message:
        return None
    return _error(message["id"] if known else None, _FAILED, str(error))
