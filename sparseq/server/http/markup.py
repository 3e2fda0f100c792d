"""The content of the pages, without access to a store: `templates/` has their HTML.

Jinja escapes every text that is not `Markup` already; control characters are spelled out before.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sparseq.answers.answer_facts import Facts
from sparseq.answers.interval_words import WHY
from sparseq.base.defaults import DELTA, DELTA_TEXT
from sparseq.base.texts import count_of, shown
from sparseq.ledger.releases import Release
from sparseq.ledger.request_id import Asker
from sparseq.pictures.bounded_numbers import format_bound
from sparseq.pictures.text_lines import one_line
from sparseq.question.catalog import TIME_TYPES, Catalog, Column, Table, bound_text
from sparseq.series.series_outlook import SeriesOutlook
from sparseq.server.releases import find_asker
from sparseq.server.saved_questions import AnswerLook, SavedQuestion
from sparseq.server.tokens import Role
from sparseq.sql.parse import identifier

PRICES = (("1", "the usual noise"), ("4", "half of it"), ("0.25", "twice as much"))
LINKS = (
    ("/", "Home"),
    ("/ask", "Ask"),
    ("/dashboard", "Dashboard"),
    ("/answers", "Answers"),
    ("/series", "Series"),
    ("/budget", "Budget"),
)
LOOKS = ((AnswerLook.CHART, "a chart"), (AnswerLook.BARS, "bars"), (AnswerLook.TABLE, "a table"))
ANYWAY = "Ask it anyway, although it is expected to be of little use"
EVERY = (("1h", "hour"), ("1d", "day"), ("1w", "week"))
_SHOWN_KEYS = 12


class Link(str):
    """A text with a link."""

    href: str

    def __new__(cls, href: str, text: str) -> Link:
        made = super().__new__(cls, text)
        made.href = href
        return made


def ask_address(sql: str) -> str:
    """Return the address of the editor with a question."""
    return f"/ask?{urlencode({'sql': sql})}"


def _spelled_out(value: Any) -> Any:
    """Return a text with its lines, its control characters spelled out; HTML is left alone."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    lines = value.replace("\r\n", "\n").split("\n")
    return "\n".join(shown(line, None) for line in lines)


_TEMPLATES = Environment(
    loader=PackageLoader("sparseq.server.http"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_spelled_out,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.globals["ask_address"] = ask_address


def render(template: str, **given: Any) -> Markup:
    """Return a template with its texts, escaped."""
    return Markup(_TEMPLATES.get_template(f"{template}.html").render(given))


def page(title: str, body: Markup, who: str = "", here: str = "", curator: bool = False) -> Markup:
    """Return a whole page; without `who` no user is signed in."""
    links = [*LINKS, *([("/curator", "Curator")] if curator else [])]
    return render("page", title=title, body=body, who=who, here=here, links=links)


def problem(message: str, hint: str = "") -> Markup:
    """Return an error and its hint."""
    return render("problem", message=message, hint=hint)


def sign_in(store: str, wrong: Markup | str = "") -> Markup:
    """Return the page with the field for a token."""
    return page("Sign in", render("sign_in", store=store, wrong=wrong))


def home(
    store: str, catalog: Catalog, lines: Iterable[str], recent: Sequence[Release], may_ask: bool
) -> Markup:
    """Return the first page: the tables, the user's own questions, and the remaining budget."""
    return render(
        "home",
        store=store,
        may_ask=may_ask,
        example=examples(catalog.private[0])[0][1] if catalog.private else "",
        recent=_questions(recent),
        tables=_tables(catalog, may_ask),
        lines=list(lines),
    )


def examples(table: Table) -> list[tuple[str, str]]:
    """Return first questions about a table, each with its subject; from public facts only."""
    name, user = identifier(table.name), identifier(table.user)
    found = [("how many people", f"SELECT count(DISTINCT {user}) AS people FROM {name}")]
    for column in table.columns:
        if column.keys is not None or column.found is not None:
            key = identifier(column.name)
            sql = f"SELECT {key}, count(*) AS n FROM {name} GROUP BY {key}"
            found.append((f"rows by {column.name}", sql))
            break
    for column in table.columns:
        if column.bounds is not None and column.type not in TIME_TYPES and column.keys is None:
            value = identifier(column.name)
            found.append(
                (f"the average {column.name}", f"SELECT avg({value}) AS average FROM {name}")
            )
            break
    return found


def ask(
    catalog: Catalog,
    sql: str,
    price: str,
    said: Markup | str = "",
    refused: Markup | str = "",
) -> Markup:
    """Return the editor, with the explanation of a question, or the reason for its refusal."""
    return render(
        "ask",
        sql=sql,
        price=price,
        prices=PRICES,
        said=said,
        refused=refused,
        first=catalog.private[0].name if catalog.private else "…",
        tables=_tables(catalog, False),
    )


def explain(text: str) -> Markup:
    """Return the explanation of a question as text."""
    return render("explained", text=text)


def _tables(catalog: Catalog, with_examples: bool) -> list[dict[str, Any]]:
    """Return the tables, with the public facts about their columns."""
    return [
        {
            "name": table.name,
            "kind": f"about people: {table.user}" if table.private else "public, about nobody",
            "columns": [(c.name, c.shown, "; ".join(_known(table, c))) for c in table.columns],
            "links": [Link(ask_address(sql), about) for about, sql in examples(table)]
            if with_examples and table.private
            else [],
        }
        for table in catalog.tables
    ]


def _known(table: Table, column: Column) -> list[str]:
    """Return the declared or privately found facts of a column, as text."""
    known = []
    if column.name == table.user:
        known.append("whom a row is about")
    if column.name == table.time:
        known.append("when it happened")
    if column.not_null and column.name != table.user:
        known.append("never NULL")
    if column.bounds is not None:
        known.append(" to ".join(bound_text(column, end) for end in column.bounds))
    keys = column.keys if column.keys is not None else column.found
    if keys is not None:
        more = f", … ({len(keys):,} in all)" if len(keys) > _SHOWN_KEYS else ""
        known.append("groups: " + ", ".join(map(str, keys[:_SHOWN_KEYS])) + more)
    return known


def answers(found: Sequence[Release], earlier: str, ticks: bool) -> Markup:
    """Return the list of answers, newest first.

    Args:
        found: The answers.
        earlier: The address of the earlier ones; "": there are none.
        ticks: True if ticks of series are included.
    """
    return render("answers", found=_questions(found), earlier=earlier, ticks=ticks)


def _questions(found: Sequence[Release]) -> list[dict[str, Any]]:
    """Return questions for a list; each links to its answer."""
    return [
        {
            "id": one.id,
            "query": one_line(one.query, 300),
            "at": minute(one.released_at),
            "asker": _asker(one),
            "ask": ask_address(one.query) if one.coordinates else "",
        }
        for one in found
    ]


def _asker(one: Release) -> str:
    """Return the public name of the asker."""
    if not one.coordinates:
        return "a part of the budget"
    if one.request is None:
        return "asked by an analyst"
    name = find_asker(one)
    kinds = {Asker.CLIENT: f"asked by {name}", Asker.MONITOR: f"a tick of {name}"}
    return kinds.get(one.asker, f"asked by {one.asker.value}")


def answer(
    facts: Facts,
    table: Markup,
    figure: Markup,
    repeat: bool,
    form: Markup | str,
    files: str,
    of_other: bool,
) -> Markup:
    """Return one answer: its table, and a figure if it has one.

    Args:
        facts: The facts of the answer.
        table, figure: Rendered.
        repeat: True if it was recorded already.
        form: The form to save it; "": it is not a question, or the user may not ask.
        files: The address of its files, without the format; "": there is none.
        of_other: True if it follows from the release of another question.
    """
    free = "It was recorded already: nothing was charged."
    return render(
        "answer",
        number=facts.release,
        query=facts.query,
        repeat=(free if facts.release else WHY["public"].capitalize()) if repeat else "",
        table=table,
        figure=figure,
        form=form,
        files=files,
        of_other=of_other,
    )


def save_form(query: str, price: str, number: int, place: int) -> Markup:
    """Return a form to save a question with its answer."""
    hidden = (("sql", query), ("price", price), ("answer", number))
    return render("save_form", hidden=hidden, looks=LOOKS, place=place)


def dashboard(tiles: Sequence[Markup]) -> Markup:
    """Return the saved questions with a place on the dashboard."""
    return render("dashboard", tiles=tiles)


def tile(
    place: str,
    link: Link | None,
    body: Markup,
    again: Markup | str = "",
    kept: tuple[Facts, dt.datetime] | None = None,
) -> Markup:
    """Return a figure or table with a heading, the date of its answer, and a form to ask again.

    Args:
        place: Its name on the page.
        link: Its heading; None: it has none.
        body: The figure or the table.
        again: What asking again would be; "": it can't be asked here.
        kept: The facts and the date of the shown answer.
    """
    facts, at = kept if kept else (None, None)
    return render(
        "tile",
        place=place,
        link=link,
        body=body,
        again=again,
        at=minute(at) if at else "",
        follows=facts is not None and facts.follows,
        release=facts.release if facts else 0,
    )


def saved_link(one: SavedQuestion) -> Link:
    """Return a saved question's name as a link to it."""
    return Link(f"/saved/{one.id}", one.shown.name)


def ask_again(number: int, known: bool, share: float, back: str, once: str) -> Markup:
    """Return the state of a saved question, and the cost of asking again.

    Args:
        number: The number of the saved question.
        known: True if its answer is recorded: asking is free.
        share: The cost of a new answer, as a share of the plan for all answers.
        back: The address of the next page.
        once: Identifies the form, so that sending it twice asks once; "": the user may not ask.
    """
    costs = f"costs at most {percent_text(share)} of what is planned for all answers."
    state = "Up to date: asking again gives this answer, free."
    if known and back != "dashboard":
        state += f" The same with new noise {costs}"
    if not known:
        state = f"The data have changed since, or may have. A new answer {costs}"
    given = {"number": number, "known": known, "back": back, "once": once}
    return render("ask_again", state=state, may_ask=bool(once), **given)


def saved_list(saved: Sequence[SavedQuestion]) -> Markup:
    """Return all saved questions."""
    rows = [
        (
            saved_link(one),
            one_line(one.sql, 200),
            dict(LOOKS)[one.shown.look],
            "" if one.shown.place is None else one.shown.place,
            one.owner,
        )
        for one in saved
    ]
    return render("saved_list", rows=rows)


def one_saved(one: SavedQuestion, said: Markup | str, drawn: Markup, theirs: bool) -> Markup:
    """Return one saved question; `theirs`: the user may change it."""
    place = "" if one.shown.place is None else one.shown.place
    given = {"said": said, "drawn": drawn, "theirs": theirs}
    return render("one_saved", one=one, looks=LOOKS, place=place, **given)


def percent_text(share: float) -> str:
    """Return a share as a percentage with enough digits.

    >>> percent_text(0.0167), percent_text(0.00001)
    ('1.7 %', '0.1 %')
    """
    return f"{math.ceil(1000 * share - 1e-6) / 10:,.1f} %" if share > 0 else "0 %"


def minute(at: dt.datetime) -> str:
    """Return a moment as text, to the minute."""
    return f"{at:%Y-%m-%d %H:%M}"


def series(
    rows: Sequence[Sequence[Any]], tiles: Sequence[Markup], may_begin: bool, begun: Sequence[str]
) -> Markup:
    """Return the series: a table with their latest values, then each as a figure.

    Args:
        rows: Name, ticks, the last tick and its value, for a grid.
        tiles: The figures.
        may_begin: True if the user is a curator.
        begun: Names of running series without a tick yet.
    """
    return render("series", rows=rows, tiles=tiles, may_begin=may_begin, begun=begun)


def series_link(name: str) -> Link:
    """Return a series' name as a link to it."""
    return Link(f"/series/{quote(name)}", name)


def one_series(name: str, ticks: Sequence[Mapping[str, Any]], figure: Markup) -> Markup:
    """Return one series: a figure, and its ticks, the last first."""
    rows = [
        (t["tick"], Link(f"/answers/{t['release']}", str(t["release"]))) for t in reversed(ticks)
    ]
    return render("one_series", name=name, rows=rows, figure=figure)


def new_series(
    given: Mapping[str, Any], example: str, said: Markup | str, verdict: Markup | str
) -> Markup:
    """Return the form that begins a series, with its forecast.

    Args:
        given: The contents of its fields.
        example: A query.
        said: The error.
        verdict: The forecast; "": there is none yet.
    """
    values = {name: "" if value is None else value for name, value in given.items()}
    if given["share"] is not None:
        values["share"] = f"{given['share']:g}"
    return render(
        "new_series",
        values=values,
        example=example,
        said=said,
        verdict=verdict,
        every=EVERY,
        anyway=ANYWAY,
    )


def series_verdict(told: SeriesOutlook, goes_on: bool, part: float | None) -> Markup:
    """Return the forecast of a series, as text.

    Args:
        told: The forecast.
        goes_on: True if it has no last tick.
        part: Its part of the budget, in percent; None: it is paid like questions.
    """
    many = count_of(told.ticks, "tick") + (" in a year" if goes_on else "")
    lines = [f"It asks {many}" + (f"; {told.asked:,} were asked before." if told.asked else ".")]
    if told.first:
        first, last = format_bound(told.first), format_bound(told.last)
        lines.append(
            f"Intervals (95 %) are expected to be ± {first} at the first tick and ± {last} at the "
            "last, or wider where people have many rows each."
        )
    else:
        lines.append("How wide its intervals are is not known before the first tick.")
    if part:
        lines.append(f"It gets {part:g} % of what everybody has left for questions.")
    elif told.purpose is not None:
        lines.append("It is paid from the part of the budget that it has.")
    elif told.share:
        lines.append(f"It takes {percent_text(told.share)} of what the store has for questions.")
    return render("series_verdict", lines=lines)


def budget(facts: Mapping[str, Any], lines: Iterable[str], quota: str) -> Markup:
    """Return the guarantee, and the remaining budget, in a user's words."""
    epsilon = next(e for e in facts["epsilon"] if e["delta"] == DELTA)
    number = epsilon["gdp"] if epsilon["gdp"] is not None else epsilon["zcdp"]
    warning = (
        problem("NOT PRIVATE: the noise comes from a seed, so anyone can take it off again.")
        if facts["seeded"]
        else ""
    )
    return render(
        "budget",
        warning=warning,
        unit=facts["statement"]["unit"],
        promise=facts["promise"],
        epsilon=f"{number:.2f}",
        delta=DELTA_TEXT,
        statement=_statement_text(facts),
        lines=list(lines),
        released=count_of(facts["releases"], "answer"),
        quota=quota,
    )


def _statement_text(facts: Mapping[str, Any]) -> str:
    """Return the success probability of a guess about one unit, and the level for several."""
    if facts["losses"] or facts["seeded"]:
        return ""
    said = facts["statement"]
    return f"{_sentence(said['guess'])} {_sentence(said['several'])}"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def curator(
    tokens: Sequence[Sequence[Any]], jobs: Sequence[Sequence[Any]], made: Markup | str
) -> Markup:
    """Return the curator's page: tokens and jobs."""
    roles = [(role.value, role.value) for role in Role]
    given = {"tokens": tokens, "jobs": jobs, "made": made}
    return render("curator", roles=roles, role=Role.ANALYST.value, **given)


def button(action: str, name: str, text: str, label: str) -> Markup:
    """Return a button that sends a name; `label` is read to those who do not see its place."""
    return render("button", action=action, name=name, text=text, label=label)


def audit(
    lines: Sequence[Sequence[Any]],
    names: Iterable[str],
    given: Mapping[str, Any],
    earlier: int | None,
) -> Markup:
    """Return a page of the audit log, newest first.

    Args:
        lines: The lines, for a grid.
        names: Names of tokens to choose from.
        given: The current filter.
        earlier: The line before which to continue; None: there are no more.
    """
    kept = {key: given[key] for key in ("who", "first", "last") if given[key]}
    more = f"/curator/audit?{urlencode(kept | {'before': earlier})}" if earlier else ""
    return render("audit", lines=lines, names=list(names), given=given, earlier=more)
