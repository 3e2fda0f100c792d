"""Quotas: what is used up is told by public prices alone; what costs nothing uses nothing."""

from __future__ import annotations

import asyncio
import datetime as dt
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from server.made import ROWS, made, person

import sparseq
from sparseq.base.errors import QueryRefused, ServerError, Why
from sparseq.server.audit import AuditLog
from sparseq.server.quota_desk import Desk
from sparseq.server.quota_totals import DAY, QuotaTotals
from sparseq.server.service import Service, Statement
from sparseq.server.tokens import Principal, Quota, Role, Tokens
from sparseq.store.store import Store
from sparseq.stream.batches import Outcome


def count(i: int, request_id: str = "") -> Statement:
    return Statement(f"SELECT count(*) AS n FROM t WHERE x > {i}", request_id=request_id)


async def why(service: Service, who: Principal, statement: Statement) -> Why | None:
    try:
        await service.ask(who, statement)
    except ServerError as error:
        return error.why
    return None


def test_so_many_a_day(tmp_path: Path) -> None:
    tokens = Tokens(None)
    ada, bob = person(tokens, "ada"), person(tokens, "bob")
    ada = replace(ada, quota=Quota.parse("2/day"))

    async def main() -> None:
        service = Service(made(), tokens, audit=AuditLog(tmp_path / "log"))
        assert await why(service, ada, count(1, "a")) is None
        with pytest.raises(QueryRefused):
            await service.ask(ada, Statement("SELECT * FROM t"))
        assert await why(service, ada, count(1, "a")) is None  # recorded: free
        assert await why(service, ada, count(2)) is None
        assert await why(service, ada, count(3)) == Why.QUOTA
        assert await why(service, ada, count(1, "a")) is None
        assert await why(service, bob, count(4)) is None
        now = service.desk.seconds() + DAY + 600
        service.desk.seconds = lambda: now
        assert await why(service, ada, count(3)) is None
        await service.close()

    asyncio.run(main())


def test_two_servers_of_a_lake_count_together(tmp_path: Path) -> None:
    """Each reads first what the other has written: what that has answered is of the same quota."""
    pytest.importorskip("deltalake")
    path = f"lake://{tmp_path / 'lake'}"
    sparseq.create(path, {"t": ROWS}, user="who", bounds={"x": (0, 7)}, buckets=1).close()
    tokens = Tokens(None)
    ada = replace(person(tokens, "ada"), quota=Quota.parse("3/day"))

    async def main() -> None:
        one, other = (
            Service(sparseq.connect(path), tokens, audit=AuditLog(tmp_path / "log"))
            for _ in range(2)
        )
        assert await why(one, ada, count(1)) is None
        assert await why(other, ada, count(2)) is None
        assert other.desk.used("ada")[0] == 2
        assert await why(one, ada, count(3)) is None
        assert await why(other, ada, count(4)) == Why.QUOTA
        await one.close()
        await other.close()

    asyncio.run(main())


def test_a_server_of_a_lake_gives_nothing_again_that_lacks_rows(tmp_path: Path) -> None:
    """Rows that came by another driver are in the next answer, though it has one in memory."""
    pytest.importorskip("deltalake")
    path = f"lake://{tmp_path / 'lake'}"
    sparseq.create(path, {"t": ROWS}, user="who", bounds={"x": (0, 7)}, buckets=1).close()
    tokens = Tokens(None)
    ada = person(tokens, "ada")

    async def main() -> None:
        service = Service(sparseq.connect(path), tokens, audit=AuditLog(tmp_path / "log"))
        replies = [await service.ask(ada, count(1)) for _ in range(3)]
        assert [reply.repeat for reply in replies] == [False, True, True]
        with sparseq.connect(path) as driver:
            driver.ingest(ROWS, "t", again=True)
        replies = [await service.ask(ada, count(1)) for _ in range(2)]
        assert [reply.repeat for reply in replies] == [False, True]
        await service.close()

    asyncio.run(main())


@pytest.mark.parametrize("lost", ["the last, but not a repeat", "out of the midst"])
def test_an_answer_that_the_log_lacks_counts(tmp_path: Path, lost: str) -> None:
    """The server was killed before it wrote of it, though somebody was given it again; or power was
    lost, and with it a part of the file."""
    tokens, path = Tokens(None), tmp_path / "log"
    ada = replace(person(tokens, "ada"), quota=Quota.parse("3/day"))

    async def first() -> None:
        service = Service(made(tmp_path / "s.sparseq"), tokens, audit=AuditLog(path))
        for i in (1, 2):
            await service.ask(ada, count(i, f"a{i}"))
        service.desk.tell("asked", "bob", release=2, price=0.0, repeat=True)
        await service.close()

    async def second() -> None:
        store = sparseq.connect(tmp_path / "s.sparseq")
        service = Service(store, tokens, audit=AuditLog(path))
        assert service.desk.used("ada")[0] == 2
        assert await why(service, ada, count(3)) is None
        assert await why(service, ada, count(4)) == Why.QUOTA
        await service.close()

    asyncio.run(first())
    lines = path.read_bytes().splitlines(keepends=True)
    asked = [i for i, line in enumerate(lines) if b'"asked"' in line and b'"ada"' in line]
    assert len(asked) == 2
    if lost == "out of the midst":
        lines[asked[0]] = bytes(len(lines[asked[0]]))
    else:
        del lines[asked[1]]
    path.write_bytes(b"".join(lines))
    asyncio.run(second())
    asyncio.run(second_again(tmp_path, tokens))


async def second_again(folder: Path, tokens: Tokens) -> None:
    """What was found once is not found again."""
    service = Service(sparseq.connect(folder / "s.sparseq"), tokens, audit=AuditLog(folder / "log"))
    assert service.desk.used("ada")[0] == 3
    await service.close()


def test_a_share_of_the_budget_outlives_the_server(tmp_path: Path) -> None:
    """4.5 % of 78.75 is 3.54: the first question costs 2.3125, with a pilot of all rows; another
    one of 1.3125 doesn't fit; one of price 1/2 does."""
    tokens = Tokens(None)
    ada = replace(person(tokens, "ada"), quota=Quota.parse("4.5%"))

    async def served(*expected: Why | None) -> None:
        service = Service(made(), tokens, audit=AuditLog(tmp_path / "log"))
        cheap = Statement("SELECT count(*) AS n FROM t WHERE x > 9")
        cheap = replace(cheap, options=replace(cheap.options, price=0.5))
        asked = [count(1), count(2), cheap]
        assert [await why(service, ada, one) for one in asked] == list(expected)
        await service.close()

    asyncio.run(served(None, Why.QUOTA, None))
    asyncio.run(served(Why.QUOTA, Why.QUOTA, Why.QUOTA))


@cache
def empty() -> Store:
    return made()


class Clocks:
    """The machine's clock, which jumps, and one that does not."""

    def __init__(self) -> None:
        self.wall, self.seconds = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC), 1000.0

    def desk(self, log: AuditLog) -> Desk:
        desk = Desk(log, 100.0, lambda: self.wall, lambda: self.seconds)
        desk.begin(empty())
        return desk

    def pass_(self, seconds: float, wall: float | None = None) -> None:
        self.seconds += seconds
        self.wall += dt.timedelta(seconds=seconds if wall is None else wall)


ADA = Principal("ada", Role.ANALYST, Quota.parse("3/day"), 1)


def admitted(desk: Desk) -> bool:
    """Ask once: is it let in? The answer, of price 1, is new."""
    try:
        desk.admit(ADA, 1.0)
    except ServerError:
        return False
    desk.settle(ADA, "SELECT 1", 1.0, None)  # nobody can tell, so it counts
    desk.write()
    return True


YEAR = 365 * DAY


@pytest.mark.parametrize(
    "jumps", [(YEAR, -YEAR), (-YEAR, YEAR), (YEAR,), (-YEAR,), (DAY, DAY, -DAY)]
)
@pytest.mark.parametrize("restart", [False, True])
def test_a_clock_that_jumps_changes_no_quota(jumps: tuple[float, ...], restart: bool) -> None:
    clocks, log = Clocks(), AuditLog(None)
    desk = clocks.desk(log)
    assert [admitted(desk) for _ in range(4)] == [True] * 3 + [False]
    for jump in jumps:
        clocks.pass_(60, wall=jump)
        desk.tell("asked", "bob", release=1, price=1.0, repeat=True)
        if restart:
            desk = clocks.desk(log)
        assert not admitted(desk)
    clocks.pass_(DAY - 60 * len(jumps) - 1)
    assert not admitted(desk)
    clocks.pass_(602)
    assert [admitted(desk) for _ in range(4)] == [True] * 3 + [False]


def test_between_two_runs_the_machines_clock_tells() -> None:
    clocks, log = Clocks(), AuditLog(None)
    assert [admitted(clocks.desk(log)) for _ in range(4)] == [True] * 3 + [False]
    clocks.pass_(-500, wall=DAY / 2)  # another boot: the seconds begin anew
    assert not admitted(clocks.desk(log))
    clocks.pass_(7, wall=DAY / 2 + 600)
    assert admitted(clocks.desk(log))


@settings(max_examples=60)
@given(
    moves=st.lists(
        st.tuples(st.floats(0, DAY / 3), st.floats(-3 * YEAR, 3 * YEAR), st.booleans()),
        max_size=60,
    )
)
def test_never_more_than_the_quota_within_any_24_hours(
    moves: list[tuple[float, float, bool]],
) -> None:
    """However clocks jump while it runs, files turn and servers begin anew; it is let in again."""
    clocks, log = Clocks(), AuditLog(None, most=3000)
    desk, times = clocks.desk(log), []
    for seconds, jump, restart in moves:
        clocks.pass_(seconds, wall=jump)
        desk.tell("token made", "", token="x")
        if restart:
            desk = clocks.desk(log)
        within = [t for t in times if clocks.seconds - t < DAY]
        if admitted(desk):
            assert len(within) < 3
            times.append(clocks.seconds)
        else:
            assert len([t for t in times if clocks.seconds - t < DAY + 601]) >= 3


def test_the_log_is_read_as_it_was_written() -> None:
    """What a server knows when it begins is what it knew: over files, and of each kind of line."""
    clocks, log = Clocks(), AuditLog(None, most=500)
    desk = clocks.desk(log)
    for k in range(50):
        clocks.pass_(700 * k)
        admitted(desk)
        desk.refuse(ADA, "SELECT", QueryRefused("no"))
        desk.tell("found", "bob", release=k, price=0.5)
        desk.write()
    assert log.latest(1000)[-1]["what"] == "sum"
    again = QuotaTotals.of(log)
    assert again.line() == QuotaTotals.of(log).line()
    for name in ("ada", "bob"):
        assert clocks.desk(log).used(name) == desk.used(name)
    assert again.used["ada"].refused.total(desk.clock) > 0
    assert again.release == 49
    assert clocks.desk(log).recent("bob") == desk.recent("bob") == tuple(range(49, 29, -1))


def test_lines_of_an_earlier_version_count() -> None:
    log = AuditLog(None)
    log.add([{"what": "asked", "who": "ada", "price": 1.5, "release": k} for k in (1, 2)])
    log.add([{"what": "asked", "who": "ada", "price": 9.0, "release": 2, "repeat": True}])
    log.add([{"what": "asked", "who": 7, "price": "x", "at": "never"}, {"what": "sum", "used": 3}])
    desk = Desk(log, 100.0)
    desk.begin(empty())
    assert desk.used("ada") == (2, 3.0)
    assert desk.recent("ada") == (2, 1)
    log.add([{"what": "sum", "losses": [], "used": {"ada": [[], [], 4.5]}}])
    assert QuotaTotals.of(log).used["ada"].price == 4.5


def test_what_is_asked_and_not_answered_yet_counts() -> None:
    desk = Clocks().desk(AuditLog(None))
    for _ in range(3):
        desk.admit(ADA, 1.0)
    with pytest.raises(ServerError, match="used up"):
        desk.admit(ADA, 1.0)
    desk.settle(ADA, "SELECT", 1.0, Outcome(refused=QueryRefused("no")))
    desk.admit(ADA, 1.0)


def test_too_many_refused_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in the log, and as long as they are many no other is taken; repeats are."""
    monkeypatch.setattr("sparseq.server.quota_desk.MOST_REFUSED", 3)
    tokens = Tokens(None)
    ada, bob = person(tokens, "ada"), person(tokens, "bob")

    async def main() -> None:
        service = Service(made(), tokens)
        for _ in range(2):
            assert await why(service, ada, count(1)) is None
        for _ in range(3):
            with pytest.raises(QueryRefused):
                await service.ask(ada, Statement("SELECT * FROM t" + " " * 5000))
        for _ in range(3):
            assert await why(service, ada, count(2)) == Why.QUOTA
        assert await why(service, ada, count(1)) is None
        assert await why(service, bob, count(2)) is None
        lines = service.desk.audit.latest(100)
        assert [line["what"] for line in lines].count("refused") == 3
        assert all(len(line["query"]) < 2100 for line in lines)
        now = service.desk.seconds() + DAY + 600
        service.desk.seconds = lambda: now
        assert await why(service, ada, count(3)) is None
        await service.close()

    asyncio.run(main())
