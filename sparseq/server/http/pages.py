"""The pages at /: sign in, ask, read. Every page works without scripts.

A browser keeps its token in a cookie that no script can read and no other site can send. Each page
that does more than read (`PAGES`, and signing in and out) goes through `page_routes`, which checks
that the form was sent from these pages.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sparseq.answers.answer import Answer
from sparseq.base.errors import ParameterError, ServerError, SparseqError, Why
from sparseq.base.texts import count_of
from sparseq.pictures.guarantee_texts import course_text
from sparseq.pictures.text_lines import one_line
from sparseq.server.audit import AuditFilter
from sparseq.server.fields import NUMBER, InputField, InputType
from sparseq.server.http import markup
from sparseq.server.http.curator_endpoints import NAME, TOKEN, create_token, revoked
from sparseq.server.http.endpoints import Call, Endpoint, failure, from_here, signed_in
from sparseq.server.http.markup import Link, percent_text
from sparseq.server.http.page_parts import (
    ASKERS,
    CURATOR,
    PRICE,
    SQL,
    figure_of,
    html,
    said_of,
    show,
    statement,
    table_of,
    to,
    wrong,
)
from sparseq.server.http.question_endpoints import ARROW, encode_answer
from sparseq.server.http.read_endpoints import BEFORE, events
from sparseq.server.http.saved_pages import SAVED_PAGES, next_place, release_of
from sparseq.server.http.series_pages import SERIES_PAGES
from sparseq.server.service import Service
from sparseq.server.tokens import Principal, Quota, Role, TokenFacts

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
_RECENT = 8  # a user's own answers, on the first page
_AUDIT_LINES = 100

_TEXT = InputField(InputType.TEXT, most=63, default="")
_AUDITED = BEFORE | {"who": _TEXT, "first": _TEXT, "last": _TEXT}
_ASKED = {"sql": SQL, "price": PRICE}
_AS = {"as": InputField(InputType.TEXT, choices=tuple(_KINDS))}
_ADDRESS = 16_000  # characters
_NOBODY = Principal("", Role.MONITOR, Quota(), 0)  # a user who has not signed in yet


def nothing_page(said: str) -> Response:
    """Return the page at an address that has none."""
    body = markup.render("nothing", problem=markup.problem(said))
    return Response(markup.page("Nothing here", body), 404, _HEADERS, "text/html")


async def home(call: Call) -> Response:
    """Show the tables, the user's own questions, and the remaining budget, in plain words."""
    service, who = call.service, call.who
    facts = await service.budget(who)
    recent = service.latest.these(service.desk.recent(who.name)[:_RECENT])
    words = [*_course(facts), _quota(call)]
    body = markup.home(service.name, service.catalog, words, recent, who.role in ASKERS)
    return show(call, "Home", body, "/")


async def editor(call: Call) -> Response:
    """The editor; with `?sql=` the explanation of a question, as a part of a page if `?part=1`."""
    sql, price = call.given["sql"], call.given["price"]
    said = Markup()
    if sql.strip():
        try:
            found = await call.service.explain(call.who, statement(sql, price))
            said = markup.explain(repr(found))
        except SparseqError as error:
            said = said_of(error)
    if call.given["part"]:
        return html(said)
    return show(call, "Ask", markup.ask(call.service.catalog, sql, price, said), "/ask")


async def ask(call: Call) -> Response:
    """Ask the written question, and show the answer."""
    sql, price = call.given["sql"], call.given["price"]
    try:
        reply = await call.service.ask(call.who, statement(sql, price))
    except SparseqError as error:
        body = markup.ask(call.service.catalog, sql, price, refused=said_of(error))
        return show(call, "Ask", body, "/ask", 422)
    number, chosen = reply.answer.facts.release, {"price": price}
    if not reply.repeat or await _is_of(call, reply.answer):
        return to(f"/answers/{number}?{urlencode(chosen)}" + "&repeat=1" * reply.repeat)
    address = f"/known?{urlencode({'sql': sql} | chosen)}"
    if len(address) > _ADDRESS:
        return await _answer(call, reply.answer, price, True, "")
    return to(address)


async def known(call: Call) -> Response:
    """Show the known answer of a question, from another's release; never ask it."""
    sql, price = call.given["sql"], call.given["price"]
    found = (await call.service.standing(call.who, statement(sql, price))).known
    if found is None:
        raise ServerError(Why.ABSENT, "this has no answer now", "ask it: Ask shows the cost")
    if call.given["as"] is not None:
        return await encode_answer(found, _KINDS[call.given["as"]], True)
    files = f"/known?{urlencode({'sql': sql, 'price': price})}&as="
    return await _answer(call, found, price, True, files)


async def _is_of(call: Call, found: Answer) -> bool:
    """Tell whether an answer is that of its release, and not of another question's."""
    number = found.facts.release  # 0: it is about public tables only
    return number > 0 and (await release_of(call, number)).query == found.facts.query


async def answers(call: Call) -> Response:
    """Show the answers, newest first; `?ticks=1` with the ticks of series."""
    service, ticks = call.service, call.given["ticks"]
    before = call.given["before"] or len(service.latest) + 1
    if ticks:
        found = (await service.listed(call.who, before, _LISTED))[::-1]
        left = found[-1].id if found and found[-1].id > 1 else None
    else:
        found, left = service.latest.questions(before, _LISTED)
    earlier = "" if left is None else f"/answers?before={left}" + "&ticks=1" * ticks
    return show(call, "Answers", markup.answers(found, earlier, ticks), "/answers")


async def answer(call: Call) -> Response:
    """One answer: a table, a figure, and files."""
    number, kind = call.given["number"], call.given["as"]
    found = await call.service.release(call.who, number)
    if kind is not None:
        return await encode_answer(found, _KINDS[kind], True)
    files = f"/answers/{number}?as="
    return await _answer(call, found, call.given["price"], call.given["repeat"], files)


async def _answer(call: Call, found: Answer, price: str, repeat: bool, files: str) -> Response:
    facts, form = found.facts, Markup()
    if call.who.role in ASKERS and facts.coordinates:
        place = await next_place(call.service)
        form = markup.save_form(facts.query, price, facts.release, place)
    other = not await _is_of(call, found)

    def drawn() -> Markup:
        table, figure = table_of(found), figure_of(found)
        return markup.answer(facts, table, figure, repeat, form, files, other)

    title = f"Answer {facts.release}" if facts.release else "Answer"
    return show(call, title, await asyncio.to_thread(drawn), "/answers")


async def budget(call: Call) -> Response:
    """Show the guarantee, and the progress of the stream."""
    facts = await call.service.budget(call.who)
    return show(call, "Budget", markup.budget(facts, _course(facts), _quota(call)), "/budget")


def _quota(call: Call) -> str:
    """Describe a user's use and quota."""
    desk, quota = call.service.desk, call.who.quota
    answers, price = desk.used(call.who.name)
    a_day = f" of the {quota.a_day:,} that you may have" if quota.a_day is not None else ""
    share = f" You may have {percent_text(quota.share)}." if quota.share is not None else ""
    free = "" if str(quota) else " You have no quota."
    return (
        f"You have had {count_of(answers, 'new answer')} in 24 hours{a_day}. All your answers "
        f"together have taken {percent_text(price / desk.planned)} of what is planned.{share}{free}"
    )


_DIFFERENT = "a user's rows gave another result alone than among all: answers may be wrong"


async def curator(call: Call, made: Markup | str = "") -> Response:
    """Tokens and jobs."""
    every = await call.service.write(call.service.tokens.every)
    tokens = [_token_row(call.service, token) for token in reversed(every)]
    jobs = [
        (
            job.name,
            job.kind,
            job.state,
            job.ran[:16].replace("T", " "),
            one_line(f"failed: {job.said}" if job.failed else job.said, 300),
            f"{job.steps:,}",
            markup.button("/end-series", job.name, "End", f"End the series {job.name}")
            if job.kind == "series"
            else "",
        )
        for job in call.service.jobs
    ]
    if call.service.differences:
        made = (
            markup.problem(_DIFFERENT, "ask nothing more; the curator's log has the details") + made
        )
    return show(call, "Curator", markup.curator(tokens, jobs, made), "/curator")


async def audit(call: Call) -> Response:
    """The audit log, page by page, of all tokens or one, and of some days."""
    given = call.given
    wanted = AuditFilter(given["who"], _day("first", given["first"]), _day("last", given["last"]))
    found = await call.service.audit_page(wanted, given["before"], _AUDIT_LINES)
    names = dict.fromkeys(one.name for one in await call.service.write(call.service.tokens.every))
    lines = [_audit_row(line) for line in found.lines]
    return show(call, "Audit log", markup.audit(lines, names, given, found.earlier), "/curator")


def _audit_row(line: Mapping[str, Any]) -> tuple[object, ...]:
    about = (line.get(key) for key in ("query", "token", "saved", "series", "file", "why"))
    return (
        line.get("n", ""),
        str(line.get("at", ""))[:19].replace("T", " "),
        line.get("who", ""),
        line.get("what", ""),
        one_line(str(next(filter(None, about), "")), 300),
        Link(f"/answers/{line['release']}", str(line["release"])) if "release" in line else "",
        f"{line['price']:.4g}" if "price" in line else "",
        line.get("source", ""),
    )


def _day(name: str, text: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(text) if text else None
    except ValueError:
        raise ParameterError(f"{name} is {text[:40]!r}", "a day, such as 2026-03-31") from None


async def make_token(call: Call) -> Response:
    """Create a token, and show it once."""
    days = call.given["days"]
    try:
        secret = await create_token(call, None if days is None else dt.timedelta(days=days))
    except ParameterError as error:
        return await curator(call, markup.problem(error.message, error.hint))
    made = markup.render("new_token", name=call.given["name"], secret=secret)
    return await curator(call, made)


async def revoke_token(call: Call) -> Response:
    """End a token at once."""
    await revoked(call)
    return to("/curator")


async def sign_in(call: Call) -> Response:
    """Let a browser keep a token."""
    secret = call.given["token"].strip()
    try:
        await signed_in(call.request, call.service, secret)
    except ServerError as error:
        return html(markup.sign_in(call.service.name, markup.problem(error.message)), 401)
    response = to("/")
    response.set_cookie(
        COOKIE,
        secret,
        httponly=True,
        samesite="strict",
        path="/",
        secure=_uses_tls(call),
        max_age=30 * 86400,
    )
    return response


async def sign_out(call: Call) -> Response:
    """Let a browser delete its token."""
    return _signed_out(call, to("/"))


PAGES = (
    Endpoint("GET", "/", home),
    Endpoint(
        "GET", "/ask", editor, query=_ASKED | {"part": InputField(InputType.FLAG, default=False)}
    ),
    Endpoint("POST", "/ask", ask, ASKERS, form=_ASKED),
    Endpoint("GET", "/known", known, query=_ASKED | _AS),
    *SAVED_PAGES,
    Endpoint(
        "GET",
        "/answers",
        answers,
        query=BEFORE | {"ticks": InputField(InputType.FLAG, default=False)},
    ),
    Endpoint(
        "GET",
        "/answers/{number}",
        answer,
        path_fields={"number": NUMBER},
        query=_AS | {"repeat": InputField(InputType.FLAG, default=False), "price": PRICE},
    ),
    *SERIES_PAGES,
    Endpoint("GET", "/budget", budget),
    Endpoint("GET", "/events", events),
    Endpoint("GET", "/curator", curator, CURATOR),
    Endpoint("GET", "/curator/audit", audit, CURATOR, query=_AUDITED),
    Endpoint("POST", "/curator/tokens", make_token, CURATOR, form=TOKEN),
    Endpoint("POST", "/curator/revoke", revoke_token, CURATOR, form=NAME),
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
"""Pages for users who have not signed in."""


def page_routes(service: Service, public: str = "") -> list[Route]:
    """Return the routes of the pages. Pages that change something accept only their own forms."""

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
                    return _safe(_signed_out(call, html(markup.sign_in(service.name))))
                response = wrong(call, error)
            except Exception as error:
                response = wrong(call, error)
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
    here = f"its address is {public}" if public else "start the server with --url https://…"
    return ServerError(
        Why.ROLE,
        "this form came from another site",
        f"begin at the first page; behind a proxy that does not pass the Host header, {here}",
    )


def _uses_tls(call: Call) -> bool:
    """Tell whether a browser's cookie can be restricted to TLS."""
    origin = str(call.request.headers.get("origin", "")).partition(":")[0]
    if origin in ("http", "https"):  # as the browser sees it, behind any proxy
        return origin == "https"
    return "https" in (call.request.url.scheme, call.public.partition(":")[0])


def _course(facts: dict[str, object]) -> list[str]:
    """Describe the progress of a stream of weighted answers; in-or-out stores have none."""
    course = facts["weighted"]
    if not isinstance(course, dict):
        return [
            "A person whose budget does not cover a question is left out of it, and pays nothing."
        ]
    text = " ".join(course_text(course).split())
    return [f"{text[0].upper()}{text[1:]}."]


def _token_row(service: Service, token: TokenFacts) -> tuple[object, ...]:
    state = token.state(dt.datetime.now(dt.UTC))
    valid = state == "valid"
    answers, price = service.desk.used(token.name)
    return (
        token.name,
        token.role.value,
        str(token.quota) or "none",
        f"{answers:,}" if valid else "",
        percent_text(price / service.desk.planned) if valid else "",
        token.created.date().isoformat(),
        "never" if token.used is None else markup.minute(token.used),
        "never" if token.expires is None else token.expires.date().isoformat(),
        state,
        markup.button("/curator/revoke", token.name, "Revoke", f"Revoke the token of {token.name}")
        if valid
        else "",
    )


def _signed_out(call: Call, response: Response) -> Response:
    response.delete_cookie(
        COOKIE, path="/", httponly=True, samesite="strict", secure=_uses_tls(call)
    )
    return response


def _safe(response: Response) -> Response:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response
