"""What monitoring reads: metrics for Prometheus, readiness, and logs with ids of requests."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from server.made import made

from sparseq.server.service import Service
from sparseq.server.tokens import Role, Tokens

httpx = pytest.importorskip("httpx")
app = pytest.importorskip("sparseq.server.http.app")
request_log = pytest.importorskip("sparseq.server.http.request_log")
Get = Callable[..., Awaitable[Any]]
_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_SAMPLE = re.compile(rf'({_NAME})(\{{{_NAME}="[^"\\\n]*"\}})? (-?[0-9.e+]+)')


def served(check: Callable[[Service, Get], Awaitable[None]]) -> None:
    async def main() -> None:
        service = Service(made(), Tokens(None))
        token = service.tokens.create("ada", Role.CURATOR)
        whole = request_log.with_request_ids(app.application(service))
        transport = httpx.ASGITransport(whole)
        head = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:

            async def get(path: str, **more: str) -> Any:
                return await client.get(path, headers=head | more)

            try:
                await check(service, get)
            finally:
                await service.close()

    asyncio.run(main())


def families(text: str) -> dict[str, tuple[str, list[float]]]:
    """Return kinds and values by metric; text that Prometheus would refuse fails."""
    found: dict[str, tuple[str, list[float]]] = {}
    about = ""
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            about, _, said = line.removeprefix("# HELP ").partition(" ")
            assert said
            assert about not in found
        elif line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split(" ")
            assert name == about
            assert kind in ("counter", "gauge")
            assert (kind == "counter") == name.endswith("_total")
            found[name] = kind, []
        else:
            sample = _SAMPLE.fullmatch(line)
            assert sample is not None, line
            assert sample[1] == about, "samples follow their own description"
            found[about][1].append(float(sample[3]))
    return found


def test_metrics_are_what_prometheus_reads() -> None:
    async def check(service: Service, get: Get) -> None:
        service.counts.update({"answered": 3, "refused": 1})
        answer = await get("/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        found = families(answer.text)
        assert found["sparseq_questions_total"] == ("counter", [3.0, 1.0])
        assert found["sparseq_up"] == found["sparseq_ready"] == ("gauge", [1.0])
        assert found["sparseq_connections_most"][1] == [service.connections.most]
        assert "sparseq_certificate_expiry_timestamp_seconds" not in found

    served(check)


def test_readiness_ends_before_health() -> None:
    async def check(service: Service, get: Get) -> None:
        assert (await get("/readyz")).json() == {"ready": True}
        service.stopping.set()
        assert (await get("/readyz")).status_code == 503
        assert (await get("/healthz")).status_code == 200

    served(check)


def test_requests_have_ids_and_lines(caplog: pytest.LogCaptureFixture) -> None:
    async def check(service: Service, get: Get) -> None:
        given = await get("/v1/catalog", **{"X-Request-ID": "a.b-7"})
        assert given.headers["x-request-id"] == "a.b-7"
        new = await get("/v1/catalog?x=1", **{"X-Request-ID": "no word"})
        assert re.fullmatch(r"[0-9a-f]{16}", new.headers["x-request-id"])

    with caplog.at_level(logging.INFO, "sparseq.requests"):
        served(check)
    facts = [vars(record)["facts"] for record in caplog.records if "facts" in vars(record)]
    assert facts[0] == {"method": "GET", "path": "/v1/catalog", "status": 200, "user": "ada"}
    assert facts[1]["status"] == 400


def test_a_line_is_json_whatever_is_said() -> None:
    record = logging.LogRecord("a", logging.ERROR, "", 0, 'a "quote"\nand é', None, None)
    token = request_log._request.set("r1")
    try:
        line = request_log.JsonLines().format(record)
    finally:
        request_log._request.reset(token)
    assert "\n" not in line
    found = json.loads(line)
    assert found["message"] == 'a "quote"\nand é'
    assert found["request"] == "r1"
    assert found["level"] == "error"
