"""A small shop that is served: in process for the protocol, at a free port for real clients."""

from __future__ import annotations

import asyncio
import atexit
import datetime as dt
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

import sparseq
from sparseq.pgwire import messages as m
from sparseq.pgwire._duckdb.catalogue import Catalogue
from sparseq.pgwire.client_state import State
from sparseq.pgwire.connections import serve_wire
from sparseq.pgwire.pg_session import Session
from sparseq.pgwire.pg_settings import Settings
from sparseq.server.service import Service
from sparseq.server.tokens import Quota, Role, Tokens
from sparseq.store.store import Store

T = TypeVar("T")
COUNT = "SELECT count(*) AS n FROM purchases"
FIRST = dt.date(1997, 1, 1)


def shop(seed: int | None = 1) -> Store:
    """Return a store of 60 people with 600 rows."""
    rows = range(600)
    table = pa.table(
        {
            "customer": [i % 60 for i in rows],
            "day": [FIRST + dt.timedelta(days=i % 90) for i in rows],
            "seen": [dt.datetime(1997, 1, 1) + dt.timedelta(hours=i) for i in rows],
            "kind": [("gift", "own")[i % 7 == 0] for i in rows],
            "quantity": [1 + i % 5 for i in rows],
            "amount": [float(i % 50) for i in rows],
            "paid": [i % 2 == 0 for i in rows],
        }
    )
    return sparseq.create(
        None,
        {"purchases": table},
        user="customer",
        seed=seed,
        keys={"kind": ("gift", "own")},
        bounds={"amount": (0, 50), "day": (FIRST, "1997-04-01")},
    )


def spent(store: Store) -> list[int]:
    """Return what every person has spent: private."""
    return [int(x) for _, accounts in store.stream.ledger.pots.items() for x in accounts.spent]


@dataclass
class Wire:
    """A session in process: messages in, bytes of replies out."""

    service: Service
    session: Session
    sent: bytearray = field(default_factory=bytearray)

    async def take(self, *messages: m.Message) -> list[tuple[bytes, bytes]]:
        """Send messages; return the replies as kind and body."""
        for message in messages:
            await self.session.take(message)
        return self.replies()

    async def ask(self, text: str) -> list[tuple[bytes, bytes]]:
        """Send a simple query."""
        return await self.take(m.SimpleQuery(text))

    def replies(self) -> list[tuple[bytes, bytes]]:
        """Return what was sent since the last call."""
        data, found = bytes(self.sent), []
        self.sent.clear()
        while data:
            length = int.from_bytes(data[1:5], "big")
            found.append((data[:1], data[5 : 1 + length]))
            data = data[1 + length :]
        return found


def kinds(replies: Sequence[tuple[bytes, bytes]]) -> str:
    """Return the kinds of replies in a word, without notices and settings.

    Example:
        >>> kinds([(b"T", b""), (b"N", b""), (b"Z", b"I")])
        'TZ'
    """
    return "".join(k.decode() for k, _ in replies if k not in (b"N", b"S"))


def fields(body: bytes) -> dict[str, str]:
    """Return the fields of an error or a notice."""
    return {part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part}


def error(replies: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the first error's fields; none: there was no error."""
    return next((fields(body) for kind, body in replies if kind == b"E"), {})


def notices(replies: Sequence[tuple[bytes, bytes]]) -> list[str]:
    """Return the messages of all notices."""
    return [fields(body)["M"] for kind, body in replies if kind == b"N"]


def cells(replies: Sequence[tuple[bytes, bytes]]) -> list[list[bytes | None]]:
    """Return the rows."""
    return [_row(body) for kind, body in replies if kind == b"D"]


def _row(body: bytes) -> list[bytes | None]:
    count, at, found = int.from_bytes(body[:2], "big"), 2, []
    for _ in range(count):
        length = int.from_bytes(body[at : at + 4], "big", signed=True)
        found.append(None if length < 0 else body[at + 4 : at + 4 + length])
        at += 4 + max(length, 0)
    return found


_catalogue: list[Catalogue] = []


def catalogue(service: Service) -> Catalogue:
    """Return the shop's catalogue: one for all tests, since nothing of a session stays in it."""
    if not _catalogue:
        _catalogue.append(Catalogue(service.catalog, "shop", {}))
        atexit.register(_catalogue[0].close)
    return _catalogue[0]


def wire(service: Service) -> Wire:
    """Return a session of Ada's."""
    state = State(Settings("ada"))
    look = catalogue(service).look("ada", state.settings)
    made: list[Wire] = []

    async def send(data: bytes) -> None:
        made[0].sent += data

    made.append(Wire(service, Session(service, service.named("ada"), state, look, send)))
    return made[0]


def run(test: Callable[[Wire, Store], Any], seed: int | None = 1) -> Any:
    """Run a test with a session in process and its store."""

    async def inside() -> Any:
        store = shop(seed)
        tokens = Tokens(None)
        tokens.create("ada", Role.ANALYST, Quota())
        service = Service(store, tokens, "shop")
        try:
            return await asyncio.wait_for(test(wire(service), store), 300)
        finally:
            await service.close()

    return asyncio.run(inside())


@dataclass(frozen=True)
class Address:
    """Where a shop is served, and who may come in."""

    port: int
    token: str
    store: Store
    service: Service
    loop: asyncio.AbstractEventLoop
    user: str = "ada"
    database: str = "shop"

    @property
    def url(self) -> str:
        """For drivers."""
        return f"postgresql://{self.user}:{self.token}@127.0.0.1:{self.port}/{self.database}"


@contextmanager
def served(tls: Any = None, made: Callable[[], Store] = shop) -> Iterator[Address]:
    """Serve the shop, or another store, at a free port, in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def there(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(300)

    async def begin() -> tuple[Address, Any]:
        store, tokens = made(), Tokens(None)
        token = tokens.create("ada", Role.ANALYST)
        service = Service(store, tokens, "shop")
        listening = socket.create_server(("127.0.0.1", 0))
        running = asyncio.ensure_future(serve_wire(service, listening, tls))
        return Address(listening.getsockname()[1], token, store, service, loop), running

    async def end() -> None:
        address.service.stop()
        await running
        await address.service.close()

    address, running = there(begin())
    try:
        yield address
    finally:
        there(end())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
