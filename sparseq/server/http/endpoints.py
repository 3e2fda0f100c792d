"""An endpoint: who may call it, what it takes, and what a failure looks like.

Errors are JSON: `{"error": {"type", "message", "hint", "charged"}}`, where `charged` is false, or
null where nobody can tell. What is said never depends on a row.

Limits of connections that uvicorn does not have: of heads, and of clients that are slow.

Heads are read by h11, in Python: it bounds a head as a whole, and refuses what is not HTTP.
(uvicorn's other parser, httptools, keeps a head of any length in memory.) What is added here is
time: a head has to be there, and an answer to be read, within so many seconds. Bodies have
`PATIENCE`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any

import h11
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from sparseq.base.errors import (
    DataError,
    ParameterError,
    QueryCancelError,
    QueryRefused,
    ServerError,
    SparseqError,
    TimedOut,
    Why,
)
from sparseq.base.texts import json_text
from sparseq.server.fields import InputFields, pairs, read_json, read_object, read_texts
from sparseq.server.service import Service, no_token
from sparseq.server.tokens import Principal, Role

# -- an endpoint: who may call it, what it takes, and what a failure looks like --------------------

LOG = logging.getLogger("sparseq.server")
MOST_BODY = 2 << 20
"""Bytes of a request, but of one that brings rows."""
PATIENCE = 60.0
"""Seconds that a request may take to arrive; one that brings rows, each part of it."""
EVERYBODY = (Role.ANALYST, Role.CURATOR, Role.MONITOR)
_STATUS = {
    Why.SIGN_IN: 401,
    Why.ROLE: 403,
    Why.QUOTA: 429,
    Why.BUSY: 503,
    Why.CLOSING: 503,
    Why.SIZE: 413,
    Why.ABSENT: 404,
    Why.FAILED: 500,
}


@dataclass(frozen=True)
class Call:
    """One request of somebody who has signed in.

    Attributes:
        public: Where browsers find the server, if that was said.
        given: Fields of the path, the address's query and the body, as the endpoint takes them.
    """

    request: Request
    service: Service
    who: Principal
    public: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)

    async def body(self, most: int = MOST_BODY) -> bytes:
        """Return what was sent.

        Raises:
            ServerError: It is too large, or takes too long.
        """
        return await body_of(self.request, most)

    async def reading(self, endpoint: Endpoint) -> Call:
        """Return the call with the fields that the endpoint takes.

        Raises:
            ParameterError: One of them is wrong; `ServerError`: see `body`.
        """
        query = read_texts(endpoint.query, pairs(self.request.scope["query_string"]))
        path = read_texts(endpoint.path_fields, self.request.path_params.items())
        body: dict[str, Any] = {}
        if endpoint.takes:
            body = read_object(endpoint.takes, read_json(await self.body()))
        elif endpoint.form:
            form = [(name, text.replace("\r\n", "\n")) for name, text in pairs(await self.body())]
            body = read_texts(endpoint.form, form)
        return replace(self, given={**query, **path, **body})


async def parts_of(request: Request, most: int) -> AsyncIterator[bytes]:
    """Yield what is sent with a request, part by part.

    Raises:
        ServerError: It is too large, or a part takes too long.
    """
    size, stream = 0, request.stream().__aiter__()
    while True:
        try:
            part = await asyncio.wait_for(anext(stream), PATIENCE)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise _late() from None
        size += len(part)
        if size > most:
            raise ServerError(Why.SIZE, f"a request has {most:,} bytes at most")
        yield part


async def body_of(request: Request, most: int) -> bytes:
    """Return what was sent with a request; see `Call.body`."""

    async def read() -> bytes:
        return b"".join([part async for part in parts_of(request, most)])

    try:
        return await asyncio.wait_for(read(), PATIENCE)
    except TimeoutError:
        raise _late() from None


def _late() -> ServerError:
    return ServerError(Why.SIZE, f"the request took more than {PATIENCE:g} s to arrive")


Handler = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True)
class Endpoint:
    """One address.

    Attributes:
        method, path: Where it is.
        handler: Answers; the first line of its docstring says what it does.
        roles: Who may call it.
        takes: Fields of the body, JSON.
        gives: What comes back, by media type.
        query: Fields of the address's query.
        path_fields: Fields of the path.
        form: Fields of the body, a form of a page.
    """

    method: str
    path: str
    handler: Handler
    roles: tuple[Role, ...] = EVERYBODY
    takes: InputFields = field(default_factory=dict)
    gives: tuple[str, ...] = ("application/json",)
    query: InputFields = field(default_factory=dict)
    path_fields: InputFields = field(default_factory=dict)
    form: InputFields = field(default_factory=dict)

    @property
    def about(self) -> str:
        """Its purpose, in a line."""
        return (self.handler.__doc__ or "").strip().split("\n")[0]


async def signed_in(request: Request, service: Service, secret: str) -> Principal:
    """Return who it is; raises `ServerError`. Without a token nothing is counted as wrong."""
    if not secret:
        raise no_token()
    try:
        return service.signed_in(secret, source=f"http {peer(request)}")
    except ServerError:
        await service.write(service.door.wrong, "http", peer(request))
        raise


def peer(request: Request) -> str:
    """Return where a request comes from."""
    return request.client.host if request.client else ""


def from_here(request: Request, public: str = "") -> bool:
    """Tell whether a request of a browser came from these very pages: no other site can send one.

    A browser says so itself (`Sec-Fetch-Site`), whatever proxies stand between; no page can change
    that. One that does not say names the page's origin, which has to be the host that was asked, or
    `public`: where browsers find this server, if a proxy asks for it by another name.

    Args:
        request: It.
        public: Such as https://numbers.example.org.
    """
    headers: Mapping[str, str] = request.headers
    said = headers.get("sec-fetch-site")
    if said is not None:
        return said == "same-origin"
    origin, host = headers.get("origin", ""), headers.get("host", "")
    if not origin or origin == "null":
        return False
    scheme, _, place = origin.partition("://")
    usual = {"https": ":443", "http": ":80"}.get(scheme, "")
    return origin == public or place == host or place + usual == host


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
    elif isinstance(error, TimedOut):
        status, kind = 504, "timeout"
    elif isinstance(error, QueryCancelError):
        status, kind = 503, "cancelled"
    else:
        LOG.error("a request failed", exc_info=error)
        error = SparseqError("the server failed", "its operator finds the reason in its log")
        status, kind, charged = 500, "failed", None
    assert isinstance(error, SparseqError)
    facts = {"type": kind, "message": error.message, "hint": error.hint, "charged": charged}
    return as_json({"error": facts}, status, headers)


async def cancel_if_gone(request: Request, work: Awaitable[Any]) -> Any:
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


# -- limits of connections that uvicorn does not have: of heads, and of clients that are slow ------

MOST_HEAD = 64 << 10
"""Bytes of a head, with its first line."""
MOST_HEADERS = 100
"""Lines of a head."""
HEAD_SECONDS = 20.0
"""Until a head is there, from the connection's begin or the answer before."""
WRITE_SECONDS = 60.0
"""In which a client reads some of its answer, at least."""
KEEP_SECONDS = 5
"""That a connection stays without a request."""

_App = Callable[..., Awaitable[None]]


class LimitedProtocol(H11Protocol):  # type: ignore[misc]
    """HTTP/1.1, with limits of time."""

    _waits: asyncio.TimerHandle | None = None
    _writes: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """See asyncio; a head is waited for."""
        super().connection_made(transport)
        self._look()

    def handle_events(self) -> None:
        """Read what came, and see whether a head is waited for still."""
        super().handle_events()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        super().connection_lost(exc)
        for timer in (self._waits, self._writes):
            if timer is not None:
                timer.cancel()

    def pause_writing(self) -> None:
        """See asyncio: the client does not read."""
        super().pause_writing()
        self._wait_for_reads(self.transport.get_write_buffer_size() + 1)

    def resume_writing(self) -> None:
        """See asyncio: it does."""
        super().resume_writing()
        if self._writes is not None:
            self._writes.cancel()

    def _wait_for_reads(self, left: int) -> None:
        """End the connection if nothing of what is left is read in time."""
        now = self.transport.get_write_buffer_size()
        if now >= left:
            self.transport.abort()
        else:
            self._writes = self.loop.call_later(WRITE_SECONDS, self._wait_for_reads, now)

    def _look(self) -> None:
        """Wait for a head, or the rest of a body that nobody reads, no longer than stated."""
        waits = self.conn.their_state is h11.IDLE or self.conn.our_state is h11.DONE
        if waits and self._waits is None:
            self._waits = self.loop.call_later(HEAD_SECONDS, self.transport.abort)
        elif not waits and self._waits is not None:
            self._waits.cancel()
            self._waits = None


def with_few_headers(app: _App) -> _App:
    """Return an application that refuses heads of too many lines."""

    async def limited(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if len(scope.get("headers", ())) > MOST_HEADERS:
            refused = failure(ServerError(Why.SIZE, f"a head has {MOST_HEADERS} lines at most"))
            refused.status_code = 431
            await refused(scope, receive, send)
            return
        await app(scope, receive, send)

    return limited
