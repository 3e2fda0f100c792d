"""The HTML of the pages, without access to a store. All texts are escaped here."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from sparseq.answers.answer_facts import Facts
from sparseq.answers.interval_words import WHY
from sparseq.base.defaults import DELTA, DELTA_TEXT
from sparseq.ledger.releases import Release
from sparseq.ledger.request_id import Asker
from sparseq.pictures.bounded_numbers import format_bound
from sparseq.pictures.page import escaped
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
_SHOWN_KEYS = 12


def page(title: str, body: str, who: str = "", here: str = "", curator: bool = False) -> str:
    """Return a whole page; without `who` no user is signed in."""
    links = [*LINKS, *([("/curator", "Curator")] if curator else [])]
    nav = "".join(
        f'<a href="{path}"{" aria-current=page" if path == here else ""}>{name}</a>'
        for path, name in links
    )
    top = (
        f'<header><nav aria-label="Pages">{nav}</nav><form method="post" action="/sign-out">'
        f"<span>{escaped(who)}</span> <button>Sign out</button></form></header>"
        if who
        else ""
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escaped(title)} · sparseq</title>
<link rel="stylesheet" href="/static/page.css">
<link rel="stylesheet" href="/static/server.css">
<link rel="icon" href="data:,">
<script src="/static/page.js" defer></script>
<script src="/static/server.js" defer></script>
<body>
<a class="skip" href="#main">To the content</a>
{top}
<main id="main">
{body}
</main>
</body>
</html>
"""


def problem(message: str, hint: str = "") -> str:
    """Return an error and its hint."""
    said = f"<p>{escaped(hint)}</p>" if hint else ""
    return (
        f'<div class="problem" role="alert"><p><strong>{escaped(message)}</strong></p>{said}</div>'
    )


def sign_in(store: str, wrong: str = "") -> str:
    """Return the page with the field for a token."""
    body = f"""<h1>{escaped(store)}</h1>
<p>Ask about people, privately: every number has an interval, everybody's part in it a limit.</p>
{wrong}
<form method="post" action="/sign-in" class="sign-in">
<label for="token">Your token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button class="main">Sign in</button>
</form>
<p class="faint">Whoever keeps the data gives out tokens; they begin with <code>sq_</code>.</p>"""
    return page("Sign in", body)


def home(
    store: str, catalog: Catalog, words: Iterable[str], recent: Sequence[Release], may_ask: bool
) -> str:
    """Return the first page: the tables, the user's own questions, and the remaining budget."""
    said = "".join(f"<p>{escaped(line)}</p>" for line in words)
    asking = f"""<form action="/ask" class="short">
<label for="sql">Ask: one SELECT that aggregates</label>
<textarea id="sql" name="sql" rows="3" spellcheck="false" autocapitalize="off" autocomplete="off" \
required>{escaped_text(examples(catalog.private[0])[0][1]) if catalog.private else ""}</textarea>
<button class="main">What would it be?</button>
<span class="faint">Free: nothing is asked yet.</span>
</form>"""
    return f"""<h1>{escaped(store)}</h1>
{asking if may_ask else ""}
<h2>What you asked last</h2>
{_recent(recent)}
<h2>What can be asked</h2>
<p class="faint">Counts, sums, averages, medians and more, over rows that you choose, by groups. \
No answer shows a row.</p>
{tables(catalog, may_ask)}
<h2>What is left</h2>
{said}
<p><a href="/budget">More of the budget</a></p>"""


def _recent(recent: Sequence[Release]) -> str:
    if not recent:
        return (
            "<p>Nothing yet. What others asked is under <a href='/answers'>Answers</a>: reading "
            "it is free.</p>"
        )
    return questions(recent)


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


def ask(catalog: Catalog, sql: str, price: str, said: str = "", refused: str = "") -> str:
    """Return the editor, with the explanation of a question, or the reason for its refusal."""
    return f"""<h1>Ask</h1>
{refused}
<form method="post" action="/ask" id="ask">
<label for="sql">One SELECT that aggregates</label>
<textarea id="sql" name="sql" rows="7" spellcheck="false" autocapitalize="off" autocomplete="off" \
required placeholder="SELECT count(*) AS n FROM {escaped(_first(catalog))}">\
{escaped_text(sql)}</textarea>
<div class="row">
<span class="pair"><label for="price">Noise</label>{choice("price", PRICES, price)}</span>
<button formaction="/ask" formmethod="get">What would it be?</button>
<button class="main">Ask</button>
</div>
<p class="faint">Looking is free; asking charges the people in the rows that are read. The same \
question again is free.</p>
</form>
<section id="said" aria-live="polite">{said}</section>
<h2>Tables</h2>
{tables(catalog)}"""


def choice(name: str, choices: Iterable[tuple[str, str]], chosen: str) -> str:
    """Return a list of choices; its label refers to its name."""
    options = "".join(
        f'<option value="{escaped(value)}"{" selected" if value == chosen else ""}>'
        f"{escaped(text)}</option>"
        for value, text in choices
    )
    return f'<select id="{name}" name="{name}">{options}</select>'


def explain(text: str) -> str:
    """Return the explanation of a question as text."""
    return (
        f'<h2>What it would be</h2><pre class="explained" tabindex="0">{escaped_text(text)}</pre>'
    )


def tables(catalog: Catalog, with_examples: bool = False) -> str:
    """Return the tables, with the public facts about their columns."""
    found = []
    for table in catalog.tables:
        kind = f"about people: {table.user}" if table.private else "public, about nobody"
        rows = [(c.name, c.shown, "; ".join(_known(table, c))) for c in table.columns]
        head = f"{escaped(table.name)} <span class='faint'>{escaped(kind)}</span>"
        links = ""
        if with_examples and table.private:
            asked = [
                f'<a href="/ask?{quoted_sql(sql)}">{escaped(about)}</a>'
                for about, sql in examples(table)
            ]
            links = f"<p>To begin with: {', '.join(asked)}</p>"
        found.append(
            f"<details open><summary>{head}</summary>"
            f"{grid(('column', 'type', 'known to all'), rows, 2)}{links}</details>"
        )
    return "\n".join(found)


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


def answers(found: Sequence[Release], earlier: str, ticks: bool) -> str:
    """Return the list of answers, newest first.

    Args:
        found: The answers.
        earlier: The address of the earlier ones; "": there are none.
        ticks: True if ticks of series are included.
    """
    more = f'<p><a href="{escaped(earlier)}">Earlier ones</a></p>' if earlier else ""
    nothing = "<p>Nothing has been asked yet.</p>"
    others = (
        '<a href="/answers">without the ticks of series</a>'
        if ticks
        else '<a href="/answers?ticks=1">with the ticks of series</a>'
    )
    return f"""<h1>Answers</h1>
<p class="faint">Reading them again is free, for everybody. Show them {others}.</p>
<p id="news" role="status"></p>
{questions(found) if found else nothing}
{more}"""


def questions(found: Sequence[Release]) -> str:
    """Return questions as a list; each links to its answer."""
    items = "\n".join(
        f'<li><a href="/answers/{one.id}">{escaped(one_line(one.query, 300))}</a>'
        f'<p class="faint">Answer {one.id}, {minute(one.released_at)} (UTC), {_asker(one)}</p></li>'
        for one in found
    )
    return f'<ol class="questions">\n{items}\n</ol>'


def _asker(one: Release) -> str:
    """Return the public name of the asker, and a link to ask a similar question."""
    if not one.coordinates:
        return "a part of the budget"
    other = f' · <a href="/ask?{quoted_sql(one.query)}">ask another like it</a>'
    if one.request is None:
        return f"asked by an analyst{other}"
    name = escaped(find_asker(one))
    kinds = {Asker.CLIENT: f"asked by {name}", Asker.MONITOR: f"a tick of {name}"}
    return kinds.get(one.asker, f"asked by {escaped(one.asker.value)}") + other


def answer(
    facts: Facts, table: str, figure: str, repeat: bool, form: str, files: str, of_other: bool
) -> str:
    """Return one answer: its table, and a figure if it has one.

    Args:
        facts: The facts of the answer.
        table, figure: Rendered.
        repeat: True if it was recorded already.
        form: The form to save it; "": it is not a question, or the user may not ask.
        files: The address of its files, without the format; "": there is none.
        of_other: True if it follows from the release of another question.
    """
    number, query = facts.release, facts.query
    said = "It was recorded already: nothing was charged." if number else WHY["public"].capitalize()
    again = f'<p class="good" role="status">{said}</p>'
    source = f'<a href="/answers/{number}">answer {number}</a>'
    formats = " · ".join(
        f'<a href="{escaped(files + kind)}" download="answer-{number}.{kind}">{kind}</a>'
        for kind in ("csv", "json", "arrow")
    )
    links = [f"As a file: {formats}"] * bool(files)
    links += [f'<a href="/ask?{quoted_sql(query)}">Ask another like it</a>'] * bool(form)
    title = f"From {source}" if of_other else f"Answer {number}"
    return f"""<h1>{title if number else "Answer"}</h1>
{again if repeat else ""}
<pre class="query" tabindex="0">{escaped_text(query)}</pre>
<p>{" · ".join(links)}</p>
{table}
{figure}
{form}"""


def save_form(query: str, price: str, number: int, place: int) -> str:
    """Return a form to save a question with its answer."""
    hidden = "".join(
        f'<input type="hidden" name="{name}" value="{_value(value)}">'
        for name, value in (("sql", query), ("price", price), ("answer", number))
    )
    return f"""<h2>Save it</h2>
<p class="faint">To find it again, and to show it on the <a href="/dashboard">dashboard</a>. \
All who have a token see it.</p>
<form method="post" action="/saved" class="row">
{hidden}{_shown_fields("", AnswerLook.CHART, place)}
<button>Save this question</button>
</form>"""


def _shown_fields(name: str, look: AnswerLook, place: int | None) -> str:
    at = "" if place is None else place
    return f"""<span class="pair"><label for="name">Name</label>\
<input id="name" name="name" maxlength="80" required value="{_value(name)}"></span>
<span class="pair"><label for="look">As</label>{choice("look", LOOKS, look)}</span>
<span class="pair"><label for="place">Place on the dashboard</label>\
<input id="place" name="place" type="number" min="1" max="999" value="{at}" \
aria-describedby="of-place"></span>
<span id="of-place" class="faint">1 is first; empty: not on it.</span>"""


def dashboard(tiles: Sequence[str]) -> str:
    """Return the saved questions with a place on the dashboard."""
    nothing = "<p>Nothing is here yet. Ask a question, then save it at the foot of its answer.</p>"
    body = "\n".join(tiles) if tiles else nothing
    return f"""<h1>Dashboard</h1>
<p class="faint">Looking is free: nothing is asked anew by opening this page. \
<a href="/saved">All saved questions</a></p>
<p id="news" role="status"></p>
{body}"""


def tile(number: int, heading: str, body: str, said: str, anew: str) -> str:
    """Return a saved question with its answer, the date, and the effect of asking again."""
    head = f"<h2>{heading}</h2>" if heading else ""
    return f"""<section class="tile" id="q{number}">
{head}
<p class="faint">{said}</p>
{body}
{anew}
</section>"""


def saved_link(one: SavedQuestion) -> str:
    """Return a saved question's name as a link to it."""
    return f'<a href="/saved/{one.id}">{escaped(one.shown.name)}</a>'


def answer_date(facts: Facts, at: dt.datetime) -> str:
    """Return the date of an answer."""
    link = f'<a href="/answers/{facts.release}">answer {facts.release}</a>'
    return f"From {minute(at)} (UTC){', read off' if facts.follows else ':'} {link}."


def anew(number: int, known: bool, share: float, back: str, once: str) -> str:
    """Return the state of a saved question, and the cost of asking again.

    Args:
        number: The number of the saved question.
        known: True if its answer is recorded: asking is free.
        share: The cost of a new answer, as a share of the plan for all answers.
        back: The address of the next page.
        once: Identifies the form, so that sending it twice asks once; "": the user may not ask.
    """
    costs = f"costs at most {percent_text(share)} of what is planned for all answers"
    if known and back == "dashboard":
        return '<p class="faint">Up to date: asking again gives this answer, free.</p>'
    if known:
        said = "Up to date: asking again gives this answer, free. The same with new noise"
        said, button = f"{said} {costs}.", "Ask with new noise"
    else:
        said, button = (
            (f"The data have changed since, or may have. A new answer {costs}."),
            "Ask anew",
        )
    if not once:
        return f'<p class="faint">{said}</p>'
    fresh = '<input type="hidden" name="fresh" value="1">' if known else ""
    return f"""<form method="post" action="/saved/{number}/ask" class="row">
<span class="faint said">{said}</span>
{fresh}<input type="hidden" name="once" value="{once}">\
<input type="hidden" name="back" value="{back}">
<button>{button}</button>
</form>"""


def saved_list(saved: Sequence[SavedQuestion]) -> str:
    """Return all saved questions."""
    rows = [
        (
            Link(f"/saved/{one.id}", one.shown.name),
            one_line(one.sql, 200),
            dict(LOOKS)[one.shown.look],
            "" if one.shown.place is None else one.shown.place,
            one.owner,
        )
        for one in saved
    ]
    nothing = "<p>No question is saved yet. Ask one, then save it at the foot of its answer.</p>"
    listed = grid(("name", "question", "as", "place", "saved by"), rows, 1) if rows else nothing
    return f"""<h1>Saved questions</h1>
<p><a href="/dashboard">To the dashboard</a></p>
{listed}"""


def one_saved(one: SavedQuestion, said: str, drawn: str, theirs: bool) -> str:
    """Return one saved question; `theirs`: the user may change it."""
    form = f"""<h2>Change it</h2>
<form method="post" action="/saved/{one.id}" class="row">
{_shown_fields(one.shown.name, one.shown.look, one.shown.place)}
<button>Save the change</button>
</form>
<details><summary>Delete it</summary>
<form method="post" action="/saved/{one.id}/delete">
<p>Its answers stay under <a href="/answers">Answers</a>.</p>
<button>Delete this saved question</button>
</form></details>"""
    kept = f'<p class="faint">{escaped(one.owner)} has saved it, and may change it.</p>'
    return f"""<h1>{escaped(one.shown.name)}</h1>
{said}
{drawn}
<h2>The question</h2>
<pre class="query" tabindex="0">{escaped_text(one.sql)}</pre>
<p><a href="/ask?{quoted_sql(one.sql)}">Ask another like it</a> · \
<a href="/saved">all saved questions</a></p>
{form if theirs else kept}"""


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
    rows: Sequence[Sequence[Any]], tiles: Sequence[str], may_begin: bool, begun: Iterable[str]
) -> str:
    """Return the series: a table with their latest values, then each as a figure.

    Args:
        rows: Name, ticks, the last tick and its value, for a grid.
        tiles: The figures.
        may_begin: True if the user is a curator.
        begun: Names of running series without a tick yet.
    """
    link = '<p><a href="/new-series">Begin a series</a></p>' if may_begin else ""
    waits = "".join(f"<p>{escaped(name)} has begun; it has no tick yet.</p>" for name in begun)
    nothing = (
        "<p>No series is kept here. A curator begins one; <code>sparseq monitor</code> and jobs "
        "make them too.</p>"
    )
    listed = grid(("series", "ticks", "the last", "its value"), rows, 3) if rows else nothing
    body = "\n".join(tiles)
    return f"""<h1>Series</h1>
<p class="faint">The same question tick after tick. Reading is free.</p>
{link}
<p id="news" role="status"></p>
{waits}{listed}
{body}"""


def series_tile(number: int, name: str, figure: str) -> str:
    """Return a series as a figure."""
    head = f'<a href="/series/{quote(name)}">{escaped(name)}</a>'
    return f"""<section class="tile" id="s{number}">
<h2>{head}</h2>
{figure}
</section>"""


def one_series(name: str, ticks: Sequence[Mapping[str, Any]], figure: str) -> str:
    """Return one series: a figure, and its ticks, the last first."""
    rows = [
        (t["tick"], Link(f"/answers/{t['release']}", str(t["release"]))) for t in reversed(ticks)
    ]
    return f"""<h1>{escaped(name)}</h1>
<p><a href="/series">All series</a></p>
<p id="news" role="status"></p>
{figure}
<h2>Ticks</h2>
{grid(("tick", "answer"), rows)}"""


ANYWAY = "Ask it anyway, although it is expected to be of little use"
EVERY = (("1h", "hour"), ("1d", "day"), ("1w", "week"))


def new_series(given: Mapping[str, Any], example: str, said: str, verdict: str) -> str:
    """Return the form that begins a series, with its forecast.

    Args:
        given: The contents of its fields.
        example: A query.
        said: The error.
        verdict: The forecast; "": there is none yet.
    """

    def field(name: str, label: str, more: str = "") -> str:
        found = given[name]
        value = "" if found is None else f"{found:g}" if name == "share" else _value(found)
        return (
            f'<span class="pair"><label for="{name}">{label}</label>'
            f'<input id="{name}" name="{name}" value="{value}"{more}></span>'
        )

    begin = '<button class="main">Begin it</button>' if verdict else ""
    chosen = " checked" if given["anyway"] else ""
    return f"""<h1>Begin a series</h1>
{said}
<form method="post" action="/new-series">
<label for="sql">A query with :day and :next_day</label>
<textarea id="sql" name="sql" rows="5" spellcheck="false" autocapitalize="off" autocomplete="off" \
required placeholder="{escaped(example)}">{escaped_text(given["sql"])}</textarea>
<div class="row">
{field("name", "Name", ' maxlength="63" required')}
<span class="pair"><label for="every">Each</label>{choice("every", EVERY, given["every"])}</span>
{field("first", "First day", ' type="date" required')}
{field("last", "Last day", ' type="date"')}
{field("wait", "Asked after it has ended by (hours)", ' type="number" min="0" max="9999"')}
{field("share", "A part of the budget for it alone (%)", ' type="number" min="1" max="99"')}
</div>
<p class="faint">A day is asked once it is over, and past days at once. A part comes out of what \
everybody has left for questions; the series then goes on whatever is asked beside it, and needs a \
last day. Without a part it is paid as questions are.</p>
<p><label><input type="checkbox" name="anyway" value="true"{chosen}> {ANYWAY}</label></p>
<div class="row">
<button formaction="/new-series" formmethod="get">What would it be?</button>
{begin}
</div>
</form>
<section aria-live="polite">{verdict}</section>
<p><a href="/series">Back to the series</a></p>"""


def series_verdict(told: SeriesOutlook, goes_on: bool, part: float | None) -> str:
    """Return the forecast of a series, as text.

    Args:
        told: The forecast.
        goes_on: True if it has no last tick.
        part: Its part of the budget, in percent; None: it is paid like questions.
    """
    many = f"{told.ticks:,} ticks" + (" in a year" if goes_on else "")
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
    said = "".join(f"<p>{escaped(line)}</p>" for line in lines)
    return f'<h2>What it would be</h2>\n<div class="good">{said}</div>'


def budget(facts: Mapping[str, Any], lines: Iterable[str], quota: str) -> str:
    """Return the guarantee, and the remaining budget, in a user's words."""
    epsilon = next(e for e in facts["epsilon"] if e["delta"] == DELTA)
    number = epsilon["gdp"] if epsilon["gdp"] is not None else epsilon["zcdp"]
    warning = (
        problem("NOT PRIVATE: the noise comes from a seed, so anyone can take it off again.")
        if facts["seeded"]
        else ""
    )
    said = "".join(f"<p>{escaped(line)}</p>" for line in lines)
    return f"""<h1>Budget</h1>
{warning}
<p><strong>What is promised.</strong> All answers ever, together, tell about \
{escaped(facts["statement"]["unit"])} at most what
{facts["promise"]} allows: epsilon {number:.2f} at delta {DELTA_TEXT}.</p>
{_statement_text(facts)}
{said}
<p><strong>So far</strong> {facts["releases"]:,} answers. There is no last one.</p>
<h2>You</h2>
<p>{escaped(quota)}</p>"""


def _statement_text(facts: Mapping[str, Any]) -> str:
    """Return the success probability of a guess about one unit, and the level for several."""
    if facts["losses"] or facts["seeded"]:
        return ""
    said = facts["statement"]
    return f"<p>{escaped(_sentence(said['guess']))} {escaped(_sentence(said['several']))}</p>"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def curator(tokens: Sequence[Sequence[Any]], jobs: Sequence[Sequence[Any]], made: str) -> str:
    """Return the curator's page: tokens and jobs."""
    head = ("name", "role", "quota", "new answers in 24 h", "of the plan", "made", "last used")
    running = ("name", "kind", "now", "last run (UTC)", "its result", "runs since the start", "")
    none = "<p>The server runs no jobs: <code>sparseq serve --jobs FILE</code>.</p>"
    roles = [(role.value, role.value) for role in Role]
    return f"""<h1>Curator</h1>
{made}
<p><a href="/curator/audit">Audit log</a>: who asked what, when, and from where.</p>
<h2>Tokens</h2>
{grid((*head, "expires", "state", ""), tokens)}
<h3>A new one</h3>
<form method="post" action="/curator/tokens" class="row">
<span class="pair"><label for="name">Name</label>\
<input id="name" name="name" maxlength="63" required></span>
<span class="pair"><label for="role">Role</label>{choice("role", roles, Role.ANALYST)}</span>
<span class="pair"><label for="quota">Quota</label>\
<input id="quota" name="quota" placeholder="20/day,5%"></span>
<span class="pair"><label for="days">Days until it expires</label>\
<input id="days" name="days" type="number" min="1" max="36500" placeholder="never"></span>
<button>Make a token</button>
</form>
<h2>Jobs</h2>
{grid(running, jobs, 4) if jobs else none}"""


def audit(
    lines: Sequence[Sequence[Any]],
    names: Iterable[str],
    given: Mapping[str, Any],
    earlier: int | None,
) -> str:
    """Return a page of the audit log, newest first.

    Args:
        lines: The lines, for a grid.
        names: Names of tokens to choose from.
        given: The current filter.
        earlier: The line before which to continue; None: there are no more.
    """
    listed = "".join(f'<option value="{escaped(name)}"></option>' for name in names)
    kept = {key: given[key] for key in ("who", "first", "last") if given[key]}
    more = urlencode(kept | {"before": earlier})
    link = f'<p><a href="/curator/audit?{escaped(more)}">Earlier lines</a></p>' if earlier else ""
    nothing = f"<p>No such line{' so far: look at earlier ones' if earlier else ''}.</p>"
    head = ("line", "time (UTC)", "who", "what", "about", "answer", "price", "from")
    return f"""<h1>Audit log</h1>
<form action="/curator/audit" class="row">
<span class="pair"><label for="who">Token</label>\
<input id="who" name="who" list="names" value="{_value(given["who"])}"></span>
<datalist id="names">{listed}</datalist>
<span class="pair"><label for="first">From</label>\
<input id="first" name="first" type="date" value="{_value(given["first"])}"></span>
<span class="pair"><label for="last">To</label>\
<input id="last" name="last" type="date" value="{_value(given["last"])}"></span>
<button>Show these lines</button> <a href="/curator/audit">all</a>
</form>
{grid(head, lines, 4) if lines else nothing}
{link}
<p><a href="/curator">Back to tokens and jobs</a></p>"""


class Link(str):
    """A text with a link."""

    href: str

    def __new__(cls, href: str, text: str) -> Link:
        made = super().__new__(cls, text)
        made.href = href
        return made


class Markup(str):
    """A text that is HTML already."""


def grid(head: Sequence[str], rows: Iterable[Sequence[Any]], wide: int = -1) -> str:
    """Return a table; a `Link` becomes a link; the column `wide` has long texts."""
    top = "".join(f'<th scope="col">{escaped(name)}</th>' if name else "<td></td>" for name in head)
    body = "\n".join(
        "<tr>" + "".join(_cell(value, k == wide) for k, value in enumerate(row)) + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scrolled" tabindex="0"><table><thead><tr>{top}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _cell(value: Any, wide: bool) -> str:
    opened = '<td class="wide">' if wide else "<td>"
    if isinstance(value, Markup):
        return f"{opened}{value}</td>"
    if isinstance(value, Link):
        return f'{opened}<a href="{escaped(value.href)}">{escaped(str(value))}</a></td>'
    return f"{opened}{escaped(value)}</td>"


def _value(text: object) -> str:
    """Return a text as the value of a field, with its lines."""
    return escaped_text(str(text))


def escaped_text(text: str) -> str:
    """Return a text of several lines, escaped line by line."""
    return "\n".join(escaped(line) for line in text.replace("\r\n", "\n").split("\n"))


def quoted_sql(sql: str) -> str:
    """Return a question for a query string, escaped."""
    return escaped(urlencode({"sql": sql}))


def _first(catalog: Catalog) -> str:
    return catalog.private[0].name if catalog.private else "…"
