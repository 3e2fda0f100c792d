"""Worlds of rows, and random questions for each rule that rewrites a question.

The worlds are those in which a rewriting goes wrong: nothing matches, everything is NULL, a table
is empty or has one row, rows are duplicates. In the questions one key contains another, names are
shadowed, joins have no partner.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable

import pyarrow as pa
from differential import Pair

KEYS = ("a", "b", "aa")
T_TYPES = pa.schema(
    [
        ("who", pa.int64()),
        ("i", pa.int64()),
        ("k", pa.string()),
        ("x", pa.float64()),
        ("n", pa.int64()),
        ("day", pa.date32()),
        ("tags", pa.list_(pa.string())),
    ]
)
V_TYPES = pa.schema([("who", pa.int64()), ("j", pa.int64()), ("k", pa.string()), ("p", pa.int64())])
KINDS = pa.table(
    {"k": ["a", "b", "zz"], "family": ["first", "second", "none"], "weight": [1, 2, 3]}
)
FIRST = dt.date(2024, 1, 1)


def _t(rng: random.Random, rows: int, people: int, missing: float, same: bool = False) -> pa.Table:
    def maybe(value: object) -> object:
        return None if rng.random() < missing else value

    made = []
    for i in range(rows):
        draw = random.Random(1) if same else rng
        tags = [draw.choice([*KEYS, None]) for _ in range(draw.randrange(3))]
        made.append(
            (
                rng.randrange(people),
                i,
                maybe(draw.choice(KEYS)),
                maybe(float(draw.randrange(6))),
                maybe(draw.randrange(5)),
                maybe(FIRST + dt.timedelta(draw.randrange(9))),
                maybe(tags),
            )
        )
    columns = zip(*made, strict=True) if made else [[] for _ in T_TYPES]
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, T_TYPES, strict=True)]
    return pa.table(arrays, schema=T_TYPES)


def _v(rng: random.Random, rows: int, people: int, missing: float, start: int = 0) -> pa.Table:
    made = [
        (
            start + rng.randrange(people),
            j,
            None if rng.random() < missing else rng.choice(KEYS),
            None if rng.random() < missing else rng.randrange(5),
        )
        for j in range(rows)
    ]
    columns = zip(*made, strict=True) if made else [[] for _ in V_TYPES]
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, V_TYPES, strict=True)]
    return pa.table(arrays, schema=V_TYPES)


def worlds() -> dict[str, tuple[pa.Table, pa.Table]]:
    """Return the rows of the tables t and v, by what is odd about them."""
    rng = random.Random(5)
    return {
        "usual": (_t(rng, 60, 9, 0.15), _v(rng, 40, 9, 0.15)),
        "nobody in v": (_t(rng, 25, 6, 0.1), _v(rng, 0, 1, 0)),
        "no partner": (_t(rng, 25, 6, 0.1), _v(rng, 20, 6, 0.1, start=100)),
        "one row": (_t(rng, 1, 1, 0), _v(rng, 1, 1, 0)),
        "NULL": (_t(rng, 20, 5, 1), _v(rng, 20, 5, 1)),
        "duplicates": (_t(rng, 30, 4, 0, same=True), _v(rng, 30, 4, 0)),
        "empty": (_t(rng, 0, 1, 0), _v(rng, 5, 2, 0)),
    }


def pair_of(name: str) -> Pair:
    """Return a store and plain DuckDB with the rows of a world."""
    t, v = worlds()[name]
    return Pair(
        {"t": t, "v": v},
        public={"kinds": KINDS},
        keys={"t.k": KEYS, "v.k": KEYS, "t.n": tuple(range(5)), "v.p": tuple(range(5))},
        bounds={"t.x": (0, 9), "t.n": (0, 9), "v.p": (0, 9)},
    )


Case = Callable[[random.Random], str]
CASES: dict[str, Case] = {}
"""A generator of questions for each rule, by the name of its function."""


def _for(*rules: str) -> Callable[[Case], Case]:
    def mark(case: Case) -> Case:
        CASES.update(dict.fromkeys(rules, case))
        return case

    return mark


def _total(r: random.Random, a: str) -> str:
    """Return an aggregate of a table's alias."""
    number = "x" if a in ("t", "a", "o") else "p"
    return r.choice(
        [
            "count(*)",
            f"count({a}.{number})",
            f"sum({a}.{number})",
            f"avg({a}.{number})",
            f"count(DISTINCT {a}.who)",
            f"count(*) FILTER (WHERE {a}.{number} > 1)",
            f"sum(CASE WHEN {a}.k = 'a' THEN 1 ELSE 0 END)",
            f"count(nullif({a}.{number}, 2))",
        ]
    )


def _about_t(r: random.Random, a: str) -> str:
    return r.choice(
        [
            f"{a}.x > 2",
            f"{a}.k = 'a'",
            f"{a}.k IS NULL",
            f"{a}.n IN (1, 2)",
            f"{a}.k LIKE 'a%'",
            f"{a}.x BETWEEN 1 AND {a}.n",
            f"NOT ({a}.n > 2)",
            "false",
            f"{a}.k <> 'aa'",
            f"{a}.day >= DATE '2024-01-03'",
            f"coalesce({a}.n, 0) = 0",
            f"{a}.n IS DISTINCT FROM 2",
        ]
    )


def _about_v(r: random.Random, a: str) -> str:
    return r.choice(
        [
            f"{a}.p > 2",
            f"{a}.k = 'a'",
            f"{a}.k IS NULL",
            f"{a}.p IN (1, 2)",
            "false",
            f"NOT ({a}.p > 2)",
            f"{a}.k <> 'b'",
            f"coalesce({a}.p, 3) = 3",
        ]
    )


def _key(r: random.Random, a: str) -> str:
    case = f"CASE WHEN {a}.n > 2 THEN 'big' ELSE 'small' END"
    return r.choice(
        [f"{a}.k", f"upper({a}.k)", f"{a}.n", f"{a}.n % 2", f"{a}.n > 2", f"{a}.k || '!'", case]
    )


def _where(r: random.Random, a: str = "t") -> str:
    return r.choice(["", f" WHERE {_about_t(r, a)}"])


@_for("without_parentheses")
def _parentheses(r: random.Random) -> str:
    kind = r.choice(["JOIN", "LEFT JOIN"])
    more = r.choice(
        [
            "",
            " JOIN kinds AS c ON c.k = a.k",
            " LEFT JOIN kinds AS c ON c.k = a.k",
            " JOIN v AS c ON c.who = a.who AND c.p > 1",
            " LEFT JOIN v AS c ON a.who = c.who",
        ]
    )
    inner = f"(t AS a {kind} v AS b ON a.who = b.who AND {_about_v(r, 'b')})"
    inner = r.choice([inner, f"({inner})", f"({inner} JOIN kinds AS d ON d.k = b.k)"])
    return f"SELECT {_total(r, r.choice('ab'))} AS y FROM {inner}{more}{_where(r, 'a')}"


@_for("_unnest_beside")
def _lists(r: random.Random) -> str:
    of = r.choice(["'a'", "'b'", "'aa'", "'none'"])
    listed = f"tag IN ({of}, 'b')"
    where = r.choice([listed, f"{listed} AND {_about_t(r, 't')}"])
    return r.choice(
        [
            "SELECT tag, count(*) AS y FROM t, unnest(t.tags) AS u(tag) WHERE "
            f"{where} GROUP BY tag",
            f"SELECT tag, count(*) AS y FROM t CROSS JOIN unnest(t.tags) AS u(tag) WHERE {where} "
            "GROUP BY tag",
            f"SELECT count(*) AS y FROM t, unnest(tags) AS u(tag) WHERE tag = {of}",
            f"SELECT count(*) AS y, count(DISTINCT who) AS z FROM (SELECT who, unnest(tags) AS k "
            f"FROM t{_where(r)}) WHERE k = {of}",
            f"SELECT count(k) AS y FROM (SELECT who, unnest(tags) AS k FROM t{_where(r)})",
        ]
    )


@_for("without_laterals")
def _laterals(r: random.Random) -> str:
    order = r.choice(["p DESC NULLS LAST, j", "j", "p NULLS FIRST, j DESC"])
    limit = r.choice(["", f" ORDER BY {order} LIMIT {r.randrange(1, 3)}"])
    same = r.choice(["v.who = t.who", "v.who = t.who AND v.k = t.k", "t.who = v.who"])
    more = r.choice(["", f" AND {_about_v(r, 'v')}"])
    shown = r.choice(["p", "p + 1 AS p", "v.p"])
    lateral = f"LATERAL (SELECT {shown} FROM v WHERE {same}{more}{limit}) AS l"
    join = r.choice(
        [
            f", {lateral}",
            f" CROSS JOIN {lateral}",
            f" LEFT JOIN {lateral} ON true",
            f" JOIN {lateral} ON true",
        ]
    )
    total = r.choice(["count(*)", "sum(least(l.p, 9))", "count(l.p)", "count(DISTINCT t.who)"])
    return f"SELECT {total} AS y FROM t{join}{_where(r)}"


@_for("_name_windows")
def _windows(r: random.Random) -> str:
    call = r.choice(
        [
            "row_number() OVER w",
            "rank() OVER w",
            "count(*) OVER w",
            "sum(n) OVER w",
            "lag(n) OVER w",
            "first_value(n) OVER w",
            "max(n) OVER (w)",
            "sum(n) OVER (w ROWS 1 PRECEDING)",
        ]
    )
    order = r.choice([" ORDER BY i", " ORDER BY day, i", " ORDER BY x DESC NULLS LAST, i"])
    inner = f"SELECT who, k, {call} AS r FROM t{_where(r)} WINDOW w AS (PARTITION BY who{order})"
    held = f"r {r.choice(['>', '<=', '<>'])} {r.randrange(4)}"
    return f"SELECT count(*) AS y FROM ({inner}) WHERE {held}"


@_for("_group_by_all")
def _all(r: random.Random) -> str:
    key, total = _key(r, "t"), _total(r, "t")
    return r.choice(
        [
            f"SELECT {key} AS g, {total} AS y FROM t{_where(r)} GROUP BY ALL",
            f"SELECT {total} AS y FROM t{_where(r)} GROUP BY ALL",
            f"SELECT t.n AS g, t.k AS h, count(*) AS y FROM t{_where(r)} GROUP BY ALL",
            f"SELECT k AS n, n AS k, count(*) AS y FROM t{_where(r)} GROUP BY ALL",
            f"SELECT count(*) AS y FROM (SELECT who, {key} AS g, count(*) AS c FROM t{_where(r)} "
            f"GROUP BY ALL) WHERE c > {r.randrange(3)}",
            "SELECT t.k AS g, count(*) AS y FROM t WHERE t.k IN ('a', 'b') GROUP "
            "BY ALL ORDER BY ALL",
        ]
    )


@_for("order_by_names")
def _distinct_in_order(r: random.Random) -> str:
    total, down = r.choice(["count(*)", "count(n)", "2 * count(*)"]), r.choice(["", " DESC"])
    rows = f"FROM (SELECT k AS g, {total} AS y FROM t WHERE k IN ('a', 'b') GROUP BY k) AS q"
    return r.choice(
        [
            f"SELECT DISTINCT k AS g, {total} AS y FROM t WHERE k IN ('a', 'b') GROUP BY k "
            f"ORDER BY {total}{down}, k",
            f"SELECT DISTINCT q.g, q.y {rows} ORDER BY q.y{down}, q.g",
            f"SELECT DISTINCT upper(q.g) AS g, q.y {rows} ORDER BY upper(q.g){down}, q.y",
        ]
    )


@_for("_semi_joins")
def _semi(r: random.Random) -> str:
    kind = r.choice(["SEMI", "ANTI"])
    on = r.choice(
        [
            "ON a.who = v.who",
            "USING (who)",
            f"ON a.who = v.who AND {_about_v(r, 'v')}",
            "ON a.who = v.who AND a.k = v.k",
            "ON a.who = v.who AND v.p = a.n",
        ]
    )
    public = r.choice(["", " JOIN kinds AS c ON c.k = a.k"])
    return f"SELECT {_total(r, 'a')} AS y FROM t AS a {kind} JOIN v {on}{public}{_where(r, 'a')}"


@_for("_right_joins")
def _right(r: random.Random) -> str:
    on = r.choice(
        [
            "v.who = a.who",
            "v.who = a.who AND v.p = a.n",
            "a.who = v.who AND v.k = a.k",
            f"v.who = a.who AND {_about_v(r, 'v')}",
        ]
    )
    more = r.choice(["", " LEFT JOIN kinds AS c ON c.k = a.k", " JOIN kinds AS c ON c.k = a.k"])
    total = r.choice([_total(r, "a"), "count(v.p)", "count(v.who)", "sum(v.p)"])
    if r.random() < 0.3:
        return (
            f"SELECT c.family AS g, count(a.who) AS y FROM kinds AS c RIGHT JOIN t AS a "
            f"ON c.k = a.k{_where(r, 'a')} GROUP BY c.family"
        )
    return f"SELECT {total} AS y FROM v RIGHT JOIN t AS a ON {on}{more}{_where(r, 'a')}"


@_for("_common_conditions")
def _common(r: random.Random) -> str:
    a, b, c = (_about_t(r, "a") for _ in range(3))
    whole = r.choice(
        [
            f"({a} AND {b}) OR ({a} AND {c})",
            f"{a} OR ({a} AND {b})",
            f"({a} AND {b}) OR ({b} AND {a})",
            f"({a} AND {b} AND {c}) OR ({c} AND {a})",
            f"NOT (({a} AND {b}) OR ({a} AND {c}))",
        ]
    )
    if r.random() < 0.5:
        return f"SELECT {_total(r, 'a')} AS y FROM t AS a WHERE {whole}"
    kind, d, e = r.choice(["JOIN", "LEFT JOIN"]), _about_v(r, "v"), _about_v(r, "v")
    on = f"(a.who = v.who AND {d}) OR (a.who = v.who AND {e})"
    return f"SELECT {_total(r, r.choice('av'))} AS y FROM t AS a {kind} v ON {on} WHERE {whole}"


@_for("_compared_rows")
def _compared(r: random.Random) -> str:
    operator = r.choice(["<>", "<", "<=", ">", ">="])
    sides = ["v.p", "a.n"]
    r.shuffle(sides)
    more = r.choice(["", f" AND {_about_v(r, 'v')}", " AND v.k = a.k", f" AND {_about_t(r, 'a')}"])
    held = r.choice(["EXISTS", "NOT EXISTS"])
    exists = (
        f"{held} (SELECT 1 FROM v WHERE v.who = a.who AND {sides[0]} {operator} {sides[1]}{more})"
    )
    where = r.choice([exists, f"{exists} AND {_about_t(r, 'a')}", f"{exists} OR a.n > 3"])
    return f"SELECT {_total(r, 'a')} AS y FROM t AS a WHERE {where}"


@_for("_qualify")
def _qualified(r: random.Random) -> str:
    inner = f"PARTITION BY who{r.choice(['', ', k'])} ORDER BY {r.choice(['i', 'n NULLS LAST, i'])}"
    few = r.randrange(1, 3)
    return r.choice(
        [
            f"SELECT count(*) AS y, sum(least(x, 9)) AS z FROM (SELECT who, x FROM t{_where(r)} "
            f"QUALIFY row_number() OVER ({inner}) <= {few})",
            "SELECT count(*) AS y FROM (SELECT who, rank() OVER (PARTITION BY who "
            "ORDER BY n, i) AS r "
            f"FROM t{_where(r)} QUALIFY r = {few})",
            f"SELECT t.k AS g, count(*) AS y FROM t WHERE t.k IN ('a', 'b', 'aa') GROUP BY t.k "
            f"QUALIFY row_number() OVER (ORDER BY count(*) DESC, t.k) <= {few}",
            f"SELECT who, x FROM t QUALIFY x > {few}",
        ]
    )


@_for("split_question")
def _after(r: random.Random) -> str:
    listed, total = "t.k IN ('a', 'b', 'aa')", _total(r, "t")
    more = r.choice(["", f" AND {_about_t(r, 't')}"])
    counted = f"SELECT t.k AS k, count(*) AS c FROM t WHERE {listed}{more} GROUP BY t.k"
    some = f"{counted} HAVING count(*) > {r.randrange(3)}"
    return r.choice(
        [
            f"SELECT k, c FROM ({some}) AS q WHERE c < {r.randrange(1, 9)}",
            f"SELECT count(*) AS y, sum(c) AS z FROM ({some}) AS q",
            f"WITH q AS ({some}) SELECT a.k, a.c + b.c AS y FROM q AS a JOIN q AS b ON a.k = b.k",
            f"WITH q AS ({some}) SELECT k, c, (SELECT sum(c) FROM q) AS s FROM q",
            f"SELECT t.k, {total} AS y FROM t WHERE {listed} GROUP BY t.k HAVING count(*) > "
            f"{r.randrange(4)} ORDER BY t.k",
            f"SELECT k, c, rank() OVER (ORDER BY c DESC) AS r FROM ({some}) AS q",
            f"SELECT DISTINCT c > 2 AS big FROM ({some}) AS q",
            "SELECT t.n AS g, count(*) AS y FROM t WHERE t.n IN (0, 1, 2) AND t.n IN (SELECT w.n "
            "FROM t AS w WHERE w.n IN (0, 1, 2, 3) GROUP BY w.n HAVING count(*) > "
            f"{r.randrange(3)}) "
            "GROUP BY t.n",
            "SELECT count(*) AS y, sum(t.x) AS s FROM t WHERE t.k IN (SELECT k "
            f"FROM ({some}) AS q)",
            f"SELECT c.k, (SELECT count(*) FROM t WHERE t.k = c.k{more}) AS y FROM kinds AS c",
            f"({some}) UNION ALL SELECT v.k, count(*) FROM v WHERE v.k IN ('a', 'b') GROUP BY v.k "
            "HAVING count(*) > 0",
            f"SELECT t.k, count(*) * 2 + coalesce(sum(t.x), 0) AS y FROM t WHERE {listed}{more} "
            "GROUP BY t.k",
            f"SELECT count(*) AS y FROM t WHERE {listed}{more} HAVING count(*) > {r.randrange(9)}",
        ]
    )


@_for("combine")
def _sets(r: random.Random) -> str:
    word = r.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
    column = r.choice(["k", "n", "k || 'x' AS k", "NULL AS k", "n % 2 AS n"])
    other = "p" if column.startswith("n") else "k"
    left = f"SELECT who, {column} FROM t{_where(r)}"
    right = r.choice(
        [
            f"SELECT who, {other} FROM v",
            f"SELECT who, {other} FROM v WHERE {_about_v(r, 'v')}",
            left,
        ]
    )
    total = r.choice(["count(*)", "count(DISTINCT who)"])
    third = r.choice(["", f" {r.choice(['UNION', 'EXCEPT'])} SELECT who, {other} FROM v"])
    return f"SELECT {total} AS y FROM ({left} {word} {right}{third}) AS u"


@_for("from_clause")
def _joins(r: random.Random) -> str:
    kind = r.choice(["JOIN", "LEFT JOIN", "FULL JOIN"])
    more = r.choice(["", f" AND {_about_v(r, 'v')}", " AND v.k = a.k", " AND v.p > a.n"])
    on = r.choice([f"ON a.who = v.who{more}", "USING (who)"])
    total = r.choice(["count(*)", "count(a.x)", "count(v.p)", "sum(v.p)", "count(DISTINCT a.who)"])
    after = r.choice(
        ["", " LEFT JOIN kinds AS c ON c.k = a.k", " LEFT JOIN kinds AS c ON c.k = v.k"]
    )
    where = r.choice(["", " WHERE v.k IS NULL", f" WHERE {_about_t(r, 'a')}"])
    if r.random() < 0.3:
        who = "coalesce(a.who, b.who)"
        left = f"(SELECT who, count(*) AS c FROM t{_where(r)} GROUP BY who) AS a"
        right = "(SELECT who, count(*) AS d FROM v GROUP BY who) AS b"
        more = "greatest(least(coalesce(a.c, 0) - coalesce(b.d, 0), 9), -9)"
        totals = f"count(*) AS y, count({who}) AS z, sum({more}) AS s"
        return f"SELECT {totals} FROM {left} {kind} {right} ON a.who = b.who"
    return f"SELECT {total} AS y FROM t AS a {kind} v {on}{after}{where}"


@_for("first_questions")
def _first(r: random.Random) -> str:
    inner = r.choice(
        [
            "SELECT avg(x) FROM t",
            "SELECT count(*) / 20 FROM v",
            "SELECT coalesce(sum(p), 0) FROM v",
            f"SELECT avg(w.x) FROM t AS w WHERE {_about_t(r, 'w')}",
            "SELECT count(*) FROM v WHERE p > 99",
        ]
    )
    operator = r.choice([">", "<=", "="])
    return r.choice(
        [
            f"SELECT {_total(r, 't')} AS y FROM t WHERE t.x {operator} ({inner})",
            f"SELECT count(*) FILTER (WHERE t.x {operator} ({inner})) AS y FROM t",
            "SELECT t.k, count(*) AS y FROM t WHERE t.k IN ('a', 'b') AND t.x "
            f"{operator} ({inner}) "
            "GROUP BY t.k",
            f"SELECT count(*) AS y FROM t, ({inner}) AS q(m) WHERE t.x {operator} q.m",
            f"WITH q AS ({inner.replace(' FROM', ' AS m FROM', 1)}) SELECT count(*) AS y FROM t, q "
            f"WHERE t.x {operator} q.m AND {_about_t(r, 't')}",
        ]
    )


@_for("query_templates")
def _dates(r: random.Random) -> str:
    day = FIRST + dt.timedelta(r.randrange(-2, 11))
    till = FIRST + dt.timedelta(r.randrange(-2, 11))
    return r.choice(
        [
            f"SELECT count(*) AS y FROM t WHERE day >= '{day}'",
            f"SELECT count(*) AS y FROM t WHERE day BETWEEN '{day}' AND '{till}'",
            f"SELECT sum(x) AS y FROM t WHERE day < '{day}' AND k = 'a'",
            f"SELECT k, count(*) AS y FROM t WHERE k IN ('a', 'b') AND day > '{day}' GROUP BY k",
            f"SELECT count(*) AS y FROM t WHERE day = '{day} 00:00:00' OR day = '{till}'",
        ]
    )


@_for("respelt")
def _spellings(r: random.Random) -> str:
    number = r.randrange(4)
    condition = r.choice(
        [
            f"t.n = ANY ([{number}, 2])",
            f"t.n <> ALL ([{number}, 2])",
            "list_contains(['a'], t.k)",
            f"(t.n, t.k) IN (({number}, 'a'), (2, NULL))",
            f"(t.n, t.k) = ({number}, 'b')",
            f"t.day + INTERVAL {number} DAY > DATE '2024-01-05'",
            "t.day - DATE '2024-01-01' > 3",
            f"t.day >= DATE '2024-01-09' - {number} * INTERVAL '1 day'",
            "date(t.day) = '2024-01-03'",
            f"t.n IN (SELECT col0 FROM (VALUES ({number}), (2), (NULL)) AS u)",
            f"t.n NOT IN (SELECT col0 FROM (VALUES ({number}), (2)) AS u)",
            "CASE WHEN t.n IS NULL THEN t.n ELSE 1 END = 1",
            f"if(t.n IS NULL, t.n, {number}) = 1",
            f"t.n IN (SELECT range FROM range({number}))",
            "pi() > t.n",
        ]
    )
    return f"SELECT {_total(r, 't')} AS y FROM t WHERE {r.choice(['', 'NOT '])}({condition})"


@_for("time_lengths")
def _lengths(r: random.Random) -> str:
    n = r.randrange(1, 4)
    one = r.choice(
        [
            f"INTERVAL '{n} days'",
            f"'{n} days'::INTERVAL",
            f"(INTERVAL '-{n} day')",
            f"INTERVAL '{n} days 12:00:00'",
            f"INTERVAL '{n} days ago'",
            "(t.n || ' days')::INTERVAL",
            f"INTERVAL '{n} week 1 day'",
            f"INTERVAL '{n * 24}:30:00'",
            f"({n} * INTERVAL '1 day')",
            f"INTERVAL '{n}.5 days'",
            f"INTERVAL '1 month {n} days'",
            f"INTERVAL ({n} - 1) HOUR * 2",
            f"(INTERVAL '{n} day' + INTERVAL '3 hours')",
            f"INTERVAL '-{n} days -2 hours'",
            f"-INTERVAL '{n} day'",
            f"INTERVAL '{n}' MONTH",
            f"to_days({n})",
            f"INTERVAL '{n}.5 hours'",
            f"INTERVAL '{n} day' * t.n",
            f"CAST('{n} months' AS INTERVAL)",
            "INTERVAL '5m'",
        ]
    )
    time = r.choice(["t.day", "CAST(t.day AS TIMESTAMP)"])
    moment = f"TIMESTAMP '2024-01-{r.randrange(1, 28):02} 0{r.randrange(9)}:00:00'"
    operator = r.choice([">", "<=", "=", "<"])
    limit = r.choice(
        [
            f"INTERVAL '{n} days'",
            f"'{n} days 06:00:00'::INTERVAL",
            f"INTERVAL '{n * 20} hours'",
            "INTERVAL '1 month'",
            f"(INTERVAL '-{n} days')",
            f"'{n * 30}:00:00'",
        ]
    )
    difference = f"(CAST(t.day AS TIMESTAMP) - TIMESTAMP '2024-01-0{n} 03:00:00')"
    condition = r.choice(
        [
            f"{time} {r.choice('+-')} {one} {operator} {moment}",
            f"{time} {operator} {moment} {r.choice('+-')} {one}",
            f"{difference} {r.choice(['>', '<=', '<'])} {limit}",
            f"{limit} < {difference}",
            f"{difference} BETWEEN INTERVAL '{n} hours' AND {limit}",
        ]
    )
    return f"SELECT count(*) AS y FROM t WHERE {condition}"
