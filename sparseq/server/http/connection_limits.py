"""Limits of connections that uvicorn lacks: of their number, for heads, and for slow clients.

Heads are parsed by h11, in Python: it bounds a head as a whole, and refuses other protocols than
HTTP. (uvicorn's other parser, httptools, keeps a head of any length in memory.) This module adds
limits of time: for the arrival of a head, and for the reading of an answer. Bodies have `PATIENCE`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from sparseq.base.errors import ServerError, Why
from sparseq.server.http.endpoints import failure
from sparseq.server.open_connections import OpenConnections

MOST_HEAD = 64 << 10
"""The maximum bytes of a head, with its first line."""
MOST_HEADERS = 100
"""The maximum number of lines of a head."""
HEAD_SECONDS = 20.0
"""Seconds for a head to arrive, from the start of the connection or the answer before."""
WRITE_SECONDS = 60.0
"""Seconds within which a client must read a part of its answer."""
KEEP_SECONDS = 5
"""Seconds that a connection stays open without a request."""

FULL = "sparseq.full"
"""The key of a request's scope that tells that users have too many connections."""
ALWAYS = ("/healthz", "/readyz")
"""Addresses that are answered however many connections are open."""
_App = Callable[..., Awaitable[None]]


class LimitedProtocol(H11Protocol):  # type: ignore[misc]
    """HTTP/1.1, with limits of time and number.

    Args:
        connections: The server's.
        given: See `H11Protocol`.
    """

    _file = -1
    _waits: asyncio.TimerHandle | None = None
    _writes: asyncio.TimerHandle | None = None

    def __init__(self, connections: OpenConnections, **given: Any) -> None:
        super().__init__(**given)
        self._open = connections

    def connection_made(self, transport: asyncio.Transport) -> None:
        """See asyncio; waits for a head."""
        super().connection_made(transport)
        self._file = transport.get_extra_info("socket").fileno()
        self._look()

    def handle_events(self) -> None:
        """Process the received bytes, and check whether a head is still incomplete."""
        before = self.scope
        super().handle_events()
        self._look()
        if self.scope is not before and self.scope is not None:
            self.scope[FULL] = not self._open.hold(self._file)

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
        """See asyncio: the client reads again."""
        super().resume_writing()
        if self._writes is not None:
            self._writes.cancel()

    def _wait_for_reads(self, left: int) -> None:
        """End the connection if the client reads nothing of the rest in time."""
        now = self.transport.get_write_buffer_size()
        if now >= left:
            self.transport.abort()
        else:
            self._writes = self.loop.call_later(WRITE_SECONDS, self._wait_for_reads, now)

    def _look(self) -> None:
        """Wait for a head, or the rest of an unread body, within the limits."""
        waits = self.conn.their_state is h11.IDLE or self.conn.our_state is h11.DONE
        if waits and self._waits is None:
            self._waits = self.loop.call_later(HEAD_SECONDS, self.transport.abort)
            self._open.let_go(self._file)
        elif not waits and self._waits is not None:
            self._waits.cancel()
            self._waits = None


def with_limits(app: _App) -> _App:
    """Return an application that refuses heads of too many lines, and one connection too many."""

    async def limited(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        refused = None
        if len(scope.get("headers", ())) > MOST_HEADERS:
            refused = failure(ServerError(Why.SIZE, f"a head has {MOST_HEADERS} lines at most"))
            refused.status_code = 431
        elif scope.get(FULL) and scope["path"] not in ALWAYS:
            said = "too many connections are open, in all or from your address"
            refused = failure(ServerError(Why.BUSY, said, "close some, and ask again"))
        await (app if refused is None else refused)(scope, receive, send)

    return limited
