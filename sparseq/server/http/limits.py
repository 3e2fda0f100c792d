"""Limits of connections that uvicorn does not have: of heads, and of clients that are slow.

Heads are read by h11, in Python: it bounds a head as a whole, and refuses what is not HTTP.
(uvicorn's other parser, httptools, keeps a head of any length in memory.) What is added here is
time: a head has to be there, and an answer to be read, within so many seconds. Bodies have
`PATIENCE`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from sparseq.base.errors import ServerError, Why
from sparseq.server.http.endpoints import failure

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
