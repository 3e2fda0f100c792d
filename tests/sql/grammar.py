"""Random queries, each with the plain SQL that means the same.

Expressions are written with as few parentheses as can be, so that both parsers must agree on what
binds tighter. In plain SQL every expression stands in TRY, as a row whose expression fails counts
for nothing; the user is added where a subquery or window leaves it out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from hypothesis import strategies as st

TEXTS = ("'book'", "'o''brien'", "'日本'", "''", "'100%'", "'BOOK'", "'x7'", "'2'", "NULL")
PATTERNS = ("'%oo%'", "'_ook'", "'100%'", "'o''%'", "'%'", "''", "'B%'")
DATES = ("DATE '1997-02-01'", "'1997-03-01'", "DATE '1997-04-01' + INTERVAL 1 WEEK")
NUMBERS = ("0", "1", "2", "3", "2.5", "10", "0.25", "1e1", "40", "-1", "-7.5")
DECLARED = "'book', 'o''brien', 'née \"x\"', '', '日本', 'no rows'"


@dataclass(frozen=True)
class Rows:
    """FROM, as asked and in plain SQL, and the columns that it gives.

    Attributes:
        keys: A key, the condition that gives it a domain, and the one that plain SQL needs.
        before: WITH …, as asked and in plain SQL.
    """

    asked: str
    plain: str
    user: str
    numbers: tuple[str, ...]
    texts: tuple[str, ...] = ()
    truths: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    keys: tuple[tuple[str, str, str], ...] = ()
    before: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Pair:
    """A query and the plain SQL that means the same."""

    asked: str
    plain: str


EVENT_KEYS = (
    ("kind", "", f"kind IN ({DECLARED})"),
    ("kind", "kind IN ('book', '日本', 'nobody', NULL)", ""),
    ("lower(kind)", "kind IN ('book', 'Book', '')", ""),
    ("qty", "", ""),
    ("qty", "qty > 0 AND qty <= 4", ""),
    ("shop_id", "shop_id BETWEEN 1 AND 3", ""),
    ("gift", "", ""),
    ("day", "day >= '1997-03-01' AND day < DATE '1997-03-01' + INTERVAL 9 DAY", ""),
    ("month(seen)", "", ""),
    ("date_trunc('month', day)", "day BETWEEN '1997-02-11' AND '1997-04-03'", ""),
    ("CASE WHEN amount > 50 THEN 'a' WHEN qty > 2 THEN 'b' END", "", ""),
    ("item", f"item IN ({', '.join(map(str, range(100, 170, 2)))})", ""),
    ("code", "code = 'x7' OR code IN ('1', 'none')", ""),
)
EVENTS = Rows(
    "events",
    "events",
    "who",
    ("amount", "qty", "price", "item", "shop_id"),
    ("kind", "code"),
    ("gift",),
    ("day", "due"),
    EVENT_KEYS,
)
VISITS = Rows(
    "visits",
    "visits",
    "who",
    ("pages",),
    dates=("day",),
    keys=(("pages", "", "pages IN (1, 2, 3, 4, 5)"), ("pages", "pages IN (2, 9)", "")),
)


def _of(alias: str, rows: Rows) -> Rows:
    """Return the rows with the table's name before every column."""

    def named(columns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"{alias}.{c}" for c in columns)

    return replace(
        rows,
        user=f"{alias}.{rows.user}",
        numbers=named(rows.numbers),
        texts=named(rows.texts),
        truths=named(rows.truths),
        dates=named(rows.dates),
        keys=((f"{alias}.gift", "", ""),) if rows.truths else (),
    )


def joined(draw: st.DrawFn) -> Rows:
    """Return events joined with a public table, or with people's visits."""
    kind = draw(st.sampled_from(["JOIN", "LEFT JOIN"]))
    e = _of("e", EVENTS)
    public = [
        (f"{kind} shops s ON e.shop_id = s.shop_id", ("s.rent",), ("s.city",), ("s.city", "", "")),
        (
            f"{kind} families f ON f.kind = e.kind AND f.weight > e.qty",
            ("f.weight",),
            ("f.family",),
            ("f.family", "", ""),
        ),
        ("JOIN families f ON f.kind = e.kind", ("f.weight",), ("f.family",), ("f.family", "", "")),
        (f"{kind} items i ON e.item = i.item", ("i.half",), (), ("i.half", "", "")),
        (
            f"{kind} visits v ON e.who = v.who AND e.day >= v.day",
            ("v.pages",),
            (),
            ("v.pages", "v.pages BETWEEN 3 AND 5", ""),
        ),
        (f"{kind} visits v ON v.who = e.who AND v.pages > 6", ("v.pages",), (), ("e.gift", "", "")),
    ]
    join, numbers, texts, key = draw(st.sampled_from(public))
    source = f"events e {join}"
    return replace(
        e,
        asked=source,
        plain=source,
        numbers=e.numbers + numbers,
        texts=e.texts + texts,
        keys=(*e.keys, key),
    )


def grouped(draw: st.DrawFn) -> Rows:
    """Return a subquery that is grouped within each user."""
    where = draw(condition(EVENTS))
    having = draw(st.sampled_from(["", " HAVING count(*) > 1", " HAVING max(qty) > 2"]))
    key = draw(st.sampled_from(["kind", "day", "kind, gift", "shop_id"]))
    computed = (
        "count(*) AS c, sum(amount) AS s, avg(qty) AS q, max(price) AS p, min(day) AS d, "
        "bool_or(gift) AS g, count(DISTINCT code) AS k, countif(amount > 9) AS n"
    )

    def text(where: str) -> str:
        by = f"who, {key}"
        return f"(SELECT {by}, {computed} FROM events WHERE {where} GROUP BY {by}{having}) AS t"

    return Rows(
        text(where),
        text(tried(where)),
        "who",
        ("c", "s", "q", "p", "k", "n"),
        ("kind",) if "kind" in key else (),
        ("g",),
        ("d",),
        (("c", "c BETWEEN 1 AND 5", ""), ("g", "", ""), ("n", "n IN (0, 1, 7)", "")),
    )


def windowed(draw: st.DrawFn) -> Rows:
    """Return a subquery with a window over each person's rows."""
    function, by, frame = draw(
        st.sampled_from(
            [
                ("row_number()", "seen", ""),
                ("rank()", "day DESC", ""),
                ("lag(qty)", "seen", ""),
                ("sum(amount)", "day", ""),
                ("count(kind)", "day", ""),
                ("avg(qty)", "", ""),
                ("sum(qty)", "seen", " ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING"),
                ("lead(qty, 2)", "seen DESC", ""),
                ("dense_rank()", "shop_id", ""),
            ]
        )
    )
    one_by_one = frame or function.split("(")[0] in ("row_number", "lag", "lead")
    part = draw(st.sampled_from(["", "kind", "shop_id"]))
    shown = "amount, qty, kind, gift, day, seen, shop_id"

    def text(user: str, ties: str) -> str:
        within = ", ".join(filter(None, [user, part]))
        nulls = " NULLS LAST" if by else ""
        over = (f"PARTITION BY {within} " if within else "") + (
            f"ORDER BY {by}{nulls}{ties}{frame}" if by else ""
        )
        return f"(SELECT who, {shown}, {function} OVER ({over}) AS w FROM events) AS t"

    return Rows(
        text("who", ""),
        text("who", f", {shown}" if one_by_one else ""),
        "who",
        ("amount", "qty", "w", "w"),
        ("kind",),
        ("gift",),
        ("day",),
        (("w", "w IN (1, 2, 3)", ""), ("gift", "", "")),
    )


def distinct(draw: st.DrawFn) -> Rows:
    """Return the distinct rows of each user, in a subquery in a subquery."""
    shown = draw(st.sampled_from(["kind, qty, gift, day", "kind, qty, gift, due AS day"]))

    def text(user: str) -> str:
        return (
            f"(SELECT * FROM (SELECT DISTINCT {user}{shown} FROM events) AS a "
            "WHERE qty IS NOT NULL) AS t"
        )

    return Rows(
        text("who, "),
        text("who, "),
        "",
        ("qty",),
        ("kind",),
        ("gift",),
        ("day",),
        (("qty", "qty IN (1, 2, 3)", ""), ("gift", "", "")),
    )


def chained(draw: st.DrawFn) -> Rows:
    """Return a chain of CTEs, the last of which may be named like a table."""
    where = draw(condition(EVENTS))
    name = draw(st.sampled_from(["b", "events"]))

    def text(where: str) -> str:
        return (
            f'WITH a AS (SELECT who AS u, * FROM events WHERE {where}), "B1"(u, kind, total, n) '
            "AS (SELECT u, kind, sum(amount), count(*) FROM a GROUP BY u, kind), "
            f"{name} AS (SELECT b1.u, b1.kind, total, n, family FROM b1 LEFT JOIN families "
            "ON b1.kind = families.kind WHERE n > 0) "
        )

    return Rows(
        name,
        name,
        "u",
        ("total", "n"),
        ("kind", "family"),
        keys=(("n", "n < 6 AND 0 < n", ""), ("kind", "kind IN ('book', '', 'x')", "")),
        before=(text(where), text(tried(where))),
    )


SOURCES: tuple[Callable[[st.DrawFn], Rows], ...] = (
    lambda _: EVENTS,
    lambda _: EVENTS,
    lambda _: VISITS,
    joined,
    grouped,
    windowed,
    distinct,
    chained,
)


# -- expressions -----------------------------------------------------------------------------------


def _binary(operators: list[str], parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    form = st.sampled_from(["{} {} {}", "{} {} {}", "({} {} {})", "{} {} ({})"])
    return st.builds(
        lambda f, a, o, b: f.format(a, o, b), form, parts, st.sampled_from(operators), parts
    )


def number(rows: Rows, depth: int = 2) -> st.SearchStrategy[str]:
    """Return random arithmetic."""
    return _number(_columns(rows), depth)


def _columns(rows: Rows) -> Rows:
    """Return the columns alone: there are few such sets, so that strategies are made once each."""
    return replace(rows, asked="", plain="", user="", keys=(), before=("", ""))


@cache
def _number(rows: Rows, depth: int) -> st.SearchStrategy[str]:
    leaf = st.sampled_from(rows.numbers * 2 + NUMBERS)
    if depth == 0:
        return leaf
    less = number(rows, depth - 1)
    unary = st.sampled_from(
        [
            "- {}",
            "-({})",
            "abs({})",
            "round({})",
            "floor({})",
            "sign({})",
            "sqrt(abs({}))",
            "CAST({} AS INT)",
            "({})::DOUBLE",
            "nullif({}, 2)",
            "coalesce({}, 1)",
            "least({}, 7)",
            "greatest({}, -3, 4)",
            "round({}, 1)",
            "ceil({})",
        ]
    )
    case = st.builds(
        "CASE WHEN {} THEN {} ELSE {} END".format, condition(rows, depth - 1), less, less
    )
    return st.one_of(
        leaf,
        _binary(["+", "-", "*", "/", "//", "%"], less),
        _binary(["+", "-", "*"], less),
        st.builds(str.format, unary, less),
        case,
        st.builds("CASE WHEN {} THEN {} END".format, condition(rows, depth - 1), less),
        st.builds("if({}, {}, {})".format, condition(rows, depth - 1), less, less),
        st.sampled_from([f"length({t})" for t in rows.texts] + [f"month({d})" for d in rows.dates])
        if rows.texts + rows.dates
        else leaf,
    )


def _simple(rows: Rows, depth: int) -> st.SearchStrategy[str]:
    numbers = number(rows, depth)
    parts = [
        _binary(["<", "<=", "=", "<>", ">", ">=", "IS DISTINCT FROM"], numbers),
        st.builds(
            "{} {} {} AND {}".format,
            numbers,
            st.sampled_from(["BETWEEN", "NOT BETWEEN"]),
            st.sampled_from(NUMBERS),
            st.sampled_from(NUMBERS),
        ),
        st.builds(
            lambda e, n, listed: f"{e} {n} ({', '.join(listed)})",
            numbers,
            st.sampled_from(["IN", "NOT IN"]),
            st.lists(st.sampled_from(NUMBERS), min_size=1),
        ),
        st.builds("{} IS {}".format, numbers, st.sampled_from(["NULL", "NOT NULL"])),
    ]
    if rows.texts:
        text = st.sampled_from([f.format(t) for t in rows.texts for f in ("{}", "lower({})", "{}")])
        parts += [
            st.builds(
                "{} {} {}".format,
                text,
                st.sampled_from(["LIKE", "NOT LIKE", "ILIKE"]),
                st.sampled_from(PATTERNS),
            ),
            st.builds(
                lambda e, listed: f"{e} IN ({', '.join(listed)})",
                text,
                st.lists(st.sampled_from(TEXTS), min_size=1),
            ),
            st.builds(
                "{} {} {}".format,
                text,
                st.sampled_from(["=", "<>", "<", ">="]),
                st.one_of(text, st.sampled_from(TEXTS)),
            ),
            st.builds("{} || '!' = {}".format, text, st.sampled_from(["'book!'", "'!'"])),
        ]
    if rows.dates:
        date = st.sampled_from(rows.dates)
        parts += [
            st.builds(
                "{} {} {}".format, date, st.sampled_from(["<", ">=", "="]), st.sampled_from(DATES)
            ),
            st.builds("{} BETWEEN {} AND {}".format, date, *[st.sampled_from(DATES)] * 2),
        ]
    if rows.truths:
        forms = st.sampled_from(["{}", "NOT {}", "{} IS TRUE", "{} IS NOT FALSE", "{} = true"])
        parts.append(st.builds(str.format, forms, st.sampled_from(rows.truths)))
    return st.one_of(parts)


def condition(rows: Rows, depth: int = 2) -> st.SearchStrategy[str]:
    """Return a random condition."""
    return _condition(_columns(rows), depth)


@cache
def _condition(rows: Rows, depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return _simple(rows, 0)
    less = condition(rows, depth - 1)
    return st.one_of(
        _simple(rows, depth - 1),
        _binary(["AND", "OR"], less),
        st.builds(str.format, st.sampled_from(["NOT {}", "NOT ({})", "({}) IS NOT TRUE"]), less),
    )


def tried(sql: str) -> str:
    """Return a plain expression that is NULL on the rows where it fails."""
    return f"TRY({sql})"


# -- queries ---------------------------------------------------------------------------------------


@st.composite
def aggregate(draw: st.DrawFn, rows: Rows) -> tuple[str, str]:
    """Return an aggregate, as asked and in plain SQL."""
    chosen = draw(
        st.sampled_from(
            ["count(*)", "count", "countif", "users", "sum", "avg", "sum", "deviation", "reading"]
        )
    )
    where = draw(st.none() | condition(rows, 1))
    only = f" FILTER (WHERE {where})" if where else ""
    plain_only = f" FILTER (WHERE {tried(where)})" if where else ""
    if chosen == "users" and rows.user:
        asked = f"count(DISTINCT {rows.user})"
        if draw(st.booleans()):
            branch = draw(condition(rows, 1))
            asked = f"count(DISTINCT CASE WHEN {branch} THEN {rows.user} END)"
            plain = f"count(DISTINCT CASE WHEN {tried(branch)} THEN {rows.user} END)"
            return asked + only, plain + plain_only
        return asked + only, asked + plain_only
    if chosen == "countif":
        counted = draw(condition(rows))
        plain = f"coalesce(countif({tried(counted)}){plain_only}, 0)"
        return f"countif({counted}){only}", plain
    if chosen == "count":
        counted = draw(number(rows))
        return f"count({counted}){only}", f"count({tried(counted)}){plain_only}"
    if chosen == "reading" and rows is EVENTS:
        finite = f"isfinite(reading){' AND ' + tried(where) if where else ''}"
        name = draw(st.sampled_from(["sum", "avg"]))
        plain = f"{name}(reading) FILTER (WHERE {finite})"
        return f"{name}(reading){only}", f"coalesce({plain}, 0)" if name == "sum" else plain
    if chosen in ("sum", "avg"):
        low, high = draw(st.sampled_from([(-900, 900), (0, 50), (-5, 7.5)]))
        value = f"least(greatest({draw(number(rows))}, {low}), {high})"
        plain = f"{chosen}({tried(value)}){plain_only}"
        plain = f"coalesce({plain}, 0)" if chosen == "sum" else plain
        return f"{chosen}({value}){only}", plain
    if chosen == "deviation":
        name = draw(st.sampled_from(["stddev", "var_pop", "variance", "stddev_pop"]))
        value = f"least(greatest({draw(number(rows, 1))}, -20), 20)"
        return f"{name}({value}){only}", f"{name}({tried(value)}){plain_only}"
    return f"count(*){only}", f"count(*){plain_only}"


@st.composite
def queries(draw: st.DrawFn) -> Pair:
    """Return a random query and what it means."""
    rows = draw(st.sampled_from(SOURCES))(draw)
    where = draw(st.none() | condition(rows))
    asked_where, plain_where = ([where], [tried(where)]) if where else ([], [])
    found = [draw(aggregate(rows)) for _ in range(draw(st.integers(1, 3)))]
    asked = [f"{a} AS a{i}" for i, (a, _) in enumerate(found)]
    plain = [f"{p} AS a{i}" for i, (_, p) in enumerate(found)]
    tail = ""
    if draw(st.booleans()) and rows.keys:
        key, public, declared = draw(st.sampled_from(rows.keys))
        asked, plain = [f"{key} AS k0", *asked], [f"{key} AS k0", *plain]
        asked_where += [public] if public else []
        plain_where += [c for c in (public, declared) if c]
        tail = " GROUP BY k0"
    written = draw(st.sampled_from([str.lower, str.upper, str.title, None]))

    def query(before: str, columns: list[str], source: str, where: list[str]) -> str:
        every = " AND ".join(f"({c})" for c in where)
        text = f"{before}SELECT {', '.join(columns)} FROM {source}"
        return text + (f" WHERE {every}" if every else "") + tail

    return Pair(
        respelled(query(rows.before[0], asked, rows.asked, asked_where), written),
        query(rows.before[1], plain, rows.plain, plain_where),
    )


_NAMES = re.compile(
    r"'(?:[^']|'')*'|\b(who|amount|qty|price|item|shop_id|kind|code|gift|day|due|seen|pages|events|"
    r"visits|families|family|total)\b"
)


def respelled(sql: str, style: Callable[[str], str] | None) -> str:
    """Return a query with its names in another case, or in quotes; text stays as it is."""

    def name(match: re.Match[str]) -> str:
        if match[1] is None or (match[1] == "day" and sql[match.end() : match.end() + 1] in "(,"):
            return match[0]
        return style(match[1]) if style is not None else f'"{match[1].capitalize()}"'

    return _NAMES.sub(name, sql)
