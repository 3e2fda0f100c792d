"""SQL against plain DuckDB: the same numbers, where no noise is added and nobody is left out.

Every pair is a query as an analyst writes it and, where plain SQL says it otherwise, the SQL that
means the same: the user added to inner groups and windows, rows that contribute nothing left out.
Groups that no row is in are missing in plain SQL; here they must be there, and be 0.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sparseq
from sparseq.query.outputs import Noised
from sparseq.query.plan import Options
from sparseq.query.render import ERROR_SUFFIX, key_columns, render
from sparseq.store import Store

Exact = Callable[[str], pa.Table]
OPTIONS = re.compile(r"WITH\s+DIFFERENTIAL_PRIVACY\s+(OPTIONS\s*\([^)]*\))?", re.IGNORECASE)
KINDS = ["gift", "it's", "ünï 日本", "", "100%", "Book", None]
START = dt.datetime(1997, 1, 1)
EDGES = [-20.0, 0.0, 5.0, 10.0, 25.0, 60.0]


def _events(rows: int = 900, users: int = 60) -> pa.Table:
    """Return events with everything in them that plain data has: holes, signs, odd strings."""
    rng = np.random.default_rng(7)

    def holes(values: list[Any], share: float = 0.08) -> list[Any]:
        return [None if rng.random() < share else v for v in values]

    # quarters are exact on every lattice here, so sums may be compared to the last digit
    amount = (rng.integers(-80, 240, rows) / 4).tolist()
    odd = list(amount)
    for i, value in enumerate([np.nan, np.inf, -np.inf] * 20):
        odd[i * 7] = value
    minutes = np.sort(rng.choice(60 * 24 * 40, rows, replace=False))
    ts = [START + dt.timedelta(minutes=int(m), seconds=i % 60) for i, m in enumerate(minutes)]
    who = (rng.integers(0, users, rows) ** 2 + 3).tolist()
    return pa.table(
        {
            "who": pa.array([None if i % 97 == 0 else w for i, w in enumerate(who)], pa.int64()),
            "ts": pa.array(ts, pa.timestamp("us")),
            "day": pa.array(holes([t.date() for t in ts], 0.03), pa.date32()),
            "amount": pa.array(holes(amount), pa.float64()),
            "odd": pa.array(odd, pa.float64()),
            "price": pa.array(
                holes([decimal.Decimal(int(p)) / 4 for p in rng.integers(0, 400, rows)]),
                pa.decimal128(10, 2),
            ),
            "n": pa.array(holes(rng.integers(-3, 9, rows).tolist()), pa.int32()),
            "kind": pa.array([KINDS[k] for k in rng.integers(0, len(KINDS), rows)], pa.string()),
            "flag": pa.array(holes((rng.random(rows) < 0.4).tolist()), pa.bool_()),
            "code": pa.array(rng.integers(100, 160, rows), pa.int16()),
        }
    )


def _visits(rows: int = 200) -> pa.Table:
    rng = np.random.default_rng(8)
    return pa.table(
        {
            "who": pa.array((rng.integers(0, 90, rows) ** 2 + 3).tolist(), pa.int64()),
            "day": pa.array(
                [START.date() + dt.timedelta(int(d)) for d in rng.integers(0, 40, rows)]
            ),
            "pages": pa.array(rng.integers(0, 12, rows), pa.int32()),
        }
    )


EVENTS, VISITS = _events(), _visits()
FAMILIES = pa.table(
    {
        "kind": ["gift", "it's", "Book", "never sold"],
        "family": ["presents", "o'dd", "paper", "nothing"],
        "weight": pa.array([2, 1, None, 5], pa.int32()),
    }
)
CODES = pa.table({"code": pa.array(range(90, 150), pa.int16()), "half": [c % 2 for c in range(60)]})
SETTINGS: dict[str, Any] = {
    "table": "events",
    "user": "who",
    "public": {"families": FAMILIES, "codes": CODES},
    "bounds": {"amount": (-20, 60), "odd": (-20, 60), "price": (0, 100), "pages": (0, 12)},
    "keys": {
        "kind": ["Book", "it's", "ünï 日本", "", "nobody bought"],
        "n": [0, 1, 2, 77],
        "day": [dt.date(1997, 1, 5), dt.date(1997, 1, 6), dt.date(2001, 1, 1)],
    },
    "seed": 1,
}


@pytest.fixture(scope="module", params=["loaded at once", "loaded in three parts"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """The events, sorted by time, in one load or in three: new users come with every part."""
    if request.param == "loaded at once":
        con = sparseq.create(None, EVENTS, tables={"visits": VISITS}, **SETTINGS)
    else:
        con = sparseq.create(
            None, EVENTS.slice(0, 100), tables={"visits": VISITS.slice(0, 30)}, **SETTINGS
        )
        con.ingest(EVENTS.slice(100, 333), "events")
        con.ingest(VISITS.slice(30), "visits")
        con.ingest(EVENTS.slice(433), "events")
    with con:
        yield con


@pytest.fixture
def exact(store: Store) -> Exact:
    """Answer a query without noise and with everybody in it, which no analyst can ask for."""
    return lambda sql: answer_exactly(store, sql)


def answer_exactly(store: Store, sql: str) -> pa.Table:
    """Return what would be answered if the noise were nought and all budgets endless."""
    plan = store.explain(store.lower(sql), Options())
    contributions = store._engine.contributions(plan, len(store._accounts))
    measures = [
        np.reshape(np.asarray(sums.totals, float) * noise.granularity, (-1, measure.bins))
        for sums, noise, measure in zip(
            contributions.measures, plan.noise, plan.query.measures, strict=True
        )
    ]
    nothing = [0.0] * len(measures)
    return render(plan, Noised(measures, nothing, key_columns(plan), plan.query.groups))


@pytest.fixture(scope="module")
def plain() -> Exact:
    """DuckDB over the same rows; those without a user are not in a store."""
    con = duckdb.connect()
    for name, table in (
        ("events", EVENTS), ("visits", VISITS), ("families", FAMILIES), ("codes", CODES),
    ):  # fmt: skip
        con.register("rows", table)
        known = "WHERE who IS NOT NULL" if "who" in table.column_names else ""
        con.execute(f"CREATE TABLE {name} AS SELECT * FROM rows {known}")
        con.unregister("rows")
    return lambda sql: con.sql(OPTIONS.sub("", sql)).to_arrow_table()


# a query, and the plain SQL that means the same where it is another
Pair = tuple[str, str] | str
SCALE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 64)"
COUNTS: dict[str, Pair] = {
    "rows": "SELECT count(*) FROM events",
    "rows, by a number": "SELECT count(1) AS n FROM events",
    "rows with a value": "SELECT count(amount) AS n, count(kind) AS k, count(day) AS d FROM events",
    "rows with an expression": "SELECT count(n + 1) AS c FROM events",
    "users": "SELECT count(DISTINCT who) AS u FROM events",
    "rows with a user": "SELECT count(who) AS u FROM events",
    "users of one branch": (
        "SELECT count(DISTINCT CASE WHEN amount > 20 THEN who END) AS u FROM events"
    ),
    "users, filtered": "SELECT count(DISTINCT who) FILTER (WHERE flag) AS u FROM events",
    "rows, filtered": "SELECT count(*) FILTER (WHERE amount < 0) AS n FROM events",
    "values, filtered": "SELECT count(kind) FILTER (WHERE NOT flag) AS n FROM events",
    "countif": "SELECT countif(n > 2) AS n, count_if(flag) AS f FROM events",
    "countif, filtered": "SELECT countif(n > 2) FILTER (WHERE amount > 0) AS n FROM events",
    "users and rows together": (
        "SELECT count(*) AS n, count(DISTINCT who) AS u, count(*) FILTER (WHERE n > 3) AS m "
        "FROM events WHERE amount > 0"
    ),
    "nothing": "SELECT count(*) AS n, count(DISTINCT who) AS u FROM events WHERE amount > 1000",
}
SUMS: dict[str, Pair] = {
    "sum": "SELECT sum(amount) AS s FROM events",
    "sum of decimals": "SELECT sum(price) AS s FROM events",
    "sum of integers": f"{SCALE} sum(n) AS s FROM events",
    "sum of truths": "SELECT sum(CASE WHEN flag THEN 1 ELSE 0 END) AS s FROM events",
    "sum of a constant": "SELECT sum(2) AS s FROM events",
    "sum, filtered": "SELECT sum(amount) FILTER (WHERE kind = 'gift') AS s FROM events",
    "sum of negatives": "SELECT sum(-amount) AS s FROM events WHERE amount < 0",
    "sum of a CASE": (
        "SELECT sum(CASE WHEN flag THEN amount WHEN n > 2 THEN -1 ELSE 0 END) AS s FROM events"
    ),
    "sum of a simple CASE": (
        "SELECT sum(CASE kind WHEN 'gift' THEN 3 WHEN 'it''s' THEN 2.5 END) AS s FROM events"
    ),
    "clamped": "SELECT sum(least(greatest(n * 4, -8), 12)) AS s FROM events",
    "arithmetic": f"{SCALE} sum((amount + 2) * 3 - n / 4 - n % 3 + n // 2) AS s FROM events",
    "missing values replaced": "SELECT sum(coalesce(amount, 1.5)) AS s FROM events",
    "missing values made": f"{SCALE} sum(nullif(n, 3)) AS s FROM events",
    "rounding": f"{SCALE} sum(round(amount) + floor(amount) + ceil(amount)) AS s FROM events",
    "functions": f"{SCALE} sum(abs(amount) + sign(n) + sqrt(abs(amount))) AS s FROM events",
    "logarithms": f"{SCALE} sum(ln(price + 1) + exp(n / 10) + pow(n, 2)) AS s FROM events",
    "product of columns": "SELECT sum(amount * price) AS s FROM events",
    "average": "SELECT avg(amount) AS a FROM events",
    "average of decimals": "SELECT avg(price) AS a FROM events",
    "average, filtered": "SELECT avg(amount) FILTER (WHERE flag) AS a FROM events",
    "average of an expression": "SELECT avg(least(abs(n), 5)) AS a FROM events WHERE n <> 0",
    "variance": "SELECT variance(amount) AS v, var_samp(price) AS w FROM events",
    "variance of all": "SELECT var_pop(amount) AS v, stddev_pop(price) AS w FROM events",
    "deviation": "SELECT stddev(amount) AS s, stddev_samp(price) AS t FROM events",
    "deviation, filtered": "SELECT stddev(amount) FILTER (WHERE n > 0) AS s FROM events",
    "several": (
        "SELECT count(*) AS n, sum(amount) AS s, avg(price) AS a, stddev(amount) AS d FROM events "
        "WHERE kind IN ('gift', 'Book')"
    ),
    "not finite counts for nothing": (
        "SELECT sum(odd) AS s, avg(odd) AS a, stddev(odd) AS d, count(*) AS n FROM events",
        "SELECT sum(odd) FILTER (WHERE isfinite(odd)) AS s, "
        "avg(odd) FILTER (WHERE isfinite(odd)) AS a, "
        "stddev(odd) FILTER (WHERE isfinite(odd)) AS d, count(*) AS n FROM events",
    ),
    "not finite in conditions": (
        "SELECT count(*) AS n, countif(isnan(odd)) AS m FROM events WHERE odd > 50 OR isinf(odd)"
    ),
    "a cast that fails counts for nothing": (
        f"{SCALE} sum(CAST(replaced AS INTEGER)) AS s FROM "
        "(SELECT CASE WHEN n > 2 THEN kind ELSE '7' END AS replaced FROM events)",
        "SELECT 7 * count(*) AS s FROM events WHERE NOT coalesce(n > 2, false)",
    ),
    "an overflow counts for nothing": (
        "SELECT count(*) AS n FROM events WHERE (code - 100) * 300000000000000000 % 7 >= 0",
        "SELECT count(*) AS n FROM events WHERE code - 100 <= 30",
    ),
    "division by zero": (
        "SELECT countif(10 / (n - 1) > 2) AS n, countif(10 % n >= 0) AS m FROM events",
        "SELECT countif(10 / (n - 1) > 2) AS n, countif(10 % nullif(n, 0) >= 0) AS m FROM events",
    ),
}
CONDITIONS: dict[str, str] = {
    "comparisons": "amount >= 2.5 AND n <> 3 AND price < 50.25 AND NOT code = 120",
    "missing": "amount IS NULL OR day IS NOT NULL AND flag IS TRUE",
    "three-valued logic": "NOT (flag AND n > 2)",
    "missing in a list": "n NOT IN (1, 2) AND NOT kind IN ('gift')",
    "equal or both missing": "n IS NOT DISTINCT FROM NULL OR kind IS DISTINCT FROM 'gift'",
    "LIKE": "kind LIKE '%i%' OR kind LIKE '_ook' OR kind LIKE '100%'",
    "ILIKE": "kind ILIKE 'b%' OR kind NOT LIKE '%t%'",
    "IN strings": "kind IN ('it''s', 'ünï 日本', '', 'nothing')",
    "IN dates": "day IN (DATE '1997-01-05', '1997-01-07')",
    "IN decimals": "price IN (1.25, 2.5, 99.75)",
    "BETWEEN": "amount BETWEEN -1.5 AND 3 AND n NOT BETWEEN 2 AND 3",
    "BETWEEN dates": "day BETWEEN '1997-01-05' AND DATE '1997-01-05' + INTERVAL 3 DAY",
    "times": "ts >= TIMESTAMP '1997-01-05 12:00:00' AND ts < '1997-01-20 06:30:00'",
    "a date against a time": "day < TIMESTAMP '1997-01-05 12:00:00'",
    "parts of dates": (
        "month(ts) = 2 OR day(ts) IN (3, 4) OR extract(hour FROM ts) = 7 OR year(day) < 1997 OR "
        "quarter(ts) = 2 OR dayofweek(ts) = 0 OR isodow(ts) = 3 OR minute(ts) = 59 OR week(ts) = 4"
    ),
    "date arithmetic": (
        "date_diff('day', DATE '1997-01-05', day) > 3 AND day - DATE '1997-01-01' < 30 AND "
        "date_trunc('week', ts) < DATE '1997-02-01' AND ts + INTERVAL 2 HOUR > day"
    ),
    "names of days": "dayname(ts) = 'Monday' OR monthname(ts) = 'February'",
    "last of the month": "last_day(day) = DATE '1997-01-31' AND dayofyear(ts) > 4",
    "casts": "CAST(amount AS INTEGER) = 3 OR CAST(ts AS DATE) = day OR CAST(n AS VARCHAR) = '2'",
    "strings": (
        "upper(kind) = 'GIFT' OR lower(kind) = 'book' OR length(kind) = 6 OR "
        "substring(kind, 2, 2) = 't''' OR left(kind, 1) = 'ü' OR right(kind, 1) = '%'"
    ),
    "more strings": (
        "starts_with(kind, 'g') OR ends_with(kind, '本') OR contains(kind, 'oo') OR "
        "kind || '!' = 'gift!' OR concat(kind, 'x') = 'x' OR trim(' ' || kind) = 'Book' OR "
        "strpos(kind, 's') = 4"
    ),
    "the user": "who IN (3, 4, 7, 12) OR who > 3000",
    "truths": "flag OR flag = false AND n = 2",
    "a long list": f"code IN ({', '.join(map(str, range(101, 150)))})",
    "a subquery over a public table": "kind IN (SELECT kind FROM families WHERE weight > 0)",
    "a value from a public table": "code > (SELECT min(code) + 30 FROM codes)",
    "a public table has rows": "EXISTS (SELECT 1 FROM families WHERE weight = 5) AND n = 1",
}
GROUPS: dict[str, Pair] = {
    "a list of strings": (
        "SELECT kind, count(*) AS n FROM events WHERE kind IN ('it''s', 'ünï 日本', 'none') "
        "GROUP BY kind"
    ),
    "one value": "SELECT kind, sum(amount) AS s FROM events WHERE kind = 'gift' GROUP BY kind",
    "alternatives": (
        "SELECT code, count(*) AS n FROM events WHERE code = 103 OR code IN (105, 9) GROUP BY code"
    ),
    "declared strings": (
        "SELECT kind, count(*) AS n, count(DISTINCT who) AS u FROM events GROUP BY kind",
        "SELECT kind, count(*) AS n, count(DISTINCT who) AS u FROM events "
        "WHERE kind IN ('Book', 'it''s', 'ünï 日本', '') GROUP BY kind",
    ),
    "declared integers": (
        "SELECT n, sum(amount) AS s FROM events GROUP BY n",
        "SELECT n, sum(amount) AS s FROM events WHERE n IN (0, 1, 2) GROUP BY n",
    ),
    "declared dates": (
        "SELECT day, count(*) AS c FROM events GROUP BY day",
        "SELECT day, count(*) AS c FROM events WHERE day IN ('1997-01-05', '1997-01-06') "
        "GROUP BY day",
    ),
    "a list beats what is declared": (
        "SELECT kind, count(*) AS n FROM events WHERE kind IN ('100%', 'gift') GROUP BY kind"
    ),
    "a range of dates": (
        "SELECT day, count(*) AS c, count(DISTINCT who) AS u, avg(amount) AS a FROM events "
        "WHERE day BETWEEN '1996-12-30' AND '1997-01-09' GROUP BY day"
    ),
    "a half-open range": (
        "SELECT day, count(*) AS c FROM events "
        "WHERE day >= DATE '1997-01-03' AND day < DATE '1997-01-03' + INTERVAL 1 WEEK GROUP BY 1"
    ),
    "a range of integers": (
        "SELECT code, count(*) AS c FROM events WHERE code > 95 AND code <= 140 GROUP BY code"
    ),
    "negative integers": "SELECT n, count(*) AS c FROM events WHERE n BETWEEN -5 AND 2 GROUP BY n",
    "a long list of integers": (
        "SELECT code, count(*) AS c FROM events "
        f"WHERE code IN ({', '.join(map(str, range(99, 180, 2)))}) GROUP BY code"
    ),
    "a long list of strings": (
        "SELECT kind, count(*) AS c FROM events WHERE kind IN ('gift', 'Book', "
        + ", ".join(f"'k{i}'" for i in range(40))
        + ") GROUP BY kind"
    ),
    "a long list of an expression": (
        "SELECT code * 2 AS k, count(*) AS c FROM events "
        f"WHERE code * 2 IN ({', '.join(map(str, range(200, 320, 3)))}) GROUP BY code * 2"
    ),
    "a truth": (
        "SELECT amount > 20 AS big, count(*) AS n FROM events GROUP BY big",
        "SELECT amount > 20 AS big, count(*) AS n FROM events WHERE amount IS NOT NULL GROUP BY 1",
    ),
    "a column of truths": (
        "SELECT flag, sum(price) AS s FROM events GROUP BY flag",
        "SELECT flag, sum(price) AS s FROM events WHERE flag IS NOT NULL GROUP BY flag",
    ),
    "a CASE": (
        "SELECT CASE WHEN amount < 0 THEN 'debt' WHEN amount < 20 THEN 'some' ELSE 'rich' END AS k,"
        " count(*) AS n FROM events GROUP BY k"
    ),
    "a CASE of numbers": "SELECT CASE WHEN flag THEN 1 ELSE 0 END AS k, avg(price) AS a "
    "FROM events GROUP BY 1",
    "months": "SELECT month(ts) AS m, count(*) AS n FROM events GROUP BY m",
    "hours": "SELECT hour(ts) AS h, count(*) AS n FROM events GROUP BY h",
    "days of the week": "SELECT dayofweek(ts) AS d, count(*) AS n FROM events GROUP BY 1",
    "ISO days of the week": (
        "SELECT extract(isodow FROM ts) AS d, count(*) AS n FROM events GROUP BY 1"
    ),
    "the day of a time": (
        "SELECT CAST(ts AS DATE) AS d, count(*) AS n FROM events "
        "WHERE ts >= TIMESTAMP '1997-01-02 18:00:00' AND ts < TIMESTAMP '1997-01-05' GROUP BY 1"
    ),
    "months of a range": (
        "SELECT date_trunc('month', day) AS m, count(*) AS n FROM events "
        "WHERE day BETWEEN '1997-01-10' AND '1997-03-20' GROUP BY 1"
    ),
    "hours of a range": (
        "SELECT date_trunc('hour', ts) AS h, count(*) AS n FROM events "
        "WHERE ts BETWEEN '1997-01-02 18:30:00' AND '1997-01-03 06:00:00' GROUP BY 1"
    ),
    "a function of declared values": (
        "SELECT upper(kind) AS k, count(*) AS n FROM events GROUP BY 1",
        "SELECT upper(kind) AS k, count(*) AS n FROM events "
        "WHERE kind IN ('Book', 'it''s', 'ünï 日本', '') GROUP BY 1",
    ),
    "a function of listed values": (
        "SELECT code // 10 AS t, count(*) AS n FROM events WHERE code BETWEEN 105 AND 134 "
        "GROUP BY code // 10"
    ),
    "a list of an expression": (
        "SELECT coalesce(kind, 'none') AS k, count(*) AS c FROM events "
        "WHERE coalesce(kind, 'none') IN ('none', 'gift') GROUP BY k"
    ),
    "a list of years": (
        "SELECT year(day) AS y, count(*) AS c FROM events WHERE year(day) IN (1997, 1998) "
        "GROUP BY y"
    ),
    "a list of floats": (
        "SELECT amount, count(*) AS c FROM events WHERE amount IN (1.25, -2.5, 7) GROUP BY amount"
    ),
    "several keys": (
        "SELECT kind, month(ts) AS m, count(*) AS n, sum(amount) AS s FROM events "
        "WHERE kind IN ('gift', 'it''s') GROUP BY kind, m"
    ),
    "three keys": (
        "SELECT flag, day, code, count(*) AS n FROM events WHERE day BETWEEN '1997-01-03' AND "
        "'1997-01-05' AND code BETWEEN 100 AND 110 AND flag IS NOT NULL GROUP BY 1, 2, 3"
    ),
    "keys that are not shown": (
        "SELECT count(*) AS n FROM events WHERE code BETWEEN 100 AND 104 "
        "GROUP BY code ORDER BY code"
    ),
    "several aggregates": (
        "SELECT kind, count(*) AS n, count(DISTINCT who) AS u, sum(amount) AS s, avg(price) AS a, "
        "stddev(amount) AS d, countif(flag) AS f FROM events WHERE kind IN ('gift', 'Book', '') "
        "GROUP BY kind"
    ),
}
JOINS: dict[str, Pair] = {
    "public": (
        "SELECT count(*) AS n, sum(least(greatest(weight, 0), 9)) AS w "
        "FROM events JOIN families USING (kind)",
        "SELECT count(*) AS n, sum(CASE WHEN weight IS NULL THEN 0 ELSE weight END) AS w "
        "FROM events JOIN families USING (kind)",
    ),
    "public, its column as key": (
        "SELECT family, count(*) AS n FROM events JOIN families USING (kind) GROUP BY family"
    ),
    "public, its key of integers": (
        "SELECT half, count(*) AS n, count(DISTINCT who) AS u FROM events e "
        "JOIN codes c ON e.code = c.code GROUP BY half"
    ),
    "public, its long key": (
        "SELECT c.code, count(*) AS n FROM events e JOIN codes c ON e.code = c.code GROUP BY c.code"
    ),
    "public, outer": (
        "SELECT count(*) AS n, count(weight) AS w FROM events LEFT JOIN families "
        "ON events.kind = families.kind WHERE amount > 0"
    ),
    "public, anti": (
        "SELECT count(*) AS n FROM events e LEFT JOIN families f ON e.kind = f.kind "
        "WHERE f.kind IS NULL"
    ),
    "public, by an inequality": (
        "SELECT count(*) AS n FROM events e JOIN families f ON e.n > f.weight AND e.kind = f.kind"
    ),
    "public, a subquery of it": (
        "SELECT half, count(*) AS n FROM events JOIN (SELECT code, half FROM codes "
        "WHERE code < 120) c USING (code) WHERE half IN (0, 1) GROUP BY half"
    ),
    "private on the user": "SELECT count(*) AS n FROM events JOIN visits USING (who)",
    "private on the user and a day": (
        "SELECT count(*) AS n, sum(pages) AS p, count(DISTINCT e.who) AS u "
        "FROM events e JOIN visits v ON e.who = v.who AND e.day = v.day"
    ),
    "private, condition in WHERE": (
        "SELECT count(*) AS n FROM events e, visits v WHERE e.who = v.who AND v.pages > 5"
    ),
    "private, outer": (
        "SELECT count(*) AS n, count(v.pages) AS p, count(DISTINCT v.who) AS u FROM events e "
        "LEFT JOIN visits v ON e.who = v.who AND e.day = v.day"
    ),
    "private, anti": (
        "SELECT count(*) AS n FROM events e LEFT JOIN visits v ON e.who = v.who WHERE v.who IS NULL"
    ),
    "private with itself": (
        "SELECT count(*) AS n FROM events a JOIN events b ON a.who = b.who AND a.ts < b.ts "
        "WHERE a.kind = 'gift' AND b.kind = 'Book'"
    ),
    "three tables": (
        "SELECT f.family, count(*) AS n FROM events e JOIN visits v USING (who) "
        "JOIN families f ON e.kind = f.kind WHERE v.pages > 3 GROUP BY f.family"
    ),
}
SUBQUERIES: dict[str, Pair] = {
    "grouped by the user": (
        "WITH u AS (SELECT who, count(*) AS n FROM events GROUP BY who) "
        "SELECT n, count(*) AS c FROM u WHERE n BETWEEN 1 AND 30 GROUP BY n"
    ),
    "the user added to a group": (
        "SELECT count(*) AS c, sum(least(m, 5)) AS s FROM "
        "(SELECT kind, count(*) AS m FROM events GROUP BY kind)",
        "SELECT count(*) AS c, sum(least(m, 5)) AS s FROM "
        "(SELECT who, kind, count(*) AS m FROM events GROUP BY who, kind)",
    ),
    "the user added to several keys": (
        "WITH d AS (SELECT day, kind, sum(amount) AS a FROM events GROUP BY day, kind) "
        "SELECT count(*) AS c, sum(least(greatest(a, 0), 50)) AS s FROM d WHERE day IS NOT NULL",
        "WITH d AS (SELECT who, day, kind, sum(amount) AS a FROM events GROUP BY 1, 2, 3) "
        "SELECT count(*) AS c, sum(CASE WHEN a IS NULL THEN 0 ELSE least(greatest(a, 0), 50) END) "
        "AS s FROM d WHERE day IS NOT NULL",
    ),
    "the user added to DISTINCT": (
        "SELECT kind, count(*) AS n FROM (SELECT DISTINCT kind, day FROM events) "
        "WHERE kind IN ('gift', 'Book') GROUP BY kind",
        "SELECT kind, count(*) AS n FROM (SELECT DISTINCT who, kind, day FROM events) "
        "WHERE kind IN ('gift', 'Book') GROUP BY kind",
    ),
    "the user added to a window": (
        "SELECT count(*) AS n FROM (SELECT row_number() OVER (ORDER BY ts) AS r FROM events) "
        "WHERE r <= 3",
        "SELECT count(*) AS n FROM (SELECT row_number() OVER (PARTITION BY who ORDER BY ts) AS r "
        "FROM events) WHERE r <= 3",
    ),
    "the user added to a partition": (
        "SELECT count(*) AS n FROM (SELECT rank() OVER (PARTITION BY kind ORDER BY day DESC) AS r "
        "FROM events) WHERE r = 1",
        "SELECT count(*) AS n FROM (SELECT rank() OVER (PARTITION BY who, kind ORDER BY day DESC "
        "NULLS LAST) AS r FROM events) WHERE r = 1",
    ),
    "the row before": (
        "SELECT count(*) AS n FROM (SELECT ts, lag(ts) OVER (ORDER BY ts) AS before FROM events) "
        "WHERE date_diff('hour', before, ts) < 24",
        "SELECT count(*) AS n FROM (SELECT ts, lag(ts) OVER (PARTITION BY who ORDER BY ts) "
        "AS before FROM events) WHERE date_diff('hour', before, ts) < 24",
    ),
    "the row after next": (
        f"{SCALE} sum(x) AS s FROM (SELECT lead(amount, 2) OVER (ORDER BY ts) AS x FROM events)",
        "SELECT sum(x) AS s FROM (SELECT lead(amount, 2) OVER (PARTITION BY who ORDER BY ts) AS x "
        "FROM events)",
    ),
    "a running sum": (
        "SELECT countif(s > 100) AS n FROM (SELECT sum(amount) OVER (ORDER BY ts) AS s "
        "FROM events)",
        "SELECT countif(s > 100) AS n FROM (SELECT sum(amount) OVER (PARTITION BY who ORDER BY ts) "
        "AS s FROM events)",
    ),
    "a moving average": (
        "SELECT countif(a > 20) AS n FROM (SELECT avg(amount) OVER (ORDER BY ts ROWS BETWEEN "
        "2 PRECEDING AND CURRENT ROW) AS a FROM events)",
        "SELECT countif(a > 20) AS n FROM (SELECT avg(amount) OVER (PARTITION BY who ORDER BY ts "
        "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS a FROM events)",
    ),
    "all of a user's rows": (
        "SELECT count(*) AS n FROM (SELECT amount, max(amount) OVER () AS m FROM events) "
        "WHERE amount = m",
        "SELECT count(*) AS n FROM (SELECT amount, max(amount) OVER (PARTITION BY who) AS m "
        "FROM events) WHERE amount = m",
    ),
    "aggregates of a user": (
        "SELECT count(*) AS n, sum(least(d, 4)) AS s FROM (SELECT who, min(ts) AS a, max(amount) "
        "AS m, bool_or(flag) AS f, bool_and(flag) AS g, avg(price) AS p, count(DISTINCT kind) AS d "
        "FROM events GROUP BY who) WHERE m > 40 AND f AND NOT g AND p < 60 AND a < '1997-01-20'"
    ),
    "filtered aggregates of a user": (
        "SELECT countif(a > b) AS n FROM (SELECT who, count(*) FILTER (WHERE flag) AS a, "
        "countif(n > 4) AS b FROM events GROUP BY who)"
    ),
    "arithmetic on a user's aggregates": (
        "SELECT avg(least(greatest(r, 0), 50)) AS a FROM (SELECT who, sum(amount) / count(*) AS r "
        "FROM events GROUP BY who)"
    ),
    "HAVING inside": (
        "SELECT count(*) AS n FROM (SELECT who FROM events GROUP BY who "
        "HAVING count(*) > 14 AND sum(amount) > 100)"
    ),
    "a HAVING that the user is added to": (
        "SELECT count(*) AS n FROM (SELECT kind FROM events GROUP BY kind HAVING count(*) >= 3)",
        "SELECT count(*) AS n FROM (SELECT kind FROM events GROUP BY who, kind "
        "HAVING count(*) >= 3)",
    ),
    "a CTE on a CTE": (
        "WITH big AS (SELECT * FROM events WHERE amount > 10), "
        "u AS (SELECT who, count(*) AS k FROM big GROUP BY who) "
        "SELECT count(*) AS n FROM u WHERE k > 4"
    ),
    "a CTE twice": (
        "WITH g AS (SELECT who, ts FROM events WHERE kind = 'gift') "
        "SELECT count(*) AS n FROM g AS a JOIN g AS b ON a.who = b.who AND a.ts < b.ts"
    ),
    "joined with its aggregate": (
        "SELECT count(*) AS n FROM events e JOIN (SELECT who, avg(amount) AS m FROM events "
        "GROUP BY who) u ON e.who = u.who WHERE e.amount > u.m"
    ),
    "a user's first day as key": (
        "SELECT first, count(*) AS users FROM (SELECT who, min(day) AS first FROM events "
        "GROUP BY who) WHERE first BETWEEN '1997-01-01' AND '1997-01-14' GROUP BY first"
    ),
    "renamed columns": (
        "SELECT count(DISTINCT person) AS u FROM (SELECT who AS person, amount AS a FROM events) t "
        "WHERE t.a > 30"
    ),
    "a subquery over a public table": (
        "WITH f AS (SELECT family, count(*) AS k, max(kind) AS kind FROM families GROUP BY family) "
        "SELECT count(*) AS n FROM events JOIN f ON events.kind = f.kind WHERE f.k = 1"
    ),
}
OUTER: dict[str, Pair] = {
    "a ratio": "SELECT count(*) * 1.0 / count(DISTINCT who) AS r FROM events",
    "a share in percent": (
        "SELECT round(100.0 * countif(flag) / count(*), 1) AS p FROM events WHERE n > 0"
    ),
    "differences": "SELECT count(*) - countif(flag) + 3 AS d, -sum(amount) AS m FROM events",
    "functions": (
        "SELECT sqrt(count(*)) AS r, ln(count(*)) AS l, abs(-sum(price)) AS a, "
        "greatest(count(*), 10000) AS g, least(count(*), 5) AS t, floor(avg(amount)) AS f "
        "FROM events"
    ),
    "a CASE of answers": (
        "SELECT kind, CASE WHEN count(*) > 100 THEN 'many' ELSE 'few' END AS k, count(*) AS n "
        "FROM events WHERE kind IN ('gift', 'Book') GROUP BY kind"
    ),
    "division by nothing": (
        "SELECT sum(amount) / nullif(count(*), 0) AS r FROM events WHERE amount > 1000"
    ),
    "HAVING": (
        "SELECT code, count(*) AS n FROM events WHERE code BETWEEN 100 AND 130 GROUP BY code "
        "HAVING count(*) > 15 AND count(*) BETWEEN 0 AND 20"
    ),
    "HAVING something not shown": (
        "SELECT code, count(*) AS n FROM events WHERE code BETWEEN 100 AND 130 GROUP BY code "
        "HAVING sum(amount) > 200"
    ),
    "HAVING a key": (
        "SELECT code, count(*) AS n FROM events WHERE code BETWEEN 100 AND 130 GROUP BY code "
        "HAVING code <> 120"
    ),
    "HAVING a range of dates": (
        "SELECT day, count(*) AS n FROM events WHERE day BETWEEN '1997-01-01' AND '1997-01-09' "
        "GROUP BY day HAVING day > DATE '1997-01-04' AND day <> '1997-01-06'"
    ),
    "HAVING some strings": (
        "SELECT kind, count(*) AS n FROM events WHERE kind IN ('Book', 'gift', '') GROUP BY kind "
        "HAVING kind IN ('Book', '') AND count(*) > 0"
    ),
    "HAVING by a name in SELECT": (
        "SELECT flag, sum(amount) AS s FROM events WHERE flag IN (true, false) GROUP BY flag "
        "HAVING s > 0 AND flag"
    ),
    "arithmetic on a key": (
        "SELECT code, code * 2 + count(*) AS n FROM events "
        "WHERE code BETWEEN 100 AND 105 GROUP BY code"
    ),
    "ORDER BY an answer": (
        "SELECT code, sum(amount) AS s FROM events WHERE code BETWEEN 100 AND 130 GROUP BY code "
        "ORDER BY s DESC"
    ),
    "ORDER BY several": (
        "SELECT flag, code, count(*) AS n FROM events WHERE code BETWEEN 100 AND 105 AND "
        "flag IN (true, false) GROUP BY flag, code ORDER BY flag DESC, 3, code"
    ),
    "ORDER BY an expression": (
        "SELECT kind, count(*) AS n FROM events WHERE kind IN ('gift', 'Book', 'it''s') "
        "GROUP BY kind ORDER BY sum(amount) / count(*) DESC"
    ),
    "ORDER BY strings": (
        "SELECT kind, count(*) AS n FROM events "
        "WHERE kind IN ('it''s', 'gift', 'Book', 'ünï 日本') GROUP BY kind ORDER BY kind DESC"
    ),
    "LIMIT": (
        "SELECT code, count(*) AS n FROM events WHERE code BETWEEN 100 AND 130 GROUP BY code "
        "ORDER BY n DESC, code LIMIT 5"
    ),
    "LIMIT and OFFSET": (
        "SELECT code, count(*) AS n FROM events WHERE code BETWEEN 100 AND 130 GROUP BY code "
        "HAVING count(*) > 5 ORDER BY 2 DESC, code LIMIT 4 OFFSET 2"
    ),
    "options": (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(sigma => 3, confidence => 0.9) count(*) AS n "
        "FROM events"
    ),
    "an accuracy": (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(accuracy = 5) sum(amount) AS s FROM events"
    ),
    "no options": "SELECT WITH DIFFERENTIAL_PRIVACY count(*) AS n FROM events",
}
PAIRS: dict[str, Pair] = {
    **{f"count: {k}": v for k, v in COUNTS.items()},
    **{f"sum: {k}": v for k, v in SUMS.items()},
    **{f"where: {k}": f"SELECT count(*) AS n FROM events WHERE {v}" for k, v in CONDITIONS.items()},
    **{f"group: {k}": v for k, v in GROUPS.items()},
    **{f"join: {k}": v for k, v in JOINS.items()},
    **{f"subquery: {k}": v for k, v in SUBQUERIES.items()},
    **{f"outer: {k}": v for k, v in OUTER.items()},
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_answer_is_that_of_plain_duckdb(name: str, exact: Exact, plain: Exact) -> None:
    pair = PAIRS[name]
    asked, meant = pair if isinstance(pair, tuple) else (pair, pair)
    check_same(exact(asked), plain(meant), in_order="ORDER BY" in asked.split("GROUP BY")[-1])


def test_there_are_many_pairs() -> None:
    assert len(PAIRS) >= 80


# -- bins: NumPy is the oracle ---------------------------------------------------------------------


def _values(column: str, where: Callable[[dict[str, Any]], Any] = lambda row: True) -> Any:
    """Return a column's finite values, of the rows that have a user."""
    rows = [r for r in EVENTS.to_pylist() if r["who"] is not None and where(r)]
    found = np.array([float(r[column]) for r in rows if r[column] is not None])
    return found[np.isfinite(found)]


@pytest.mark.parametrize("column", ["amount", "odd", "price", "n"])
def test_a_histogram_is_numpys(column: str, exact: Exact) -> None:
    answer = exact(f"SELECT histogram({column}, {EDGES}) AS rows FROM events")
    expected, _ = np.histogram(_values(column), EDGES)
    assert answer["rows"].to_pylist() == expected.tolist()
    assert answer["bin_low"].to_pylist() == EDGES[:-1]
    assert answer["bin_high"].to_pylist() == EDGES[1:]


def test_a_histogram_by_group(exact: Exact) -> None:
    answer = exact(
        f"SELECT kind, histogram(amount, {EDGES}) FILTER (WHERE flag) AS rows FROM events "
        "WHERE kind IN ('gift', 'it''s', 'nothing') GROUP BY kind"
    ).to_pylist()
    for kind in ("gift", "it's", "nothing"):
        values = _values("amount", lambda row, kind=kind: row["kind"] == kind and row["flag"])
        expected, _ = np.histogram(values, EDGES)
        assert [r["rows"] for r in answer if r["kind"] == kind] == expected.tolist()


@pytest.mark.parametrize("column", ["amount", "odd", "price"])
@pytest.mark.parametrize("q", [0.0, 0.05, 0.25, 0.5, 0.9, 0.999])
def test_a_quantile_lies_in_the_bin_of_numpys(column: str, q: float, exact: Exact) -> None:
    edges = np.arange(-25, 105, 5.0).tolist()
    answer = exact(f"SELECT quantile({column}, {q}, {edges}) AS q FROM events")
    expected = np.quantile(_values(column), q, method="inverted_cdf")
    assert answer["q"].to_pylist() == pytest.approx([expected], abs=5)


@pytest.mark.parametrize("spelling", ["median(price)", "quantile_cont(price, 0.5)"])
def test_declared_bounds_are_bins(spelling: str, exact: Exact) -> None:
    answer = exact(f"SELECT {spelling} AS m, median(-price) AS r FROM events WHERE n > 0")
    values = _values("price", lambda row: row["n"] is not None and row["n"] > 0)
    assert answer["m"].to_pylist() == pytest.approx([np.median(values)], abs=100 / 64)
    assert answer["r"].to_pylist() == pytest.approx([-np.median(values)], abs=100 / 64)


def test_a_median_by_group_with_a_filter(exact: Exact) -> None:
    edges = list(range(-20, 61, 2))
    answer = exact(
        f"SELECT flag, median(amount, {edges}) FILTER (WHERE n >= 2) AS m FROM events GROUP BY flag"
    )
    for row in answer.to_pylist():
        values = _values(
            "amount", lambda r, f=row["flag"]: r["flag"] is f and r["n"] is not None and r["n"] >= 2
        )
        assert row["m"] == pytest.approx(np.median(values), abs=2)


def test_values_outside_of_the_bins(exact: Exact) -> None:
    answer = exact("SELECT median(amount, [0, 1]) AS m, count(*) AS n FROM events WHERE amount > 9")
    assert answer["m"].to_pylist() == pytest.approx([0.5], abs=0.5)
    bins = exact("SELECT histogram(amount, [0, 1, 2]) AS n FROM events WHERE amount > 9")
    assert bins["n"].to_pylist() == [0, 0]


# -- users that are strings, and keys that are in no row -------------------------------------------


def test_users_may_be_strings() -> None:
    people = pa.table({"who": ["it's", "ünï", None, "it's", ""], "x": [1, 2, 3, 4, 5]})
    with sparseq.create(None, people, table="people", user="who", seed=1) as con:
        assert answer_exactly(
            con,
            "SELECT count(*) AS n, count(DISTINCT who) AS u, "
            "count(*) FILTER (WHERE who = 'it''s') AS q, "
            "count(*) FILTER (WHERE who LIKE 'ü%') AS l FROM people",
        ).select(["n", "u", "q", "l"]).to_pylist() == [{"n": 4, "u": 3, "q": 2, "l": 1}]


def test_keys_in_no_row_appear_in_order(exact: Exact) -> None:
    answer = exact("SELECT kind, count(*) AS n FROM events GROUP BY kind")
    assert answer["kind"].to_pylist() == SETTINGS["keys"]["kind"]
    assert answer["n"].to_pylist()[-1] == 0
    days = exact("SELECT day, sum(amount) AS s FROM events GROUP BY day")
    assert days["day"].to_pylist() == SETTINGS["keys"]["day"]
    assert days["s"].to_pylist()[-1] == 0


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("month(ts)", list(range(1, 13))),
        ("hour(ts)", list(range(24))),
        ("dayofweek(ts)", list(range(7))),
        ("isodow(ts)", list(range(1, 8))),
        ("quarter(ts)", [1, 2, 3, 4]),
        ("day(ts)", list(range(1, 32))),
    ],
)
def test_parts_of_a_date_are_all_there(key: str, values: list[int], exact: Exact) -> None:
    answer = exact(f"SELECT {key} AS k, count(*) AS n FROM events WHERE day IS NOT NULL GROUP BY k")
    assert answer["k"].to_pylist() == values
    known = [r for r in EVENTS.to_pylist() if r["who"] is not None and r["day"] is not None]
    assert sum(answer["n"].to_pylist()) == len(known)


# -- comparing -------------------------------------------------------------------------------------


def check_same(ours: pa.Table, theirs: pa.Table, in_order: bool) -> None:
    """Compare row by row; a group that plain SQL has no row for is 0, or has no value."""
    noised = [c for c in ours.column_names if c + ERROR_SUFFIX in ours.column_names]
    shown = [c for c in ours.column_names if not c.endswith(ERROR_SUFFIX)]
    assert [c.lower() for c in shown] == [c.lower() for c in _names(theirs, shown)]
    keys = [i for i, c in enumerate(shown) if c not in noised]
    got, want = (
        [tuple(_plain(v) for v in row.values()) for row in t.to_pylist()]
        for t in (ours.select(shown), theirs)
    )
    if in_order:
        assert [_rounded(r) for r in got] == [_rounded(r) for r in want]
        return
    assert want
    found = {tuple(row[i] for i in keys): row for row in got}
    assert len(found) == len(got), "a group is there twice"
    for row in want:
        mine = found.pop(tuple(row[i] for i in keys))
        for a, b in zip(mine, row, strict=True):
            _check_value(a, b)
    for row in found.values():
        assert all(not v for i, v in enumerate(row) if i not in keys), row


def _names(theirs: pa.Table, shown: list[str]) -> list[str]:
    """What plain SQL calls its columns; a column without AS is called as it likes."""
    return [s if "(" in t else t for t, s in zip(theirs.column_names, shown, strict=True)]


def _plain(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return float(value)
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _check_value(ours: Any, theirs: Any) -> None:
    if theirs is None:
        assert ours in (0, None)  # the sum of no rows is NULL in SQL, and 0 with noise here
    elif isinstance(theirs, int) and not isinstance(theirs, bool) and isinstance(ours, int):
        assert ours == theirs
    elif isinstance(theirs, int | float) and not isinstance(theirs, bool):
        assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-3)
    else:
        assert ours == theirs


def _rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(round(float(v), 3) if isinstance(v, int | float) else v for v in row)
