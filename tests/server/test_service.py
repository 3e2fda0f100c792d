"""Questions of many, answered in groups, are the questions one by one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from server.made import ROWS, made, person

import sparseq
from sparseq.answers.answer import Answer
from sparseq.base.errors import QueryRefused, ServerError, StoreError, Why
from sparseq.server.releases import LatestReleases
from sparseq.server.service import MOST_LOOKS, Service, Statement
from sparseq.server.tokens import Principal, Role, Tokens
from sparseq.stream.step import Stream


@pytest.fixture
def tokens() -> Iterator[Tokens]:
    tokens = Tokens(None)
    yield tokens
    tokens.close()


def bits(answer: Answer) -> bytes:
    """An answer without its request's name, which one by one it hasn't."""
    return Answer(answer.arrow(), replace(answer.facts, request_id=None)).to_bytes()


class Held:
    """Keeps the stream thread busy, so that what is asked meanwhile is the next group."""

    def __init__(self, service: Service, who: Principal) -> None:
        self.go, self._running = threading.Event(), threading.Event()
        self.call = asyncio.ensure_future(service.call(who, self._wait))

    def _wait(self, store: sparseq.Store) -> None:
        self._running.set()
        assert self.go.wait(30)

    async def begun(self) -> None:
        assert await asyncio.to_thread(self._running.wait, 30)


async def settled() -> None:
    """Let all tasks come to where they wait for a thread."""
    for _ in range(200):
        await asyncio.sleep(0)
    await asyncio.to_thread(lambda: None)


def test_answers_and_charges_are_those_of_an_order_one_by_one(tokens: Tokens) -> None:
    con, alone = made(), made()
    people = [person(tokens, name) for name in ("ada", "bob", "cyd")]

    async def main() -> list[Any]:
        service = Service(con, tokens)
        asked = [
            service.ask(
                who,
                Statement(
                    f"SELECT kind, count(*) AS n FROM t WHERE x > {i} GROUP BY 1", fresh=True
                ),
            )
            for i in range(6)
            for who in people
        ]
        replies = await asyncio.gather(*asked)
        spent = await service.call(people[0], lambda store: store.stream.accounts.spent.copy())
        await service.close()
        return [replies, spent]

    replies, spent = asyncio.run(main())
    in_order = sorted(replies, key=lambda reply: reply.answer.facts.release)
    assert [r.answer.facts.release for r in in_order] == list(range(1, 19))
    for reply in in_order:
        assert bits(alone.sql(reply.answer.facts.query, fresh=True)) == bits(reply.answer)
    assert (alone.stream.accounts.spent == spent).all()


def test_askers_take_turns(tokens: Tokens) -> None:
    con = made()
    ada, bob = person(tokens, "ada"), person(tokens, "bob")

    async def main() -> list[int]:
        service = Service(con, tokens)
        held = Held(service, ada)
        await held.begun()
        many = [
            asyncio.ensure_future(
                service.ask(ada, Statement(f"SELECT count(*) FROM t WHERE x>{i}"))
            )
            for i in range(5)
        ]
        await settled()
        late = asyncio.ensure_future(service.ask(bob, Statement("SELECT count(*) AS n FROM t")))
        while service.waiting < 6:
            await settled()
        held.go.set()
        await asyncio.gather(held.call, late, *many)
        await service.close()
        return [late.result().answer.facts.release]

    assert asyncio.run(main())[0] <= 2


def test_what_is_cancelled_before_its_turn_was_not_asked(tokens: Tokens) -> None:
    con = made()
    ada = person(tokens, "ada")

    async def main() -> int:
        service = Service(con, tokens)
        held = Held(service, ada)
        await held.begun()
        task = asyncio.ensure_future(service.ask(ada, Statement("SELECT count(*) AS n FROM t")))
        while not service.waiting:
            await settled()
        task.cancel()
        await settled()
        held.go.set()
        await held.call
        number = service.released
        await service.close()
        return number

    assert asyncio.run(main()) == 0


def test_a_full_queue_says_so_before_anything_is_charged(tokens: Tokens) -> None:
    con = made()
    ada, bob = person(tokens, "ada"), person(tokens, "bob")

    async def main() -> tuple[Any, Any]:
        service = Service(con, tokens, each=3)
        held = Held(service, bob)
        await held.begun()
        asked = [
            asyncio.ensure_future(
                service.ask(ada, Statement(f"SELECT count(*) FROM t WHERE x>{i}"))
            )
            for i in range(4)
        ]
        await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        held.go.set()
        await held.call
        replies = await asyncio.gather(*asked, return_exceptions=True)
        number = service.released
        await service.close()
        return replies, number

    replies, number = asyncio.run(main())
    refused = [r for r in replies if isinstance(r, ServerError)]
    assert [r.why for r in refused] == [Why.BUSY]
    assert "nothing was charged" in str(refused[0])
    assert number == 3


def test_a_request_id_is_its_askers_own(tokens: Tokens) -> None:
    con = made()
    ada, bob = person(tokens, "ada"), person(tokens, "bob")
    question = Statement("SELECT count(*) AS n FROM t", request_id="monday")
    other = Statement("SELECT count(*) AS n FROM t WHERE x > 2", request_id="monday")

    async def main() -> None:
        service = Service(con, tokens)
        first = await service.ask(ada, question)
        again = await service.ask(ada, question)
        assert not first.repeat
        assert again.repeat
        assert again.answer.to_bytes() == first.answer.to_bytes()
        with pytest.raises(QueryRefused):
            await service.ask(ada, other)
        assert not (await service.ask(bob, other)).repeat
        await service.close()

    asyncio.run(main())


def test_explaining_says_what_is_known(tokens: Tokens) -> None:
    con = made()
    ada = person(tokens, "ada")

    async def main() -> None:
        service = Service(con, tokens)
        asked = Statement("SELECT kind, count(*) AS n FROM t GROUP BY kind")
        assert "known" not in (await service.explain(ada, asked)).facts
        answer = (await service.ask(ada, asked)).answer
        found = await service.explain(person(tokens, "bob"), asked)
        known = found.facts["known"]
        assert (known["release"], known["free"]) == (answer.facts.release, True)
        assert f"release {answer.facts.release} has the answer" in repr(found)
        assert service.released == 1
        await service.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT kind, count(*) AS n, avg(x) AS m FROM t GROUP BY 1 HAVING n > 10",
        "SELECT kind, n, sum(n) OVER () AS a FROM (SELECT kind, count(*) AS n FROM t GROUP BY 1)",
        "SELECT histogram(x, [0, 2, 9]) AS h FROM t",
    ],
)
def test_looking_charges_nothing_and_says_what_comes(tokens: Tokens, sql: str) -> None:
    con = made()
    ada = person(tokens, "ada")
    question = Statement(sql)

    async def main() -> None:
        service = Service(con, tokens)
        columns = await service.describe(ada, question)
        assert not (await service.explain(ada, question)).facts["charged"]
        assert service.released == 0
        answer = (await service.ask(ada, question)).answer
        assert answer.arrow().cast(columns).schema == columns
        await service.close()

    asyncio.run(main())


def test_nobody_fills_the_queue_of_looks(tokens: Tokens) -> None:
    con = made()
    ada, bob = person(tokens, "ada"), person(tokens, "bob")
    question = Statement("SELECT count(*) AS n FROM t")

    async def main() -> None:
        service = Service(con, tokens)
        looks = [service.explain(ada, question) for _ in range(70)]
        *found, other = await asyncio.gather(
            *looks, service.explain(bob, question), return_exceptions=True
        )
        assert sum(isinstance(one, ServerError) for one in found) == 70 - MOST_LOOKS
        assert not isinstance(other, BaseException)
        await service.explain(ada, question)
        await service.close()

    asyncio.run(main())


def test_who_may_not_ask(tokens: Tokens) -> None:
    con = made()
    ada, eve = person(tokens, "ada"), person(tokens, "eve", Role.MONITOR)
    question = Statement("SELECT count(*) AS n FROM t")

    async def refused(service: Service, who: Principal) -> Why:
        with pytest.raises(ServerError) as error:
            await service.ask(who, question)
        return error.value.why

    async def main() -> None:
        service = Service(con, tokens)
        with pytest.raises(ServerError):
            service.signed_in("sq_nobody")
        assert await refused(service, eve) == Why.ROLE
        tokens.revoke("ada")
        assert await refused(service, ada) == Why.SIGN_IN
        await service.close()
        assert await refused(service, eve) == Why.ROLE
        assert await refused(service, person(tokens, "new")) == Why.CLOSING

    asyncio.run(main())


def test_a_store_that_fails_while_it_writes_is_opened_anew(
    tokens: Tokens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    con = made(tmp_path / "s.sparseq")
    ada = person(tokens, "ada")
    question = Statement("SELECT count(*) AS n FROM t", request_id="k")

    def full(entries: object) -> None:
        raise StoreError("the disk is full")

    async def main() -> None:
        service = Service(con, tokens)
        monkeypatch.setattr(con.stream.ledger, "commit", full)
        with pytest.raises(ServerError) as error:
            await service.ask(ada, question)
        assert error.value.why is Why.FAILED
        assert "disk" not in str(error.value)
        again = await service.ask(ada, question)
        assert (again.answer.facts.release, again.repeat) == (1, False)
        assert service.alive
        await service.close()

    asyncio.run(main())


def test_a_repeat_takes_no_turn_as_long_as_its_answer_stands(tokens: Tokens) -> None:
    who, sql = person(tokens, "ada"), "SELECT count(*) AS n FROM t"

    async def main() -> None:
        service = Service(made(), tokens)

        async def ask(**more: Any) -> tuple[int, bool]:
            reply = await service.ask(who, Statement(sql, **more))
            return reply.answer.facts.release, reply.repeat

        assert [await ask() for _ in range(3)] == [(1, False), (1, True), (1, True)]
        held = Held(service, who)
        await held.begun()
        assert await ask() == (1, True)  # while the stream does something else
        named = asyncio.ensure_future(ask(request_id="mine"))
        await settled()
        assert not named.done()
        held.go.set()
        assert await named == (2, False)
        await held.call
        assert await ask(fresh=True) == (3, False)
        newer = [await ask(), await ask(), await ask()]
        assert newer == [(newer[0][0], True)] * 3
        assert newer[0][0] > 1
        await service.call(who, lambda store: store.ingest(ROWS))
        assert await ask() == (4, False)
        tokens.revoke("ada")
        with pytest.raises(ServerError, match="no such token"):
            await ask()
        lines = [line for line in service.desk.audit.lines() if line["what"] == "asked"]
        assert [line["release"] for line in lines[:4]] == [1, 1, 1, 1]
        assert [line.get("repeat", False) for line in lines[:4]] == [False, True, True, True]
        service.desk.audit.verify()
        await service.close()

    asyncio.run(main())


def test_few_releases_are_held_and_the_others_read_from_the_store(
    tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparseq.server.service.LatestReleases", lambda: LatestReleases(3))
    who, con = person(tokens, "ada"), made()
    con.sql("SELECT count(*) AS n FROM t")

    async def main() -> None:
        service = Service(con, tokens)
        for i in range(5):
            await service.ask(who, Statement(f"SELECT count(*) AS n FROM t WHERE x > {i}.5"))
        assert (len(service.latest), [r.id for r in service.latest.held]) == (6, [4, 5, 6])
        again = LatestReleases(3)
        again.catch_up(con)
        assert again.held == service.latest.held
        for before, last in ((7, 3), (6, 1), (7, 100), (5, 2), (2, 9), (1, 3), (99, 2)):
            found = await service.listed(who, before, last)
            expected = con.releases(last, before)
            assert found == [replace(release, answer=b"") for release in expected]
        await service.close()

    asyncio.run(main())


def test_what_is_known_is_looked_up_while_the_stream_is_held(
    tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the thread that reads columns into memory and this one find the connection busy."""
    free: list[bool] = []
    told = Stream.repeats

    def repeats(stream: Stream, *asked: Any) -> bool:
        other = threading.Thread(target=lambda: free.append(stream.lock.acquire(blocking=False)))
        other.start()
        other.join()
        return told(stream, *asked)

    monkeypatch.setattr(Stream, "repeats", repeats)
    who = person(tokens, "ada")

    async def main() -> None:
        service = Service(made(), tokens)
        await service.ask(who, Statement("SELECT count(*) AS n FROM t"))
        await service.close()

    asyncio.run(main())
    assert free == [False]
