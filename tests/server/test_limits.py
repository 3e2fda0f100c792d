"""Limits of connections: heads, bodies and answers that take too long, or are too long."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from sampled import one_in
from server.made import made

from sparseq.server.audit import AuditLog
from sparseq.server.service import Service
from sparseq.server.tokens import Role, Tokens

uvicorn = pytest.importorskip("uvicorn")
running = pytest.importorskip("sparseq.server.serve")
limits = pytest.importorskip("sparseq.server.http.connection_limits")
endpoints = pytest.importorskip("sparseq.server.http.endpoints")

Check = Callable[[int, str], Awaitable[None]]
SHORT = 0.2
HOUR = 3600.0


def served(check: Check, monkeypatch: pytest.MonkeyPatch, log: AuditLog | None = None) -> None:
    """Check a server as it is served; it waits for `SHORT` seconds, and no handler of signals."""

    async def main() -> None:
        service = Service(made(), Tokens(None), audit=log)
        token = service.tokens.create("ada", Role.CURATOR)
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "add_signal_handler", lambda *_: None)
        listening = running.Address("127.0.0.1", 0).bound()
        with contextlib.ExitStack() as stack:
            at = {"http": listening}
            serving = asyncio.ensure_future(running._listen(service, at, "", stack))
            try:
                await check(listening.getsockname()[1], token)
            finally:
                service.stop()
                await serving
                await service.close()

    asyncio.run(main())


@contextlib.asynccontextmanager
async def opened(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Return what comes until the server ends the connection: it does, or the test fails."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := await asyncio.wait_for(reader.read(65536), 300):
            found += part
    return found


@pytest.mark.parametrize(
    "sent", one_in(2, [b"", b"GET / HTTP/1.1\r\nHost: h\r\nX: ", b"POST / HTTP/1.1\r\n", b"G"])
)
def test_a_head_that_does_not_end(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """However slowly it trickles on."""
    monkeypatch.setattr(limits, "HEAD_SECONDS", SHORT)

    async def check(port: int, token: str) -> None:
        async with opened(port) as (reader, writer):

            async def trickle() -> None:
                writer.write(sent)
                while True:
                    await asyncio.sleep(SHORT / 10)
                    if sent:
                        writer.write(b"x")

            slowly = asyncio.ensure_future(trickle())
            assert await ended(reader) in (b"",) or sent == b"POST / HTTP/1.1\r\n"
            slowly.cancel()

    served(check, monkeypatch)


def test_a_head_that_ends_in_time_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time counts for each head anew, and not while a question is answered: timers are counted."""
    monkeypatch.setattr(limits, "HEAD_SECONDS", HOUR)

    async def check(port: int, token: str) -> None:
        loop, timers = asyncio.get_running_loop(), list[asyncio.TimerHandle]()
        later = loop.call_later

        def seen(delay: float, *what: object) -> asyncio.TimerHandle:
            timer = later(delay, *what)  # type: ignore[arg-type]
            timers.extend([timer] * (delay == HOUR))
            return timer

        monkeypatch.setattr(loop, "call_later", seen)
        async with opened(port) as (reader, writer):
            for asked in range(1, 7):
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
                assert (await reader.readuntil(b'{"ok": true}')).startswith(b"HTTP/1.1 200")
                running = [timer for timer in timers if not timer.cancelled()]
                assert len(running) <= 1 < len(timers) <= asked + 1
        assert len(timers) >= 6

    served(check, monkeypatch)


def test_a_body_that_nobody_reads_does_not_hold_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "HEAD_SECONDS", SHORT)

    async def check(port: int, token: str) -> None:
        async with opened(port) as (reader, writer):
            head = b"POST /healthz HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n"
            writer.write(head)

            async def trickle() -> None:
                while True:
                    writer.write(b"x")
                    await asyncio.sleep(SHORT / 10)

            slowly = asyncio.ensure_future(trickle())
            assert (await ended(reader)).startswith(b"HTTP/1.1 404")
            slowly.cancel()

    served(check, monkeypatch)


@pytest.mark.parametrize("path", ["/v1/query", "/v1/ingest?name=a.csv", "/mcp"])
def test_a_body_that_does_not_end(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "PATIENCE", SHORT)

    async def check(port: int, token: str) -> None:
        async with opened(port) as (reader, writer):
            head = f"POST {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\n"
            writer.write(f"{head}Content-Length: 100\r\nConnection: close\r\n\r\nx".encode())
            assert b"took more than" in await ended(reader)

    served(check, monkeypatch)


@pytest.mark.parametrize("reads", [False, True])
def test_an_answer_that_is_not_read(reads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads slowly gets all of it; who reads nothing is let go."""
    monkeypatch.setattr(limits, "WRITE_SECONDS", HOUR if reads else SHORT)
    log = AuditLog(None, most=1 << 30)
    log.add([{"what": "asked", "who": "ada", "query": "x" * 2000}] * 10_000)

    async def check(port: int, token: str) -> None:
        async with opened(port) as (reader, writer):
            head = f"GET /v1/audit?last=10000 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}"
            writer.write(f"{head}\r\nConnection: close\r\n\r\n".encode())
            found = await reader.readexactly(100)
            for _ in range(8):
                await asyncio.sleep(SHORT / 4)
                found += await reader.readexactly(1 << 20) if reads else b""
            found += await ended(reader)
            length = int(found.partition(b"content-length: ")[2].partition(b"\r")[0])
            assert (len(found) > length > 20_000_000) is reads

    served(check, monkeypatch, log)


@pytest.mark.parametrize(
    ("head", "status"),
    one_in(
        2,
        [
            (b"GET / HTTP/1.1\r\nX: " + b"a" * 200_000, b"400"),
            (b"GET /" + b"a" * 200_000, b"400"),
            (b"GET / HTTP/1.1\r\nHost: h\r\n" + b"X: a\r\n" * 200 + b"\r\n", b"431"),
            (b"GET /v1/releases/" + b"1" * 5000 + b" HTTP/1.1\r\nHost: h\r\n\r\n", b"401"),
            (b"NONSENSE\r\n\r\n", b"400"),
            (b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: x\r\n\r\n", b"400"),
            (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", b"400"),
            (
                b"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
                b"200",
            ),
        ],
    ),
)
def test_heads_that_are_too_long_or_none(
    head: bytes, status: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HEAD_SECONDS", HOUR)

    async def check(port: int, token: str) -> None:
        async with opened(port) as (reader, writer):
            writer.write(head)
            found = await asyncio.wait_for(reader.read(100), 300)
            assert found[9:12] == status

    served(check, monkeypatch)
