"""Quotas: what is used up is told by public prices alone; what costs nothing uses nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from server.made import made, person

from sparseq.errors import QueryRefused, ServerError, Why
from sparseq.server.audit import AuditLog
from sparseq.server.service import Service, Statement
from sparseq.server.tokens import Principal, Quota, Tokens
from sparseq.server.usage import DAY


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


def test_a_share_of_the_budget_outlives_the_server(tmp_path: Path) -> None:
    """3 % of 78.75 is 2.36: one question of 1.3125 fits, two don't; one of price 1/2 does."""
    tokens = Tokens(None)
    ada = replace(person(tokens, "ada"), quota=Quota.parse("3%"))

    async def served(*expected: Why | None) -> None:
        service = Service(made(), tokens, audit=AuditLog(tmp_path / "log"))
        cheap = Statement("SELECT count(*) AS n FROM t WHERE x > 9")
        cheap = replace(cheap, options=replace(cheap.options, price=0.5))
        asked = [count(1), count(2), cheap]
        assert [await why(service, ada, one) for one in asked] == list(expected)
        await service.close()

    asyncio.run(served(None, Why.QUOTA, None))
    asyncio.run(served(Why.QUOTA, Why.QUOTA, Why.QUOTA))
