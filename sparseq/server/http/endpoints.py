"""An endpoint: its roles, its fields, and the format of its errors.

Errors are JSON: `{"error": {"type", "message", "hint", "charged"}}`, where `charged` is false, or
null if it is unknown. The text never depends on a row.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

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
from sparseq.base.json_text import json_text
from sparseq.server.fields import InputFields, pairs, read_json, read_object, read_texts
from sparseq.server.service import Service, no_token
from sparseq.server.tokens import Principal, Role

LOG = logging.getLogger("sparseq.server")
MOST_BODY = 2 << 20
"""The maximum bytes of a request, except one with rows."""
PATIENCE = 60.0
"""Seconds within which a request must arrive; of one with rows, each part."""
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
    """One request of a signed-in user.

    Attributes:
        public: The server's address for browsers, if it was declared.
        given: The fields of the path, the query string and the body, as the endpoint declares them.
    """

    request: Request
    service: Service
    who: Principal
    public: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)

    async def body(self, most: int = MOST_BODY) -> bytes:
        """Return the body of the request.

        Raises:
            ServerError: It is too large, or takes too long.
        """
        return await body_of(self.request, most)

    async def reading(self, endpoint: Endpoint) -> Call:
        """Return the call with the fields that the endpoint declares.

        Raises:
            ParameterError: A field is wrong; `ServerError`: see `body`.
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
    """Yield the body of a request, part by part.

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
    """Return the body of a request; see `Call.body`."""

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
        method, path: The method and the path.
        handler: Answers; the first line of its docstring describes it.
        roles: The roles that may call it.
        takes: Fields of the body, JSON.
        gives: The response, by media type.
        query: Fields of the query string.
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
    """Return the token's holder; raise `ServerError`. A missing token does not count as wrong."""
    if not secret:
        raise no_token()
    try:
        who = service.signed_in(secret, source=f"http {peer(request)}")
    except ServerError:
        await service.write(service.door.wrong, "http", peer(request))
        raise
    request.state.who = who  # for the log
    return who


def peer(request: Request) -> str:
    """Return the address of a client."""
    return request.client.host if request.client else ""


def from_here(request: Request, public: str = "") -> bool:
    """Tell whether a browser's request came from these pages: no other site can send one.

    The browser itself reports it (`Sec-Fetch-Site`), behind any proxies; no page can change that. A
    browser without this header names the page's origin, which must be the requested host, or
    `public`: the address for browsers, if a proxy uses another name.

    Args:
        request: The request.
        public: The address, such as https://numbers.example.org.
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
    """Return the result of work; cancel it if the client disconnects."""
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
