"""What a user contributes and is charged depends on nobody else's rows (DESIGN, must-never 5)."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampled import one_in

import sparseq
from sparseq.base.errors import QueryRefused
from sparseq.question.plan import Options, Plan, calibrate
from sparseq.stream.charge_amounts import price

EVENTS = pa.schema(
    [
        ("who", pa.int32()),
        ("day", pa.date32()),
        ("kind", pa.string()),
        ("x", pa.float64()),
        ("n", pa.int32()),
        ("text", pa.string()),
    ]
)
VISITS = pa.schema([("who", pa.int32()), ("day", pa.date32()), ("pages", pa.int32())])
SHOPS = pa.table({"kind": ["a", "b", "zz"], "city": ["Ghent", "Lund", "Ghent"], "rent": [1, 2, 3]})
FIRST = dt.date(1997, 1, 30)

days = st.integers(0, 4).map(lambda i: FIRST + dt.timedelta(days=i)) | st.none()
kinds = st.sampled_from(["a", "b", "c", "B", "o'b", None])
numbers = st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.3, 1.5, -7.0, 1e17, math.nan, math.inf, None])
small = st.integers(-2, 5) | st.none()
texts = st.sampled_from(["1", "2", "x", "", " 3", None])
events = st.lists(st.tuples(days, kinds, numbers, small, texts), max_size=8)
visits = st.lists(st.tuples(days, small), max_size=4)
person = st.tuples(events, visits)

TABLES = [
    "events AS e",
    "events AS e JOIN visits AS v ON e.who = v.who",
    "events AS e LEFT JOIN visits AS v ON e.who = v.who AND e.day <= v.day",
    "events AS e JOIN visits AS v ON e.who = v.who AND e.day = v.day AND v.pages > e.n",
    "events AS e JOIN shops AS s ON e.kind = s.kind",
    "events AS e LEFT JOIN shops AS s ON upper(e.kind) = upper(s.kind)",
    "visits AS v JOIN events AS e ON v.who = e.who JOIN events AS f ON f.who = v.who AND f.n < e.n",
    "(SELECT DISTINCT who, kind, day, n, x, text FROM events) AS e",
    "(SELECT who, kind, min(day) AS day, count(*) AS n, sum(x) AS x, max(text) AS text FROM events "
    "GROUP BY who, kind) AS e",
    "(SELECT who, kind, day, x, text, row_number() OVER (PARTITION BY who ORDER BY day) AS "
    "n FROM events) AS e",
    "(SELECT who, kind, day, x, text, rank() OVER (PARTITION BY who ORDER BY n DESC) AS n "
    "FROM events) AS e",
    "(SELECT kind, day, n, text, sum(x) OVER (PARTITION BY who ORDER BY day ROWS 1 PRECEDING) AS x "
    "FROM events) AS e",
    "(SELECT kind, day, n, text, avg(x) OVER (PARTITION BY who) AS x FROM events) AS e",
    "(SELECT kind, day, n, x, lag(text) OVER (PARTITION BY who, kind ORDER BY day DESC) "
    "AS text FROM events) AS e",
    "(SELECT e.who, e.kind, l.day, e.n, e.x, e.text FROM events e JOIN "
    "(SELECT who, max(day) AS day FROM events GROUP BY who) l "
    "ON e.who = l.who AND e.day = l.day) AS e",
    "(SELECT u AS who, k AS kind, day, n, x, text FROM "
    "(SELECT who AS u, kind AS k, day, n, x, text FROM events WHERE n > 0)) AS e",
    "(SELECT who, kind, day, n, x, text FROM events GROUP BY 1, 2, 3, 4, 5, 6 "
    "HAVING sum(n) > 2) AS e",
    "(SELECT v.pages AS n, e.kind, e.day, e.x, e.text FROM events e LEFT JOIN visits v "
    "ON v.who = e.who) AS e",
]
DEPENDENT = [
    "(SELECT e.who, e.kind, e.day, e.x, e.text, (SELECT count(*) FROM visits w WHERE w.who = e.who "
    "AND w.day <= e.day AND w.pages <> e.n) AS n FROM events e) AS e",
    "(SELECT e.who, e.kind, e.day, e.x, e.text, e.n FROM events e WHERE EXISTS (SELECT 1 FROM "
    "events f WHERE f.who = e.who AND f.day > e.day AND f.day <= e.day + 2)) AS e",
    "(SELECT e.who, e.kind, e.day, e.x, e.text, e.n FROM events e WHERE e.n NOT IN (SELECT w.pages "
    "FROM visits w WHERE w.who = e.who AND w.day >= e.day AND w.pages + e.n > 1)) AS e",
    "(SELECT e.who, e.kind, e.day, l.x, e.text, e.n FROM events e, LATERAL (SELECT f.x FROM events "
    "f WHERE f.who = e.who AND f.n < e.n ORDER BY f.day, f.x LIMIT 1) AS l) AS e",
    "(SELECT e.who, e.kind, (SELECT f.day FROM events f WHERE f.who = e.who AND f.day > e.day "
    "ORDER BY f.day LIMIT 1) AS day, e.x, e.text, e.n FROM events e LEFT JOIN visits v "
    "ON v.who = e.who AND v.pages = (SELECT 1)) AS e",
]
"""Subqueries on the outer row (`sparseq.sql.dependent_joins`)."""
TABLES += DEPENDENT
CONDITIONS = [
    "",
    "e.n > 1",
    "e.day >= DATE '1997-01-31'",
    "e.kind = 'a' OR e.x > 0.3",
    "CAST(e.text AS INT) + e.n > 2",
    "e.n % (e.n - 1) = 0",
    "e.kind IN (SELECT kind FROM shops WHERE rent < 3)",
    "e.x IS NULL OR NOT (e.x = 0)",
    "1 / e.x > 0",
]
KEYS = {
    "": "",
    "e.kind": "e.kind IN ('a', 'b', 'never')",
    "upper(e.text)": "e.text IN ('x', '1', '')",
    "e.day": "e.day BETWEEN DATE '1997-01-30' AND DATE '1997-02-05'",
    "month(e.day)": "",
    "e.n": "e.n BETWEEN 0 AND 3",
    "e.x > 0.25": "",
    "CASE WHEN e.n > 1 THEN 'many' WHEN e.kind = 'a' THEN 'a' END": "",
}
AGGREGATES = [
    "count(*) AS m",
    "count(e.x) AS m",
    "sum(least(greatest(e.x, -5), 5)) AS m",
    "sum(e.n) AS m",
    "countif(e.x > 0.3) AS m",
    "sum(CAST(e.text AS INT)) AS m",
    "quantile(e.x, 0.5, [-1, 0, 0.1, 0.3, 2]) AS m",
    "avg(least(greatest(e.n, 0), 4)) AS m",
    "count(*) FILTER (WHERE e.kind = 'a') AS m",
]


@st.composite
def queries(draw: st.DrawFn) -> str:
    key = draw(st.sampled_from(list(KEYS)))
    conditions = [draw(st.sampled_from(CONDITIONS)), KEYS[key]]
    where = " AND ".join(f"({c})" for c in conditions if c)
    chosen = ", ".join([f"{key} AS k"] * bool(key) + [draw(st.sampled_from(AGGREGATES))])
    sql = f"SELECT {chosen} FROM {draw(st.sampled_from(TABLES))}"
    return sql + (f" WHERE {where}" if where else "") + (" GROUP BY k" if key else "")


def _rows(people: dict[int, Any], which: int, schema: pa.Schema) -> pa.Table:
    rows = [(who, *row) for who, person in people.items() for row in person[which]]
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)


def _store(*goes: dict[int, Any], in_or_out: bool = False) -> sparseq.Store:
    """Return a store that the people came into in several goes."""
    con = sparseq.create(
        None,
        {"visits": _rows(goes[0], 1, VISITS), "events": _rows(goes[0], 0, EVENTS)},
        user="who",
        public={"shops": SHOPS},
        keys={"kind": ("a", "b", "never")},
        purposes=[sparseq.Questions(in_or_out=in_or_out)],
    )
    for people in goes[1:]:
        con.ingest(_rows(people, 0, EVENTS), "events")
        con.ingest(_rows(people, 1, VISITS), "visits")
    return con


def _plan(con: sparseq.Store, sql: str) -> Plan:
    return calibrate(con.lower(sql), con.guarantee, Options(sigma=100.0))


def _vector(con: sparseq.Store, plan: Plan, who: int) -> tuple[list[list[int]], int]:
    """Return a user's vector, one list a measure, and its charge."""
    found = con.backend.database.execute(
        "SELECT _user FROM ledger.users WHERE id = ?", [who]
    ).fetchall()
    contributions = con.stream.engine.contributions(plan, len(con.stream.accounts))
    if not found:
        return [[0] * plan.query.groups * m.bins for m in plan.query.measures], 0
    ((index,),) = found
    users, charges = price(plan, contributions)
    due = dict(zip(users.tolist(), charges.tolist(), strict=True)).get(index, 0)
    return [v.tolist() for v in contributions.pull(np.array([index], np.int32))], due


def _asked(most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(queries(), min_size=most, max_size=most)


others = st.lists(person, min_size=1, max_size=4)
quickly = settings(
    derandomize=True,
    max_examples=3,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
thoroughly = settings(quickly, max_examples=60)


def _check_vectors(focus: Any, crowd: list[Any], asked: list[str]) -> None:
    people = {who: p for who, p in enumerate(crowd, start=10) if who != 12}
    alone = _store({12: focus})
    first = _store({12: focus, **people})
    later = _store(people, {12: focus})
    for sql in asked:
        plan = _plan(alone, sql)
        own, due = _vector(alone, plan, 12)
        assert (due > 0) == any(map(any, own))
        for con in (first, later):
            other = _plan(con, sql)
            assert [d.values for d in other.query.domains] == [d.values for d in plan.query.domains]
            assert other.noise == plan.noise
            assert _vector(con, other, 12) == (own, due), sql


@quickly
@given(person, others, _asked(8))
def test_a_users_vector_and_charge_are_the_users_own(
    focus: Any, crowd: list[Any], asked: list[str]
) -> None:
    _check_vectors(focus, crowd, asked)


@pytest.mark.deep
@thoroughly
@given(person, others, _asked(12))
def test_a_users_vector_and_charge_are_the_users_own_thoroughly(
    focus: Any, crowd: list[Any], asked: list[str]
) -> None:
    _check_vectors(focus, crowd, asked)


def test_dependent_joins_are_of_the_users_own_rows() -> None:
    def person(first: int) -> Any:
        days = [FIRST + dt.timedelta(days=first + i) for i in (0, 1, 1, 3)]
        rows = [(day, "ab"[i % 2], i / 4 + first, i - first, "1") for i, day in enumerate(days)]
        return [*rows, (None, None, None, None, None)], [(day, i) for i, day in enumerate(days)]

    asked = [f"SELECT count(*) AS m, count(e.x) AS k FROM {source}" for source in DEPENDENT]
    _check_vectors(person(0), [person(k) for k in range(4)], asked)
    alone = _store({12: person(0)})
    dues = [_vector(alone, _plan(alone, sql), 12)[1] for sql in asked]
    assert all(dues), "a question tells nothing"


@quickly
@given(others, _asked(6))
def test_groups_and_sums_do_not_tell_of_rows(people: list[Any], asked: list[str]) -> None:
    """The same groups, whatever the rows; sums over all are the sums of each."""
    con, empty = _store(dict(enumerate(people))), _store({})
    for sql in asked:
        plan = _plan(con, sql)
        contributions = con.stream.engine.contributions(plan, len(con.stream.accounts))
        assert not any(v.any() for v in contributions.pull(np.zeros(0, np.int32)))
        each = [_vector(con, plan, who)[0] for who in range(len(people))]
        for i, measure in enumerate(contributions.measures):
            assert measure.totals.tolist() == np.sum([v[i] for v in each], axis=0).tolist()
        keys = ["k"] if sql.endswith("GROUP BY k") else []
        answers = [c.sql(sql).arrow().select(keys) for c in (con, empty)]
        assert answers[0] == answers[1]


def test_untouched_users_are_not_charged() -> None:
    rows = {1: ([(FIRST, "a", 1.0, 1, None)], []), 2: ([(FIRST, "b", 1.0, 1, None)], [])}
    con = _store(rows, in_or_out=True)
    con.sql("SELECT count(*) FROM events WHERE kind = 'a'")
    assert (con.stream.accounts.spent > 0).tolist() == [True, False]


ZEROS = [
    "SELECT count(*) m FROM (SELECT who, x FROM events GROUP BY who, x) WHERE x::VARCHAR = '-0.0'",
    "SELECT count(*) m FROM (SELECT who, -x AS y FROM events GROUP BY who, -x) WHERE y::VARCHAR = '-0.0'",  # noqa: E501
    "SELECT count(*) m FROM (SELECT DISTINCT who, x FROM events) WHERE x::VARCHAR = '-0.0'",
    "SELECT count(*) m FROM (SELECT who, max(x) AS x FROM events GROUP BY who) WHERE x::VARCHAR = '-0.0'",  # noqa: E501
    "SELECT count(*) m FROM (SELECT who, x, row_number() OVER (PARTITION BY who ORDER BY "
    "day) r FROM events) "
    "WHERE x::VARCHAR = '-0.0' AND r = 1",
    "SELECT count(*) m FROM (SELECT who, x, lag(x) OVER (PARTITION BY who ORDER BY day) l "
    "FROM events) "
    "WHERE x::VARCHAR = '-0.0' AND l::VARCHAR = '0.0'",
]


@pytest.mark.parametrize("sql", one_in(2, ZEROS))
def test_equal_values_are_the_same(sql: str) -> None:
    orders = ([0.0, -0.0], [-0.0, 0.0])
    stores = [_store({1: ([(FIRST, "a", x, 1, None) for x in xs], [])}) for xs in orders]
    seen = [_vector(con, _plan(con, sql), 1) for con in stores]
    assert seen[0] == seen[1]


NANS = [
    "SELECT count(*) m FROM (SELECT who, -x AS x FROM events GROUP BY who, -x) WHERE x::VARCHAR = '-nan'",  # noqa: E501
    "SELECT count(*) m FROM (SELECT who, max(y) AS y FROM (SELECT who, day, n, "
    "CASE WHEN n = 1 THEN x ELSE -x END AS y FROM events) GROUP BY who) WHERE y::VARCHAR = '-nan'",
    "SELECT count(*) m FROM (SELECT DISTINCT who, CASE WHEN n = 1 THEN x ELSE -x END AS y "
    "FROM events) WHERE y::VARCHAR = '-nan'",
]


@pytest.mark.parametrize("sql", NANS)
def test_nan_has_no_sign_once_it_is_grouped(sql: str) -> None:
    orders = ([1, 2], [2, 1])
    stores = [_store({1: ([(FIRST, "a", math.nan, n, None) for n in ns], [])}) for ns in orders]
    seen = [_vector(con, _plan(con, sql), 1) for con in stores]
    assert seen[0] == seen[1] == ([[0]], 0)


@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN"])
def test_the_condition_of_a_left_join_joins_nobody_else(join: str) -> None:
    con = _store({1: ([], [])})
    sql = f"""SELECT count(*) FROM events AS e {join} visits AS v ON e.day = v.day
        LEFT JOIN visits AS w ON w.who = e.who AND w.who = v.who"""
    with pytest.raises(QueryRefused, match="e and v are joined across users"):
        con.lower(sql)


def test_intervals_are_not_grouped() -> None:
    con = _store({1: ([], [])})
    for sql in (
        "SELECT count(*) FROM (SELECT who, count(*) FROM events GROUP BY who, INTERVAL (n) DAY)",
        "SELECT count(*) FROM (SELECT DISTINCT who, INTERVAL (n) DAY AS i FROM events)",
        "SELECT count(*) FROM (SELECT who, max(INTERVAL (n) DAY) AS i FROM events GROUP BY who)",
    ):
        with pytest.raises(QueryRefused, match="interval"):
            con.lower(sql)


@pytest.mark.parametrize("rows", one_in(2, [1, 5000]))
def test_the_order_of_rows_is_all_one(rows: int) -> None:
    """Sums of floats depend on their order, and order on the crowd; ours are exact."""
    values = [0.1, 0.2, 0.3, 1e15, -1e15, 0.7] * 3
    mine = [(1, FIRST, "a", v, 1, None) for v in values]
    crowd = [(2 + i % 97, FIRST, "b", float(i), 1, None) for i in range(rows)]
    sql = (
        "SELECT sum(least(greatest(s * 1e9, 0), 5e10)) AS m FROM "
        "(SELECT who, sum(x) AS s, avg(x) AS a FROM events GROUP BY who)"
    )
    seen = set()
    for order in (
        mine + crowd,
        crowd + mine[::-1],
        crowd[: rows // 2] + mine[::2] + crowd + mine[1::2],
    ):
        columns = zip(*order, strict=True)
        table = pa.table(
            [pa.array(c, f.type) for c, f in zip(columns, EVENTS, strict=True)], EVENTS
        )
        con = sparseq.create(None, {"events": table}, user="who")
        vector, _ = _vector(con, calibrate(con.lower(sql), con.guarantee, Options(sigma=1e6)), 1)
        seen.add(str(vector))
    assert len(seen) == 1
