"""The pages' HTML: what they look like, without any look at a store. All text is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from sparseq.pictures.page import escaped
from sparseq.pictures.tables import one_line
from sparseq.sql.catalog import Catalog, bound_text

PRICES = (("1", "the usual noise"), ("4", "half of it"), ("0.25", "twice as much"))
LINKS = (("/", "Ask"), ("/answers", "Answers"), ("/series", "Series"), ("/budget", "Budget"))
_SHOWN_KEYS = 12


def page(title: str, body: str, who: str = "", here: str = "", curator: bool = False) -> str:
    """Return a whole page; without `who` nobody has signed in."""
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
    """Return what was wrong, and how to mend it."""
    said = f"<p>{escaped(hint)}</p>" if hint else ""
    return (
        f'<div class="problem" role="alert"><p><strong>{escaped(message)}</strong></p>{said}</div>'
    )


def sign_in(store: str, wrong: str = "") -> str:
    """Return the page on which a token is given."""
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


def ask(catalog: Catalog, sql: str, price: str, said: str = "", refused: str = "") -> str:
    """Return the editor, with what a question would be, or why it was refused."""
    options = "".join(
        f'<option value="{value}"{" selected" if value == price else ""}>{name}</option>'
        for value, name in PRICES
    )
    return f"""<h1>Ask</h1>
{refused}
<form method="post" action="/ask" id="ask">
<label for="sql">One SELECT that aggregates</label>
<textarea id="sql" name="sql" rows="7" spellcheck="false" autocapitalize="off" autocomplete="off" \
required placeholder="SELECT count(*) AS n FROM {escaped(_first(catalog))}">\
{escaped_text(sql)}</textarea>
<div class="row">
<label for="price">Noise: </label><select id="price" name="price">{options}</select>
<button formaction="/" formmethod="get">What would it be?</button>
<button class="main">Ask</button>
</div>
<p class="faint">Looking is free; asking charges the people in the rows that are read. The same \
question again is free.</p>
</form>
<section id="said" aria-live="polite">{said}</section>
<h2>Tables</h2>
{tables(catalog)}"""


def explained(text: str) -> str:
    """Return what a question would be, in words."""
    return f'<h2>What it would be</h2><pre class="explained">{escaped_text(text)}</pre>'


def tables(catalog: Catalog) -> str:
    """Return the tables, with what is known of their columns."""
    found = []
    for table in catalog.tables:
        kind = f"about people: {table.user}" if table.private else "public"
        rows = []
        for column in table.columns:
            known = []
            if column.name == table.user:
                known.append("whom a row is about")
            if column.bounds is not None:
                known.append(" to ".join(bound_text(column, end) for end in column.bounds))
            if column.keys is not None:
                more = ", …" if len(column.keys) > _SHOWN_KEYS else ""
                known.append(", ".join(map(str, column.keys[:_SHOWN_KEYS])) + more)
            rows.append((column.name, column.type, "; ".join(known)))
        head = f"{escaped(table.name)} <span class='faint'>{escaped(kind)}</span>"
        found.append(
            f"<details open><summary>{head}</summary>"
            f"{grid(('column', 'type', 'known to all'), rows, 2)}</details>"
        )
    return "\n".join(found)


def answers(rows: Sequence[Mapping[str, Any]], earlier: int | None) -> str:
    """Return the list of answers, newest first."""
    more = f'<p><a href="/answers?before={earlier}">Earlier ones</a></p>' if earlier else ""
    head = ("answer", "question", "time (UTC)", "asked by")
    lines = [
        (
            Link(f"/answers/{r['release']}", str(r["release"])),
            Link(f"/answers/{r['release']}", one_line(r["query"], 300)),
            r["released_at"].replace("T", " ").rstrip("Z"),
            r["asked_by"],
        )
        for r in rows
    ]
    nothing = "" if rows else "<p>Nothing has been asked yet.</p>"
    return f"""<h1>Answers</h1>
<p class="faint">Reading them again is free, for everybody.</p>
<p id="news" role="status"></p>
{grid(head, lines, 1) if rows else nothing}
{more}"""


def answer(number: int, query: str, table: str, figure: str, repeat: bool) -> str:
    """Return one answer: its table, and a figure where it has one."""
    again = '<p class="good" role="status">It was recorded already: nothing was charged.</p>'
    formats = " · ".join(
        f'<a href="/answers/{number}?as={kind}" download="answer-{number}.{kind}">{kind}</a>'
        for kind in ("csv", "json", "arrow")
    )
    return f"""<h1>Answer {number}</h1>
{again if repeat else ""}
<pre class="query">{escaped_text(query)}</pre>
<div class="scrolled">{table}</div>
{figure}
<p>As a file: {formats} · <a href="/?{quoted_sql(query)}">ask another like it</a></p>"""


def series(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the series of monitors."""
    rows = [
        (
            Link(f"/series/{quote(one['series'])}", one["series"]),
            f"{len(one['ticks']):,}",
            one["ticks"][-1]["tick"],
        )
        for one in found
    ]
    nothing = "<p>No series is kept here: <code>sparseq monitor</code> makes them.</p>"
    return "<h1>Series</h1>\n" + (grid(("series", "ticks", "the last"), rows) if rows else nothing)


def one_series(name: str, ticks: Sequence[Mapping[str, Any]], figure: str) -> str:
    """Return one series: a figure, and its ticks, the last first."""
    rows = [
        (t["tick"], Link(f"/answers/{t['release']}", str(t["release"]))) for t in reversed(ticks)
    ]
    return f"""<h1>{escaped(name)}</h1>
<p id="news" role="status"></p>
{figure}
<h2>Ticks</h2>
{grid(("tick", "answer"), rows)}"""


def budget(facts: Mapping[str, Any], lines: Iterable[str], quota: str) -> str:
    """Return what is promised, and what is left, in a user's words."""
    epsilon = next(e for e in facts["epsilon"] if e["delta"] == 1e-6)
    number = epsilon["gdp"] if epsilon["gdp"] is not None else epsilon["zcdp"]
    warning = (
        problem("NOT PRIVATE: the noise comes from a seed, so anyone can take it off again.")
        if facts["seeded"]
        else ""
    )
    said = "".join(f"<p>{escaped(line)}</p>" for line in lines)
    return f"""<h1>Budget</h1>
{warning}
<p><strong>What is promised.</strong> All answers ever, together, tell about one person at most what
{facts["promise"]} allows: epsilon {number:.2f} at delta 1e-6.</p>
{said}
<p><strong>So far</strong> {facts["releases"]:,} answers. There is no last one.</p>
<h2>You</h2>
<p>{escaped(quota)}</p>"""


def curator(
    tokens: Sequence[Sequence[Any]],
    jobs: Sequence[Sequence[Any]],
    lines: Sequence[Sequence[Any]],
    made: str,
) -> str:
    """Return the curator's page: tokens, jobs, and the audit log."""
    listed = grid(("name", "kind", "", "last", "time (UTC)"), jobs)
    running = f"<h2>Jobs</h2>\n{listed}\n" if jobs else ""
    return f"""<h1>Curator</h1>
{made}
<h2>Tokens</h2>
{grid(("name", "role", "quota", "made", "expires", "", ""), tokens)}
<form method="post" action="/curator/tokens" class="row">
<label for="name">Name</label><input id="name" name="name" required>
<label for="role">Role</label><select id="role" name="role"><option>analyst</option>
<option>curator</option><option>monitor</option></select>
<label for="quota">Quota</label><input id="quota" name="quota" placeholder="20/day,5%">
<button>Make a token</button>
</form>
{running}<h2>Audit log</h2>
{grid(("who", "what", "", "answer", "price", "from", "time (UTC)"), lines, 2)}"""


class Link(str):
    """A text that leads somewhere."""

    href: str

    def __new__(cls, href: str, text: str) -> Link:
        made = super().__new__(cls, text)
        made.href = href
        return made


class Markup(str):
    """A text that is HTML already."""


def grid(head: Sequence[str], rows: Iterable[Sequence[Any]], wide: int = -1) -> str:
    """Return a table; a `Link` leads somewhere; the column `wide` has long texts."""
    top = "".join(f'<th scope="col">{escaped(name)}</th>' for name in head)
    body = "\n".join(
        "<tr>" + "".join(_cell(value, k == wide) for k, value in enumerate(row)) + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scrolled"><table><thead><tr>{top}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _cell(value: Any, wide: bool) -> str:
    opened = '<td class="wide">' if wide else "<td>"
    if isinstance(value, Markup):
        return f"{opened}{value}</td>"
    if isinstance(value, Link):
        return f'{opened}<a href="{escaped(value.href)}">{escaped(str(value))}</a></td>'
    return f"{opened}{escaped(value)}</td>"


def escaped_text(text: str) -> str:
    """Return a text of several lines, escaped line by line."""
    return "\n".join(escaped(line) for line in text.replace("\r\n", "\n").split("\n"))


def quoted_sql(sql: str) -> str:
    """Return a question as it stands in an address, escaped."""
    return escaped(urlencode({"sql": sql}))


def _first(catalog: Catalog) -> str:
    return catalog.private[0].name if catalog.private else "…"
