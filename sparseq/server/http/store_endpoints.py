"""Asking over HTTP: a query, and what it would be.

A curator's endpoints: bring rows, make tokens, read the audit log, make backups.

What these answer may be exact and private: they are for the curator's role alone.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import tempfile
from collections.abc import AsyncIterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from starlette.responses import Response, StreamingResponse

from sparseq.base.cancellation import Cancellation
from sparseq.base.errors import ParameterError, ServerError, Why
from sparseq.base.texts import json_text
from sparseq.ledger.notes import Asker
from sparseq.ledger.protocol import Release
from sparseq.load.open_sources import readable_format
from sparseq.pictures.answer_texts import answer_csv, said
from sparseq.server.fields import OPTION_FIELDS, InputField, InputType
from sparseq.server.http.endpoints import Call, as_json, cancel_if_gone, parts_of
from sparseq.server.releases import find_asker
from sparseq.server.service import Service, Statement
from sparseq.server.tokens import Quota, Role
from sparseq.sql.plan import Options
from sparseq.store._duckdb.backup import Backup, backup
from sparseq.store.answer import Answer
from sparseq.store.store import Store
from sparseq.store.store_promise import answer_facts

# -- asking over HTTP: a query, and what it would be -----------------------------------------------

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
    """Ask one SELECT that aggregates; charges the people in the rows that it reads.

    `Idempotency-Key` names the request in your own namespace: sent again it returns the recorded
    answer, free. `Accept` chooses JSON, an Arrow stream or CSV.
    """
    wanted = _statement(call, call.request.headers.get("idempotency-key", ""))
    kind = chosen(call.request.headers.get("accept", ""))
    with Cancellation(call.given["timeout"]):
        reply = await cancel_if_gone(call.request, call.service.ask(call.who, wanted))
    return await encode_answer(reply.answer, kind, reply.repeat)


async def explain(call: Call) -> Response:
    """Say what a query would be, how wide its intervals and what its price: free."""
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
    """Return the first format that is known, of those that a client accepts.

    >>> chosen("text/html, text/csv;q=0.5"), chosen("*/*")
    ('text/csv', 'application/json')
    """
    kinds = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    return next((kind for kind in kinds if kind in FORMATS), FORMATS[0])


async def encode_answer(answer: Answer, kind: str, repeat: bool) -> Response:
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
    words = said(answer.showing(None).arrow(), answer.facts)
    return answer_facts(answer) | {"repeat": repeat, "said": words}


# -- reading over HTTP -----------------------------------------------------------------------------

_ALIVE = 15.0  # seconds after which a stream of events says that it is there
_MOST_LISTED = 1000
BEFORE = {"before": InputField(InputType.WHOLE, 1, 10**9)}
LISTED = BEFORE | {"last": InputField(InputType.WHOLE, 1, _MOST_LISTED, default=100)}
_SEEN = InputField(InputType.WHOLE, 0, 10**15)
_MOST_STREAMS = 8  # of events, of one token
_streams: dict[str, int] = {}


async def catalog(call: Call) -> Response:
    """The tables and columns, with the keys and bounds that were declared."""
    return as_json(call.service.catalog.to_dict())


async def releases(call: Call) -> Response:
    """List the answers, newest first; `?last=`, `?before=` a release."""
    before = call.given["before"] or len(call.service.latest) + 1
    found = await call.service.listed(call.who, before, call.given["last"])
    return as_json([release_data(r) for r in reversed(found)])


async def release(call: Call) -> Response:
    """One recorded answer, in the format of `Accept`."""
    answer = await call.service.release(call.who, call.given["number"])
    return await encode_answer(answer, chosen(call.request.headers.get("accept", "")), True)


async def series(call: Call) -> Response:
    """The series of monitors: for each its ticks, with the releases that answered them."""
    return as_json(series_data(call.service))


async def budget(call: Call) -> Response:
    """Return what is promised about all answers together, and how far the stream has come."""
    return as_json(await call.service.call(call.who, Store.budget))


async def events(call: Call) -> Response:
    """A stream of server-sent events: `release` for each new answer, from `Last-Event-ID` on."""
    if _streams.get(call.who.name, 0) >= _MOST_STREAMS:
        raise ServerError(Why.BUSY, f"{_MOST_STREAMS} streams of events are open already")
    given = call.request.headers.get("last-event-id", "")
    there = len(call.service.latest)
    seen = _SEEN.read_text("Last-Event-ID", given) if given else there
    return StreamingResponse(
        _events(call, min(seen, there)),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},  # of nginx in front
    )


async def _events(call: Call, seen: int) -> AsyncIterator[str]:
    service, name = call.service, call.who.name
    _streams[name] = _streams.get(name, 0) + 1
    try:
        yield ": sparseq\n\n"
        while not service.stopping.is_set():
            try:
                await asyncio.wait_for(service.grown(seen), _ALIVE)
            except TimeoutError:
                yield ": alive\n\n"
            if not service.tokens.holds(call.who):
                return  # revoked meanwhile
            until = min(len(service.latest), seen + _MOST_LISTED)
            for one in await service.listed(call.who, until + 1, until - seen):
                seen = one.id
                yield f"event: release\nid: {seen}\ndata: {json.dumps(release_data(one))}\n\n"
    finally:
        _streams[name] -= 1


def release_data(release: Release) -> dict[str, Any]:
    """Return a release, without its answer, as plain data."""
    return {
        "release": release.id,
        "released_at": release.released_at.isoformat(timespec="seconds") + "Z",
        "request_id": release.request_id,
        "asked_by": release.asker.value,
        "query": release.query,
        "coordinates": release.coordinates,
        "confidence": release.confidence,
        "root": release.root or None,
    }


def series_data(service: Service) -> list[dict[str, Any]]:
    """Return the series of monitors among the latest releases, with their ticks in order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for one in service.latest.held:
        if one.asker is Asker.MONITOR and one.request is not None:
            tick = one.request.text.partition("/")[2]
            found.setdefault(find_asker(one), []).append({"tick": tick, "release": one.id})
    return [{"series": name, "ticks": ticks} for name, ticks in sorted(found.items())]


# -- a curator's endpoints: bring rows, make tokens, read the audit log, make backups --------------

MOST_ROWS_BODY = 16 << 30
"""Bytes of a file of rows."""
NEW_TOKEN = {
    "name": InputField(InputType.TEXT, 1, 63, needed=True),
    "role": InputField(
        InputType.TEXT, default=Role.ANALYST.value, choices=tuple(r.value for r in Role)
    ),
    "quota": InputField(InputType.TEXT, most=63, default=""),
}
TOKEN = NEW_TOKEN | {"days": InputField(InputType.WHOLE, 1, 36500)}
NAME = {"name": InputField(InputType.TEXT, 1, 100, needed=True)}
ROWS = {
    "name": InputField(
        InputType.TEXT, 1, 255, needed=True, about="the file's, such as ?name=march.parquet"
    ),
    "table": InputField(InputType.TEXT, 1, 255),
    "once": InputField(InputType.TEXT, 1, 255),
}
AUDITED = {"last": InputField(InputType.WHOLE, 1, 10_000, default=100)}


async def ingest(call: Call) -> Response:
    """Add the rows of a file, the body: all of them or none. `?name=march.csv`, `?table=`.

    `?once=KEY` stands for these rows: sent again under it, nothing is loaded twice.
    """
    table, once = call.given["table"], call.given["once"]
    named = Path(call.given["name"]).name
    if not readable_format(Path(named)):
        raise ParameterError(
            f"name is {named[:60]!r}",
            "give the file's, such as ?name=march.parquet: it says how the body is read",
        )
    folder = await asyncio.to_thread(partial(tempfile.TemporaryDirectory, prefix="sparseq"))
    try:
        path, size = Path(folder.name) / named, 0
        with await asyncio.to_thread(path.open, "wb") as file:
            async for part in parts_of(call.request, MOST_ROWS_BODY):
                size += await asyncio.to_thread(file.write, part)

        def load(store: Store) -> dict[str, Any]:
            told = len(store.curator_notes())
            rows = store.ingest(path, table, once=once)
            return {"rows": rows, "notes": store.curator_notes()[told:]}

        done = await call.service.call(call.who, load)
    finally:
        await asyncio.to_thread(folder.cleanup)
    await call.service.note(call.who, "ingested", file=named, table=table or "", bytes=size)
    return as_json(done)


async def tokens(call: Call) -> Response:
    """The tokens: names, roles, quotas; never a token."""
    return as_json(call.service.tokens.every())


async def make_token(call: Call) -> Response:
    """Make a token, and show it this once. `days` is how long it is valid."""
    days = call.given["days"]
    made = await create_token(call, None if days is None else dt.timedelta(days=days))
    return as_json({"name": call.given["name"], "token": made}, 201)


async def create_token(call: Call, expires: dt.timedelta | None = None) -> str:
    """Make the token that a call is for, and write that down."""
    name, role, quota = (call.given[key] for key in NEW_TOKEN)
    make = call.service.tokens.create
    made = await call.service.write(make, name, Role(role), Quota.parse(quota), expires)
    await call.service.note(call.who, "token made", token=name, role=role, quota=quota)
    return made


async def revoke_token(call: Call) -> Response:
    """End a name's token at once, in open connections too."""
    if not await revoked(call):
        raise ServerError(Why.ABSENT, f"{call.given['name']!r} has no valid token")
    return as_json({"revoked": call.given["name"]})


async def revoked(call: Call) -> int:
    """Revoke the token that a call is for, and write that down; return how many there were."""
    name = call.given["name"]
    ended = await call.service.write(call.service.tokens.revoke, name)
    if ended:
        await call.service.note(call.who, "token revoked", token=name)
    return ended


async def jobs(call: Call) -> Response:
    """List what the server does by itself, and how far it is."""
    return as_json([asdict(state) for state in call.service.jobs])


async def audit(call: Call) -> Response:
    """The last lines of the audit log, newest first; `?last=`."""
    lines = await call.service.audited(call.given["last"])
    return await asyncio.to_thread(as_json, lines)


async def make_backup(call: Call) -> Response:
    """Write a whole copy of the store into the server's folder of backups."""
    folder = call.service.backups
    if folder is None:
        raise ParameterError("the server has no folder of backups", "sparseq serve --backups DIR")
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H%M%S")
    path = folder / f"{call.service.name}-{now}.sparseq"

    def copy(store: Store) -> Backup:
        if path.exists():
            raise ServerError(
                Why.BUSY, "a backup was made in this very second", "wait a second, then ask again"
            )
        return backup(store, path)

    made: Backup = await call.service.call(call.who, copy)
    await call.service.note(call.who, "backup", file=path.name)
    return Response(json_text({"file": path.name} | asdict(made), None), 201)
