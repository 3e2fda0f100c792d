"""Looking never waits for a question that is being answered, whatever the question does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from server.made import made, person

from sparseq.engine._duckdb.engine import DuckEngine
from sparseq.server.service import Service, Statement
from sparseq.server.tokens import Tokens

COUNT, OTHER = "SELECT count(*) AS n FROM t", "SELECT count(*) AS n FROM t WHERE x > 3"


@contextmanager
def standing_still(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Have every reading of rows wait until the block ends; the event says that one waits."""
    reads, over, read = threading.Event(), threading.Event(), DuckEngine.contributions

    def waits(self: DuckEngine, *given: Any) -> Any:
        reads.set()
        over.wait(120)
        return read(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(DuckEngine, "contributions", waits)
        try:
            yield reads
        finally:
            over.set()


def test_looking_waits_for_no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        tokens = Tokens(None)
        service = Service(made(), tokens)
        ada, bob = person(tokens, "ada"), person(tokens, "bob")
        try:
            answer = (await service.ask(ada, Statement(COUNT))).answer
            with standing_still(monkeypatch) as reads:
                runs = asyncio.ensure_future(service.ask(ada, Statement(OTHER)))
                assert await asyncio.to_thread(reads.wait, 60)
                async with asyncio.timeout(60):
                    assert (await service.explain(bob, Statement(OTHER))).price
                    known = (await service.standing(bob, Statement(COUNT))).known
                    assert known is not None
                    assert known.arrow().equals(answer.arrow())
                    assert (await service.release(bob, 1)).arrow().equals(answer.arrow())
                    assert (await service.budget(bob))["releases"] == 1
                    assert [one.id for one in await service.history(bob)] == [1]
                    again = await service.ask(bob, Statement(COUNT))
                    assert again.repeat
                    assert again.answer.arrow().equals(answer.arrow())
                assert not runs.done()
            assert not (await runs).repeat
            assert service.released == 2
        finally:
            await service.close()

    asyncio.run(main())
