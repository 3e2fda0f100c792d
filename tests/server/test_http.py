"""HTTP: what it answers, whom it lets in, and what it says when something is wrong."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa
import pytest
from sampled import one_in
from server.made import made

from sparseq.answers.answer import Answer
from sparseq.server.service import Service
from sparseq.server.tokens import Role, Tokens

httpx = pytest.importorskip("httpx")
app = pytest.importorskip("sparseq.server.http.app")
endpoints = pytest.importorskip("sparseq.server.http.endpoints")

COUNT = {"sql": "SELECT count(*) AS n FROM t"}
Get = Callable[..., Awaitable[Any]]


def served(check: Callable[[Get, Service], Awaitable[None]], role: Role = Role.ANALYST) -> None:
    """Check a service of a small store over HTTP; `get` has the token of somebody of the role."""

    async def main() -> None:
        service = Service(made(), Tokens(None))
        secret = service.tokens.create("ada", role)
        transport = httpx.ASGITransport(app.application(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:

            async def get(path: str, json: Any = None, **headers: str) -> Any:
                given = {"Authorization": f"Bearer {secret}"} | {
                    name.replace("_", "-"): value for name, value in headers.items()
                }
                method = given.pop("Method", "GET" if json is None else "POST")
                content = json if isinstance(json, bytes) else None
                return await client.request(
                    method,
                    path,
                    headers=given,
                    content=content,
                    json=None if content is not None else json,
                )

            try:
                await check(get, service)
            finally:
                await service.close()

    asyncio.run(main())


def test_a_query_is_answered_in_each_format() -> None:
    alone = made().sql(COUNT["sql"])

    async def check(get: Get, service: Service) -> None:
        answer = await get("/v1/query", COUNT, Idempotency_Key="k")
        assert answer.status_code == 200
        facts = answer.json()
        assert facts["rows"] == alone.rows()
        assert (facts["release"], facts["repeat"]) == (1, False)
        assert "NOT PRIVATE" in facts["said"][0]
        arrow = await get(
            "/v1/query", COUNT, Idempotency_Key="k", Accept="application/vnd.apache.arrow.stream"
        )
        assert arrow.headers["x-sparseq-repeat"] == "true"
        assert Answer.from_bytes(arrow.content).arrow().equals(alone.arrow())
        assert pa.ipc.open_stream(arrow.content).read_all().num_rows == 1
        csv = await get("/v1/releases/1", Accept="text/csv")
        assert csv.text.startswith("n,n_error,n_low,n_high\n")
        assert service.released == 1

    served(check)


def test_what_an_interval_rests_on_is_asked_for() -> None:
    async def check(get: Get, service: Service) -> None:
        people = {"sql": "SELECT count(DISTINCT who) AS n FROM t"}
        proved = await get("/v1/query", people | {"interval": "proved", "at_least_useful": True})
        assert proved.status_code == 200
        assert proved.json()["interval"] == "exact"
        other = await get("/v1/query", COUNT | {"interval": "proved"})
        assert (other.status_code, other.json()["error"]["type"]) == (422, "QueryRefused")
        assert "nothing bounds what one person may add" in other.json()["error"]["message"]
        wrong = await get("/v1/query", COUNT | {"interval": "sure"})
        assert (wrong.status_code, service.released) == (400, 1)

    served(check)


def test_looking_is_free() -> None:
    async def check(get: Get, service: Service) -> None:
        facts = (await get("/v1/explain", COUNT)).json()
        assert facts["charged"] is False
        assert [c["name"] for c in facts["columns"]] == ["n", "n_error", "n_low", "n_high"]
        for path in ("catalog", "releases", "series", "budget"):
            assert (await get(f"/v1/{path}")).status_code == 200
        assert "sparseq_releases 0" in (await get("/metrics")).text
        assert service.released == 0

    served(check)


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    one_in(
        2,
        [
            (b"{", 400, "ParameterError"),
            (b"[1]", 400, "ParameterError"),
            (b"[" * 100_000, 400, "ParameterError"),
            ({}, 400, "ParameterError"),
            ({"sql": 3}, 400, "ParameterError"),
            ({"sql": "SELECT 1", "params": 3}, 400, "ParameterError"),
            (COUNT | {"prize": 2}, 400, "ParameterError"),
            (COUNT | {"price": "2"}, 400, "ParameterError"),
            (COUNT | {"price": -2}, 400, "ParameterError"),
            (COUNT | {"price": 10**400}, 400, "ParameterError"),
            (COUNT | {"timeout": 0}, 400, "ParameterError"),
            (COUNT | {"sigma": 3, "price": 2}, 400, "ParameterError"),
            ({"sql": "SELECT * FROM t"}, 422, "QueryRefused"),
            ({"sql": "SELEC"}, 422, "QueryRefused"),
            ({"sql": "SELECT count(*) FROM t; DROP TABLE t"}, 422, "QueryRefused"),
            ({"sql": "SELECT count(*) FROM read_csv('/etc/passwd')"}, 422, "QueryRefused"),
            ({"sql": "x" * 100_001}, 422, "QueryRefused"),
            (b" " * (endpoints.MOST_BODY + 1), 413, "size"),
        ],
    ),
)
def test_what_is_wrong_is_said_and_costs_nothing(body: Any, status: int, kind: str) -> None:
    async def check(get: Get, service: Service) -> None:
        answer = await get("/v1/query", body)
        assert answer.status_code == status
        error = answer.json()["error"]
        assert error["charged"] is False
        assert error["message"]
        assert error["type"] == kind or kind == "QueryRefused"
        assert service.released == 0

    served(check)


def test_who_has_no_token_sees_nothing() -> None:
    async def check(get: Get, service: Service) -> None:
        for one in app.ENDPOINTS:
            path = one.path.replace("{number}", "1").replace("{name}", "ada")
            body = {} if one.method == "POST" else None
            for given in ("Basic YTpi", "Bearer", ""):
                answer = await get(path, body, Authorization=given, Method=one.method)
                assert answer.status_code == 401
                assert "has no token" in answer.text
            answer = await get(path, body, Authorization="Bearer sq_wrong", Method=one.method)
            assert answer.status_code == 401  # fewer than 20 of them: nothing else was counted
        assert (await get("/healthz", Authorization="")).json() == {"ok": True}

    served(check)


def test_wrong_tokens_have_to_wait_and_right_ones_not() -> None:
    async def check(get: Get, service: Service) -> None:
        codes = [
            (await get("/v1/catalog", Authorization="Bearer x")).status_code for _ in range(25)
        ]
        assert codes[0] == 401
        assert codes[-1] == 503
        assert (await get("/v1/catalog")).status_code == 200
        assert [line["what"] for line in service.desk.audit.lines()] == ["wrong token"] * 2

    served(check)


def test_a_timeout_ends_waiting() -> None:
    async def check(get: Get, service: Service) -> None:
        go = threading.Event()
        who = service.signed_in(service.tokens.create("bob", Role.ANALYST))
        held = asyncio.ensure_future(service.call(who, lambda store: go.wait(30)))
        late = await get("/v1/query", COUNT | {"timeout": 0.01})
        assert late.status_code == 504
        assert late.json()["error"]["type"] == "timeout"
        go.set()
        assert await held
        assert (await get("/v1/query", COUNT | {"timeout": 60})).json()["release"] == 1

    served(check)


def test_a_token_is_over_at_once_and_a_role_is_a_limit() -> None:
    async def check(get: Get, service: Service) -> None:
        assert (await get("/v1/query", COUNT)).status_code == 403
        assert (await get("/metrics")).status_code == 200
        service.tokens.revoke("ada")
        assert (await get("/metrics")).status_code == 401

    served(check, Role.MONITOR)


def test_each_address_is_described() -> None:
    async def check(get: Get, service: Service) -> None:
        paths = (await get("/openapi.json")).json()["paths"]
        assert {(m.upper(), p) for p, one in paths.items() for m in one} == {
            (e.method, e.path) for e in app.ENDPOINTS
        }
        assert all(one["summary"] for path in paths.values() for one in path.values())
        missing = await get("/v1/nothing")
        assert missing.status_code == 404
        assert missing.json()["error"]["type"] == "absent"
        assert (await get("/v1/releases/7")).status_code == 404
        assert (await get("/v1/releases?last=x")).status_code == 400

    served(check)


def test_a_curator_brings_rows_and_makes_tokens() -> None:
    async def check(get: Get, service: Service) -> None:
        csv = b"who,kind,x\n77,a,1\n78,b,2\n"
        assert (await get("/v1/ingest", csv)).status_code == 400
        done = await get("/v1/ingest?name=more.csv&once=k", csv)
        assert done.json()["rows"] == 2
        assert (await get("/v1/ingest?name=more.csv&once=k", csv)).json()["rows"] == 0
        assert (await get("/v1/ingest?name=bad.csv", b"nobody\n1\n")).status_code == 422
        made_one = await get("/v1/tokens", {"name": "bob", "quota": "3/day", "days": 9})
        secret = made_one.json()["token"]
        assert (await get("/v1/budget", Authorization=f"Bearer {secret}")).status_code == 200
        assert (await get("/v1/audit", Authorization=f"Bearer {secret}")).status_code == 403
        assert (await get("/v1/tokens", {"name": "bob"})).status_code == 400
        assert (await get("/v1/tokens", {"name": "eve", "role": "king"})).status_code == 400
        assert secret not in (await get("/v1/tokens")).text
        assert (await get("/v1/tokens/bob", Method="DELETE")).status_code == 200
        assert (await get("/v1/budget", Authorization=f"Bearer {secret}")).status_code == 401
        assert (await get("/v1/tokens/bob", Method="DELETE")).status_code == 404
        lines = (await get("/v1/audit?last=3")).json()
        assert [line["what"] for line in lines] == ["wrong token", "token revoked", "token made"]
        assert (await get("/v1/backup", {})).status_code == 400

    served(check, Role.CURATOR)


def test_events_tell_of_new_answers() -> None:
    async def check(get: Get, service: Service) -> None:
        assert (await get("/v1/query", COUNT)).status_code == 200
        waiting = asyncio.ensure_future(get("/v1/events", Last_Event_ID="0"))
        await service.grown(0)
        asyncio.get_running_loop().call_later(0.05, service.stop)
        stream = (await waiting).text
        assert "event: release\nid: 1\n" in stream
        assert "SELECT count(*)" in stream

    served(check)
