"""The pages: nobody sees one without a token, no other site can use them, all text is text."""

from __future__ import annotations

import asyncio
import datetime as dt
import html
import re
from collections.abc import Awaitable, Callable
from html.parser import HTMLParser
from typing import Any

import pyarrow as pa
import pytest
from server.made import ROWS, made

import sparseq
from sparseq.ledger.request_id import Asker, RequestId
from sparseq.server import saved_questions
from sparseq.server.fields import InputType
from sparseq.server.service import Service, Statement
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
        "/curator/audit",
        "/new-series",
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
        assert "Nothing has been asked yet." in (await client.get("/answers")).text
        ticks = (await client.get("/answers?ticks=1")).text
        assert ticks.count("a tick of a/b &lt;i&gt;") == 3

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


def form_of(text: str, path: str) -> dict[str, str]:
    """The hidden fields of the form of a page that is sent to this path."""
    (form,) = re.findall(rf'<form method="post" action="{path}".*?</form>', text, re.DOTALL)
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))


X = "SELECT count(*) AS n FROM t WHERE x > 3"
NAME = "<script>alert(1)</script> & 'visits'"


def test_a_saved_question_is_shown_free_until_somebody_asks_anew() -> None:
    """Looking asks nothing, on the same data and on others; only the form does, and it says so."""

    async def check(client: Any, service: Service) -> None:
        asked = await client.post("/ask", data={"sql": X}, headers=HERE)
        page = await client.get(asked.headers["location"])
        hidden = {name: html.unescape(v) for name, v in form_of(page.text, "/saved").items()}
        assert hidden == {"sql": X, "price": "1", "answer": "1"}
        form = hidden | {"name": NAME, "look": "table", "place": "1"}
        saved = await client.post("/saved", data=form, headers=HERE)
        assert saved.headers["location"] == "/saved/1"
        assert (await client.post("/saved", data=form, headers=HERE)).status_code == 400  # its name
        for path in ("/dashboard", "/saved", "/saved/1"):
            shown = (await client.get(path)).text
            assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &#39;visits&#39;" in shown
            assert "<script>" not in shown
            Tags(shown)
        before = (await client.get("/dashboard")).text
        assert "Up to date" in before
        assert "/saved/1/ask" not in before
        same = form_of((await client.get("/saved/1")).text, "/saved/1/ask")
        assert same["fresh"] == "1"
        for _ in range(2):  # the same form sent twice asks once
            again = await client.post("/saved/1/ask", data=same, headers=HERE)
            assert again.headers["location"] == "/saved/1"
        assert service.released == 2
        assert 'href="/answers/2"' in (await client.get("/dashboard")).text

        await service.operate(lambda store: store.ingest(ROWS.slice(0, 7)))
        stale = (await client.get("/dashboard")).text
        assert 'href="/answers/2"' in stale
        assert "A new answer costs at most 1.7 % of what is planned" in stale
        assert service.released == 2
        sent = form_of(stale, "/saved/1/ask")
        assert "fresh" not in sent
        back = await client.post("/saved/1/ask", data=sent, headers=HERE)
        assert back.headers["location"] == "/dashboard#q1"
        assert service.released == 3
        assert 'href="/answers/3"' in (await client.get("/dashboard")).text

    visited(check)


def test_a_question_that_follows_from_another_answer_has_its_own() -> None:
    """What is read off another question's answer is shown as asked, and can be saved: free."""

    async def check(client: Any, service: Service) -> None:
        groups = "SELECT kind, count(*) AS n FROM t GROUP BY kind"
        await client.post("/ask", data={"sql": groups}, headers=HERE)
        one = "SELECT count(*) AS of_a FROM t WHERE kind = 'a'"
        led = await client.post("/ask", data={"sql": one}, headers=HERE)
        page = await client.get(led.headers["location"])
        assert page.status_code == 200
        (file,) = re.findall(r'href="(/known[^"]*as=csv)"', page.text)
        assert (await client.get(html.unescape(file))).text.startswith("of_a,")
        assert "<th>of_a</th>" in page.text
        assert "<th>kind</th>" not in page.text
        form = form_of(page.text, "/saved") | {"sql": one, "name": "a", "place": "1"}
        assert (await client.post("/saved", data=form, headers=HERE)).status_code == 303
        dashboard = (await client.get("/dashboard")).text
        assert "of_a" in dashboard
        assert ">kind<" not in dashboard
        assert service.released == 1
        assert (await client.get("/known", params={"sql": X})).status_code == 404
        unknown = {"sql": X, "name": "b"}
        assert (await client.post("/saved", data=unknown, headers=HERE)).status_code == 400
        assert service.released == 1

    visited(check)


def test_a_saved_question_looks_as_it_was_said() -> None:
    async def check(client: Any, service: Service) -> None:
        by_x = "SELECT floor(x) AS b, count(*) AS n FROM t GROUP BY b"
        asked = await client.post("/ask", data={"sql": by_x}, headers=HERE)
        assert asked.headers["location"].startswith("/answers/1?")
        found = {}
        for look in ("chart", "bars", "table"):
            form = {"sql": by_x, "answer": "1", "name": look, "look": look}
            saved = await client.post("/saved", data=form, headers=HERE)
            page = (await client.get(saved.headers["location"])).text
            found[look] = ("<figure" in page, 'class="bars"' in page)
        assert found == {"chart": (True, False), "bars": (True, True), "table": (False, False)}

    visited(check)


def test_a_question_about_public_tables_alone_is_shown_and_no_release() -> None:
    async def main() -> None:
        rows, kinds = pa.table({"who": [1, 2]}), pa.table({"kind": ["a"], "name": ["<b>"]})
        store = sparseq.create(None, {"t": rows}, user="who", public={"p": kinds}, seed=1)
        service = Service(store, Tokens(None))
        secret = service.tokens.create("ada", Role.ANALYST)
        transport = httpx.ASGITransport(app.application(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            await client.post("/sign-in", data={"token": secret}, headers=HERE)
            asked = await client.post("/ask", data={"sql": "SELECT name FROM p"}, headers=HERE)
            page = (await client.get(asked.headers["location"])).text
            assert "<h1>Answer</h1>" in page
            assert "About public tables only: exact" in page
            assert "&lt;b&gt;" in page
            assert service.released == 0
        await service.close()

    asyncio.run(main())


def test_who_may_change_a_saved_question() -> None:
    async def check(client: Any, service: Service) -> None:
        await client.post("/ask", data={"sql": X}, headers=HERE)
        saved = {"sql": X, "answer": "1", "name": "big", "look": "table"}
        await client.post("/saved", data=saved, headers=HERE)
        changed = {"name": "large", "look": "chart", "place": "2"}
        for name, role, status in [
            ("bob", Role.ANALYST, 403),
            ("mon", Role.MONITOR, 403),
            ("cur", Role.CURATOR, 303),
        ]:
            client.cookies.set("sparseq", service.tokens.create(name, role), domain="here.local")
            for path in ("/saved/1", "/saved/1/delete"):
                page = (await client.get("/saved/1")).text
                assert (f'action="{path}"' in page) is (status == 303)
                done = await client.post(path, data=changed, headers=HERE)
                assert done.status_code == status, (name, path)
                if (path, status) == ("/saved/1", 303):
                    assert ">large</a>" in (await client.get("/dashboard")).text
        assert service.saved.every() == []
        assert (await client.get("/saved/1")).status_code == 404

    visited(check)


def test_how_many_questions_are_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("MOST_EACH", 3), ("MOST_SHOWN", 1)):
        monkeypatch.setattr(saved_questions, name, most)

    async def check(client: Any, service: Service) -> None:
        await client.post("/ask", data={"sql": X}, headers=HERE)
        for name, place, status in [
            ("a", "1", 303),
            ("a", "", 400),
            (" ", "", 400),
            ("b", "2", 400),
            ("b", "", 303),
            ("c", "", 303),
            ("d", "", 400),
        ]:
            form = {"sql": X, "answer": "1", "name": name, "place": place}
            done = await client.post("/saved", data=form, headers=HERE)
            assert done.status_code == status, (name, place)
        taken = await client.post("/saved/2", data={"name": "a"}, headers=HERE)
        assert taken.status_code == 400
        assert [one.shown.name for one in service.saved.every()] == ["a", "b", "c"]
        monkeypatch.setattr(saved_questions, "MOST_ANSWER", 100)
        await client.post("/saved/1/delete", headers=HERE)
        long = await client.post("/saved", data={"sql": X, "name": "a"}, headers=HERE)
        assert "is too long to be kept" in long.text

    visited(check)


def test_the_first_page_has_ones_own_questions_and_no_others() -> None:
    async def check(client: Any, service: Service) -> None:
        who = service.signed_in(service.tokens.create("bob", Role.ANALYST))
        await service.ask(who, Statement("SELECT count(*) AS of_bob FROM t"))
        await client.post("/ask", data={"sql": X}, headers=HERE)
        page = (await client.get("/")).text
        assert "x &gt; 3" in page
        assert "of_bob" not in page
        assert "0 to 7" in page  # declared bounds, and keys
        assert "groups: a, b" in page
        assert "You have had 1 new answer in 24 hours." in page

    visited(check)


def test_the_audit_log_page_by_page() -> None:
    async def check(client: Any, service: Service) -> None:
        for who, number in (("eve", 130), ("<i>", 3)):
            service.desk.audit.add(
                {"what": "asked", "who": who, "query": f"Q{k}."} for k in range(number)
            )
        first = (await client.get("/curator/audit?who=eve")).text
        assert first.count("<td>eve</td>") == 100
        (more,) = re.findall(r'href="(/curator/audit\?[^"]*before[^"]*)"', first)
        rest = (await client.get(html.unescape(more))).text
        assert rest.count("<td>eve</td>") == 30
        assert "before=" not in rest
        seen = re.findall(r"Q(\d+)\.", first + rest)
        assert list(map(int, seen)) == list(range(130))[::-1]
        odd = (await client.get("/curator/audit", params={"who": "<i>"})).text
        assert odd.count("<td>&lt;i&gt;</td>") == 3
        assert "<i>" not in odd
        none = (await client.get("/curator/audit?last=1999-12-31")).text
        assert "No such line." in none
        assert (await client.get("/curator/audit?first=tomorrow")).status_code == 400

    visited(check, Role.CURATOR)


def test_a_curator_sees_when_tokens_were_used_and_end() -> None:
    async def check(client: Any, service: Service) -> None:
        form = {"name": "bob", "days": "30"}
        await client.post("/curator/tokens", data=form, headers=HERE)
        page = (await client.get("/curator")).text
        rows = dict(re.findall(r"<tr><td>(ada|bob)</td>(.*?)</tr>", page))
        ends = (dt.datetime.now(dt.UTC) + dt.timedelta(days=30)).date().isoformat()
        assert f"<td>never</td><td>{ends}</td>" in rows["bob"]
        assert f"<td>{dt.datetime.now(dt.UTC):%Y-%m-%d %H:}" in rows["ada"]

    visited(check, Role.CURATOR)


def test_what_an_address_says_is_text_on_its_page() -> None:
    """Whatever a link that somebody is sent has in its fields."""
    script = "\"'></textarea><script>alert(1)</script>"

    async def check(client: Any, service: Service) -> None:
        sent = 0
        for one in pages.PAGES:
            texts = [n for n, f in one.query.items() if f.kind is InputType.TEXT and not f.choices]
            if one.method != "GET" or not texts:
                continue
            page = await client.get(one.path, params=dict.fromkeys(texts, script))
            assert page.status_code in (200, 400, 422), one.path
            assert "<script>" not in page.text, one.path
            sent += "&lt;script&gt;" in page.text
        assert sent >= 3

    visited(check, Role.CURATOR)
