"""Pages of saved questions: the dashboard, the list, and each question.

Viewing them asks nothing: a page shows the current answer, or the kept one. A separate form asks
again, and shows the cost.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup
from starlette.responses import Response

from sparseq.answers.answer import Answer
from sparseq.base.errors import ParameterError, SparseqError
from sparseq.ledger.releases import Release
from sparseq.server.fields import NUMBER, InputField, InputType
from sparseq.server.http import markup
from sparseq.server.http.endpoints import Call, Endpoint
from sparseq.server.http.page_parts import (
    ASKERS,
    PRICE,
    said_of,
    show,
    show_answer,
    statement,
    to,
)
from sparseq.server.saved_questions import (
    MOST_NAME,
    MOST_TEXT,
    AnswerLook,
    KeptAnswer,
    SavedLabel,
    SavedQuestion,
)
from sparseq.server.service import QuestionStanding, Service

_OF_DASHBOARD, _OF_QUESTION = "dashboard", "question"
SHOWN = {
    "name": InputField(InputType.TEXT, most=MOST_NAME, default=""),
    "look": InputField(
        InputType.TEXT,
        default=AnswerLook.CHART.value,
        choices=tuple(look.value for look in AnswerLook),
    ),
    "place": InputField(InputType.WHOLE, 1, 999),
}
_QUESTION = {
    "sql": InputField(InputType.TEXT, 1, MOST_TEXT, needed=True),
    "price": PRICE,
    "answer": InputField(InputType.WHOLE, 0, 10**15, default=0),
}
_AGAIN = {
    "fresh": InputField(InputType.FLAG, default=False),
    "once": InputField(InputType.TEXT, most=64, default=""),
    "back": InputField(InputType.TEXT, default=_OF_QUESTION, choices=(_OF_DASHBOARD, _OF_QUESTION)),
}


@dataclass(frozen=True)
class _Sight:
    """The view of a saved question.

    Attributes:
        kept: Its current answer, or else the kept one.
        standing: Its state; None: it can't be asked any more.
        refused: The reason, as a part of the page.
    """

    kept: KeptAnswer
    standing: QuestionStanding | None
    refused: Markup


async def dashboard(call: Call) -> Response:
    """The saved questions with a place: each with its answer, the date, and the effect of asking
    again.
    """
    saved = await call.service.write(call.service.saved.on_dashboard)
    seen = await _seen(call, saved)
    tiles = [
        _tile(call, one, seen[one.id], markup.saved_link(one), _OF_DASHBOARD)
        for one in saved
        if one.id in seen
    ]
    drawn = await asyncio.to_thread(lambda: [tile() for tile in tiles])
    return show(call, "Dashboard", markup.dashboard(drawn), "/dashboard")


async def list_saved_questions(call: Call) -> Response:
    """All saved questions."""
    saved = await call.service.write(call.service.saved.every)
    return show(call, "Saved questions", markup.saved_list(saved), "/dashboard")


async def one_saved(call: Call) -> Response:
    """One saved question: its answer, and its look."""
    return await _one(call, Markup(), 200)


async def save(call: Call) -> Response:
    """Save a question with its answer."""
    given = call.given
    sql, price = given["sql"], given["price"]
    kept = await _answer_to(call, sql, price, given["answer"])
    add = partial(call.service.saved.add, call.who, _shown(call), sql, price, kept)
    number = await call.service.write(add)
    await call.service.note(call.who, "question saved", saved=given["name"])
    return to(f"/saved/{number}")


async def change(call: Call) -> Response:
    """Rename a saved question, or change its look."""
    number = call.given["number"]
    try:
        changed = partial(call.service.saved.change, call.who, number, _shown(call))
        await call.service.write(changed)
    except ParameterError as error:
        return await _one(call, said_of(error), 400)
    await call.service.note(call.who, "saved question changed", saved=call.given["name"])
    return to(f"/saved/{number}")


async def ask_again(call: Call) -> Response:
    """Ask a saved question; a recorded answer is free, unless new noise is requested."""
    number, fresh = call.given["number"], call.given["fresh"]
    one = await call.service.write(call.service.saved.one, number)
    once = f"page-{call.given['once']}" if fresh and call.given["once"] else ""
    reply = await call.service.ask(call.who, statement(one.sql, one.price, once, fresh))
    kept = await kept_of(call, reply.answer)
    await call.service.write(call.service.saved.keep, number, kept)
    back = "/dashboard#q" if call.given["back"] == _OF_DASHBOARD else "/saved/"
    return to(f"{back}{number}")


async def delete(call: Call) -> Response:
    """Delete a saved question; its answers stay."""
    forget = partial(call.service.saved.delete, call.who, call.given["number"])
    name = await call.service.write(forget)
    await call.service.note(call.who, "saved question deleted", saved=name)
    return to("/saved")


_NUMBER = {"number": NUMBER}
SAVED_PAGES = (
    Endpoint("GET", "/dashboard", dashboard),
    Endpoint("GET", "/saved", list_saved_questions),
    Endpoint("POST", "/saved", save, ASKERS, form=SHOWN | _QUESTION),
    Endpoint("GET", "/saved/{number}", one_saved, path_fields=_NUMBER),
    Endpoint("POST", "/saved/{number}", change, ASKERS, form=SHOWN, path_fields=_NUMBER),
    Endpoint("POST", "/saved/{number}/ask", ask_again, ASKERS, form=_AGAIN, path_fields=_NUMBER),
    Endpoint("POST", "/saved/{number}/delete", delete, ASKERS, path_fields=_NUMBER),
)


async def kept_of(call: Call, answer: Answer) -> KeptAnswer:
    """Return an answer with the time of its release."""
    release = await release_of(call, answer.facts.release)
    return KeptAnswer(answer, release.released_at)


async def release_of(call: Call, number: int) -> Release:
    """Return the facts of a release, without its answer; the number exists."""
    (found,) = await call.service.listed(call.who, number + 1, 1)
    return found


async def next_place(service: Service) -> int:
    """Return the first free place on the dashboard after all others."""
    saved = await service.write(service.saved.on_dashboard)
    return max((one.shown.place or 0 for one in saved), default=0) + 1


def _shown(call: Call) -> SavedLabel:
    given = call.given
    return SavedLabel(given["name"].strip(), AnswerLook(given["look"]), given["place"])


async def _answer_to(call: Call, sql: str, price: str, number: int) -> KeptAnswer:
    """Return the answer of a question: from its release, or a known one.

    Raises:
        ParameterError: It has none.
    """
    if 1 <= number <= len(call.service.latest):
        release = await release_of(call, number)
        if release.query == sql:
            return KeptAnswer(await call.service.release(call.who, number), release.released_at)
    known = (await call.service.standing(call.who, statement(sql, price))).known
    if known is None:
        raise ParameterError("this question has no answer yet", "ask it first, then save it")
    return await kept_of(call, known)


async def _seen(call: Call, saved: list[SavedQuestion]) -> dict[int, _Sight]:
    """Return the views of saved questions, by number, without asking them."""
    kept = await call.service.write(call.service.saved.kept, [one.id for one in saved])
    found = {}
    for one in saved:
        if one.id not in kept:
            continue  # it was deleted meanwhile
        standing, refused, seen = None, Markup(), kept[one.id]
        try:
            standing = await call.service.standing(call.who, statement(one.sql, one.price))
            if standing.known is not None:
                seen = await kept_of(call, standing.known)
        except SparseqError as error:
            refused = said_of(error)
        found[one.id] = _Sight(seen, standing, refused)
    return found


async def _one(call: Call, said: Markup, status: int) -> Response:
    number = call.given["number"]
    one = await call.service.write(call.service.saved.one, number)
    sight = (await _seen(call, [one]))[number]
    drawn = await asyncio.to_thread(_tile(call, one, sight, None, _OF_QUESTION))
    body = markup.one_saved(one, said, drawn, one.is_of(call.who))
    return show(call, one.shown.name, body, "/dashboard", status)


def _tile(
    call: Call, one: SavedQuestion, sight: _Sight, link: markup.Link | None, back: str
) -> Callable[[], Markup]:
    """Return a function that draws a question with its answer and its state."""
    kept, standing, again = sight.kept, sight.standing, sight.refused
    if standing is not None:
        share = standing.price / call.service.desk.planned
        may, once = call.who.role in ASKERS, secrets.token_hex(8)
        known = standing.known is not None
        again = markup.ask_again(one.id, known, share, back, once if may else "")

    def drawn() -> Markup:
        body = show_answer(kept.answer, one.shown.look, str(one.id))
        return markup.tile(f"q{one.id}", link, body, again, (kept.answer.facts, kept.at))

    return drawn
