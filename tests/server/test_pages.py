"""The pages: nobody sees one without a token, no other site can use them, all text is text."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from server.made import made

from sparseq.ledger.notes import Asker, RequestId
from sparseq.server.service import Service
from sparseq.server.tokens import Role, Tokens

httpx = pytest.importorskip("httpx")
app = pytest.importorskip("sparseq.server.http.app")
pages = pytest.importorskip("sparseq.server.http.pages")

HERE = {"Origin": "http://here"}
SQL = "SELECT kind, count(*) AS n FROM t WHERE kind <> '<b>&' GROUP BY kind"
VOID = ("meta", "link", "input", "br", "line", "rect", "circle", "path")


class Tags(HTMLParser):
    """Every tag of a page is closed; `names` are all of them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.open: list[str] = []
        self.inline: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.inline += [name for name, _ in attrs if name.startswith("on")]
        if tag == "script":
            assert dict(attrs).get("src") or dict(attrs).get("type") == "application/json"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def visited(
    check: Callable[[Any, Service], Awaitable[None]], role: Role = Role.ANALYST, sign: bool = True
) -> None:
    """Check the pages of a small store, signed in as somebody of the role."""

    async def main() -> None:
        service = Service(made(), Tokens(None))
        secret = service.tokens.create("ada", role)
        transport = httpx.ASGITransport(app.application(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            if sign:
                done = await client.post("/sign-in", data={"token": secret}, headers=HERE)
                assert done.status_code == 303
            try:
                await check(client, service)
            finally:
                await service.close()

    asyncio.run(main())


def test_a_question_from_the_editor_to_its_answer() -> None:
    async def check(client: Any, service: Service) -> None:
        looked = await client.get("/ask", params={"sql": SQL})
        assert "Nothing was asked, nothing charged." in looked.text
        part = await client.get("/ask", params={"sql": SQL, "part": "1"})
        assert part.text.startswith("<h2>What it would be</h2>")
        assert service.released == 0
        form = {"sql": SQL.replace(" FROM", "\r\nFROM"), "price": "1"}
        asked = await client.post("/ask", data=form, headers=HERE)
        assert asked.headers["location"] == "/answers/1?price=1"
        page = await client.get("/answers/1")
        assert "&lt;b&gt;&amp;" in page.text
        assert "<b>" not in page.text
        assert service.latest.held[0].query == SQL.replace(" FROM", "\nFROM")
        assert (await client.get("/answers/1?as=csv")).text.startswith("kind,n,")
        assert (await client.get("/answers/1?as=exe")).status_code == 400
        listed = await client.get("/answers")
        assert 'href="/answers/1"' in listed.text
        refused = await client.post("/ask", data={"sql": "SELECT * FROM t"}, headers=HERE)
        assert refused.status_code == 422
        assert "release rows about people" in refused.text

    visited(check)


def test_a_figure_is_drawn_over_an_ordered_key() -> None:
    async def check(client: Any, service: Service) -> None:
        sql = "SELECT x, count(*) AS n FROM t WHERE x IN (1, 2, 3) GROUP BY x"
        await client.post("/ask", data={"sql": sql}, headers=HERE)
        page = await client.get("/answers/1")
        assert "<figure" in page.text
        Tags(page.text)

    visited(check)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/ask",
        "/dashboard",
        "/saved",
        "/answers",
        "/series",
        "/budget",
        "/curator",
        "/answers/9",
    ],
)
def test_each_page_is_whole_and_keeps_to_its_policy(path: str) -> None:
    async def check(client: Any, service: Service) -> None:
        page = await client.get(path)
        assert page.status_code == (404 if path == "/answers/9" else 200)
        tags = Tags(page.text)
        assert "style" not in tags.names
        assert tags.inline == []
        assert "http://" not in page.text.replace("http://www.w3.org", "")
        assert "https://" not in page.text
        assert page.headers["content-security-policy"] == pages.POLICY
        assert page.headers["cache-control"] == "no-store"

    visited(check, Role.CURATOR)


def test_a_series_is_drawn_over_its_ticks() -> None:
    async def check(client: Any, service: Service) -> None:
        def ask(store: Any) -> None:
            for day in range(1, 4):
                query = store.lower(f"SELECT count(*) AS n FROM t WHERE x > {day}")
                name = RequestId.of(Asker.MONITOR, "a/b <i>", f"2024-01-0{day}", question="n")
                store.ask(query, request_id=name)

        who = service.signed_in(service.tokens.create("bob", Role.ANALYST))
        await service.call(who, ask)
        listed = await client.get("/series")
        assert "a/b &lt;i&gt;" in listed.text
        page = await client.get("/series/a/b%20%3Ci%3E")
        assert "<figure" in page.text
        assert "<i>" not in page.text
        assert "2024-01-03" in page.text
        Tags(page.text)
        assert (await client.get("/series/other")).status_code == 404

    visited(check)


def test_nobody_sees_a_page_without_a_token() -> None:
    async def check(client: Any, service: Service) -> None:
        for one in pages.PAGES:
            path = one.path.replace("{number}", "1").replace("{name:path}", "a")
            page = await client.request(one.method, path, headers=HERE)
            assert 'name="token"' in page.text
            assert "cdnow" not in page.text
        wrong = await client.post("/sign-in", data={"token": "sq_no"}, headers=HERE)
        assert wrong.status_code == 401
        assert "set-cookie" not in wrong.headers

    visited(check, sign=False)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://elsewhere"},
        {"Origin": "null"},
        HERE | {"Sec-Fetch-Site": "cross-site"},
        HERE | {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_no_other_site_can_ask(headers: dict[str, str]) -> None:
    async def check(client: Any, service: Service) -> None:
        form = {"sql": "SELECT count(*) AS n FROM t"}
        assert (await client.post("/ask", data=form, headers=headers)).status_code == 403
        assert service.released == 0

    visited(check)


def test_the_cookie_is_the_browsers_alone() -> None:
    async def check(client: Any, service: Service) -> None:
        done = await client.post(
            "/sign-in", data={"token": service.tokens.create("bob", Role.ANALYST)}, headers=HERE
        )
        cookie = done.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert (await client.get("/curator")).status_code == 403
        service.tokens.revoke("bob")
        assert 'name="token"' in (await client.get("/answers")).text

    visited(check, sign=False)


def test_a_curator_makes_and_revokes_tokens() -> None:
    async def check(client: Any, service: Service) -> None:
        form = {"name": "bob", "role": "analyst", "quota": "3/day"}
        shown = await client.post("/curator/tokens", data=form, headers=HERE)
        assert "sq_" in shown.text
        assert "sq_" not in (await client.get("/curator")).text
        wrong = await client.post("/curator/tokens", data=form | {"role": "king"}, headers=HERE)
        assert "role is" in wrong.text
        await client.post("/curator/revoke", data={"name": "bob"}, headers=HERE)
        assert service.tokens.principal("bob") is None
        assert "token revoked" in (await client.get("/curator/audit")).text

    visited(check, Role.CURATOR)
