"""Parts of all pages: responses, answers and series."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pyarrow as pa
from markupsafe import Markup
from starlette.responses import RedirectResponse, Response

from sparseq.answers.answer import Answer
from sparseq.answers.answer_figures import html_table
from sparseq.answers.chart_kinds import answer_figure
from sparseq.base.errors import ParameterError, ServerError, SparseqError, Why
from sparseq.pictures.figure import Figure
from sparseq.pictures.page import draw
from sparseq.question.plan import Options
from sparseq.server.fields import InputField, InputType
from sparseq.server.http import markup
from sparseq.server.http.endpoints import Call, failure
from sparseq.server.saved_questions import AnswerLook
from sparseq.server.service import Statement
from sparseq.server.tokens import Role

ASKERS, CURATOR = (Role.ANALYST, Role.CURATOR), (Role.CURATOR,)
PRICE = InputField(InputType.TEXT, default="1", choices=tuple(value for value, _ in markup.PRICES))
SQL = InputField(InputType.TEXT, default="")


def show(call: Call, title: str, body: Markup, here: str, status: int = 200) -> Response:
    """Return a page for a signed-in user."""
    curator = call.who.role is Role.CURATOR
    return html(markup.page(title, body, call.who.name, here, curator), status)


def wrong(call: Call, error: Exception) -> Response:
    """Return a page with an error."""
    told = failure(error)
    known = isinstance(error, SparseqError) and told.status_code < 500
    said = (
        (error.message, error.hint)
        if known and isinstance(error, SparseqError)
        else (
            "The server could not do this.",
            "Try again; its operator finds the reason in its log.",
        )
    )
    body = markup.render("wrong", problem=markup.problem(*said))
    return show(call, "Error", body, "", told.status_code)


def html(text: str, status: int = 200) -> Response:
    """Return HTML unchanged."""
    return Response(text, status, media_type="text/html")


def to(path: str) -> Response:
    """Redirect a browser to another page, with GET."""
    return RedirectResponse(path, 303)


def said_of(error: SparseqError) -> Markup:
    """Return an error as a part of a page; signing in again has its own page."""
    if isinstance(error, ServerError) and error.why is Why.SIGN_IN:
        raise error
    return markup.problem(error.message, error.hint)


def statement(sql: str, price: str, request_id: str = "", fresh: bool = False) -> Statement:
    """Return the question of a form."""
    options = Options(price=None if price == "1" else float(price))
    return Statement(sql, options=options, request_id=request_id, fresh=fresh)


def table_of(found: Answer) -> Markup:
    """Return an answer as a table, with its intervals as bars; no column head is empty."""
    table = html_table(found.arrow(), found.facts).replace("<th></th>", "<td></td>")
    return markup.render("scrolled", table=Markup(table))


def figure_of(found: Answer, key: str = "", bars: bool = False) -> Markup:
    """Draw an answer over its key; "": it has no key for a figure.

    Args:
        found: The answer.
        key: Identifies the figure on its page.
        bars: True to draw bars even if lines are possible.
    """
    try:
        figure = answer_figure(found.arrow(), found.facts, chart="bars" if bars else None)
        return _drawn(figure, key)
    except ParameterError:
        return Markup()


def show_answer(found: Answer, look: AnswerLook, key: str = "") -> Markup:
    """Return an answer in the chosen look: a chart, if possible, or a table."""
    bars = look is AnswerLook.BARS
    figure = Markup() if look is AnswerLook.TABLE else figure_of(found, key, bars)
    return figure or table_of(found)


def series_figure(ticks: Sequence[str], found: Sequence[Answer], key: str = "") -> Markup:
    """Draw the answers of a series over its ticks; "": its ticks are no times, or it changed."""
    try:
        places = [dt.datetime.fromisoformat(tick) for tick in ticks]
    except ValueError:
        return Markup()
    tables = [answer.arrow() for answer in found]
    same = [table.column_names == tables[-1].column_names for table in tables]
    if not all(same) or any("tick" in table.column_names for table in tables):
        return Markup()
    rows = [
        table.add_column(0, "tick", pa.array([place] * table.num_rows, pa.timestamp("us")))
        for place, table in zip(places, tables, strict=True)
    ]
    whole = pa.concat_tables(rows, promote_options="permissive")
    try:
        return _drawn(answer_figure(whole, found[-1].facts), key)
    except ParameterError:
        return Markup()


def _drawn(figure: Figure, key: str) -> Markup:
    """Return a figure whose inner names are unique on the page."""
    return Markup(draw(figure).replace("inside0-", f"inside{key}-"))
