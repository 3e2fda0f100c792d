"""Servers, and clients who ask them over HTTP and PostgreSQL's protocol, by a network that fails.

A server is what `sparseq serve` runs, but for its sockets: the service with its threads, the
application and the sessions, in an event loop of the world's. A message is a step. Requests are
lost, come twice, late, or after later ones; answers get lost, and clients give up and ask again
under the same name. Servers are stopped, killed and begun again; of a lake there are several.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import sparseq
from checks.simulation.checks import QUESTION, Cells, Finding, rows
from checks.simulation.drivers import MORE, File, Lake, Setting
from checks.simulation.threads import Loop
from checks.simulation.world import Process, World
from sparseq.base.errors import SparseqError
from sparseq.ledger.request_id import Asker
from sparseq.pgwire import messages as m
from sparseq.pgwire._duckdb.catalogue import Catalogue
from sparseq.pgwire.client_state import State
from sparseq.pgwire.pg_session import Session
from sparseq.pgwire.pg_settings import Settings
from sparseq.question.plan import Query
from sparseq.server.audit import AuditLog
from sparseq.server.http.app import application
from sparseq.server.service import Service
from sparseq.server.tokens import Quota, Role, Tokens
from sparseq.store.store import Store

QUOTA = 6
NAMES = ("ada", "ben", "quota")
"""Of clients; the last one has a quota."""
PATIENCE = (0.05, 0.5, 5.0)
"""Seconds that a client waits for an answer, one of them."""
Reply = tuple[int, bytes]
"""Status and body; of PostgreSQL's protocol 0, and messages."""


class Front:
    """A server that runs, as clients see it.

    Args:
        world: Its.
        process: Whose threads it has.
        loop: Its event loop.
        service: It.
    """

    def __init__(self, world: World, process: Process, loop: Loop, service: Service) -> None:
        self._world, self.process, self._loop = world, process, loop
        self.service, self._app = service, application(service)
        self._catalogue: Catalogue | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def there(self) -> bool:
        """Tell whether it takes messages."""
        return not self.process.dead and not self.service.stopping.is_set()

    def call(self, what: Callable[[], Any], after: float = 0.0) -> None:
        """Have something called in its loop after some seconds, if it is there."""
        if not self.process.dead and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.call_later, after, what)

    def begin(self, work: Awaitable[Reply], box: list[Reply]) -> None:
        """Begin to answer a message; the answer is put into a box, or gets lost on its way."""

        async def done() -> None:
            with suppress(asyncio.CancelledError):
                reply = await work
                self._world.step("reply")
                if self._world.draw.random() >= self._world.rates.get("lost", 0):
                    box.append(reply)

        task = asyncio.ensure_future(done())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def http(
        self, gone: list[bool], method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> Reply:
        """Answer a request over HTTP."""
        sent: list[dict[str, Any]] = []
        came = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if came:
                return came.pop()
            while not gone:
                await asyncio.sleep(0.02)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        named = [(name.lower().encode(), text.encode()) for name, text in headers.items()]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "headers": named,
            "client": ("10.0.0.1", 1),
            "server": ("here", 80),
        }
        await self._app(scope, receive, send)  # type: ignore[arg-type]
        data = b"".join(one.get("body", b"") for one in sent)
        return sent[0]["status"], data

    async def wire(self, gone: list[bool], name: str, statements: list[str]) -> Reply:
        """Answer statements of a session over PostgreSQL's protocol, whose client has signed in."""
        said = bytearray()

        async def send(data: bytes) -> None:
            said.extend(data)

        if self._catalogue is None:
            of = self.service
            self._catalogue = Catalogue(of.catalog, of.name, of.public_rows)
            self._world.held(self._catalogue.close)
        state = State(Settings(name))
        look = self._catalogue.look(name, state.settings)
        who = self.service.named(name, "postgresql 10.0.0.1")
        session = Session(self.service, who, state, look, send)
        try:
            for one in statements:
                work = asyncio.ensure_future(session.take(m.SimpleQuery(one)))
                while not work.done():
                    await asyncio.wait([work], timeout=0.02)
                    if gone:
                        session.cancel()
                work.result()
                if session.over:
                    break
        finally:
            look.close()
        return 0, bytes(said)

    def close(self) -> None:
        """Delete what it has created."""
        if self._catalogue is not None:
            self._catalogue.close()


class Serves(Setting):
    """A store that is served, and clients.

    Attributes:
        unread: Replies that may replace a released answer.
    """

    unread: ClassVar[tuple[int, ...]] = (500, 503)
    secrets: ClassVar[dict[tuple[str, str], str]] = {}

    def prepare(self) -> None:
        """See `Setting`."""
        super().prepare()
        self.fronts: dict[str, Front] = {}
        self.waiting: dict[str, list[str]] = {name: [] for name in NAMES}

    @classmethod
    def with_tokens(cls, path: Path, store: Store) -> Query:
        """Make the tokens of a new store, and return the question, lowered."""
        tokens = Tokens.beside(path)
        for name in NAMES:
            quota = Quota.parse(f"{QUOTA}/day" if name == "quota" else "")
            cls.secrets[cls.__name__, name] = tokens.create(name, Role.ANALYST, quota)
        tokens.close()
        with store:
            return store.lower(QUESTION)

    def _drive(self, name: str, place: Path, end: int) -> None:
        """See `Setting`: serve a store."""
        world = self.world
        world.step("connect")
        try:
            store, tokens = sparseq.connect(place), Tokens.beside(place)
        except SparseqError:
            world.rest(300)
            return
        self.opened(place)
        here = world.current()
        assert here is not None
        loop = Loop(world)
        try:
            serves = self._serve(name, here.process, loop, store, tokens, place, end)
            loop.run_until_complete(serves)
        finally:
            self.fronts.pop(name, None)
            loop.end()

    async def _serve(
        self,
        name: str,
        process: Process,
        loop: Loop,
        store: Store,
        tokens: Tokens,
        place: Path,
        end: int,
    ) -> None:
        service = Service(store, tokens, audit=AuditLog.beside(place))
        front = self.fronts[name] = Front(self.world, process, loop, service)
        try:
            if self.world.steps >= end:  # whoever would stop it has gone
                service.stop()
            await service.stopping.wait()
        finally:
            await service.close()
            tokens.close()
            front.close()

    # -- clients -----------------------------------------------------------------------------------

    def more(self, end: int) -> None:
        """Begin clients; the last one to go stops the servers."""
        here = set(NAMES)
        self.world.task("operator", self.world.process(), lambda: self._stops(here))
        for name in NAMES:
            self._comes(name, end, here)

    def _comes(self, name: str, end: int, here: set[str]) -> None:
        """Begin the process of a client; if it is killed, another one begins."""
        process = self.world.process()

        def life() -> None:
            try:
                self._asks(name, end)
            finally:
                if process.dead and not self.world.lost_power and self.world.steps < end:
                    self._comes(name, end, here)
                else:
                    here.discard(name)

        self.world.task(name, process, life)

    def _stops(self, here: set[str]) -> None:
        """Stop a server at some steps, as an operator does; and all of them at the end."""
        world = self.world
        while here or self.fronts:
            world.wait(lambda: not (here or self.fronts), world.draw.uniform(0.05, 3.0))
            for front in list(self.fronts.values()):
                if not here or world.draw.random() < 0.3:
                    front.call(front.service.stop)

    def _asks(self, name: str, end: int) -> None:
        world, draw = self.world, self.world.draw
        while world.steps < end:
            fronts = [front for front in self.fronts.values() if front.there()]
            if not fronts:
                world.wait(lambda: bool(self.fronts) or world.steps >= end, 0.05)
                world.step("look for a server")
            elif draw.random() < 0.15 and self.witness.answers:
                self._reads(name, draw.choice(fronts))
            else:
                self._asks_one(name, draw.choice(fronts))

    def _asks_one(self, name: str, front: Front) -> None:
        """Ask a question: a new one, one with an unknown outcome, or an answered one."""
        draw, again, known = self.world.draw, self.waiting[name], False
        own = [one.partition("/")[2] for one in self.asked if one.startswith(f"{name}/")]
        if again and draw.random() < 0.7:
            number = again.pop(draw.randrange(len(again)))
        else:
            number = draw.choice(own) if own and draw.random() < 0.2 else self._new(name)
        try:
            known = self._exchange(name, number, front)
        finally:
            if not known:
                again.append(number)

    def _new(self, name: str) -> str:
        number = str(len(self.asked))
        self.asked.append(f"{name}/{number}")
        return number

    def _exchange(self, name: str, number: str, front: Front) -> bool:
        """Ask, and return True if the outcome is known: an answer, or none."""
        gone: list[bool] = []
        if name == "ben":
            said = [f"SET sparseq.request_id = '{number}'", QUESTION]
            reply = self._sent(front, gone, lambda: front.wire(gone, name, said))
            return reply is not None and self._wired(reply[1], f"client/{name}/{number}")
        body = json.dumps({"sql": QUESTION}).encode()
        headers = self._headers(name) | {"Idempotency-Key": number}
        reply = self._sent(
            front, gone, lambda: front.http(gone, "POST", "/v1/query", body, headers)
        )
        if reply is None:
            return False
        status, said_back = reply[0], json.loads(reply[1])
        if status == 200:
            self.witness.told(said_back["release"], _cells(said_back), f"client/{name}/{number}")
        elif status not in (429, 499, 500, 503):
            raise Finding(f"{name} was told {status}: {said_back}")
        return status in (200, 429)

    def _reads(self, name: str, front: Front) -> None:
        """Read back an answer."""
        release, gone = self.world.draw.choice(sorted(self.witness.answers)), list[bool]()
        path, headers = f"/v1/releases/{release}", self._headers(name)
        reply = self._sent(front, gone, lambda: front.http(gone, "GET", path, b"", headers))
        if reply is not None and reply[0] == 200:
            said = json.loads(reply[1])
            self.witness.told(said["release"], _cells(said))
        elif reply is not None and reply[0] not in self.unread:
            raise Finding(f"release {release} has left, and is not there: {reply}")

    def _headers(self, name: str) -> dict[str, str]:
        secret = self.secrets[type(self).__name__, name]
        return {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}

    def _sent(
        self, front: Front, gone: list[bool], work: Callable[[], Awaitable[Reply]]
    ) -> Reply | None:
        """Send a message, and return the answer; None: nobody can tell."""
        world, draw, box = self.world, self.world.draw, list[Reply]()
        often = world.rates.get("lost", 0)
        world.step("send")
        for _ in range(0 if draw.random() < often else 2 if draw.random() < often else 1):
            late = draw.uniform(0, 2) if draw.random() < often else 0.0
            front.call(lambda: front.begin(work(), box), late)
        world.wait(lambda: bool(box) or front.process.dead, draw.choice(PATIENCE))
        if not box:
            gone.append(True)
        return box[0] if box else None

    def _wired(self, data: bytes, request: str) -> bool:
        """Read a session's messages; return True if they contain an answer."""
        release, found, failed = None, Cells(), ""
        for kind, body in _replies(data):
            if kind == b"D":
                found.append(_row(body))
            elif kind == b"N" and (said := re.search(rb"\0Mrelease (\d+)", body)):
                release = int(said[1])
            elif kind == b"E":
                failed = body.decode()
        if failed:
            code = failed.partition("\0C")[2][:5]
            if code[:2] not in ("40", "53", "57", "58", "XX"):
                raise Finding(f"{request} was told {failed!r}")
            return False
        self.witness.told(release, found, request)
        return True

    def _looks_at(self, store: Store) -> None:
        super()._looks_at(store)
        if self.world.rates.get("jump"):
            return  # by this clock a day may have passed
        mine = [
            one
            for one in store.releases()
            if one.request is not None
            and one.request.asker is Asker.CLIENT
            and one.request.text.startswith("quota/")
        ]
        if len(mine) > QUOTA:
            raise Finding(f"who may have {QUOTA} answers a day has {len(mine)}")


def _cells(said: dict[str, Any]) -> Cells:
    return [(row["kind"], int(row["n"])) for row in said["rows"]]


def _replies(data: bytes) -> list[tuple[bytes, bytes]]:
    found = []
    while data:
        length = int.from_bytes(data[1:5], "big")
        found.append((data[:1], data[5 : 1 + length]))
        data = data[1 + length :]
    return found


def _row(body: bytes) -> tuple[str | None, int]:
    """Return the first two columns of a row, which are texts."""
    at, found = 2, list[str | None]()
    for _ in range(2):
        size = int.from_bytes(body[at : at + 4], "big", signed=True)
        found.append(None if size < 0 else body[at + 4 : at + 4 + size].decode())
        at += 4 + max(size, 0)
    return found[0], int(float(found[1] or "nan"))


class Served(Serves, File):
    """A store in a file, served."""

    @classmethod
    def make(cls, folder: Path) -> Query:
        """See `Setting`."""
        for name in ("here", "copies"):
            (folder / name).mkdir()
        path = folder / "here" / "s.sparseq"
        return cls.with_tokens(path, sparseq.create(path, {"visits": rows()}, **MORE))

    def operate(self) -> None:
        """Nobody touches the files: `File` has that."""


class ServedLake(Serves, Lake):
    """A lake that several servers serve."""

    @classmethod
    def make(cls, folder: Path) -> Query:
        """See `Setting`."""
        path = folder / "lake"
        made = sparseq.create(f"lake://{path}", {"visits": rows()}, buckets=1, **MORE)
        return cls.with_tokens(path, made)

    def places(self) -> list[Path]:
        """See `Setting`."""
        return [self.world.root / "lake"] * self.world.draw.randint(1, 3)
