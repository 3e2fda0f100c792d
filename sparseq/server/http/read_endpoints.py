"""Reading over HTTP: the catalogue, releases, series, the budget, events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response, StreamingResponse

from sparseq.base.errors import ServerError, Why
from sparseq.ledger.releases import Release
from sparseq.ledger.request_id import Asker
from sparseq.server.fields import InputField, InputType
from sparseq.server.http.endpoints import Call, as_json
from sparseq.server.http.question_endpoints import chosen, encode_answer
from sparseq.server.releases import find_asker
from sparseq.server.service import Service
from sparseq.store.store_promise import NOTES

_ALIVE = 15.0  # seconds after which a stream of events sends a sign of life
_MOST_LISTED = 1000
BEFORE = {"before": InputField(InputType.WHOLE, 1, 10**9)}
LISTED = BEFORE | {"last": InputField(InputType.WHOLE, 1, _MOST_LISTED, default=100)}
NOTED = {
    name: InputField(InputType.TEXT, most=2000, default="", about=about)
    for name, about in NOTES.items()
}
_SEEN = InputField(InputType.WHOLE, 0, 10**15)
_MOST_STREAMS = 8  # streams of events of one token
_streams: dict[str, int] = {}


async def catalog(call: Call) -> Response:
    """The tables and columns, with the declared keys and bounds."""
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
    """The series of monitors: for each its ticks, with their releases."""
    return as_json(series_data(call.service))


async def budget(call: Call) -> Response:
    """Return the guarantee for all answers together, and the progress of the stream."""
    return as_json(await call.service.budget(call.who))


async def card(call: Call) -> Response:
    """Return the deployment card: what is promised to whom, and what was asked."""
    notes = {name: call.given[name] for name in NOTED if call.given[name]}
    return as_json(await call.service.card(call.who, notes))


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
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},  # for nginx in front
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
