"""Domains of keys: values from the query, the curator or public tables, in a fixed order."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from sampled import one_in
from shop import DUE, PRIVATE, exact, store

import sparseq
from sparseq.base.errors import QueryRefused


@pytest.fixture(scope="module")
def con() -> sparseq.Store:
    return store()


def days(first: int, last: int) -> list[dt.date]:
    return [dt.date(1997, 3, d) for d in range(first, last + 1)]


DOMAINS: list[tuple[str, str, list[Any]]] = [
    ("kind", "", ["book", "o'brien", 'née "x"', "", "日本", "no rows", None]),
    ("kind", "kind IS NOT NULL", ["book", "o'brien", 'née "x"', "", "日本", "no rows"]),
    ("kind", "kind IS NULL", ["book", "o'brien", 'née "x"', "", "日本", "no rows", None]),
    ("kind", "kind IN ('z', 'a', 'z', NULL)", ["z", "a"]),
    ("due", "", [*DUE, None]),
    ("code", "code = 'x' OR (code = 'y' OR 'z' = code)", ["x", "y", "z"]),
    ("code", "code IN ('a', 'b') AND qty > 3", ["a", "b"]),
    ("code", "'a' = code", ["a"]),
    ("day", "day BETWEEN '1997-03-01' AND '1997-03-04'", days(1, 4)),
    ("day", "day > '1997-03-01' AND day < '1997-03-04'", days(2, 3)),
    ("day", "DATE '1997-03-01' <= day AND DATE '1997-03-02' >= day", days(1, 2)),
    ("day", "day >= '1997-03-01' AND day < DATE '1997-03-01' + INTERVAL 2 DAY", days(1, 2)),
    ("day", "day = DATE '1997-03-05'", days(5, 5)),
    ("day", "day >= '1997-03-01' AND day >= '1997-03-02' AND day <= '1997-03-03'", days(2, 3)),
    ("day", "day IN ('1997-03-09', '1997-03-01')", [dt.date(1997, 3, 9), dt.date(1997, 3, 1)]),
    (
        "day",
        "day > '9999-12-29' AND day <= '9999-12-31'",
        [dt.date(9999, 12, 30), dt.date(9999, 12, 31)],
    ),
    ("day", "day >= '0001-01-01' AND day < '0001-01-02'", [dt.date(1, 1, 1)]),
    ("day", "day IN ('9999-12-31', '0001-01-01')", [dt.date(9999, 12, 31), dt.date(1, 1, 1)]),
    ("month(day)", "day > '9999-12-31'", list(range(1, 13))),
    ("month(day)", "day < '0001-01-01'", list(range(1, 13))),
    ("shop_id", "shop_id BETWEEN -1 AND 2", [-1, 0, 1, 2]),
    ("shop_id", "shop_id > 1 AND shop_id < 4", [2, 3]),
    ("shop_id", "shop_id IN (3, 3, 1)", [3, 1]),
    ("shop_id", "shop_id IN (SELECT shop_id FROM shops WHERE rent > 8)", [1, 2]),
    ("code", "code = kind AND kind IN ('b', 'a')", ["b", "a"]),
    (
        "date_trunc('week', seen + INTERVAL 1 DAY) - INTERVAL 1 DAY",
        "seen >= '1997-03-02' AND seen < '1997-03-15'",
        [dt.date(1997, 3, 2), dt.date(1997, 3, 9)],
    ),
    (
        "date_trunc('month', seen - INTERVAL 2 HOUR)",
        "seen >= '1997-03-01 02:00:00' AND seen < '1997-04-01 03:00:00'",
        [dt.date(1997, 3, 1), dt.date(1997, 4, 1)],
    ),
    ("gift", "", [False, True, None]),
    ("gift IS TRUE", "", [False, True]),
    ("gift AND qty > 1", "qty IS NOT NULL", [False, True, None]),
    ("qty > 1", "qty < 5", [False, True]),
    ("amount > 3", "", [False, True, None]),
    ("month(day)", "", [*range(1, 13), None]),
    ("hour(seen)", "", [*range(24), None]),
    ("isodow(day)", "", [*range(1, 8), None]),
    ("extract(quarter FROM day)", "", [1, 2, 3, 4, None]),
    ("month(day)", "day BETWEEN '1997-02-01' AND '1997-04-30'", [2, 3, 4]),
    (
        "date_trunc('month', day)",
        "day BETWEEN '1997-02-05' AND '1997-03-05'",
        [dt.date(1997, 2, 1), dt.date(1997, 3, 1)],
    ),
    ("year(seen)", "seen BETWEEN '1996-06-01' AND '1998-01-01'", [1996, 1997, 1998]),
    ("CAST(seen AS DATE)", "seen >= '1997-03-01' AND seen < '1997-03-03'", days(1, 2)),
    ("upper(kind)", "kind IN ('b', 'a', 'A')", ["A", "B"]),
    ("length(code)", "code IN ('aa', 'b', 'cc')", [1, 2]),
    ("CASE WHEN qty > 3 THEN 'many' WHEN gift THEN 'gift' END", "", ["many", "gift", None]),
    ("if(gift, 1, 0)", "", [1, 0]),
    ("CASE WHEN gift THEN CASE WHEN qty > 1 THEN 2 ELSE 1 END ELSE 0 END", "", [2, 1, 0]),
]


@pytest.mark.parametrize(("key", "where", "expected"), DOMAINS)
def test_domain(con: sparseq.Store, key: str, where: str, expected: list[Any]) -> None:
    condition = f" WHERE {where}" if where else ""
    query = con.lower(f"SELECT {key} AS k, count(*) AS n FROM events{condition} GROUP BY k")
    (domain,) = query.domains
    assert [v.date() if isinstance(v, dt.datetime) else v for v in domain.values] == expected


@pytest.mark.parametrize(
    ("key", "where"),
    [
        ("code", ""),
        ("code", "code > 'a'"),
        ("code", "code LIKE 'a%'"),
        ("code", "code NOT IN ('a', 'b')"),
        ("code", "code IN ('a', 'b') OR gift"),
        ("code", "NOT (code = 'a')"),
        ("code", "code IN ('a', kind)"),
        ("code", "kind = 'a' OR code = 'a'"),
        ("day", "day > '1997-03-01'"),
        ("day", "day > '1997-03-01' OR day < '1997-03-05'"),
        ("amount", "amount BETWEEN 1 AND 3"),
        ("seen", "seen BETWEEN '1997-03-01' AND '1997-03-02'"),
        ("year(day)", ""),
        ("CASE WHEN gift THEN code ELSE 'x' END", ""),
        ("qty + shop_id", ""),
        ("who", ""),
    ],
)
def test_no_domain(con: sparseq.Store, key: str, where: str) -> None:
    condition = f" WHERE {where}" if where else ""
    with pytest.raises(QueryRefused, match="not public"):
        con.lower(f"SELECT {key} AS k, count(*) AS n FROM events{condition} GROUP BY k")


def test_too_many_values(con: sparseq.Store) -> None:
    with pytest.raises(QueryRefused, match="limit is 100,000"):
        con.lower(
            "SELECT qty, count(*) FROM events WHERE qty BETWEEN 0 AND 9000000000 GROUP BY qty"
        )
    with pytest.raises(QueryRefused, match="limit is 100,000"):
        con.lower(
            "SELECT day, count(*) FROM events WHERE day BETWEEN '0001-01-01' AND '9999-01-01' "
            "GROUP BY day"
        )


def test_no_value_can_pass(con: sparseq.Store) -> None:
    with pytest.raises(QueryRefused, match="no value of"):
        con.lower("SELECT qty, count(*) FROM events WHERE qty > 5 AND qty < 5 GROUP BY qty")


def test_several_keys_make_every_combination(con: sparseq.Store) -> None:
    query = con.lower(
        "SELECT gift, month(day) m, count(*) n, sum(qty) FROM events WHERE qty IN (1, 2) "
        "GROUP BY gift, m, qty"
    )
    assert [len(d.values) for d in query.domains] == [3, 13, 2]
    assert query.groups == 78
    assert query.coordinates == 156


def test_keys_in_no_row_appear_in_order(con: sparseq.Store) -> None:
    kinds = exact(con, "SELECT kind, count(*) AS n FROM events GROUP BY kind")
    assert [r["kind"] for r in kinds] == ["book", "o'brien", 'née "x"', "", "日本", "no rows", None]
    assert [r["n"] for r in kinds if r["kind"] == "no rows"] == [0]
    days = exact(con, "SELECT due, sum(amount) AS s FROM events GROUP BY due")
    assert [r["due"] for r in days] == [*DUE, None]
    assert days[-2]["s"] == 0


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("month(seen)", range(1, 13)),
        ("hour(seen)", range(24)),
        ("dayofweek(seen)", range(7)),
        ("isodow(seen)", range(1, 8)),
        ("quarter(seen)", range(1, 5)),
        ("day(seen)", range(1, 32)),
    ],
)
def test_parts_of_a_date_are_all_there(con: sparseq.Store, key: str, values: range) -> None:
    rows = exact(con, f"SELECT {key} k, count(*) n FROM events WHERE seen IS NOT NULL GROUP BY k")
    assert [r["k"] for r in rows] == list(values)
    known = [r for r in PRIVATE["events"].to_pylist() if None not in (r["who"], r["seen"])]
    assert sum(r["n"] for r in rows) == len(known)


def test_keys_of_any_spelling_are_found_among_very_many() -> None:
    odd = ["o'brien", "''", "back\\slash", "two\nlines", "", "%s {x}", "日本", "NULL"]
    names = [*odd, *(f"n{i}" for i in range(3000))]
    rows = pa.table({"who": range(len(names)), "name": names})
    with sparseq.create(None, {"t": rows}, user="who", keys={"name": names}, seed=1) as con:
        for key in ("name", "name || '!'"):
            query = con.lower(f"SELECT {key} AS k, count(*) AS n FROM t GROUP BY k")
            (domain,) = query.domains
            assert set(domain.values) >= {n + "!" * (key != "name") for n in names}
            plan = con.explain(query)
            (reduced,) = con.stream.engine.contributions(plan, len(names)).measures
            found = [v for v, n in zip(domain.values, reduced.totals.tolist(), strict=True) if n]
            assert len(found) == len(names)
            assert reduced.totals.max() == 1


HOURS = pa.table(
    {
        "who": [1] * 24 * 800,
        "ts": [dt.datetime(2023, 1, 1) + dt.timedelta(hours=h) for h in range(24 * 800)],
        "day": [dt.date(2023, 1, 1) + dt.timedelta(h // 24) for h in range(24 * 800)],
    }
)
CUT = [
    "date_trunc('{unit}', {of}) {op} DATE '2024-02-15'",
    "date_trunc('{unit}', {of}) {op} '2024-01-01'",
    "NOT (date_trunc('{unit}', {of}) {op} TIMESTAMP '2024-02-15 12:00:00')",
    "DATE '2024-02-15' {op} date_trunc('{unit}', {of})",
    "year({of}) {op} 2024.4",
    "NOT year({of}) {op} 2024.4",
    "CAST({of} AS DATE) {op} TIMESTAMP '2024-02-15 12:00:00'",
    "date_diff('{unit}', DATE '2024-01-10', {of}) {op} 0.5",
    "last_day({of}) {op} '2024-02-10'",
    "extract(isoyear FROM {of}) {op} 2024",
    "epoch({of}) {op} 1707999999.5",
    "{of} + INTERVAL 1 {unit} {op} '2024-02-15'",
]


GROUPED = [
    ("ts::DATE", "ts"),
    ("day", "day"),
    ("year(ts)", "ts"),
    ("date_trunc('month', ts)", "ts"),
    ("date_trunc('month', day)", "day"),
    ("extract(isoyear FROM ts)", "ts"),
    ("date_trunc('day', ts)", "ts"),
    ("year(day)", "day"),
]


@pytest.mark.parametrize(
    ("grouped", "op"), one_in(17, itertools.product(GROUPED, ["<", "<=", ">", "=", ">=", "<>"]))
)
def test_all_groups_that_a_condition_allows_are_there(grouped: tuple[str, str], op: str) -> None:
    """A row an hour for two years; which groups it has, DuckDB says."""
    group, of = grouped
    plain = duckdb.connect()
    plain.register("t", HOURS)
    units, answered, same = ("year", "quarter", "month", "week"), 0, 0
    cuts = {cut.format(unit=unit, of=of, op=op): cut for cut in CUT for unit in units}
    with sparseq.create(None, {"t": HOURS.slice(0, 1)}, user="who", time="ts") as con:
        for where, cut in cuts.items():
            where += f" AND {of} BETWEEN '2023-06-05' AND '2024-11-28'"
            if "(" in cut and op == "=":
                where = f"({where}) AND date_trunc('year', {of}) IN ('2023-01-01', '2024-01-01')"
            rows = plain.execute(f"SELECT DISTINCT {group} FROM t WHERE {where}").fetchall()
            try:
                query = con.lower(
                    f"SELECT {group} AS k, count(*) AS n FROM t WHERE {where} GROUP BY 1"
                )
            except QueryRefused as refused:
                if rows or not re.search("no value|not public", refused.message):
                    raise
                continue
            missing = {v for (v,) in rows} - set(query.domains[0].values)
            assert not missing, f"{where}: {sorted(missing)[:3]}"
            answered += 1
            same += len(rows) == len(query.domains[0].values)
    assert answered > 10
    assert same > 0.5 * answered, "and hardly any other"


@pytest.mark.parametrize(
    "key",
    [
        "epoch(ts)",
        "floor(epoch(ts) / 0.5)",
        "floor(epoch(ts) / -1)",
        "ceil(epoch(ts))",
        "extract(second FROM ts) + epoch(ts)",
    ],
)
def test_seconds_with_a_fraction_are_no_public_values(key: str) -> None:
    with sparseq.create(None, {"t": HOURS.slice(0, 9)}, user="who") as con:
        where = "ts >= '2023-01-01' AND ts < '2023-01-01 00:05:00'"
        sql = f"SELECT {key} AS k, count(*) AS n FROM t WHERE {where} GROUP BY 1"
        with pytest.raises(QueryRefused, match="not public"):
            con.lower(sql)


@pytest.mark.parametrize("value", ["5", "5.0", "DATE '2024-01-02'", "'5'"])
def test_a_text_that_is_compared_as_a_number_has_many_spellings(value: str) -> None:
    """'05' is 5 as well: it is no value of the list, and has no group."""
    rows = pa.table({"who": [1, 2, 3], "x": ["5", "05", "2024-1-2"]})
    with sparseq.create(None, {"t": rows}, user="who") as con:
        sql = f"SELECT x, count(*) AS n FROM t WHERE x = {value} GROUP BY 1"
        if value == "'5'":
            assert con.lower(sql).domains[0].values == ("5",)
        else:
            with pytest.raises(QueryRefused, match="not public"):
                con.lower(sql)


@pytest.mark.parametrize(
    "key",
    [
        "floor(epoch(ts) / 86400)",
        "floor(epoch(ts) / 60 / 60)",
        "floor(epoch(ts) / 600)",
        pytest.param("floor(epoch(ts) / 2)", marks=pytest.mark.deep),
    ],
)
@pytest.mark.parametrize("year", one_in(3, [1, 1969, 2024, 9000]))
def test_seconds_of_a_range_end_in_all_their_parts(key: str, year: int) -> None:
    """Divisions round: far from 1970 the last microsecond of a day has the next day's number."""
    start = dt.datetime(year, 1, 2)
    ends = [start + dt.timedelta(days=k, microseconds=m) for k in (0, 1) for m in (-1, 0, 1)]
    where = f"ts >= '{start:%Y-%m-%d}' AND ts < '{start + dt.timedelta(1):%Y-%m-%d}'"
    if year == 1:
        ends = [end for end in ends if end >= start]
    rows = pa.table({"who": range(len(ends)), "ts": ends})
    plain = duckdb.connect()
    plain.register("t", rows)
    found = plain.execute(f"SELECT DISTINCT {key} FROM t WHERE {where}").fetchall()
    with sparseq.create(None, {"t": rows}, user="who") as con:
        query = con.lower(f"SELECT {key} AS k, count(*) AS n FROM t WHERE {where} GROUP BY 1")
    assert {v for (v,) in found} <= set(query.domains[0].values)


NULLS = {
    "listed": "SELECT kind, count(*) n FROM t WHERE kind IN ('a', 'b') OR kind IS NULL GROUP BY 1",
    "a range": "SELECT q, count(*) n FROM t WHERE q BETWEEN 2 AND 4 OR q IS NULL GROUP BY q",
    "declared": "SELECT kind, count(*) n FROM t WHERE kind <> 'a' OR kind IS NULL GROUP BY kind",
    "alone": "SELECT kind, count(*) n FROM t WHERE kind IS NULL GROUP BY kind",
    "two keys": "SELECT kind, q, count(*) n FROM t WHERE (q = 2 OR q IS NULL) AND (kind = 'a' OR"
    " kind IS NULL) GROUP BY kind, q",
    "not at all": "SELECT kind, count(*) n FROM t WHERE kind IS NOT NULL GROUP BY kind",
}


@pytest.mark.parametrize("name", NULLS)
def test_null_is_a_group_where_the_where_asks_for_it(name: str) -> None:
    rows = pa.table(
        {
            "who": range(60),
            "kind": [("a", "b", None)[i % 3] for i in range(60)],
            "q": [(1, 2, 3, 4, None)[i % 5] for i in range(60)],
        }
    )
    con = sparseq.create(
        None, {"t": rows}, user="who", keys={"kind": ("a", "b")}, bounds={"q": (1, 4)}, seed=1
    )
    ours = {tuple(row.values())[:-1]: row["n"] for row in exact(con, NULLS[name])}
    plain = duckdb.from_arrow(rows).query("t", NULLS[name]).fetchall()
    theirs = {row[:-1]: row[-1] for row in plain}
    assert {key: n for key, n in ours.items() if n} == theirs
    assert any(None in key for key in ours) == (name != "not at all")


NEVER = [
    ("SELECT size AS k FROM t", []),
    ("SELECT upper(size) AS k FROM t", []),
    ("SELECT month(day) AS k FROM t", []),
    ("SELECT b.size AS k FROM t AS a JOIN t AS b ON a.who = b.who", []),
    ("SELECT b.size AS k FROM t AS a LEFT JOIN t AS b ON a.who = b.who AND b.size = 'S'", [None]),
    ("SELECT k FROM (SELECT who, size AS k FROM t)", []),
    (
        "SELECT k FROM (SELECT a.who, b.size AS k FROM t AS a LEFT JOIN t AS b "
        "ON a.who = b.who AND b.size = 'S')",
        [None],
    ),
    ("SELECT k FROM (SELECT who, max(size) AS k FROM t GROUP BY who)", []),
    ("SELECT nullif(size, 'S') AS k FROM t", [None]),
    ("SELECT may AS k FROM t", [None]),
    ("SELECT coalesce(size, 'none') AS k FROM t", []),
]


@pytest.fixture(scope="module")
def never() -> sparseq.Store:
    sizes = {"who": [1], "size": ["S"], "may": ["S"], "day": [dt.date(2024, 5, 1)]}
    return sparseq.create(
        None,
        {"t": pa.table(sizes)},
        user="who",
        types={"size": "NOT NULL", "day": "NOT NULL"},
        keys={"size": ["S", "L"], "may": ["S"]},
        seed=1,
    )


@pytest.mark.parametrize(("rows", "null"), NEVER)
def test_null_is_no_group_where_no_row_has_it(
    never: sparseq.Store, rows: str, null: list[None]
) -> None:
    query = never.lower(f"SELECT k, count(*) AS n FROM ({rows}) AS s GROUP BY k")
    found = list(query.domains[0].values)
    assert [k for k in found if k is None] == null
    assert "none" not in found


def test_a_value_that_a_cast_does_not_hold_is_in_the_group_of_null() -> None:
    rows = pa.table({"who": range(300), "x": pa.array(range(300), pa.int32())})
    sql = "SELECT {}(x AS TINYINT) AS k, count(*) AS n FROM t WHERE x BETWEEN 0 AND 299 GROUP BY k"
    with sparseq.create(None, {"t": rows}, user="who", seed=1) as con:
        for cast in ("CAST", "TRY_CAST"):
            found = {row["k"]: row["n"] for row in exact(con, sql.format(cast))}
            assert found[None] == 300 - 128
            assert sum(found.values()) == 300


@pytest.mark.parametrize(
    ("key", "where", "null"),
    [
        ("qty", "qty + 1 > 0", False),
        ("qty", "qty + shop_id > 0", False),
        ("qty", "qty > 0 OR shop_id > 0", True),
        ("qty", "NOT (qty > 5 AND gift)", True),
        ("qty", "coalesce(qty, 1) > 0", True),
        ("qty", "abs(qty) BETWEEN 0 AND shop_id", False),
        ("shop_id", "qty NOT BETWEEN 0 AND shop_id AND shop_id IN (1, 2, NULL)", False),
        ("qty", "(qty > 0) IS TRUE", False),
        ("qty", "(qty > 0) IS NOT FALSE", True),
        ("coalesce(qty, 0)", "", False),
        ("greatest(qty, 0)", "", False),
        ("qty // 2", "qty > 0", False),
        ("qty // shop_id", "qty > 0 AND shop_id IN (0, 1, 2)", True),
    ],
)
def test_null_is_a_group_where_a_row_may_have_it(
    con: sparseq.Store, key: str, where: str, null: bool
) -> None:
    rows = f"events WHERE {where}" if where else "events"
    (domain,) = con.lower(f"SELECT {key} AS k, count(*) AS n FROM {rows} GROUP BY k").domains
    assert (None in domain.values) is null


@pytest.mark.parametrize(
    ("key", "where", "groups", "length"),
    [
        ("date_trunc('second', ts)", "ts < '2024-01-01 05:00'", 5 * 3600, 3_000),
        ("date_trunc('minute', ts)", "ts < '2024-01-04'", 3 * 1440, 3_000),
        ("strftime(date_trunc('second', ts), '%H')", "ts < '2024-03-01'", 24, 3_000),
        ("date_trunc('day', date_trunc('second', ts))", "ts < '2024-02-01'", 31, 3_000),
        ("date_trunc('week', date_trunc('hour', ts))", "ts < '2024-01-29'", 4, 3_000),
    ],
)
def test_units_of_a_long_range_are_not_listed(
    key: str, where: str, groups: int, length: int
) -> None:
    """A row's place is counted from the first unit; other rows have none."""
    start = dt.datetime(2024, 1, 1)
    times = [start + dt.timedelta(seconds=i * 997, microseconds=i) for i in range(-50, 3_000)]
    rows = pa.table({"who": range(len(times)), "ts": times})
    where = f"ts >= '2024-01-01' AND {where}"
    with sparseq.create(None, {"t": rows}, user="who", types={"ts": "NOT NULL"}) as con:
        sql = f"SELECT {key} AS k, count(*) AS n FROM t WHERE {where} GROUP BY k"
        query = con.lower(sql)
        assert query.groups == groups
        assert len(query.relation.sql) + len(query.domains[0].position.sql) < length
        found = {row["k"]: row["n"] for row in exact(con, sql) if row["n"]}
    plain = duckdb.connect()
    plain.register("t", rows)
    assert found == dict(plain.execute(sql).fetchall())
