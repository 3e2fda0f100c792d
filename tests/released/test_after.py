"""What is selected from noised answers: plain SQL's meaning, and intervals that hold the truth."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from sampled import one_in
from sql import shop

import sparseq
from sparseq.base.errors import QueryRefused
from sparseq.language.functions import FUNCTIONS
from sparseq.language.types import BIGINT, DOUBLE, Family
from sparseq.question.plan import Plan, calibrate
from sparseq.released.outputs import Intervals, Measurements
from sparseq.released.render import key_columns, render

KINDS = "kind IN ('book', '日本', '')"
BY_QTY = f"(SELECT qty, count(*) AS n, sum(amount) AS s FROM events WHERE {KINDS} GROUP BY qty)"
CARRIED = [
    f"SELECT qty, n * s AS p, n / s AS q, s / n AS r, -s AS m, n - 2 * s AS d FROM {BY_QTY}",
    f"SELECT qty, abs(s) AS a, greatest(n, s) AS g, least(n, s, 3) AS l, round(s, 1) AS r,"
    f" floor(s) AS f, CAST(n AS INTEGER) AS i, sqrt(abs(s)) AS root FROM {BY_QTY}",
    f"SELECT qty, sum(n) OVER (ORDER BY qty) AS running, n / sum(n) OVER () AS share, avg(s) OVER"
    f" (ORDER BY qty ROWS 2 PRECEDING) AS moving, min(s) OVER () AS low FROM {BY_QTY}",
    f"SELECT qty, n - lag(n) OVER (ORDER BY qty) AS change, n / first_value(n) OVER (ORDER BY qty)"
    f" AS idx, lead(s, 2) OVER (ORDER BY qty) AS later FROM {BY_QTY}",
    f"SELECT qty > 3 AS many, sum(n) AS n, avg(s) AS s, max(n) AS top, count(*) AS rows,"
    f" sum(n) FILTER (WHERE qty > 0) AS some FROM {BY_QTY} GROUP BY qty > 3",
    f"SELECT qty, CASE WHEN qty > 2 THEN n ELSE -s END AS c, coalesce(n, 0) AS k FROM {BY_QTY}",
    f"SELECT a.qty AS qty, a.n - b.n AS d, a.s * b.s AS p FROM {BY_QTY} a JOIN {BY_QTY} b"
    " ON b.qty = a.qty - 1",
    "SELECT kind, count(*) AS n, 100 * count(*) / (SELECT count(*) FROM events) AS share"
    " FROM events GROUP BY kind",
    "SELECT kind, gift, count(*) AS n, sum(amount) AS s FROM events"
    " WHERE qty > 0 AND gift IS NOT NULL AND kind IS NOT NULL GROUP BY ROLLUP (kind, gift)",
    "SELECT kind, count(*) AS n FROM events GROUP BY kind UNION ALL"
    " SELECT 'all', count(*) FROM visits UNION ALL SELECT 'people', count(DISTINCT who)"
    " FROM visits",
    "SELECT (SELECT count(*) FROM events) - (SELECT count(*) FROM visits) AS d",
    f"SELECT qty, n FROM {BY_QTY} WHERE n > 5 ORDER BY n DESC LIMIT 4",
]


@pytest.fixture(scope="module")
def con() -> sparseq.Store:
    return shop.store()


def _shown(plan: Plan, sums: list[Any], noise: np.random.Generator | None) -> pa.Table:
    """Return the answer to sums with noise within the bounds, and intervals that know of it."""
    bounds = [3.0 if noise is not None else 0.0] * len(sums)
    measured = [s + (noise.uniform(-3, 3, s.shape) if noise is not None else 0.0) for s in sums]
    lows = [m - b for m, b in zip(measured, bounds, strict=True)]
    highs = [m + b for m, b in zip(measured, bounds, strict=True)]
    ones = [1.0] * len(sums)
    known = Intervals(lows, highs, measured, ones, [np.zeros_like(s) for s in sums], ones)
    keys, groups = key_columns(plan.query.domains), plan.query.groups
    return render(plan, Measurements(measured, bounds, keys, groups, known))


@pytest.mark.parametrize("sql", one_in(2, CARRIED), ids=range(len(CARRIED)))
def test_intervals_hold_the_truth(con: sparseq.Store, sql: str) -> None:
    """Whatever the noise within its bounds: the value without noise is in every interval."""
    plan = calibrate(con.lower(sql), con.guarantee, shop.FINE)
    found = con.stream.engine.contributions(plan, len(con.stream.accounts)).measures
    sums = [
        (m.totals * n.granularity).reshape(-1, asked.bins)
        for m, n, asked in zip(found, plan.noise, plan.query.measures, strict=True)
    ]
    true = _shown(plan, sums, None).to_pylist()
    noised = [name for name in true[0] if f"{name}_low" in true[0]]
    public = [n for n in true[0] if not any(n == m or n.startswith(f"{m}_") for m in noised)]
    by_key = {tuple(row[name] for name in public): row for row in true}
    assert len(by_key) == len(true), "no telling which row is which"
    rng, checked, known = np.random.default_rng(7), 0, set()
    for _ in range(20):
        for row in _shown(plan, sums, rng).to_pylist():
            truth = by_key.get(tuple(row[name] for name in public))
            if truth is None:
                continue  # LIMIT took another one
            for name in noised:
                low, high = row[f"{name}_low"], row[f"{name}_high"]
                if low is not None and truth[name] is not None:
                    slack = 1e-9 * (1 + abs(truth[name]))
                    assert low - slack <= truth[name] <= high + slack, (name, row, truth)
                    assert low - slack <= row[name] <= high + slack
                    assert high > low or "round" in sql or "floor" in sql
                    checked, known = checked + 1, known | {name}
    assert known == set(noised)
    assert checked >= 10


UNKNOWN = {
    "a choice by what noise made NULL": "SELECT qty, CASE WHEN nullif(5, n) IS NULL THEN s ELSE n"
    f" END AS x FROM {BY_QTY}",
    "a rank by noise": f"SELECT qty, rank() OVER (ORDER BY n) AS x FROM {BY_QTY}",
    "a running sum in the order of noise": f"SELECT qty, sum(s) OVER (ORDER BY n) AS x"
    f" FROM {BY_QTY}",
    "a sum over what HAVING left": f"SELECT sum(n) AS x FROM {BY_QTY} WHERE n > 30",
    "a count of such rows": f"SELECT count(*) AS x FROM {BY_QTY} WHERE n > 30",
    "a sum over the top rows": f"SELECT sum(n) AS x FROM (SELECT n FROM {BY_QTY}"
    " ORDER BY n LIMIT 3)",
    "a choice by noise": f"SELECT qty, CASE WHEN n > 30 THEN s ELSE n END AS x FROM {BY_QTY}",
    "rows of noised groups": f"SELECT count(*) AS x FROM {BY_QTY} GROUP BY round(n, -1)",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_where_noise_decides_there_is_no_interval(con: sparseq.Store, name: str) -> None:
    query = con.lower(UNKNOWN[name])
    assert "no interval is known for x" in query.notes
    table = shop.answer(con, UNKNOWN[name])
    assert table["x_error"].null_count == len(table) > 0


def test_a_question_in_several_places_is_asked_once(con: sparseq.Store) -> None:
    one = con.lower(f"SELECT qty, n FROM {BY_QTY}")
    twice = con.lower(
        f"WITH m AS {BY_QTY} SELECT a.qty, a.n + b.n AS x FROM m a JOIN m b USING (qty)"
    )
    assert (one.coordinates, one.measures) == (twice.coordinates, twice.measures)
    unread = con.lower(f"WITH m AS (SELECT count(*) AS c FROM visits) SELECT qty, n FROM {BY_QTY}")
    assert unread.measures == one.measures


def test_several_questions_are_charged_as_one_vector() -> None:
    rows = pa.table({"who": [1, 1, 2], "k": ["a", "b", "a"]})
    con = sparseq.create(
        None,
        {"t": rows},
        user="who",
        keys={"k": ("a", "b")},
        seed=1,
        purposes=[sparseq.Questions(in_or_out=True, counts=100)],
    )
    con.sql("SELECT k, count(*) AS n FROM t GROUP BY k UNION ALL SELECT 'all', count(*) FROM t")
    units = con.stream.accounts.spent / 2**24
    assert units.tolist() == [1 + 1 + 4, 1 + 1]
    release = con.releases()[-1]
    assert release.coordinates == 4


def test_an_answer_is_read_back_and_asked_with_noise(con: sparseq.Store) -> None:
    sql = (
        "SELECT kind, count(*) AS n, rank() OVER (ORDER BY count(*) DESC) AS place"
        " FROM events GROUP BY kind"
    )
    first, again = (con.sql(sql, request_id="r1").arrow() for _ in range(2))
    assert first.equals(again)
    assert first.column_names == ["kind", "n", "n_error", "place", "place_error"]
    assert sorted(first["place"].to_pylist())[0] == 1
    assert first["place_error"].null_count == len(first)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM events WHERE amount > (SELECT avg(amount) FROM events GROUP BY kind)",
        f"SELECT e.gift, count(*) FROM events e JOIN {BY_QTY} k ON e.qty = k.qty GROUP BY e.gift",
        f"SELECT e.qty, count(*) FROM events e LEFT JOIN {BY_QTY} k ON e.qty = k.qty GROUP BY 1",
        f"SELECT e.qty, sum(k.n) FROM events e JOIN {BY_QTY} k ON e.qty = k.qty GROUP BY e.qty",
        f"SELECT e.qty, count(*) FROM events e JOIN {BY_QTY} k ON e.qty < k.qty GROUP BY e.qty",
        "SELECT e.qty, count(*) FROM events e JOIN (SELECT qty, gift, count(*) AS n FROM events"
        " GROUP BY qty, gift) k ON e.qty = k.qty GROUP BY e.qty",  # several rows for a key
        f"SELECT who FROM events UNION ALL SELECT n FROM {BY_QTY}",
    ],
)
def test_people_and_answers_do_not_mix(con: sparseq.Store, sql: str) -> None:
    with pytest.raises(QueryRefused) as refused:
        con.lower(sql)
    assert "first" in refused.value.hint


NUMBERS = {Family.INTEGER, Family.DOUBLE}
OF_NUMBERS = [f for f in FUNCTIONS if f.takes[0] is Family.DOUBLE and {*f.takes} <= NUMBERS]
"""Entries of the table that a noised sum goes into."""


def test_every_function_of_numbers_has_an_interval() -> None:
    given = {f: f.gives([DOUBLE, BIGINT][: len(f.takes)]) for f in OF_NUMBERS}
    without = {f.name for f in OF_NUMBERS if f.rule is None}
    assert without == {f.name for f, type in given.items() if type and not type.is_number}


def _calls() -> Iterator[str]:
    """Yield every function of a noised sum s, constants beside it, and the forms that SQL has."""
    for f in OF_NUMBERS:
        constants = ("-1",) if f.fixed else ("7", "-2", "0.5") if len(f.takes) == 2 else ("",)
        for constant in constants if f.rule is not None else ():
            yield f.form.format("s", f"({constant})")
            if f.name in ("log", "-", "/", "pow") and constant:
                yield f.form.format(f"({constant})", "s / 1e5")
    yield from ("coalesce(s, 0)", "greatest(s, 5)", "least(s, 1e9)", "nullif(s, 5)", "s::BIGINT")
    yield from ("s::DECIMAL(9, 1)", "CASE WHEN true THEN s ELSE 0 END", "exp(s / 1e5)")


WITHOUT = {
    "log(s, (7))",
    "log(s, (-2))",
    "log(s, (0.5))",
    "log((-2), s / 1e5)",
    "pow((-2), s / 1e5)",
}
"""A logarithm to a noised base, or none that is a number; a root of a negative number."""
NO_VALUE = {"exp(s)", "tan(s)"}


@pytest.fixture(scope="module")
def summed() -> sparseq.Store:
    rows = pa.table({"who": np.arange(3000), "x": np.random.default_rng(1).uniform(0, 9, 3000)})
    return sparseq.create(None, {"t": rows}, user="who", seed=2, bounds={"x": (0, 9)})


@pytest.mark.parametrize("function", list(_calls()))
def test_a_function_of_a_noised_sum_has_one_interval_plainly_and_outside(
    summed: sparseq.Store, function: str
) -> None:
    """It holds the function of every number that the sum's own interval holds."""
    plain, outside = (
        summed.sql(sql).rows()[0]
        for sql in (
            f"SELECT {replaced(function)} AS v, sum(x) AS s FROM t",
            f"SELECT {function} AS v, s FROM (SELECT sum(x) AS s FROM t)",
        )
    )
    low, high = ends = plain["v_low"], plain["v_high"]
    assert ends == (outside["v_low"], outside["v_high"])
    assert (low is None) == (function in WITHOUT | NO_VALUE)
    if low is None:
        return
    for s in np.linspace(plain["s_low"], plain["s_high"], 7):
        ((at,),) = duckdb.execute(f"SELECT {function} FROM (SELECT {s}::DOUBLE AS s)").fetchall()
        if not np.isnan(float(at)):  # as the sine of no angle is more than 1
            assert low - 1e-9 * abs(low) <= at <= high + 1e-9 * abs(high)


def replaced(function: str) -> str:
    """The function of sum(x) in place of s."""
    return re.sub(r"\bs\b", "sum(x)", function)
