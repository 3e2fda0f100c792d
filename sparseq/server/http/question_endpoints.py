"""Asking over HTTP: a query, and its explanation."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from sparseq.answers.answer import Answer
from sparseq.answers.answer_exports import answer_csv
from sparseq.answers.answer_texts import said
from sparseq.base.cancellation import Cancellation
from sparseq.base.json_text import json_text
from sparseq.question.plan import Options
from sparseq.server.fields import OPTION_FIELDS, InputField, InputType
from sparseq.server.http.endpoints import Call, as_json, cancel_if_gone
from sparseq.server.service import Statement
from sparseq.store.release_facts import answer_facts

ARROW = "application/vnd.apache.arrow.stream"
FORMATS = ("application/json", ARROW, "text/csv")
MOST_SECONDS = 3600
SQL = InputField(InputType.TEXT, needed=True, about="one SELECT that aggregates")
TAKES = {
    "sql": SQL,
    "params": InputField(InputType.VALUES),
    **OPTION_FIELDS,
    "timeout": InputField(InputType.NUMBER, 0, MOST_SECONDS, over=True),
    "fresh": InputField(InputType.FLAG, default=False),
}


async def query(call: Call) -> Response:
    """Ask one SELECT that aggregates; charge the users of the rows that it reads.

    `Idempotency-Key` names the request in the client's own namespace: a repetition returns the
    recorded answer, free. `Accept` chooses JSON, an Arrow stream or CSV.
    """
    wanted = _statement(call, call.request.headers.get("idempotency-key", ""))
    kind = chosen(call.request.headers.get("accept", ""))
    with Cancellation(call.given["timeout"]):
        reply = await cancel_if_gone(call.request, call.service.ask(call.who, wanted))
    return await encode_answer(reply.answer, kind, reply.repeat)


async def explain(call: Call) -> Response:
    """Explain a query, with the width of its intervals and its price: free."""
    wanted = _statement(call)
    with Cancellation(call.given["timeout"]):
        found = await cancel_if_gone(call.request, call.service.explain(call.who, wanted))
        columns = await call.service.describe(call.who, wanted)
    named = [{"name": field.name, "type": str(field.type)} for field in columns]
    return as_json(found.facts | {"columns": named, "text": repr(found)})


def _statement(call: Call, request_id: str = "") -> Statement:
    given = call.given
    options = Options(**{name: given[name] for name in OPTION_FIELDS})
    return Statement(given["sql"], given["params"], options, request_id, given["fresh"])


def chosen(accept: str) -> str:
    """Return the first supported format among those that a client accepts.

    >>> chosen("text/html, text/csv;q=0.5"), chosen("*/*")
    ('text/csv', 'application/json')
    """
    kinds = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    return next((kind for kind in kinds if kind in FORMATS), FORMATS[0])


async def encode_answer(answer: Answer, kind: str, repeat: bool) -> Response:
    """Return an answer in a format; a large one is encoded in a thread."""
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
    """Return an answer as plain data, with its warnings in words."""
    words = said(answer.showing(None).arrow(), answer.facts)
    return answer_facts(answer) | {"repeat": repeat, "said": words}
