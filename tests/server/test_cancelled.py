"""Cancelling by every road while a question runs, a stop while it runs, and others meanwhile."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import pytest
from server.made import person
from server.running import Running, secret
from stream.test_cancellation import COUNT, JOINED, LONG, busy, standing, store, when

import sparseq
from sparseq.base.cancellation import Cancellation
from sparseq.base.errors import QueryCancelError, ServerError, TimedOut
from sparseq.engine._duckdb.side_engines import BesideEngine
from sparseq.server.fair_queue import FairPool, FairQueue
from sparseq.server.mcp import handle
from sparseq.server.service import Reply, Service, Statement
from sparseq.server.tokens import Principal, Tokens

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
pytest.importorskip("uvicorn")


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when something begins to be read beside the stream."""
    event, read = threading.Event(), BesideEngine.contributions

    def reads(self: BesideEngine, *given: Any) -> Any:
        event.set()
        return read(self, *given)

    monkeypatch.setattr(BesideEngine, "contributions", reads)
    return event


def inside(
    test: Callable[[Service, Principal], Awaitable[Any]], con: sparseq.Store, **how: Any
) -> Any:
    async def main() -> Any:
        tokens = Tokens(None)
        service = Service(con, tokens, **how)
        try:
            return await asyncio.wait_for(test(service, person(tokens, "ada")), 300)
        finally:
            await service.close()

    return asyncio.run(main())


async def reached(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 30)


def asked(service: Service, who: Principal, text: str) -> asyncio.Task[Reply]:
    return asyncio.ensure_future(service.ask(who, Statement(text)))


def test_a_long_question_is_cancelled_and_others_go_first(begun: threading.Event) -> None:
    con, other = store(), store()

    async def test(service: Service, ada: Principal) -> None:
        long = asked(service, ada, LONG)
        await reached(begun)
        mine = await service.ask(ada, Statement(COUNT))  # its own asker's too
        assert mine.answer.arrow().equals(other.sql(COUNT).arrow())
        long.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long
        await service.ask(ada, Statement(COUNT + " WHERE x > 2"))
        other.sql(COUNT + " WHERE x > 2")
        assert standing(con) == standing(other)

    inside(test, con)


def test_a_question_that_was_read_beside_is_answered_as_in_the_stream() -> None:
    con, other = store(each=12), store(each=12)

    async def test(service: Service, ada: Principal) -> None:
        for text in (JOINED, COUNT, JOINED + " WHERE b.x > 2"):
            reply = await service.ask(ada, Statement(text))
            assert reply.answer.arrow().equals(other.sql(text).arrow())
        assert standing(con) == standing(other)

    inside(test, con)


def test_a_server_has_a_time_out_and_what_it_ends_is_one_of_the_days_answers() -> None:
    con = store()

    async def test(service: Service, ada: Principal) -> None:
        before = standing(con)
        with pytest.raises(TimedOut, match="nothing was charged"):
            await service.ask(ada, Statement(LONG))
        assert standing(con) == before
        assert service.desk.used("ada") == (1, 0.0), "time can't be measured for nothing"
        assert service.counts["cancelled"] == 1
        service.timeout = None
        await service.ask(ada, Statement(COUNT))

    inside(test, con, timeout=0.5)


def test_an_agent_cancels_its_own_request_alone(begun: threading.Event) -> None:
    con = store()
    call = {"name": "ask", "arguments": {"sql": LONG}}

    def message(method: str, params: Any, **more: Any) -> str:
        return json.dumps({"jsonrpc": "2.0", "method": method, "params": params} | more)

    async def test(service: Service, ada: Principal) -> None:
        long = asyncio.ensure_future(handle(service, ada, message("tools/call", call, id="a")))
        await reached(begun)
        bob = person(service.tokens, "bob")
        gone = message("notifications/cancelled", {"requestId": "a"})
        assert await handle(service, bob, gone) is None
        await asyncio.sleep(0)
        assert not long.done()
        assert await handle(service, ada, gone) is None
        found = json.loads(str(await long))["result"]
        assert found["isError"]
        assert "cancelled; nothing was charged" in found["content"][0]["text"]

    inside(test, con)
    assert con.released == 0


def test_stopping_cancels_what_waits_and_what_is_read(
    begun: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    con = store()
    monkeypatch.setattr("sparseq.server.service.GRACE", 0.0)

    async def test(service: Service, ada: Principal) -> None:
        many = [asked(service, ada, f"{LONG} WHERE a.x > {i}") for i in range(5)]
        await reached(begun)
        service.stop()
        for found in await asyncio.gather(*many, return_exceptions=True):
            assert isinstance(found, QueryCancelError | ServerError)
            assert "stopping" in str(found)

    inside(test, con)


# -- queues and pools ------------------------------------------------------------------------------


def test_nobody_is_given_more_at_once_than_the_pool_says() -> None:
    pool, go, most = FairPool("test", threads=3, at_once=1), threading.Event(), [0, 0]
    lock = threading.Lock()

    def work() -> None:
        with lock:
            most[0] += 1
            most[1] = max(most)
        go.wait(30)
        with lock:
            most[0] -= 1

    mine = [pool.submit("ada", work) for _ in range(5)]
    assert pool.submit("bob", lambda: "bob's").result(30) == "bob's"
    go.set()
    for one in mine:
        one.result(30)
    pool.close()
    assert most[1] == 1


def test_what_is_cancelled_in_a_pool_is_not_begun() -> None:
    pool, go, done = FairPool("test", threads=1, at_once=1), threading.Event(), []
    held = pool.submit("ada", lambda: go.wait(30))
    with Cancellation() as work:
        waits = pool.submit("ada", lambda: done.append(1))
        work.cancel()
        assert waits.cancelled()
    go.set()
    held.result(30)
    pool.close()
    assert not done


def test_who_has_no_name_has_a_turn() -> None:
    queue = FairQueue[str]()
    for who in ("", "ada"):  # the operator, and the server's own jobs
        queue.put(who, who)
    assert queue.take(9) == ["", "ada"]


def test_a_queue_that_has_lent_something_does_not_end() -> None:
    queue = FairQueue[str]()
    queue.put("ada", "a")
    (item,) = queue.take(9)
    queue.lend()
    queue.close()
    when(lambda: True, lambda: queue.put_back("ada", item)).join()
    assert queue.take(9) == ["a"]
    assert queue.take(9) == []


# -- a server as a process -------------------------------------------------------------------------


class Served:
    """A server of a store in which `LONG` takes minutes."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.path = folder / "shop.sparseq"
        store(self.path, seed=None).close()
        self.token = secret(self.path, "ada")
        self.running = Running(self.path, "--pg", "127.0.0.1:0", *options)
        place = urlsplit(self.running.pg)
        self.url = f"postgresql://ada:{self.token}@127.0.0.1:{place.port}/shop"

    def http(self, body: dict[str, Any]) -> http.client.HTTPConnection:
        place = urlsplit(self.running.url)
        made = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
        made.request(
            "POST", "/v1/query", json.dumps(body), {"Authorization": f"Bearer {self.token}"}
        )
        return made

    def metrics(self) -> str:
        place = urlsplit(self.running.url)
        made = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
        made.request("GET", "/metrics", None, {"Authorization": f"Bearer {self.token}"})
        return made.getresponse().read().decode()


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    made = Served(tmp_path_factory.mktemp("cancelled"))
    yield made
    made.running.kill()


def test_cancel_statement_timeout_and_disconnect_over_the_network(at: Served) -> None:
    with psycopg.connect(at.url, autocommit=True) as con:
        when(busy(at.running.process.pid), con.cancel_safe)
        with pytest.raises(psycopg.errors.QueryCanceled, match="user request") as told:
            con.execute(LONG)
        assert "nothing was charged" in str(told.value)
        con.execute("SET statement_timeout = '300ms'")
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            con.execute(LONG)
        con.execute("SET statement_timeout = 0")
        late = at.http({"sql": LONG, "timeout": 0.3}).getresponse()
        said = json.loads(late.read())["error"]
        assert (late.status, said["type"], said["charged"]) == (504, "timeout", False)
        gone = at.http({"sql": LONG})
        when(busy(at.running.process.pid), gone.close).join()
        when(lambda: "sparseq_waiting 0" in at.metrics(), lambda: None).join()
        assert con.execute("SELECT count(*) FROM released.releases").fetchone() == (0,)
        began = monotonic()
        assert con.execute(COUNT).fetchone() is not None
        assert monotonic() - began < 30


@pytest.mark.deep
def test_sigterm_ends_it_whatever_runs(tmp_path: Path) -> None:
    at = Served(tmp_path)
    told: list[BaseException] = []

    asker = psycopg.connect(at.url, autocommit=True)

    def ask() -> None:
        with pytest.raises(psycopg.Error) as error:
            asker.execute(LONG)
        told.append(error.value)

    running = busy(at.running.process.pid)
    asking = threading.Thread(target=ask)
    asking.start()
    when(running, lambda: None).join()
    began = monotonic()
    assert at.running.stop() == 0
    assert monotonic() - began < 10
    asking.join(10)
    assert "stopping" in str(told[0])
    with sparseq.connect(at.path) as con:
        assert con.released == 0
        assert [p.name for p in tmp_path.glob("*.wal")] == []


def test_who_has_no_name_has_a_turn_too() -> None:
    """The server's own jobs, and backups of who runs it."""
    queue = FairQueue[str]()
    for asker in ("ada", "", "ada", ""):
        queue.put(asker, asker)
    queue.close()
    assert queue.take(1) + queue.take(9) + queue.take(9) == ["ada", "", "ada", ""]
