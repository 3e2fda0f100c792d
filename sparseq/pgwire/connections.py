"""Connections: start-up, TLS, authentication, cancellation, and one session each."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import secrets
import socket
import ssl
from collections.abc import Mapping

from sparseq.base.errors import ServerError
from sparseq.pgwire import messages as m
from sparseq.pgwire import scram, server_messages
from sparseq.pgwire._duckdb.catalogue import Catalogue
from sparseq.pgwire.client_state import State
from sparseq.pgwire.pg_session import Session
from sparseq.pgwire.pg_settings import Settings
from sparseq.pgwire.wire_errors import NOT_AUTHORIZED, TOO_MANY, WireError
from sparseq.server.open_connections import AT_ONCE
from sparseq.server.service import Service
from sparseq.server.tokens import Principal

LOG = logging.getLogger("sparseq.pgwire")
SECONDS_TO_SIGN_IN = 30.0
SECONDS_TO_STOP = 8.0
"""The time that clients have for the last answers once the server is stopping."""
WAITING = 256
"""The maximum number of a client's messages that are read in advance."""
WAITING_BYTES = 4 << 20
"""The approximate maximum of their bytes."""
STOPPING = WireError("57P01", "the server is stopping", "try again in a minute", fatal=True)
_READ = 1 << 16
_NOT_SETTINGS = frozenset(("user", "database", "options", "replication"))


class Server:
    """The parts that all connections share.

    Args:
        service: Answers questions.
        catalogue: The catalogue for look-ups.
        tls: None: connections are not encrypted, so only local ones are accepted.
    """

    def __init__(self, service: Service, catalogue: Catalogue, tls: ssl.SSLContext | None) -> None:
        self.service, self.catalogue, self.tls = service, catalogue, tls
        self.sessions: dict[tuple[int, int], Session] = {}
        self._tasks: dict[asyncio.Task[None], Session | None] = {}

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = None
        try:
            await _Connection(self, reader, writer).run()
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError, ssl.SSLError):
            pass
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):
                writer.write(server_messages.error(STOPPING))
        finally:
            del self._tasks[task]
            writer.close()

    def enter(self, session: Session) -> tuple[int, int]:
        """Add a session; return its process and secret, with which it is cancelled."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = session
        while (key := (secrets.randbits(31), secrets.randbits(31))) in self.sessions:
            pass
        self.sessions[key] = session
        return key

    def cancel(self, process: int, secret: int) -> None:
        """Cancel the statement of a session, if the secret matches."""
        found = self.sessions.get((process, secret))
        if found is not None:
            found.cancel()

    async def close(self) -> None:
        """End all connections; running statements are answered first."""
        for session in list(self.sessions.values()):
            session.over = True
        for task, served in list(self._tasks.items()):
            if served is None or served.idle:
                task.cancel()
        if self._tasks:
            _, slow = await asyncio.wait(self._tasks, timeout=SECONDS_TO_STOP)
            for task in slow:
                task.cancel()
            await asyncio.gather(*slow, return_exceptions=True)
        self.catalogue.close()


class _Waiting(asyncio.Queue[m.Message | WireError | None]):
    """A queue of messages that is bounded in number and in bytes."""

    held = 0

    def full(self) -> bool:
        """True if no more fit."""
        return super().full() or self.held > WAITING_BYTES

    def _put(self, item: m.Message | WireError | None) -> None:
        self.held += _size(item)
        super()._put(item)

    def _get(self) -> m.Message | WireError | None:
        found: m.Message | WireError | None = super()._get()
        self.held -= _size(found)
        return found


def _size(item: m.Message | WireError | None) -> int:
    """Return the approximate number of bytes of a message.

    >>> _size(m.Bind("", "s", values=(b"abc", None)))
    3
    """
    match item:
        case m.SimpleQuery(text) | m.Parse(_, text):
            return len(text)
        case m.Bind():
            return sum(len(value or b"") for value in item.values)
        case m.Copy() | m.FunctionCall() | m.Sasl():
            return len(item.data)
    return 0


class _Connection:
    """One connection."""

    def __init__(
        self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server, self._reader, self._writer = server, reader, writer
        self._frames, self._file = m.Frames(), -1
        if (carrier := writer.get_extra_info("socket")) is not None:
            carrier.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._file = carrier.fileno()

    async def run(self) -> None:
        try:
            async with asyncio.timeout(SECONDS_TO_SIGN_IN):
                begun = await self._begun()
        except WireError as error:
            await self._send(server_messages.error(error))
            return
        if begun is None:
            return
        who, state = begun
        self._frames.most = m.MOST_AFTER
        look = self._server.catalogue.look(who.name, state.settings)
        session = Session(self._server.service, who, state, look, self._send)
        key = self._server.enter(session)
        try:
            await session.greet(*key)
            await self._serve(session)
            if self._server.service.stopping.is_set():
                await self._send(server_messages.error(STOPPING))
        finally:
            del self._server.sessions[key]
            look.close()

    # Start.

    async def _begun(self) -> tuple[Principal, State] | None:
        """Return the principal; None: the connection had another purpose."""
        while True:
            packet = await self._packet()
            if isinstance(packet, m.Cancel):
                self._server.cancel(packet.process, packet.secret)
                return None
            if isinstance(packet, m.Startup):
                return await self._signed_in(packet)
            if isinstance(packet, m.TlsRequest) and self._server.tls is not None:
                if len(self._frames):
                    raise WireError("08P01", "bytes came before TLS was established", fatal=True)
                await self._send(b"S")
                await self._writer.start_tls(self._server.tls)
            else:
                await self._send(b"N")

    async def _signed_in(self, startup: m.Startup) -> tuple[Principal, State]:
        if self._server.tls is not None and self._writer.get_extra_info("ssl_object") is None:
            raise WireError(
                NOT_AUTHORIZED, "this server accepts only TLS", "sslmode=require", fatal=True
            )
        ours = [n for n in startup.parameters if n.startswith("_pq_.")]
        if startup.minor or ours:
            await self._send(server_messages.negotiate(ours))
        name = startup.parameters.get("user", "")
        who = await self._authenticate(name)
        if not self._server.service.connections.hold(self._file):
            raise WireError(TOO_MANY, "too many clients are connected", "close some", fatal=True)
        wanted = startup.parameters.get("database") or name
        if wanted != self._server.service.name:
            raise WireError(
                "3D000",
                f'database "{wanted[:63]}" does not exist',
                f"it is called {self._server.service.name}",
                fatal=True,
            )
        if "replication" in startup.parameters:
            raise WireError("0A000", "there is no replication here", fatal=True)
        settings = Settings(who.name)
        try:
            settings.start_with(_said(startup.parameters))
        except WireError as error:
            raise WireError(error.code, error.message, error.hint, fatal=True) from None
        await self._send(server_messages.AUTHENTICATED)
        return who, State(settings)

    async def _authenticate(self, name: str) -> Principal:
        """Authenticate by SCRAM; an unknown name takes the same path, and no token matches it."""
        await self._send(server_messages.sasl(10, scram.MECHANISM.encode() + b"\0\0"))
        nonce = base64.b64encode(secrets.token_bytes(18)).decode()
        exchange = scram.Exchange(self._server.service.tokens.verifier(name), nonce)
        first = exchange.opened(scram.mechanism_and_first(await self._sasl()))
        await self._send(server_messages.sasl(11, first))
        last = exchange.closed(await self._sasl())
        peer = str((self._writer.get_extra_info("peername") or ("",))[0])
        with contextlib.suppress(ServerError):  # revoked meanwhile
            if last is not None:
                who = self._server.service.named(name, f"postgresql {peer}")
                await self._send(server_messages.sasl(12, last))
                return who
        try:
            await self._server.service.write(self._server.service.door.wrong, "postgresql", peer)
        except ServerError as error:
            raise WireError(TOO_MANY, error.message, error.hint, fatal=True) from None
        raise scram.wrong_token(name)

    async def _sasl(self) -> bytes:
        while True:
            for message in self._frames.messages():
                if isinstance(message, m.Sasl):
                    return message.data
                raise WireError("08P01", "the server waits for the token", fatal=True)
            await self._read()

    async def _packet(self) -> m.Packet:
        while (packet := self._frames.packet()) is None:
            await self._read()
        return packet

    async def _read(self) -> None:
        data = await self._reader.read(_READ)
        if not data:
            raise ConnectionError
        self._frames.feed(data)

    # After the start.

    async def _serve(self, session: Session) -> None:
        """Read and handle messages; a client that disconnects is noticed while it waits."""
        waiting = _Waiting(WAITING)
        reading = asyncio.ensure_future(self._listen(waiting, session))
        try:
            while not session.over:
                message = await waiting.get()
                if message is None:
                    return
                if isinstance(message, WireError):
                    await session.broken(message)
                else:
                    await session.take(message)
        finally:
            reading.cancel()

    async def _listen(self, waiting: _Waiting, session: Session) -> None:
        try:
            while True:
                try:
                    for message in self._frames.messages():
                        await waiting.put(message)
                except WireError as error:
                    await waiting.put(error)
                    if error.fatal:
                        return
                    continue
                await self._read()
        except (ConnectionError, OSError):
            session.cancel()
            await waiting.put(None)

    async def _send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


def _said(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a start-up packet, including those in its `options`."""
    found = {n: v for n, v in parameters.items() if n not in _NOT_SETTINGS and n[:5] != "_pq_."}
    words = parameters.get("options", "").replace("\\ ", "\0").split()
    for word in words:
        name, equals, value = word.removeprefix("-c").removeprefix("--").partition("=")
        if equals:
            found[name.replace("-", "_")] = value.replace("\0", " ")
    return found


async def serve_wire(
    service: Service, listening: socket.socket, tls: ssl.SSLContext | None = None
) -> None:
    """Serve PostgreSQL's protocol until the service stops; then only running statements are
    answered.

    Args:
        service: Answers questions.
        listening: The listening socket; clients wait until the catalogue is made. It is closed at
            the end.
        tls: Certificate and key; without them, the caller has checked that none are needed.
    """
    catalogue = await asyncio.to_thread(
        Catalogue, service.catalog, service.name, service.public_rows
    )
    server = Server(service, catalogue, tls)
    listener = await asyncio.start_server(
        server.connected, sock=listening, limit=_READ, backlog=AT_ONCE
    )
    try:
        await service.stopping.wait()
    finally:
        listener.close()
        await server.close()
