"""Health: it tells whether answers can be made durable, and nothing of questions or rows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from server.made import made, person

from sparseq.base.errors import DataError, ServerError, StoreError
from sparseq.server import health
from sparseq.server.service import Service, Statement
from sparseq.server.tokens import Tokens

httpx = pytest.importorskip("httpx")
app = pytest.importorskip("sparseq.server.http.app")
COUNT = "SELECT count(*) AS n FROM t WHERE x > "


def served(check: Callable[[Service, Callable[[], Awaitable[int]]], Awaitable[None]]) -> None:
    async def main() -> None:
        service = Service(made(), Tokens(None))
        transport = httpx.ASGITransport(app.application(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:

            async def well() -> int:
                answer = await client.get("/healthz")
                assert answer.json() == {"ok": answer.status_code == 200}
                return int(answer.status_code)

            try:
                await check(service, well)
            finally:
                await service.close()

    asyncio.run(main())


def broken(error: Exception) -> Any:
    def ask_many(*_: Any) -> Any:
        raise error

    return ask_many


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (StoreError("the disk is full"), 503),
        (OSError(28, "No space left on device"), 503),
        (KeyError("a question's own bug"), 200),
    ],
)
def test_every_question_fails(
    error: Exception, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(service: Service, well: Callable[[], Awaitable[int]]) -> None:
        ada = person(service.tokens, "ada")
        store = service._thread.store
        assert await well() == 200
        with monkeypatch.context() as patch:
            patch.setattr(store, "ask_many", broken(error))
            for k in range(2):
                with pytest.raises(ServerError):
                    await service.ask(ada, Statement(COUNT + str(k)))
                assert await well() == status
        assert await well() == status  # until an answer is durable again
        await service.ask(ada, Statement(COUNT + "1"))
        assert await well() == 200

    served(check)


def test_a_curators_file_that_does_not_fit_is_no_failure() -> None:
    async def check(service: Service, well: Callable[[], Awaitable[int]]) -> None:
        ada = person(service.tokens, "ada")
        with pytest.raises(DataError):
            await service.call(ada, broken(DataError("no")))
        assert await well() == 200

    served(check)


def test_nobody_waits_for_the_stream() -> None:
    async def check(service: Service, well: Callable[[], Awaitable[int]]) -> None:
        go = threading.Event()
        held = asyncio.ensure_future(
            service.call(person(service.tokens, "ada"), lambda store: go.wait(30))
        )
        assert await well() == 200
        go.set()
        assert await held

    served(check)


def test_a_thread_that_has_ended_and_a_disk_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(service: Service, well: Callable[[], Awaitable[int]]) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(health.Health, "roomy", lambda _: False)
            assert await well() == 503
        assert await well() == 200
        await asyncio.to_thread(service._thread.close)
        assert await well() == 503

    served(check)


def test_after_a_minute_nothing_is_known() -> None:
    now = [0.0]
    one = health.Health(None, lambda: now[0])
    one.failed(ServerError.__new__(ServerError))
    assert one.well
    try:
        try:
            raise OSError(5, "I/O error")
        except OSError:
            raise ValueError("the cause is what counts") from None
    except ValueError as error:
        one.failed(error)
    assert not one.well
    now[0] = health.SECONDS
    assert one.well
