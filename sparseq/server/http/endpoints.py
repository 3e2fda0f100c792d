"""What an endpoint is: who may call it, what it takes, and what a failure looks like.

Errors are JSON: `{"error": {"type", "message", "hint", "charged"}}`, where `charged` is false, or
null where nobody can tell. What is said never depends on a row.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from sparseq.errors import (
    DataError,
    ParameterError,
    QueryRefused,
    ServerError,
    SparseqError,
    Why,
    did_you_mean,
)
from sparseq.json_text import json_text
from sparseq.server.service import Service
from sparseq.server.tokens import Principal, Role

LOG = logging.getLogger("sparseq.server")
MOST_BODY = 2 << 20
"""Bytes of a request, but of one that brings rows."""
PATIENCE = 60.0
"""Seconds that a request may take to arrive."""
EVERYBODY = (Role.ANALYST, Role.CURATOR, Role.MONITOR)
_STATUS = {
    Why.SIGN_IN: 401, Why.ROLE: 403, Why.QUOTA: 429, Why.BUSY: 503, Why.CLOSING: 503,
    Why.SIZE: 413, Why.ABSENT: 404, Why.FAILED: 500,
}  # fmt: skip
_EXAMPLE = 'for example {"sql": "SELECT …"}'


@dataclass(frozen=True)
class Call:
    """One request of somebody who has signed in."""

    request: Request
    service: Service
    who: Principal

    async def body(self, most: int = MOST_BODY) -> bytes:
        """Return what was sent.

        Raises:
            ServerError: It is too large, or takes too long.
        """
        return await body_of(self.request, most)

    async def fields(self, *known: str) -> dict[str, Any]:
        """Return the JSON object that was sent.

        Raises:
            ParameterError: It is none, or has other fields than these.
        """
        try:
            found = json.loads(await self.body())
        except (ValueError, RecursionError):
            raise ParameterError(
                "the body is not JSON", 'for example {"sql": "SELECT …"}'
            ) from None
        if not isinstance(found, dict):
            raise ParameterError("the body is not a JSON object", _EXAMPLE)
        for name in found:
            if name not in known:
                raise ParameterError(f"there is no field {name!r}", did_you_mean(name, known))
        return found

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Return a whole number of the address, such as `?last=5`."""
        text = self.request.query_params.get(name, str(default))
        if not text.isascii() or not text.isdecimal() or not least <= int(text[:12]) <= most:
            raise ParameterError(f"{name} is {text[:40]!r}", f"a number from {least} to {most:,}")
        return int(text)


async def body_of(request: Request, most: int) -> bytes:
    """Return what was sent with a request; see `Call.body`."""
    parts: list[bytes] = []

    async def read() -> None:
        size = 0
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise ServerError(Why.SIZE, f"a request has {most:,} bytes at most")
            parts.append(part)

    try:
        await asyncio.wait_for(read(), PATIENCE)
    except TimeoutError:
        raise ServerError(
            Why.SIZE, f"the request took more than {PATIENCE:g} s to arrive"
        ) from None
    return b"".join(parts)


Handler = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True)
class Endpoint:
    """One address.

    Attributes:
        method, path: Where it is.
        handler: Answers; the first line of its docstring says what it does.
        roles: Who may call it.
        takes: Fields of the body, name to JSON type.
        gives: What comes back, by media type.
    """

    method: str
    path: str
    handler: Handler
    roles: tuple[Role, ...] = EVERYBODY
    takes: Mapping[str, str] = field(default_factory=dict)
    gives: tuple[str, ...] = ("application/json",)

    @property
    def about(self) -> str:
        """What it does, in a line."""
        return (self.handler.__doc__ or "").strip().split("\n")[0]


def signed_in(request: Request, service: Service, secret: str) -> Principal:
    """Return who it is; raises `ServerError`."""
    try:
        return service.signed_in(secret, source=f"http {peer(request)}")
    except ServerError:
        service.door.wrong("http", peer(request))
        raise


def peer(request: Request) -> str:
    """Return where a request comes from."""
    return request.client.host if request.client else ""


def as_json(facts: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return plain data as a JSON response."""
    return Response(json_text(facts, None), status, dict(headers or {}), "application/json")


def failure(error: BaseException) -> Response:
    """Return an error as JSON."""
    charged: bool | None = False
    headers: dict[str, str] = {}
    if isinstance(error, ServerError):
        status, kind = _STATUS[error.why], str(error.why)
        charged = None if error.why is Why.FAILED else False
        if error.why is Why.SIGN_IN:
            headers["WWW-Authenticate"] = "Bearer"
        if status == 503:
            headers["Retry-After"] = "1"
    elif isinstance(error, QueryRefused | DataError):
        status, kind = 422, type(error).__name__
    elif isinstance(error, ParameterError):
        status, kind = 400, "ParameterError"
    elif isinstance(error, TimeoutError):
        return _timed_out()
    else:
        LOG.error("a request failed", exc_info=error)
        error, status, kind, charged = _broken(), 500, "failed", None
    assert isinstance(error, SparseqError)
    facts = {"type": kind, "message": error.message, "hint": error.hint, "charged": charged}
    return as_json({"error": facts}, status, headers)


def _broken() -> SparseqError:
    return SparseqError("the server failed", "its operator finds the reason in its log")


def _timed_out() -> Response:
    facts = {
        "type": "timeout",
        "message": "the answer took longer than the timeout that was given",
        "hint": "ask again with the same Idempotency-Key: it is charged once at most",
        "charged": None,
    }
    return as_json({"error": facts}, 504)


async def while_connected(request: Request, work: Awaitable[Any]) -> Any:
    """Return what comes of work; cancel it if the client goes away."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
    gone.cancel()
    if not task.done():
        task.cancel()
        raise ClientDisconnect
    return task.result()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
