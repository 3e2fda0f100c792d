"""Asking over HTTP: a query, and what it would be."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from sparseq.answer import Answer
from sparseq.csv_text import answer_csv
from sparseq.errors import ParameterError
from sparseq.json_text import json_text
from sparseq.pictures.answer_texts import said
from sparseq.plain_facts import answer_facts
from sparseq.query.plan import KNOWN_OPTIONS, Options
from sparseq.server.http.endpoints import Call, as_json, while_connected
from sparseq.server.service import Statement

ARROW = "application/vnd.apache.arrow.stream"
FORMATS = ("application/json", ARROW, "text/csv")
TAKES = {
    "sql": "string", "params": "array or object", **dict.fromkeys(KNOWN_OPTIONS, "number"),
    "timeout": "number", "fresh": "boolean",
}  # fmt: skip
MOST_SECONDS = 3600.0


async def query(call: Call) -> Response:
    """Ask one SELECT that aggregates; charges the people in the rows that it reads.

    `Idempotency-Key` names the request in your own namespace: sent again it returns the recorded
    answer, free. `Accept` chooses JSON, an Arrow stream or CSV.
    """
    fields = await call.fields(*TAKES)
    wanted = statement(fields, call.request.headers.get("idempotency-key", ""))
    kind = chosen(call.request.headers.get("accept", ""))
    seconds = numeric(fields, "timeout")
    if seconds is not None and not 0 < seconds <= MOST_SECONDS:
        raise ParameterError(f"timeout is {seconds!r}", f"seconds, up to {MOST_SECONDS:g}")
    asked = call.service.ask(call.who, wanted)
    reply = await while_connected(call.request, asyncio.wait_for(asked, seconds))
    return await encoded(reply.answer, kind, reply.repeat)


async def explain(call: Call) -> Response:
    """Say what a query would be, how wide its intervals and what its price: free."""
    wanted = statement(await call.fields(*TAKES))
    found = await call.service.explain(call.who, wanted)
    columns = await call.service.describe(call.who, wanted)
    named = [{"name": field.name, "type": str(field.type)} for field in columns]
    return as_json(found.facts | {"columns": named, "text": repr(found)})


def statement(fields: dict[str, Any], request_id: str = "") -> Statement:
    """Return what is asked, of a body's fields.

    Raises:
        ParameterError: A field is missing, or is not of its type.
    """
    sql, params = fields.get("sql"), fields.get("params")
    if not isinstance(sql, str) or not sql.strip():
        raise ParameterError("there is no query", 'send {"sql": "SELECT …"}')
    if params is not None and not isinstance(params, list | dict):
        raise ParameterError("params are neither a list nor an object", "by place, or by name")
    options = Options(**{name: numeric(fields, name) for name in KNOWN_OPTIONS})
    fresh = fields.get("fresh", False)
    if not isinstance(fresh, bool):
        raise ParameterError(f"fresh is {str(fresh)[:40]!r}", "send true or false")
    return Statement(sql, params, options, request_id, fresh)


def numeric(fields: dict[str, Any], name: str) -> float | None:
    """Return a number that was sent; None: it was not."""
    found = fields.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise ParameterError(f"{name} is {str(found)[:40]!r}", "send a number")
    return float(found) if abs(found) < 1e300 else float("inf")


def chosen(accept: str) -> str:
    """Return the first format that is known, of those that a client accepts.

    >>> chosen("text/html, text/csv;q=0.5"), chosen("*/*")
    ('text/csv', 'application/json')
    """
    kinds = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    return next((kind for kind in kinds if kind in FORMATS), FORMATS[0])


async def encoded(answer: Answer, kind: str, repeat: bool) -> Response:
    """Return an answer in a format; a large one is not written while others wait."""
    headers = {
        "X-Sparseq-Release": str(answer.facts.release),
        "X-Sparseq-Repeat": str(repeat).lower(),
    }
    write = asyncio.to_thread if len(answer) > 1000 else _now
    return Response(await write(_written, answer, kind, repeat), 200, headers, kind)


async def _now(f: Any, *args: Any) -> Any:
    return f(*args)


def _written(answer: Answer, kind: str, repeat: bool) -> str | bytes:
    if kind == ARROW:
        return answer.to_bytes()
    if kind == "text/csv":
        return answer_csv(answer.arrow()) + "\n"
    return json_text(answer_data(answer, repeat), None)


def answer_data(answer: Answer, repeat: bool) -> dict[str, Any]:
    """Return an answer as plain data, with what nobody may overlook in words."""
    return answer_facts(answer) | {"repeat": repeat, "said": said(answer.facts)}
