"""Every route: no other site can use it, whatever is sent is answered, no file holds others up."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sampled import one_in
from server.made import made

from sparseq.server.audit import AuditLog
from sparseq.server.service import Service
from sparseq.server.tokens import Role, Tokens

httpx = pytest.importorskip("httpx")
app = pytest.importorskip("sparseq.server.http.app")
pages = pytest.importorskip("sparseq.server.http.pages")

HERE = {"Origin": "http://here"}
ROUTES = [(one, False) for one in app.ENDPOINTS] + [
    (one, True) for one in (*pages.PAGES, *pages.OPEN)
]
CURIOUS = (
    "",
    "0",
    "-1",
    "1e3",
    "NaN",
    "1" * 5000,
    "9" * 12 + "x",
    "%FF",
    "%00",
    "%ED%A0%80",
    "٣",
    "a" * 9000,
    "[]",
    "{}",
    "..",
    "%2e%2e",
    "'",
    "null",
)
BODIES = (
    b"",
    b"{",
    b"null",
    b"[]",
    b"\xff",
    b'{"sql": "\\ud800"}',
    b"[" * 10_000,
    b'{"sql": NaN}',
    b'{"sql": "SELECT 1", "sql": ""}',
    b'{"sql": "SELECT 1", "price": 1e999}',
    b'{"sql": [[]]}',
    b'{"sql": "SELECT 1", "timeout": ' + b"1" * 5000 + b"}",
    b'{"name": {}, "role": 3}',
    b"sql=%FF&price=1",
    b"name=a&name=b",
    b"token=%00",
    b"a=" + b"&a=" * 50,
    b'{"jsonrpc": "2.0", "id": {}, "method": 3}',
    b'{"sql": "\\u0000"}',
)


def served(check: Callable[[Any, Service], Awaitable[None]], log: AuditLog | None = None) -> None:
    """Check a service of a small store; the client has a curator's token, and is signed in."""

    async def main() -> None:
        service = Service(made(), Tokens(None), audit=log)
        secret = service.tokens.create("cur", Role.CURATOR)
        application = app.application(service, "https://numbers.example.org")
        transport = httpx.ASGITransport(application, raise_app_exceptions=True)
        head = {"Authorization": f"Bearer {secret}", "Cookie": f"sparseq={secret}"}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://here", headers=head
        ) as client:
            try:
                await check(client, service)
            finally:
                await service.close()

    asyncio.run(main())


def path_of(one: Any, text: str = "1") -> str:
    for name in ("{number}", "{name}", "{name:path}"):
        one = str(getattr(one, "path", one)).replace(name, text)
    return one


def test_all_routes_are_in_the_tables() -> None:
    async def check(client: Any, service: Service) -> None:
        found = {(m, r.path) for r in app.application(service).routes for m in r.methods or ()}
        known = {(one.method, one.path) for one, _ in ROUTES}
        assert {(m, p) for m, p in found if m != "HEAD"} - known == {
            ("GET", "/healthz"),
            ("GET", "/readyz"),
            ("GET", "/openapi.json"),
            ("GET", "/static/{name}"),
        }

    served(check)


@pytest.mark.parametrize(
    "origin",
    one_in(
        2,
        [
            {},
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://here.evil.example"},
            {"Origin": "http://here", "Sec-Fetch-Site": "cross-site"},
            {"Origin": "http://here", "Sec-Fetch-Site": "same-site"},
            {"Origin": "http://here", "Sec-Fetch-Site": "none"},
            {"Origin": "http://here:81"},
            {"Origin": "http://[here"},
            {"Origin": "https://numbers.example.org.evil.example"},
        ],
    ),
)
def test_no_other_site_can_change_anything(origin: dict[str, str]) -> None:
    """A browser sends the cookie, and no header of the page's own: nothing happens."""

    async def check(client: Any, service: Service) -> None:
        del client.headers["Authorization"]
        before = len(service.tokens.every()), service.released
        for one, page in ROUTES:
            if one.method == "GET":
                continue
            body = b"sql=SELECT count(*) AS n FROM t&name=cur&role=analyst&token=x"
            answer = await client.request(
                one.method, path_of(one, "cur"), headers=origin, content=body
            )
            assert answer.status_code == (403 if page else 401), one.path
            assert "set-cookie" not in answer.headers
        assert (len(service.tokens.every()), service.released) == before
        assert service.tokens.principal("cur") is not None

    served(check)


@pytest.mark.parametrize(
    "origin",
    [
        {"Origin": "http://here"},
        {"Origin": "https://numbers.example.org", "Host": "127.0.0.1:8080"},
        {"Origin": "https://other.example.org", "Host": "backend", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "https://here", "Host": "here:443"},
    ],
)
def test_these_pages_can_whatever_a_proxy_asks_for(origin: dict[str, str]) -> None:
    async def check(client: Any, service: Service) -> None:
        made_one = await client.post("/curator/tokens", headers=origin, data={"name": "bob"})
        assert "sq_" in made_one.text
        secret = service.tokens.create("eve", Role.ANALYST)
        done = await client.post("/sign-in", headers=origin, data={"token": secret})
        assert done.status_code == 303
        secure = origin["Origin"].startswith("https")
        assert ("Secure" in done.headers["set-cookie"]) is secure
        out = await client.post("/sign-out", headers=origin)
        assert out.status_code == 303
        assert 'sparseq=""' in out.headers["set-cookie"]

    served(check)


def test_whatever_is_sent_is_answered() -> None:
    """No 500 of any route, whatever its path, query and body are; and no text of an exception."""
    draw = random.Random(1)

    async def check(client: Any, service: Service) -> None:
        statuses = set()
        for one, page in ROUTES:
            names = [*one.query, *one.path_fields, *one.form, *one.takes, "other"]
            for text in CURIOUS:
                path = path_of(one, text or "0")
                for query in (f"?{draw.choice(names)}={text}", f"?last={text}&last=1", f"?{text}"):
                    if one.path.endswith("/events") and not text.startswith(("%", "[")):
                        continue  # it would begin
                    body = draw.choice(BODIES) if one.method != "GET" else b""
                    answer = await client.request(
                        one.method, path + query, content=body, headers=HERE if page else {}
                    )
                    assert answer.status_code < 500, (one.path, text, query, body, answer.text)
                    statuses.add(answer.status_code)
            for body in BODIES if one.method == "POST" else ():
                answer = await client.request("POST", path_of(one), content=body, headers=HERE)
                assert answer.status_code < 500, (one.path, body, answer.text)
        assert statuses >= {200, 400, 404}
        late = await client.get("/v1/events", headers={"Last-Event-ID": "1" * 12 + "x"})
        assert late.status_code == 400
        named = await client.post(
            "/v1/query", json={"sql": "SELECT"}, headers={"Idempotency-Key": b"\xff"}
        )
        assert named.status_code == 422

    served(check)


OPENED: list[str] = []
LOOP: list[int] = []


def _heard(event: str, given: tuple[Any, ...]) -> None:
    if LOOP and event in ("open", "os.listdir", "os.rename") and threading.get_ident() == LOOP[0]:
        OPENED.append(f"{event} {given[0]}")


@contextmanager
def watched() -> Iterator[list[str]]:
    """Write down what files this thread opens; a hook stays for ever, so it is idle afterwards."""
    if not OPENED:
        sys.addaudithook(_heard)
    OPENED[:] = ["hooked"]
    LOOP[:] = [threading.get_ident()]
    try:
        yield OPENED
    finally:
        LOOP.clear()


def test_no_route_opens_a_file_in_the_event_loop(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "log", most=500)

    async def check(client: Any, service: Service) -> None:
        await client.post("/ask", data={"sql": "SELECT count(*) AS n FROM t"}, headers=HERE)
        rounds: list[tuple[str, str, Any]] = [
            (one.method, path_of(one), None) for one, _ in ROUTES if one.method == "GET"
        ]
        rounds = [one for one in rounds if not one[1].endswith("/events")]
        rounds += [
            ("POST", "/v1/query", b'{"sql": "SELECT count(*) AS n FROM t"}'),
            ("POST", "/v1/query", b'{"sql": "SELECT count(*) AS n FROM t"}'),
            ("POST", "/v1/query", b'{"sql": "SELECT * FROM t"}'),
            ("POST", "/v1/ingest?name=more.csv", b"who,kind,x\n77,a,1\n"),
            ("POST", "/v1/tokens", b'{"name": "bob"}'),
            ("DELETE", "/v1/tokens/bob", b""),
            ("POST", "/curator/tokens", b"name=eve"),
            ("POST", "/curator/revoke", b"name=eve"),
            ("POST", "/sign-in", b"token=x"),
            ("GET", "/static/page.js", None),
            ("GET", "/healthz", None),
        ]
        for warm in (True, False):  # modules are loaded by the first round
            with watched() as opened:
                for method, path, body in rounds:
                    answer = await client.request(method, path, content=body, headers=HERE)
                    assert answer.status_code < 500
            assert warm or opened == ["hooked"]
        assert len(list(tmp_path.iterdir())) > 3

    served(check, log)


def test_a_browser_gets_a_page_where_there_is_none() -> None:
    """Others get JSON, as everywhere; what was typed is text on the page."""

    async def check(client: Any, service: Service) -> None:
        page = await client.get("/<b>no", headers={"Accept": "text/html,*/*"})
        assert (page.status_code, page.headers["content-type"][:9]) == (404, "text/html")
        assert "there is nothing at GET /&lt;b&gt;no" in page.text
        assert 'href="/"' in page.text
        assert "default-src" in page.headers["content-security-policy"]
        other = await client.get("/nothing")
        assert (other.status_code, "error" in other.json()) == (404, True)

    served(check)
