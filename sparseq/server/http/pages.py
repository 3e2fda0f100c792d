"""The pages at /: sign in, ask, read. Every page works without script.

A browser has its token in a cookie that no script can read and no other site can send. Each page
that is not just read (`PAGES`, and signing in and out) goes through one place, `page_routes`, which
asks that the form was sent from these very pages.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from dataclasses import replace
from importlib.resources import files

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sparseq.base.errors import ParameterError, ServerError, SparseqError, Why
from sparseq.pictures.answers import answer_figure, html_table
from sparseq.pictures.page import drawing, escaped
from sparseq.pictures.tables import one_line
from sparseq.server.audit import SUM
from sparseq.server.fields import NUMBER, InputField, InputType
from sparseq.server.http import markup
from sparseq.server.http.endpoints import Call, Endpoint, failure, from_here, signed_in
from sparseq.server.http.store_endpoints import (
    ARROW,
    BEFORE,
    NAME,
    NEW_TOKEN,
    created,
    encoded,
    events,
    release_data,
    revoked,
    series_data,
)
from sparseq.server.service import Service, Statement
from sparseq.server.tokens import Principal, Quota, Role, TokenFacts
from sparseq.sql.plan import Options
from sparseq.store.answer import Answer
from sparseq.store.store import Store

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
_AUDIT_LINES = 100
_TICKS = 200  # of a series, the last

_PRICE = InputField(InputType.TEXT, default="1", choices=tuple(value for value, _ in markup.PRICES))
_SQL = InputField(InputType.TEXT, default="")
_ASKED = {"sql": _SQL, "price": _PRICE}
_NOBODY = Principal("", Role.MONITOR, Quota(), 0)  # who has not signed in yet


async def home(call: Call) -> Response:
    """The editor; with `?sql=` what a question would be, as a part of a page if `?part=1`."""
    sql, price = call.given["sql"], call.given["price"]
    shown = refused = ""
    if sql.strip():
        try:
            explanation = await call.service.explain(call.who, _statement(sql, price))
            shown = markup.explained(repr(explanation))
        except SparseqError as error:
            if isinstance(error, ServerError) and error.why is Why.SIGN_IN:
                raise
            shown = markup.problem(error.message, error.hint)
    if call.given["part"]:
        return _html(shown)
    return _page(call, "Ask", markup.ask(call.service.catalog, sql, price, shown, refused), "/")


async def ask(call: Call) -> Response:
    """Ask what was written, and show the answer."""
    sql, price = call.given["sql"], call.given["price"]
    try:
        reply = await call.service.ask(call.who, _statement(sql, price))
    except SparseqError as error:
        if isinstance(error, ServerError) and error.why is Why.SIGN_IN:
            raise
        problem = markup.problem(error.message, error.hint)
        body = markup.ask(call.service.catalog, sql, price, refused=problem)
        return _page(call, "Ask", body, "/", 422)
    number = reply.answer.facts.release
    return _to(f"/answers/{number}" + "?repeat=1" * reply.repeat)


async def answers(call: Call) -> Response:
    """Show the answers, newest first."""
    before = call.given["before"] or len(call.service.latest) + 1
    shown = await call.service.listed(call.who, before, _LISTED)
    earlier = shown[0].id if shown and shown[0].id > 1 else None
    body = markup.answers([release_data(r) for r in reversed(shown)], earlier)
    return _page(call, "Answers", body, "/answers")


async def answer(call: Call) -> Response:
    """One answer: a table, a figure, and files."""
    number, kind = call.given["number"], call.given["as"]
    released = await call.service.release(call.who, number)
    if kind is not None:
        return await encoded(released, _KINDS[kind], True)

    def drawn() -> str:
        table = html_table(released.arrow(), released.facts)
        query, repeat = released.facts.query, call.given["repeat"]
        return markup.answer(number, query, table, _figure(released), repeat)

    body = await asyncio.to_thread(drawn)
    return _page(call, f"Answer {number}", body, "/answers")


async def series(call: Call) -> Response:
    """The series of monitors."""
    return _page(call, "Series", markup.series(series_data(call.service)), "/series")


async def one_series(call: Call) -> Response:
    """One series: its last ticks as a figure and a table."""
    name = call.given["name"]
    ticks = next((s["ticks"] for s in series_data(call.service) if s["series"] == name), None)
    if ticks is None:
        raise ServerError(Why.ABSENT, f"there is no series {name[:60]!r}")
    last = ticks[-_TICKS:]

    def read(store: Store) -> list[Answer]:
        return [store.release(tick["release"]) for tick in last]

    answers = await call.service.call(call.who, read)
    figure = await asyncio.to_thread(_series_figure, [t["tick"] for t in last], answers)
    body = markup.one_series(name, last, figure)
    return _page(call, name, body, "/series")


async def budget(call: Call) -> Response:
    """Show the promise, and how far the stream has come."""
    facts = await call.service.call(call.who, Store.budget)
    answers, price = call.service.desk.used(call.who.name)
    quota = f"Your quota is {call.who.quota}. " if str(call.who.quota) else "You have no quota. "
    quota += (
        f"You have had {answers:,} new answers in 24 hours; the prices of all your answers add up "
        f"to {price:.4g} of the {call.service.desk.planned:.4g} that are planned for."
    )
    return _page(call, "Budget", markup.budget(facts, _course(facts), quota), "/budget")


_DIFFERENT = "somebody's rows gave another answer alone than among all: answers may be wrong"


async def curator(call: Call, made: str = "") -> Response:
    """Tokens, and the audit log."""
    tokens = [_token_row(t) for t in reversed(call.service.tokens.every())]
    log = await call.service.audited(_AUDIT_LINES)
    lines = [
        (
            line["who"],
            line["what"],
            one_line(line.get("query") or line.get("token") or line.get("why") or "", 300),
            line.get("release", ""),
            f"{line['price']:.4g}" if "price" in line else "",
            line.get("source", ""),
            line["at"][:19].replace("T", " "),
        )
        for line in log
        if line.get("what") != SUM
    ]
    jobs = [
        (job.name, job.kind, job.state, one_line(job.said, 300), job.at[:19].replace("T", " "))
        for job in call.service.jobs
    ]
    if call.service.differences:
        made = markup.problem(_DIFFERENT, "ask nothing more; the curator's log says whose") + made
    return _page(call, "Curator", markup.curator(tokens, jobs, lines, made), "/curator")


async def make_token(call: Call) -> Response:
    """Make a token, and show it once."""
    try:
        secret = await created(call)
    except ParameterError as error:
        return await curator(call, markup.problem(error.message, error.hint))
    return await curator(
        call,
        f'<div class="good" role="status"><p>The token of {escaped(call.given["name"])}; it is not '
        f"shown again:</p><pre>{escaped(secret)}</pre></div>",
    )


async def revoke_token(call: Call) -> Response:
    """End a token at once."""
    await revoked(call)
    return _to("/curator")


async def sign_in(call: Call) -> Response:
    """Let a browser keep a token."""
    secret = call.given["token"].strip()
    try:
        await signed_in(call.request, call.service, secret)
    except ServerError as error:
        return _html(markup.sign_in(call.service.name, markup.problem(error.message)), 401)
    response = _to("/")
    response.set_cookie(
        COOKIE,
        secret,
        httponly=True,
        samesite="strict",
        path="/",
        secure=_encrypted(call),
        max_age=30 * 86400,
    )
    return response


async def sign_out(call: Call) -> Response:
    """Let a browser forget its token."""
    return _signed_out(call, _to("/"))


PAGES = (
    Endpoint("GET", "/", home, query=_ASKED | {"part": InputField(InputType.FLAG, default=False)}),
    Endpoint("POST", "/ask", ask, (Role.ANALYST, Role.CURATOR), form=_ASKED),
    Endpoint("GET", "/answers", answers, query=BEFORE),
    Endpoint(
        "GET",
        "/answers/{number}",
        answer,
        path_fields={"number": NUMBER},
        query={
            "as": InputField(InputType.TEXT, choices=tuple(_KINDS)),
            "repeat": InputField(InputType.FLAG),
        },
    ),
    Endpoint("GET", "/series", series),
    Endpoint(
        "GET",
        "/series/{name:path}",
        one_series,
        path_fields={"name": InputField(InputType.TEXT, needed=True)},
    ),
    Endpoint("GET", "/budget", budget),
    Endpoint("GET", "/events", events),
    Endpoint("GET", "/curator", curator, (Role.CURATOR,)),
    Endpoint("POST", "/curator/tokens", make_token, (Role.CURATOR,), form=NEW_TOKEN),
    Endpoint("POST", "/curator/revoke", revoke_token, (Role.CURATOR,), form=NAME),
)
OPEN = (
    Endpoint(
        "POST",
        "/sign-in",
        sign_in,
        form={"token": InputField(InputType.TEXT, most=500, default="")},
    ),
    Endpoint("POST", "/sign-out", sign_out),
)
"""Pages for who has not signed in."""


def page_routes(service: Service, public: str = "") -> list[Route]:
    """Return the routes of the pages. One that is not just read is for forms of these pages."""

    def route(page: Endpoint) -> Route:
        async def show(request: Request) -> Response:
            call = Call(request, service, _NOBODY, public)
            try:
                if page.method != "GET" and not from_here(request, public):
                    raise _from_elsewhere(public)
                if page not in OPEN:
                    secret = request.cookies.get(COOKIE, "")
                    call = replace(call, who=await signed_in(request, service, secret))
                    call.who.needs(*page.roles)
                response = await page.handler(await call.reading(page))
            except ServerError as error:
                if error.why is Why.SIGN_IN:
                    return _safe(_signed_out(call, _html(markup.sign_in(service.name))))
                response = _wrong(error)
            except Exception as error:
                response = _wrong(error)
            return _safe(response)

        return Route(page.path, show, methods=[page.method])

    static = {
        name: (files(package).joinpath(name).read_text("utf-8"), kind)
        for name, (package, kind) in _STATIC.items()
    }

    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in static:
            return failure(ServerError(Why.ABSENT, "there is no such file"))
        text, kind = static[name]
        return Response(text, headers=_HEADERS | {"Cache-Control": "no-cache"}, media_type=kind)

    return [*map(route, (*PAGES, *OPEN)), Route("/static/{name}", file)]


def _from_elsewhere(public: str) -> ServerError:
    here = f"it is found at {public}" if public else "start the server with --url https://…"
    return ServerError(
        Why.ROLE,
        "this form came from another site",
        f"begin at the first page; behind a proxy that does not pass the Host header, {here}",
    )


def _encrypted(call: Call) -> bool:
    """Tell whether a browser's cookie can be kept from connections without TLS."""
    origin = str(call.request.headers.get("origin", "")).partition(":")[0]
    if origin in ("http", "https"):  # as the browser sees it, whatever a proxy does
        return origin == "https"
    return "https" in (call.request.url.scheme, call.public.partition(":")[0])


def _statement(sql: str, price: str) -> Statement:
    return Statement(sql, options=Options(price=None if price == "1" else float(price)))


def _figure(released: Answer) -> str:
    """Draw an answer over its one ordered key; "": it has none."""
    try:
        return drawing(answer_figure(released.arrow(), released.facts))
    except ParameterError:
        return ""


def _series_figure(ticks: list[str], answers: list[Answer]) -> str:
    """Draw the answers of a series over its ticks; "": its ticks are no times, or it changed."""
    try:
        places = [dt.datetime.fromisoformat(tick) for tick in ticks]
    except ValueError:
        return ""
    tables = [answer.arrow() for answer in answers]
    same = [table.column_names == tables[-1].column_names for table in tables]
    if not all(same) or any("tick" in table.column_names for table in tables):
        return ""
    rows = [
        table.add_column(0, "tick", pa.array([place] * table.num_rows, pa.timestamp("us")))
        for place, table in zip(places, tables, strict=True)
    ]
    whole = pa.concat_tables(rows, promote_options="permissive")
    try:
        return drawing(answer_figure(whole, answers[-1].facts))
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
            f"Nobody is left out. Good for about {left} more questions in which the same person is "
            "fully counted; after that, intervals widen."
        ]
    share = f"{100 * course['least_weight']:.0f} %"
    return [
        f"Nobody is left out. A person who was in every question so far now counts for {share}, "
        "and intervals widen with each question."
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
    ours = isinstance(error, SparseqError) and told.status_code < 500
    problem = (
        (error.message, error.hint)
        if ours and isinstance(error, SparseqError)
        else (
            "The server could not do this.",
            "Try again; its operator finds the reason in its log.",
        )
    )
    back = '<p><a href="/">Back</a></p>'
    return _html(markup.page("Error", markup.problem(*problem) + back), told.status_code)


def _html(text: str, status: int = 200) -> Response:
    return Response(text, status, media_type="text/html")


def _to(path: str) -> Response:
    return RedirectResponse(path, 303)


def _signed_out(call: Call, response: Response) -> Response:
    response.delete_cookie(
        COOKIE, path="/", httponly=True, samesite="strict", secure=_encrypted(call)
    )
    return response


def _safe(response: Response) -> Response:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response
