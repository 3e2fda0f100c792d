"""Traps of SQL's meaning: questions that are easily answered as another one, over nasty rows.

Families are grown from lists: every condition in every place that a condition may stand, every
expression looked at from all sides, every pair of a column and a type, every window over ties.
Those that have no system are in traps.sql. Plain DuckDB is asked the same text, or what `-- is`
has.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import sparseq
from benchmarks.declared import of_each
from checks.stores import made_store

PEOPLE = 1500
KEYS = ("a", "b", "A", "", " a", "ß", "never")
TEXTS = (
    *KEYS,
    "z",
    "é",
    "e\u0301",
    "a%b",
    "a_b",
    "100%",
    "日本",
    "NULL",
    "null",
    "a ",
    "İ",
    "\\",
    "a'b",
)
NUMERALS = (
    "1",
    " 2",
    "3 ",
    "x",
    "",
    "1e2",
    "0x10",
    "-7",
    "+7",
    "1.5",
    "2.5",
    "-2.5",
    "007",
    "NaN",
    "inf",
    "true",
    "9223372036854775807",
    "9223372036854775808",
    "1_000",
)
BIG = (2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**31, 2**31 - 1, 0, 1, -1, 7)
NAN, INFINITY = float("nan"), float("inf")
ODD = (0.0, -0.0, NAN, INFINITY, -INFINITY, 1e300, -1e300, 5e-324, 0.1, 2.5, -2.5)
HALVES = (0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 99.75)
DAYS = (
    dt.date(1969, 12, 31),
    dt.date(1970, 1, 1),
    dt.date(1900, 2, 28),
    dt.date(1999, 12, 31),
    dt.date(2000, 2, 29),
    dt.date(2023, 1, 1),
    dt.date(2024, 1, 31),
    dt.date(2024, 2, 29),
    dt.date(2024, 3, 31),
    dt.date(2024, 10, 27),
    dt.date(2024, 12, 30),
    dt.date(2020, 12, 31),
)
MOMENTS = (
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    dt.datetime(1970, 1, 1),
    dt.datetime(1965, 6, 1, 12, 30),
    dt.datetime(2024, 3, 31, 0, 59, 59),
    dt.datetime(2024, 3, 31, 1),
    dt.datetime(2024, 3, 31, 1, 30),
    dt.datetime(2024, 3, 31, 2),
    dt.datetime(2024, 10, 27, 0, 30),
    dt.datetime(2024, 10, 27, 1, 30),
    dt.datetime(2024, 10, 27, 2, 30),
    dt.datetime(2024, 2, 29),
    dt.datetime(2024, 2, 29, 23, 59, 59),
    dt.datetime(2023, 12, 31, 23, 30),
    dt.datetime(2024, 3, 10, 9, 59, 59, 1),
    dt.datetime(2024, 3, 10, 10),
    dt.datetime(2024, 11, 3, 8, 30),
    dt.datetime(2024, 12, 31, 12),
)
ROWS = pa.schema(
    [
        ("who", pa.int32()),
        ("i", pa.int32()),
        ("j", pa.int16()),
        ("b", pa.int64()),
        ("s", pa.string()),
        ("k", pa.string()),
        ("u", pa.string()),
        ("v", pa.float64()),
        ("f", pa.float64()),
        ("p", pa.decimal128(10, 2)),
        ("q", pa.decimal128(18, 6)),
        ("d", pa.date32()),
        ("t", pa.timestamp("us")),
        ("z", pa.timestamp("us", "UTC")),
        ("o", pa.bool_()),
        ("r", pa.int32()),
    ]
)
VISITS = pa.schema(
    [
        ("who", pa.int32()),
        ("m", pa.int32()),
        ("k", pa.string()),
        ("d", pa.date32()),
        ("w", pa.float64()),
    ]
)
BOUNDS = {
    "i": (-5, 5),
    "j": (-3, 3),
    "v": (-100, 100),
    "p": (-1000, 1000),
    "q": (-1000, 1000),
    "m": (-5, 5),
    "w": (-10, 10),
    "r": (0, 100),
    **dict.fromkeys(["d", "t", "z"], ("1900-01-01", "2025-12-31")),
}


def rows(seed: int = 5) -> dict[str, pa.Table]:
    """Return the two tables about people: every column but `r` and the user has NULLs."""
    rng = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.12 else value

    events, visits = [], []
    for who in range(PEOPLE):
        for place in range(rng.choice([1, 1, 2, 3, 4, 7])):
            row = (
                who,
                maybe(rng.randint(-5, 5)),
                maybe(rng.randint(-3, 3)),
                maybe(rng.choice(BIG)),
                maybe(rng.choice(TEXTS)),
                maybe(rng.choice(KEYS[:-1])),
                maybe(rng.choice(NUMERALS)),
                maybe(rng.choice([*HALVES, rng.randint(-800, 800) / 8])),
                maybe(rng.choice(ODD)),
                maybe(Decimal(rng.choice([0, 5, 50, 125, -125, 250, 99_999, -1])) / 100),
                maybe(Decimal(rng.choice([0, 1, 500_000, 1_500_000, -2_500_000, 333_333])) / 10**6),
                maybe(rng.choice(DAYS)),
                maybe(rng.choice(MOMENTS)),
                maybe(rng.choice(MOMENTS).replace(tzinfo=dt.UTC)),
                maybe(rng.random() < 0.5),
                place,
            )
            events.append(row)
        if who % 3:
            for _ in range(rng.choice([0, 1, 1, 2, 5])):
                visits.append(
                    (
                        who,
                        maybe(rng.randint(-5, 5)),
                        maybe(rng.choice(KEYS[:-1])),
                        maybe(rng.choice(DAYS)),
                        maybe(rng.randint(-80, 80) / 8),
                    )
                )
    return {"e": _table(events, ROWS), "visits": _table(visits, VISITS)}


def _table(found: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = zip(*found, strict=True)
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )


PUBLIC = {
    "shops": pa.table(
        {
            "k": ["a", "b", "b", "", None, "only here"],
            "city": ["Ghent", "Lund", "Turin", None, "Nowhere", "Asti"],
            "rank": pa.array([1, 2, 3, None, 5, 6], pa.int32()),
        }
    ),
    "names": pa.table(
        {
            "i": pa.array([-5, -1, 0, 1, 2, 5, 77], pa.int32()),
            "name": ["least", None, "zero", "one", "two", "most", "no row"],
        }
    ),
    "nobody": pa.table({"k": pa.array([], pa.string()), "x": pa.array([], pa.int32())}),
}


WIDTH_BUCKET = (
    "width_bucket(x, low, high, n) AS CASE WHEN x < low THEN 0 WHEN x >= high THEN n + 1 "
    "ELSE 1 + CAST(floor((x - low) * n / (high - low)) AS INTEGER) END"
)
"""A function that other databases have, in plain DuckDB."""


def store(**options: Any) -> sparseq.Store:
    """Return a store of the rows; its promise is so weak that an answer has next to no noise."""
    tables = rows()
    columns = {name: table.column_names for name, table in tables.items()}
    return made_store(
        None,
        tables.pop("e"),
        table="e",
        tables=tables,
        user="who",
        public=PUBLIC,
        keys=of_each({"k": KEYS}, columns),
        bounds=of_each(BOUNDS, columns),
        seed=5,
        **{"kappa": 1024.0, **options},
    )


def plain() -> duckdb.DuckDBPyConnection:
    """Return the same rows in plain DuckDB, whose clock is in UTC, as stored times are."""
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'; SET error_on_division_by_zero = false")
    con.execute("PRAGMA disable_optimizer")
    con.execute(f"CREATE MACRO {WIDTH_BUCKET}")
    for name, table in {**rows(), **PUBLIC}.items():
        con.register("incoming", table)
        con.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
        con.unregister("incoming")
    return con


@dataclass(frozen=True)
class Trap:
    """One question.

    Attributes:
        family: What may go wrong.
        sql: Its text.
        plain: What plain DuckDB is asked.
    """

    family: str
    sql: str
    plain: str


# -- conditions: three-valued logic ----------------------------------------------------------------

ATOMS = (
    "i > 0",
    "i = j",
    "i <> j",
    "i IN (1, 2)",
    "i NOT IN (1, 2)",
    "i BETWEEN -1 AND j",
    "i NOT BETWEEN 0 AND 2",
    "k = 'a'",
    "k <> 'a'",
    "k LIKE 'a%'",
    "k NOT LIKE '%'",
    "k = s",
    "o",
    "NOT o",
    "o IS TRUE",
    "o IS NOT FALSE",
    "o IS NULL",
    "i IS DISTINCT FROM j",
    "i IS NOT DISTINCT FROM j",
    "v > i",
    "f > 0",
    "NOT f <= 0",
    "d > DATE '2000-01-01'",
    "p >= q",
)
LISTS = (
    "i IN (1, NULL)",
    "i NOT IN (1, NULL)",
    "i IN (NULL)",
    "i NOT IN (SELECT i FROM names)",
    "k IN (SELECT k FROM shops)",
    "k NOT IN (SELECT k FROM shops)",
    "k NOT IN (SELECT k FROM shops WHERE k IS NOT NULL)",
    "k IN (SELECT k FROM nobody)",
    "k NOT IN (SELECT k FROM nobody)",
    "i = ANY ([1, 2])",
    "i = ANY ([1, NULL])",
    "i <> ALL ([1, 2])",
    "i <> ALL ([1, NULL])",
    "i > (SELECT max(rank) FROM shops)",
    "i > (SELECT max(x) FROM nobody)",
    "EXISTS (SELECT 1 FROM nobody)",
    "NOT EXISTS (SELECT 1 FROM nobody)",
    "EXISTS (SELECT 1 FROM shops WHERE shops.k = e.k)",
    "NOT EXISTS (SELECT 1 FROM shops WHERE shops.k = e.k)",
    "(i, j) = (1, 2)",
    "(i, j) IN ((1, 2), (0, 0))",
    "(i, j) <> (1, 2)",
    "(i, j) NOT IN ((1, 2), (0, NULL))",
    "i IN (j, 1)",
    "i NOT IN (j, 1)",
    "i IN ('1', '2')",
    "i = '1'",
    "i = 1.0",
    "i < 1.5",
    "i IN (1.5, 2.0)",
    "b IN (9007199254740993)",
    "b = 9007199254740993.0",
    "b = 9007199254740992.0",
    "b > 9007199254740992",
    "b::DOUBLE > 9007199254740992",
    "i BETWEEN 3 AND 1",
    "i BETWEEN NULL AND 3",
    "NOT i BETWEEN NULL AND 0",
    "i BETWEEN -5 AND NULL",
    "i > NULL",
    "NULL",
    "i IS NULL OR i > NULL",
    "coalesce(o, false)",
    "NOT coalesce(o, i > 0)",
    "nullif(i, 1) IS NULL",
    "nullif(i, j) > 0",
    "nullif(1, i) = 1",
    "CASE WHEN o THEN i > 0 END",
    "CASE i WHEN 1 THEN true WHEN NULL THEN true ELSE false END",
    "CASE WHEN i > 0 THEN o ELSE NOT o END",
    "if(o, i, j) > 0",
    "greatest(i, j) > 0",
    "least(i, j, NULL) < 0",
    "greatest(f, v) > 1",
    "(o OR NULL)",
    "(o AND NULL) IS NULL",
    "NOT (o AND NULL)",
    "(i > 0) = (j > 0)",
    "(i > 0) <> o",
    "(i > 0) IS NOT DISTINCT FROM o",
    "xor(i, j) = 0",
    "i = i",
    "f = f",
    "f <> f",
    "NOT (f = f)",
    "f = 'nan'::DOUBLE",
    "f > 'inf'::DOUBLE",
    "f >= 'nan'::DOUBLE",
    "f = 0",
    "f = -0.0",
    "f BETWEEN 0 AND 'nan'::DOUBLE",
    "isnan(f)",
    "NOT isfinite(f)",
    "isinf(f)",
    "f < 0",
    "f IN (0.1, 2.5)",
    "TRY_CAST(f AS FLOAT) = 0.1",
    "TRY_CAST(f AS REAL) * 3 = 0.3",
    "TRY_CAST(f AS REAL) IN (0.1, 0.2e0)",
    "TRY_CAST(f AS REAL) BETWEEN 0.1 AND 0.1e0",
    "coalesce(TRY_CAST(f AS REAL), i) <= 0.1",
    "CAST(b AS REAL) = 9007199254740993",
    "round(TRY_CAST(f AS REAL), 1) = 0.1",
    "f = 0.1",
    "v = 0",
    "sign(f) = 0",
    "abs(f) > 1e299",
    "1 / f < 0",
    "f * 0 = 0",
    "f - f = 0",
)


def _logic() -> Iterator[str]:
    yield from ATOMS
    few = ATOMS[::3]
    for a, b in product(few, ATOMS[1::4]):
        yield f"({a}) AND NOT ({b})"
        yield f"NOT ({a} OR {b})"
    for a, b, c in zip(ATOMS, ATOMS[5:], ATOMS[11:], strict=False):
        yield f"({a} OR {b}) AND NOT ({c} AND {a})"
        yield f"CASE WHEN {a} THEN {b} ELSE {c} END"
        yield f"(({a}) IS NULL) = (({b}) IS NULL) OR {c}"


def _condition(c: str, place: int) -> str:
    """Put a condition in one of the places that one may stand."""
    return (
        f"SELECT count(*) AS n FROM e WHERE {c}",
        f"SELECT countif({c}) AS n, count(*) FILTER (WHERE NOT ({c})) AS o, "
        f"count(*) FILTER (WHERE ({c}) IS NULL) AS x FROM e",
        f"SELECT CASE WHEN {c} THEN 'yes' WHEN NOT ({c}) THEN 'no' ELSE 'open' END AS is_so, "
        "count(*) AS n FROM e GROUP BY is_so",
        f"SELECT ({c}) AS is_so, count(*) AS n FROM e GROUP BY is_so",
        f"SELECT count(DISTINCT who) AS n FROM e WHERE NOT ({c})",
        f"SELECT sum(i) FILTER (WHERE {c}) AS s, avg(v) FILTER (WHERE {c}) AS a FROM e",
        f"SELECT count(*) AS n FROM (SELECT who, bool_and({c}) AS y, bool_or({c}) AS x "
        "FROM e GROUP BY who) AS g WHERE y OR x IS NULL",
    )[place % 7]


# -- expressions, looked at from all sides ---------------------------------------------------------

NUMBERS = (
    "i + j",
    "i - b // 2",
    "i * j",
    "i / j",
    "i // j",
    "i % j",
    "-i // 2",
    "-i % 3",
    "i % -3",
    "5 // i",
    "5 / i",
    "i / 2",
    "i // 2.0",
    "i * 1.5",
    "i * 0.1",
    "i + 0.1",
    "p + q",
    "p * q",
    "p / q",
    "p / 3",
    "p % 2",
    "p * 2",
    "-p",
    "abs(p)",
    "round(p)",
    "round(p, 1)",
    "round(q, 2)",
    "floor(p)",
    "ceil(q)",
    "trunc(p)",
    "round(v)",
    "round(v, 1)",
    "round(-v)",
    "round(i, -1)",
    "floor(v)",
    "ceil(v)",
    "trunc(v)",
    "floor(-v)",
    "v::INTEGER",
    "p::INTEGER",
    "q::INTEGER",
    "(v * 2)::BIGINT",
    "v::DECIMAL(10, 1)",
    "p::DECIMAL(10, 1)",
    "q::DECIMAL(10, 2)",
    "p::DOUBLE",
    "o::INTEGER",
    "i::DOUBLE / 3",
    "length(s)",
    "length(k)",
    "strpos(s, 'a')",
    "ascii(s)",
    "b % 2",
    "b // 2",
    "b::DOUBLE",
    "(b::DOUBLE)::DECIMAL(38, 0)",
    "b & 1",
    "b >> 1",
    "xor(i, j)",
    "~i",
    "abs(i) << 1",
    "sign(v)",
    "sign(-i)",
    "abs(i)",
    "abs(v)",
    "sqrt(abs(v))",
    "pow(i, 2)",
    "pow(v, 0)",
    "exp(i)",
    "ln(abs(v))",
    "gcd(i, 6)",
    "lcm(i, j)",
    "bit_count(i)",
    "coalesce(i, j, 0)",
    "nullif(i, 0)",
    "greatest(i, j)",
    "least(i, v)",
    "greatest(i, NULL)",
    "if(i > 0, i, p)",
    "CASE WHEN o THEN i ELSE v END",
    "CASE WHEN o THEN p ELSE i END",
    "width_bucket(v, -100, 100, 4)",
    "i ** 2",
    "-(-i)",
    "- i + 1",
    "2 - i - j",
    "2 ** 3 ** 0",
    "i / j * j",
    "i - (j - 1)",
    "(i + j) % 2",
    "i::VARCHAR::INTEGER",
    "cbrt(v)",
    "atan(v)",
    "degrees(v)",
)
MOMENT_NUMBERS = (
    "year({0})",
    "month({0})",
    "day({0})",
    "quarter({0})",
    "week({0})",
    "dayofweek({0})",
    "isodow({0})",
    "dayofyear({0})",
    "weekofyear({0})",
    "extract(isoyear FROM {0})",
    "extract(dow FROM {0})",
    "date_part('doy', {0})",
    "date_diff('day', DATE '2000-02-29', {0})",
    "date_diff('month', DATE '2024-01-31', {0})",
    "date_diff('year', DATE '2023-12-31', {0})",
    "date_diff('week', DATE '2024-01-07', {0})",
    "date_diff('quarter', DATE '2000-03-31', {0})",
    "date_sub('month', DATE '2024-01-31', {0})",
    "date_sub('year', DATE '2000-02-29', {0})",
    "date_sub('day', DATE '1970-01-01', {0})",
    "epoch({0})",
    "extract(year FROM age({0}, DATE '1980-02-29'))",
    "strftime({0}, '%Y')::INTEGER",
    "length({0}::VARCHAR)",
    "day(last_day({0}))",
    "month({0} + INTERVAL 1 MONTH)",
    "day({0} + INTERVAL 1 MONTH)",
    "day({0} - INTERVAL 1 MONTH)",
    "day({0} - INTERVAL 1 YEAR)",
    "date_diff('day', {0}, {0} + INTERVAL 1 YEAR)",
    "month(date_trunc('quarter', {0}))",
    "day(date_trunc('week', {0}))",
    "day(time_bucket(INTERVAL '2 weeks', {0}))",
    "dayofyear(date_trunc('year', {0}))",
)
TIME_NUMBERS = (
    "hour(t)",
    "minute(t)",
    "second(t)",
    "date_diff('hour', TIMESTAMP '1970-01-01', t)",
    "epoch_ms(t) % 1000",
    "date_sub('hour', TIMESTAMP '1970-01-01 00:30:00', t)",
    "date_diff('minute', t, TIMESTAMP '2024-03-31 01:00:30')",
    "day(t::DATE)",
    "hour(date_trunc('hour', t))",
    "hour(t + INTERVAL 30 MINUTE)",
    "second(t - INTERVAL 1 SECOND)",
    "hour(t AT TIME ZONE 'Europe/Brussels')",
    "hour(z)",
    "day(z)",
    "hour(z AT TIME ZONE 'Europe/Brussels')",
    "hour(z AT TIME ZONE 'America/Los_Angeles')",
    "day(z AT TIME ZONE 'Asia/Kolkata')",
    "minute(z AT TIME ZONE 'Asia/Kolkata')",
    "month(z AT TIME ZONE 'Pacific/Auckland')",
    "dayofweek(z AT TIME ZONE 'America/New_York')",
    "date_diff('hour', z, TIMESTAMPTZ '2024-03-31 02:00:00+02:00')",
    "epoch(z)",
    "epoch(t AT TIME ZONE 'Europe/Brussels')",
    "hour(date_trunc('day', z AT TIME ZONE 'Europe/Brussels'))",
    "date_diff('day', z AT TIME ZONE 'Europe/Brussels', z AT TIME ZONE 'Asia/Tokyo')",
    "hour(z + INTERVAL 1 HOUR)",
    "hour((z + INTERVAL 1 DAY) AT TIME ZONE 'Europe/Brussels')",
    "hour((t AT TIME ZONE 'Europe/Brussels') AT TIME ZONE 'UTC')",
)
STRINGS = (
    "lower(s)",
    "upper(s)",
    "trim(s)",
    "ltrim(s)",
    "rtrim(s)",
    "s || k",
    "concat(s, k)",
    "concat_ws('-', s, k)",
    "s || NULL",
    "substring(s, 1, 1)",
    "substring(s, 0, 2)",
    "substring(s, -2, 1)",
    "left(s, 1)",
    "left(s, -1)",
    "right(s, 1)",
    "right(s, -1)",
    "replace(s, 'a', '')",
    "replace(s, '', 'x')",
    "translate(s, 'ab', 'b')",
    "reverse(s)",
    "lpad(s, 3, '*')",
    "rpad(s, 1, '*')",
    "split_part(s, 'a', 1)",
    "split_part(s, 'a', 2)",
    "split_part(s, 'a', -1)",
    "split_part(s, '', 1)",
    "repeat(s, 2)",
    "repeat(s, 0)",
    "i::VARCHAR",
    "v::VARCHAR",
    "f::VARCHAR",
    "p::VARCHAR",
    "q::VARCHAR",
    "o::VARCHAR",
    "d::VARCHAR",
    "t::VARCHAR",
    "b::VARCHAR",
    "nullif(s, '')",
    "coalesce(s, k, 'none')",
    "greatest(s, k)",
    "least(s, k)",
    "CASE WHEN s = '' THEN NULL ELSE s END",
    "s || i",
    "regexp_extract(s, 'a(.)', 1)",
    "regexp_replace(s, 'a', 'x')",
    "regexp_replace(s, '[ab]', '', 'g')",
    "strftime(d, '%G-%V')",
    "strftime(t, '%Y-%m-%d %H')",
    "dayname(d)",
    "monthname(t)",
    "chr(65 + abs(i))",
    "md5(s)",
    "u || ''",
    "trim(s, 'a')",
    "strip_accents(s)",
)
DATES = (
    "d + 1",
    "d - 1",
    "d + INTERVAL 1 MONTH",
    "d - INTERVAL 1 MONTH",
    "d + INTERVAL 1 YEAR",
    "date_trunc('week', d)",
    "date_trunc('month', t)",
    "date_trunc('hour', t)",
    "t::DATE",
    "last_day(t)",
    "d::TIMESTAMP",
    "t + INTERVAL 1 DAY",
    "time_bucket(INTERVAL '1 week', t)",
    "time_bucket(INTERVAL '3 months', d)",
    "make_date(2024, abs(i) + 1, 29)",
    "z AT TIME ZONE 'Europe/Brussels'",
    "(z AT TIME ZONE 'Asia/Kolkata')::DATE",
    "coalesce(d, DATE '2024-02-29')",
    "greatest(d, t)",
    "least(d, DATE '2000-02-29')",
    "date_add(d, INTERVAL 13 MONTH)",
    "strptime(d::VARCHAR, '%Y-%m-%d')",
    "try_cast(s AS DATE)",
    "to_timestamp(i * 86400)",
    "date_trunc('quarter', d)",
    "date_trunc('decade', d)",
    "date_trunc('year', z AT TIME ZONE 'UTC')",
)
TESTS = ("= 1", "> 0", "<= 2", "<> 0", "BETWEEN -1 AND 1", "IN (0, 1, 2.5)", "IS DISTINCT FROM 2")
TEXT_TESTS = (
    "= 'a'",
    "= ''",
    "< 'b'",
    ">= 'a'",
    "LIKE '%a%'",
    "LIKE '_'",
    "ILIKE 'A%'",
    "IN ('A', 'ß', '')",
    "<> ' a'",
    "NOT LIKE '%\\%' ESCAPE '\\'",
    "BETWEEN 'A' AND 'a'",
)
DAY_TESTS = (
    "> DATE '2000-01-01'",
    "= DATE '2024-02-29'",
    "<= '1970-01-01'",
    "BETWEEN '1969-12-31' AND '2024-03-31'",
    "IN (DATE '2024-01-31', DATE '2024-03-31')",
    "<> DATE '2024-03-31'",
)


def _value(e: str, place: int, tests: Sequence[str], number: bool) -> str:
    test = tests[place % len(tests)]
    forms = [
        f"SELECT countif(({e}) {test}) AS n, count({e}) AS m FROM e",
        f"SELECT count(*) AS n FROM e WHERE NOT (({e}) {test})",
        f"SELECT (({e}) {test}) AS is_so, count(*) AS n FROM e GROUP BY is_so",
        f"SELECT count(*) AS n, count(DISTINCT who) AS m FROM e WHERE ({e}) IS NULL",
        f"SELECT count(*) AS n FROM (SELECT who, max({e}) AS x FROM e GROUP BY who) AS g "
        f"WHERE x {test}",
        f"SELECT count(*) AS n FROM "
        f"(SELECT who, count(DISTINCT {e}) AS x FROM e GROUP BY who) AS g WHERE x > 1",
        f"SELECT count(*) AS n FROM (SELECT who, ({e}) AS x FROM e) AS g WHERE x {test}",
    ]
    if number:
        forms += [
            f"SELECT sum(greatest(least(({e})::DOUBLE, 50.0), -50.0)) FILTER "
            f"(WHERE isfinite(({e})::DOUBLE)) AS s FROM e"
        ]
    return forms[place % len(forms)]


def _expressions() -> Iterator[tuple[str, str]]:
    families = (
        ("numbers", NUMBERS, TESTS),
        ("dates", [x.format(c) for x in MOMENT_NUMBERS for c in ("d", "t")], TESTS),
        ("times and zones", TIME_NUMBERS, TESTS),
        ("texts", STRINGS, TEXT_TESTS),
        ("days", DATES, DAY_TESTS),
    )
    for family, expressions, tests in families:
        for n, e in enumerate(expressions):
            number = tests is TESTS
            yield family, _value(e, n, tests, number)
            yield family, _value(e, n + 3, tests, number)


# -- casts -----------------------------------------------------------------------------------------

FROM = ("i", "b", "u", "s", "v", "f", "p", "q", "o", "d", "t")
TO = (
    "INTEGER",
    "TINYINT",
    "BIGINT",
    "UTINYINT",
    "DOUBLE",
    "FLOAT",
    "DECIMAL(6, 1)",
    "VARCHAR",
    "BOOLEAN",
    "DATE",
    "TIMESTAMP",
)


def _casts() -> Iterator[tuple[str, str]]:
    """Yield casts, and what they are in plain DuckDB: an infinite date is none."""
    forms = (
        "SELECT countif({e} IS NULL) AS x, "
        "count(DISTINCT CASE WHEN {e} IS NOT NULL THEN who END) AS y FROM e",
        "SELECT count(*) AS n FROM e WHERE {e} IS NOT NULL AND {c} IS NOT NULL",
        "SELECT count(*) AS n FROM (SELECT who, count(DISTINCT {e}) AS x FROM e GROUP BY who) AS g "
        "WHERE x = 1",
    )
    compared = "SELECT countif({e} = {one}) AS n, countif({e} < {one}) AS m FROM e"
    for n, (column, type) in enumerate(product(FROM, TO)):
        e, one = f"TRY_CAST({column} AS {type})", f"TRY_CAST({_sample(type)} AS {type})"
        finite = f"CASE WHEN isfinite({e}) THEN {e} END" if type in ("DATE", "TIMESTAMP") else e
        for form in (forms[n % 3], compared):
            yield (
                form.format(e=e, c=column, one=one),
                form.format(e=f"({finite})", c=column, one=one),
            )


def _sample(type: str) -> str:
    if type in ("DATE", "TIMESTAMP"):
        return "'2024-03-31'"
    return {"VARCHAR": "'2.5'", "BOOLEAN": "true"}.get(type, "2")


# -- groups ----------------------------------------------------------------------------------------

GROUPS = (
    "k",
    "i",
    "j",
    "o",
    "i % 2",
    "i > 0",
    "k = 'a'",
    "CASE WHEN i > 0 THEN 'p' END",
    "CASE WHEN i > 0 THEN 'p' ELSE 'n' END",
    "CASE k WHEN 'a' THEN 1 WHEN 'b' THEN NULL ELSE 3 END",
    "coalesce(k, 'none')",
    "nullif(k, 'a')",
    "upper(k)",
    "lower(k)",
    "trim(k)",
    "k || '!'",
    "concat(k, '!')",
    "month(d)",
    "year(d)",
    "dayofweek(d)",
    "quarter(t)",
    "hour(t)",
    "date_trunc('month', d)",
    "date_trunc('year', t)",
    "d",
    "t::DATE",
    "floor(v / 50)",
    "round(p)",
    "i // 2",
    "coalesce(i, -5)",
    "i IS NULL",
    "k IS NULL",
    "if(o, 'y', NULL)",
    "if(o, 'y', 'n')",
    "i + j",
    "greatest(i, j)",
    "width_bucket(v, -100, 100, 4)",
    "floor(q)",
    "abs(i)",
    "-i",
    "length(k)",
    "monthname(d)",
    "hour(z)",
    "date_trunc('month', z AT TIME ZONE 'Europe/Brussels')",
    "strftime(d, '%Y')",
    "least(i, 2)",
    "NOT o",
    "o AND i > 0",
    "i IN (1, NULL)",
    "(i > 0) IS TRUE",
    "i IS DISTINCT FROM j",
    "sign(i)",
    "sign(v)",
    "round(v / 50)",
)
PASSES = (
    "",
    "i IS NOT NULL",
    "k IN ('a', 'never')",
    "d BETWEEN '2024-01-01' AND '2024-03-31'",
    "i IS NULL",
    "o OR k IS NULL",
    "k IS NOT NULL AND i > 0",
    "k <> 'a'",
)


def _groups() -> Iterator[str]:
    for n, key in enumerate(GROUPS):
        for where in (PASSES[0], PASSES[1 + n % 7], PASSES[1 + (n + 3) % 7]):
            text = f" WHERE {where}" if where else ""
            yield f"SELECT {key} AS g, count(*) AS n FROM e{text} GROUP BY g"
        yield f"SELECT {key} AS g, sum(j) AS s, count(DISTINCT who) AS m FROM e GROUP BY 1"
        if n % 3 == 0:
            yield f"SELECT {key} AS g, o, count(*) AS n FROM e GROUP BY ALL"
            inner = f"SELECT who, max({key}) AS g FROM e GROUP BY who"
            yield f"SELECT g, count(*) AS n FROM ({inner}) AS x GROUP BY g"


# -- joins -----------------------------------------------------------------------------------------

SOURCES = (
    "e LEFT JOIN shops x ON x.k = e.k",
    "e JOIN shops x ON x.k = e.k",
    "e LEFT JOIN shops x ON x.k = e.k AND x.city = 'Lund'",
    "e LEFT JOIN shops x ON x.k = e.k AND e.i > 0",
    "e LEFT JOIN nobody x ON x.k = e.k",
    "e JOIN nobody x ON x.k = e.k",
    "e LEFT JOIN shops x ON x.k IS NOT DISTINCT FROM e.k",
    "e JOIN shops x ON x.k IS NOT DISTINCT FROM e.k",
    "e CROSS JOIN shops x",
    "e LEFT JOIN shops x ON x.rank > e.i",
    "e JOIN shops x ON x.rank < e.i",
    "e LEFT JOIN shops x ON false",
    "e JOIN shops x ON lower(e.k) = x.k",
    "e LEFT JOIN (SELECT DISTINCT k, 'known' AS city, 1 AS rank FROM shops) x ON x.k = e.k",
)
SEEN = (
    "count(*) AS n",
    "count(x.k) AS n",
    "count(DISTINCT e.who) AS n",
    "countif(x.k IS NULL) AS n",
    "count(*) AS n|x.k IS NULL",
    "count(*) AS n|x.k IS NOT NULL",
    "count(*) AS n|x.k <> 'a'",
    "countif(x.k = 'b') AS n, sum(e.i) AS s",
)
OWN = (
    "e LEFT JOIN visits x ON x.who = e.who",
    "e JOIN visits x ON x.who = e.who",
    "e LEFT JOIN visits x ON x.who = e.who AND x.k = e.k",
    "e JOIN visits x ON x.who = e.who AND x.k = e.k",
    "e LEFT JOIN visits x ON x.who = e.who AND x.m > e.i",
    "e LEFT JOIN visits x ON x.who = e.who AND e.i > 0",
    "e JOIN visits x ON x.who = e.who AND x.d = e.d",
    "e JOIN e x ON x.who = e.who AND x.r > e.r",
    "e LEFT JOIN e x ON x.who = e.who AND x.r = e.r + 1",
    "e LEFT JOIN (SELECT who, max(k) AS k, count(*) AS m FROM visits GROUP BY who) x "
    "ON x.who = e.who",
)


def _joins() -> Iterator[str]:
    for n, source in enumerate(SOURCES):
        for m, what in enumerate(SEEN):
            if (m + n) % 2 == 0 or m < 3:
                shown, _, where = what.partition("|")
                where = f" WHERE {where}" if where else ""
                if "nobody" in source:
                    shown = shown.replace("x.city", "x.k")
                yield f"SELECT {shown} FROM {source}{where}"
        if "nobody" not in source:
            yield f"SELECT x.city AS g, count(*) AS n FROM {source} GROUP BY g"
            yield f"SELECT x.rank AS g, count(DISTINCT e.who) AS n FROM {source} GROUP BY g"
    for source in OWN:
        for what in SEEN:
            shown, _, where = what.partition("|")
            yield f"SELECT {shown} FROM {source}" + (f" WHERE {where}" if where else "")
        yield f"SELECT x.k AS g, count(*) AS n FROM {source} GROUP BY g"


# -- windows ---------------------------------------------------------------------------------------

FUNCTIONS = (
    "row_number()",
    "rank()",
    "dense_rank()",
    "lag(i)",
    "lead(i, 2)",
    "first_value(i)",
    "last_value(i)",
    "nth_value(i, 2)",
    "sum(i)",
    "count(i)",
    "count(*)",
    "avg(i)",
    "min(i)",
    "max(i)",
    "ntile(2)",
    "median(i)",
    "arg_max(i, r)",
    "sum(i) FILTER (WHERE o)",
    "count(DISTINCT i)",
)
ORDERS = (
    "r",
    "r DESC",
    "i, r",
    "i DESC NULLS FIRST, r",
    "i NULLS FIRST, r DESC",
    "v, r",
    "f, r",
    "d DESC, r",
    "s, r",
    "k NULLS FIRST, r",
)
TIED = ("i", "o", "d", "k DESC", "f")
FRAMES = (
    "",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "ROWS 1 PRECEDING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
    "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
)
PEERS = (
    "rank()",
    "dense_rank()",
    "sum(j)",
    "count(*)",
    "max(j)",
    "min(j)",
    "avg(j)",
    "count(j)",
    "median(j)",
    "arg_min(j, r)",
    "max(j) FILTER (WHERE o)",
)


def _windows() -> Iterator[str]:
    def asked(window: str, where: str = "x > 1") -> str:
        return (
            f"SELECT count(*) AS n, count(x) AS m, countif({where}) AS y FROM "
            f"(SELECT who, {window} AS x FROM e) AS g"
        )

    for n, (function, order) in enumerate(product(FUNCTIONS, ORDERS)):
        ranked = function.endswith("()") or function.startswith(("lag", "lead", "ntile"))
        frame = "" if ranked else " " + FRAMES[n % len(FRAMES)]
        yield asked(f"{function} OVER (PARTITION BY who ORDER BY {order}{frame.rstrip()})")
    for function, order in product(PEERS, TIED):
        yield asked(f"{function} OVER (PARTITION BY who ORDER BY {order})")
    for function in PEERS[2:]:
        yield asked(
            f"{function} OVER (PARTITION BY who ORDER BY i "
            "RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)"
        )
        yield asked(
            f"{function} OVER (PARTITION BY who ORDER BY d "
            "RANGE BETWEEN INTERVAL 40 DAY PRECEDING AND CURRENT ROW)"
        )
        yield asked(f"{function} OVER (PARTITION BY who, k)")
        yield asked(f"{function} OVER (PARTITION BY who, i ORDER BY d)")


# -- sets within a person --------------------------------------------------------------------------

SIDES = (
    "SELECT who, k FROM e",
    "SELECT who, k FROM visits",
    "SELECT who, i FROM e",
    "SELECT who, m FROM visits",
    "SELECT who, k FROM e WHERE i > 0",
    "SELECT who, NULL AS k FROM e",
)
OPERATORS = ("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")


def _sets() -> Iterator[str]:
    for (a, b), operator in product(((0, 1), (2, 3), (1, 0), (0, 4), (4, 1), (0, 5)), OPERATORS):
        inside, column = f"{SIDES[a]} {operator} {SIDES[b]}", "i" if a == 2 else "k"
        shown = f"count(*) AS n, count({column}) AS m, count(DISTINCT who) AS p"
        yield f"SELECT {shown} FROM ({inside}) AS g"
    for x in ("k", "i", "v", "f", "d", "s", "p", "o"):
        once = f"SELECT DISTINCT who, {x} FROM e"
        several = f"SELECT who, {x}, count(*) FROM e GROUP BY who, {x} HAVING count(*) > 1"
        number = f"SELECT who, count(DISTINCT {x}) AS c FROM e GROUP BY who"
        yield f"SELECT count(*) AS n, count({x}) AS m FROM ({once}) AS g"
        yield f"SELECT count(*) AS n FROM ({several}) AS g"
        yield f"SELECT countif(c > 1) AS n, countif(c = 0) AS z FROM ({number}) AS g"


# -- aggregates within a person --------------------------------------------------------------------

INSIDE = (
    "count(*)",
    "count(i)",
    "count(DISTINCT i)",
    "sum(i)",
    "avg(i)",
    "min(i)",
    "max(i)",
    "sum(p)",
    "avg(p)",
    "sum(v)",
    "median(i)",
    "stddev(i)",
    "var_pop(v)",
    "bool_and(o)",
    "bool_or(o)",
    "arg_max(i, r)",
    "arg_min(i, v)",
    "sum(i) FILTER (WHERE o)",
    "count(*) FILTER (WHERE i > 0)",
    "sum(i) FILTER (WHERE i > 100)",
    "max(k)",
    "min(s)",
    "max(d)",
    "min(t)",
    "max(f)",
    "min(f)",
    "max(CASE WHEN o THEN i END)",
    "sum(CASE WHEN o THEN 1 ELSE 0 END)",
    "countif(i > j)",
    "quantile_cont(v, 0.9)",
    "quantile_disc(i, 0.25)",
    "max(i) - min(i)",
    "sum(i) / count(*)",
    "sum(i) / count(i)",
    "coalesce(sum(i), 0)",
    "sum(b // 4096)",
    "max(b)",
    "avg(b)",
    "min(o)",
    "sum(o::INTEGER)",
    "max(who)",
    "arg_max(i, r) FILTER (WHERE o)",
    "first(i ORDER BY r)",
    "sum(who - 700)",
)


def _inside() -> Iterator[str]:
    for n, aggregate in enumerate(INSIDE):
        inner = f"(SELECT who, {aggregate} AS x FROM e{{}} GROUP BY who{{}}) AS g"
        some = inner.format(" WHERE i IS NULL OR i > 2", "")
        known = inner.format("", f" HAVING {aggregate} IS NOT NULL")
        yield f"SELECT count(*) AS n, count(x) AS m FROM {inner.format('', '')}"
        yield f"SELECT count(*) AS n FROM {some} WHERE x IS NULL"
        yield f"SELECT count(*) AS n, count(DISTINCT who) AS p FROM {known}"
        if n % 2:
            missing = f"SELECT who FROM e GROUP BY who HAVING {aggregate} IS NULL"
            yield f"SELECT count(*) AS n FROM e WHERE e.who IN ({missing})"
        later = " AND o.r > e.r" if n % 5 == 0 else ""
        if aggregate.startswith("count"):
            later = " AND o.i = e.j"
        other = f"SELECT {aggregate} FROM e o WHERE o.who = e.who{later}"
        yield f"SELECT count(x) AS n FROM (SELECT e.who, ({other}) AS x FROM e) AS g"


# -- all of them -----------------------------------------------------------------------------------


def traps() -> list[Trap]:
    """Return all traps, each once."""
    found = [("three values", _condition(c, n)) for n, c in enumerate(_logic())]
    found += [("lists and NULL", _condition(c, p)) for n, c in enumerate(LISTS) for p in (n, n + 2)]
    found += _expressions()
    found += [("groups", sql) for sql in _groups()]
    found += [("joins", sql) for sql in _joins()]
    found += [("windows", sql) for sql in _windows()]
    found += [("sets", sql) for sql in _sets()]
    found += [("aggregates inside", sql) for sql in _inside()]
    made = {sql: Trap(family, sql, sql) for family, sql in found}
    made |= {sql: Trap("casts", sql, meant) for sql, meant in _casts()}
    return [*made.values(), *written()]


def written() -> list[Trap]:
    """Return those of traps.sql."""
    family, found = "", []
    for block in (Path(__file__).parent / "traps.sql").read_text().strip().split("\n\n"):
        if block.startswith("-- # "):
            family = block.removeprefix("-- # ").strip()
            continue
        ours, _, theirs = block.partition("\n-- is\n")
        text = "\n".join(line for line in ours.splitlines() if not line.startswith("-- "))
        found.append(Trap(family, text.rstrip(";"), (theirs or text).rstrip(";")))
    return found
