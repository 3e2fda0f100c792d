"""The pages at /: sign in, ask, read. Every page works without script.

A browser has its token in a cookie that no script can read and no other site can send; who changes
something must come from these very pages.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable
from importlib.resources import files
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sparseq.answer import Answer
from sparseq.errors import ParameterError, ServerError, SparseqError, Why
from sparseq.pictures.answers import answer_figure, html_table
from sparseq.pictures.lines import one_line
from sparseq.pictures.page import drawing, escaped
from sparseq.query.plan import Options
from sparseq.server.http import markup
from sparseq.server.http.asking import ARROW, encoded
from sparseq.server.http.endpoints import Call, body_of, failure, signed_in
from sparseq.server.http.reading import events, release_data, series_data
from sparseq.server.service import Service, Statement
from sparseq.server.tokens import Quota, Role, TokenFacts
from sparseq.store import Store

COOKIE = "sparseq"
POLICY = (
    "default-src 'none'; style-src 'self'; style-src-attr 'unsafe-inline'; script-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_STATIC = {
    "page.css": ("sparseq.pictures", "text/css"),
    "page.js": ("sparseq.pictures", "text/javascript"),
    "server.css": ("sparseq.server.http", "text/css"),
    "server.js": ("sparseq.server.http", "text/javascript"),
}
_KINDS = {"csv": "text/csv", "json": "application/json", "arrow": ARROW}
_LISTED = 50  # answers on a page
_MOST_FORM = 1 << 21
_AUDIT_LINES = 100
_TICKS = 200  # of a series, the last

Page = Callable[[Call], Awaitable[Response]]


async def home(call: Call) -> Response:
    """The editor; with `?sql=` what a question would be, as a part of a page if `?part=1`."""
    query = call.request.query_params
    sql, price = query.get("sql", ""), query.get("price", "1")
    said = refused = ""
    if sql.strip():
        try:
            found = await call.service.explain(call.who, _statement(sql, price))
            said = markup.explained(repr(found))
        except SparseqError as error:
            if isinstance(error, ServerError) and error.why is Why.SIGN_IN:
                raise
            said = markup.problem(error.message, error.hint)
    if query.get("part"):
        return _html(said)
    return _page(call, "Ask", markup.ask(call.service.catalog, sql, price, said, refused), "/")


async def ask(call: Call) -> Response:
    """Ask what was written, and show the answer."""
    form = await _form(call.request)
    sql, price = form.get("sql", ""), form.get("price", "1")
    try:
        reply = await call.service.ask(call.who, _statement(sql, price))
    except SparseqError as error:
        if isinstance(error, ServerError) and error.why is Why.SIGN_IN:
            raise
        said = markup.problem(error.message, error.hint)
        body = markup.ask(call.service.catalog, sql, price, refused=said)
        return _page(call, "Ask", body, "/", 422)
    number = reply.answer.facts.release
    return _to(f"/answers/{number}" + "?repeat=1" * reply.repeat)


async def answers(call: Call) -> Response:
    """What was answered, newest first."""
    before = call.number("before", len(call.service.latest) + 1, 1, 10**9)
    shown = await call.service.listed(call.who, before, _LISTED)
    earlier = shown[0].id if shown and shown[0].id > 1 else None
    body = markup.answers([release_data(r) for r in reversed(shown)], earlier)
    return _page(call, "Answers", body, "/answers")


async def answer(call: Call) -> Response:
    """One answer: a table, a figure, and files."""
    number = call.request.path_params["number"]
    found = await call.service.release(call.who, number)
    kind = call.request.query_params.get("as")
    if kind is not None:
        if kind not in _KINDS:
            raise ParameterError(f"as is {kind[:20]!r}", f"one of {', '.join(_KINDS)}")
        return await encoded(found, _KINDS[kind], True)
    repeat = bool(call.request.query_params.get("repeat"))
    table = html_table(found.arrow(), found.facts)
    body = markup.answer(number, found.facts.query, table, _figure(found), repeat)
    return _page(call, f"Answer {number}", body, "/answers")


async def series(call: Call) -> Response:
    """The series of monitors."""
    return _page(call, "Series", markup.series(series_data(call.service)), "/series")


async def one_series(call: Call) -> Response:
    """One series: its last ticks as a figure and a table."""
    name = call.request.path_params["name"]
    ticks = next((s["ticks"] for s in series_data(call.service) if s["series"] == name), None)
    if ticks is None:
        raise ServerError(Why.ABSENT, f"there is no series {name[:60]!r}")
    last = ticks[-_TICKS:]

    def read(store: Store) -> list[Answer]:
        return [store.release(tick["release"]) for tick in last]

    found = await call.service.call(call.who, read)
    body = markup.one_series(name, last, _series_figure([t["tick"] for t in last], found))
    return _page(call, name, body, "/series")


async def budget(call: Call) -> Response:
    """What is promised, and how far the stream has come."""
    facts = await call.service.call(call.who, Store.budget)
    used = call.service.desk.used(call.who.name)
    quota = f"Your quota is {call.who.quota}. " if str(call.who.quota) else "You have no quota. "
    quota += (
        f"Today you have had {used.answers:,} new answers; the prices of all your answers add up "
        f"to {used.price:.4g} of the {call.service.desk.planned:.4g} that are planned for."
    )
    return _page(call, "Budget", markup.budget(facts, _course(facts), quota), "/budget")


async def curator(call: Call, made: str = "") -> Response:
    """Tokens, and the audit log."""
    tokens = [_token_row(t) for t in reversed(call.service.tokens.every())]
    log = list(call.service.desk.audit.lines())[-_AUDIT_LINES:][::-1]
    lines = [
        (
            line["who"], line["what"],
            one_line(line.get("query") or line.get("token") or line.get("why") or "", 300),
            line.get("release", ""), f"{line['price']:.4g}" if "price" in line else "",
            line.get("source", ""), line["at"][:19].replace("T", " "),
        )
        for line in log
    ]  # fmt: skip
    jobs = [
        (job.name, job.kind, job.state, one_line(job.said, 300), job.at[:19].replace("T", " "))
        for job in call.service.jobs
    ]
    return _page(call, "Curator", markup.curator(tokens, jobs, lines, made), "/curator")


async def make_token(call: Call) -> Response:
    """Make a token, and show it once."""
    form = await _form(call.request)
    name, role, quota = (form.get(k, "") for k in ("name", "role", "quota"))
    try:
        if role not in list(Role):
            raise ParameterError(f"role is {role[:40]!r}", f"one of {', '.join(Role)}")
        secret = call.service.tokens.create(name, Role(role), Quota.parse(quota))
    except ParameterError as error:
        return await curator(call, markup.problem(error.message, error.hint))
    call.service.note(call.who, "token made", token=name, role=role, quota=quota)
    return await curator(
        call,
        f'<div class="good" role="status"><p>The token of {escaped(name)}; it is not shown '
        f"again:</p><pre>{escaped(secret)}</pre></div>",
    )


async def revoke_token(call: Call) -> Response:
    """End a token at once."""
    name = (await _form(call.request)).get("name", "")
    if call.service.tokens.revoke(name):
        call.service.note(call.who, "token revoked", token=name)
    return _to("/curator")


READERS = (Role.ANALYST, Role.CURATOR, Role.MONITOR)
PAGES: tuple[tuple[str, str, Page, tuple[Role, ...]], ...] = (
    ("GET", "/", home, READERS),
    ("POST", "/ask", ask, (Role.ANALYST, Role.CURATOR)),
    ("GET", "/answers", answers, READERS),
    ("GET", "/answers/{number:int}", answer, READERS),
    ("GET", "/series", series, READERS),
    ("GET", "/series/{name:path}", one_series, READERS),
    ("GET", "/budget", budget, READERS),
    ("GET", "/events", events, READERS),
    ("GET", "/curator", curator, (Role.CURATOR,)),
    ("POST", "/curator/tokens", make_token, (Role.CURATOR,)),
    ("POST", "/curator/revoke", revoke_token, (Role.CURATOR,)),
)


def page_routes(service: Service) -> list[Route]:
    """Return the routes of the pages."""

    def route(method: str, path: str, page: Page, roles: tuple[Role, ...]) -> Route:
        async def show(request: Request) -> Response:
            try:
                secret = request.cookies.get(COOKIE, "")
                if not secret:
                    return _safe(_html(markup.sign_in(service.name)))
                who = signed_in(request, service, secret)
                who.needs(*roles)
                if method == "POST":
                    _own(request)
                response = await page(Call(request, service, who))
            except ServerError as error:
                if error.why is Why.SIGN_IN:
                    return _safe(_signed_out(request, _html(markup.sign_in(service.name))))
                response = _wrong(error)
            except Exception as error:
                response = _wrong(error)
            return _safe(response)

        return Route(path, show, methods=[method])

    async def sign_in(request: Request) -> Response:
        try:
            _own(request)
            secret = (await _form(request)).get("token", "").strip()
            signed_in(request, service, secret)
        except SparseqError as error:
            wrong = markup.problem(error.message)
            return _safe(_html(markup.sign_in(service.name, wrong), 401))
        response = _to("/")
        response.set_cookie(
            COOKIE, secret, httponly=True, samesite="strict", path="/",
            secure=request.url.scheme == "https", max_age=30 * 86400,
        )  # fmt: skip
        return _safe(response)

    async def sign_out(request: Request) -> Response:
        return _safe(_signed_out(request, _to("/")))

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _STATIC:
            return failure(ServerError(Why.ABSENT, "there is no such file"))
        package, kind = _STATIC[name]
        text = files(package).joinpath(name).read_text("utf-8")
        return Response(text, headers=_HEADERS | {"Cache-Control": "no-cache"}, media_type=kind)

    return [
        *(route(*one) for one in PAGES),
        Route("/sign-in", sign_in, methods=["POST"]),
        Route("/sign-out", sign_out, methods=["POST"]),
        Route("/static/{name}", static),
    ]


def _statement(sql: str, price: str) -> Statement:
    if price not in [value for value, _ in markup.PRICES]:
        raise ParameterError(f"price is {price[:20]!r}", "choose one of the list")
    return Statement(sql, options=Options(price=None if price == "1" else float(price)))


def _own(request: Request) -> None:
    """Check that a form was sent from these very pages: no other site can."""
    origin = request.headers.get("origin", "")
    same = origin and urlsplit(origin).netloc == request.headers.get("host", "")
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin" or not same:
        raise ServerError(Why.ROLE, "this form came from another site", "begin at the first page")


async def _form(request: Request) -> dict[str, str]:
    try:
        text = (await body_of(request, _MOST_FORM)).decode()
        found = parse_qs(text, keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise ParameterError("the form can't be read") from None
    return {name: values[-1].replace("\r\n", "\n") for name, values in found.items()}


def _figure(found: Answer) -> str:
    """Draw an answer over its one ordered key; "": it has none."""
    try:
        return drawing(answer_figure(found.arrow(), found.facts))
    except ParameterError:
        return ""


def _series_figure(ticks: list[str], found: list[Answer]) -> str:
    """Draw the answers of a series over its ticks; "": its ticks are no times, or it changed."""
    try:
        places = [dt.datetime.fromisoformat(tick) for tick in ticks]
    except ValueError:
        return ""
    tables = [answer.arrow() for answer in found]
    same = [table.column_names == tables[-1].column_names for table in tables]
    if not all(same) or any("tick" in table.column_names for table in tables):
        return ""
    rows = [
        table.add_column(0, "tick", pa.array([place] * table.num_rows, pa.timestamp("us")))
        for place, table in zip(places, tables, strict=True)
    ]
    whole = pa.concat_tables(rows, promote_options="permissive")
    try:
        return drawing(answer_figure(whole, found[-1].facts))
    except ParameterError:
        return ""


def _course(facts: dict[str, object]) -> list[str]:
    """Say how far a stream of weighted answers has come; in-or-out stores have no such course."""
    course = facts["weighted"]
    if not isinstance(course, dict):
        return ["Whoever can't pay for a question is left out of it, and pays nothing."]
    if course["least_weight"] >= 1:
        left = f"{course['full_answers']:,}"
        return [
            "Nobody is left out. Whoever is wholly in every question counts in full for about "
            f"{left} more; then such people count for less, and intervals about them widen."
        ]
    share = f"{100 * course['least_weight']:.0f} %"
    return [
        "Nobody is left out. Whoever was wholly in every question so far counts for "
        f"{share} now; intervals about such people widen with each question."
    ]


def _token_row(token: TokenFacts) -> tuple[object, ...]:
    ends = "" if token.expires is None else token.expires.date().isoformat()
    name = escaped(token.name)
    button = (
        f'<form method="post" action="/curator/revoke"><button name="name" value="{name}" '
        f'aria-label="Revoke the token of {name}">Revoke</button></form>'
    )
    revoked = token.revoked is not None
    state, end = ("revoked", "") if revoked else ("", markup.Markup(button))
    made = token.created.date().isoformat()
    return token.name, token.role.value, str(token.quota), made, ends, state, end


def _page(call: Call, title: str, body: str, here: str, status: int = 200) -> Response:
    curator = call.who.role is Role.CURATOR
    return _html(markup.page(title, body, call.who.name, here, curator), status)


def _wrong(error: Exception) -> Response:
    """Return a page that says what was wrong."""
    told = failure(error)
    known = isinstance(error, SparseqError) and told.status_code < 500
    said = (error.message, error.hint) if known and isinstance(error, SparseqError) else (
        "The server could not do this.", "Try again; its operator finds the reason in its log."
    )  # fmt: skip
    back = '<p><a href="/">Back</a></p>'
    return _html(markup.page("Error", markup.problem(*said) + back), told.status_code)


def _html(text: str, status: int = 200) -> Response:
    return Response(text, status, media_type="text/html")


def _to(path: str) -> Response:
    return RedirectResponse(path, 303)


def _signed_out(request: Request, response: Response) -> Response:
    response.delete_cookie(
        COOKIE, path="/", httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )
    return response


def _safe(response: Response) -> Response:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response
