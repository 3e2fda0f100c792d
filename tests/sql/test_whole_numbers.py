"""Exact numbers stay exact: whole numbers beyond 2^63 - 1, and decimals of up to 38 digits.

Each question is answered as plain DuckDB answers it on the same rows, or refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest
from differential import Kind, Pair

import sparseq
from sparseq.base.errors import ParameterError
from sparseq.sql.parameters import Value, bound, value_of
from sparseq.sql.polars_expressions import to_sql

MOST = 2**64 - 1
ROWS = 40
WIDE = Decimal("12345678901234567890123456.01")
T = pa.table(
    {
        "who": range(ROWS),
        "h": pa.array([[MOST - i, 2**63 + i, i, None][i % 4] for i in range(ROWS)], pa.uint64()),
        "n": pa.array([[2**63 - 1, -(2**63), 0, i][i % 4] for i in range(ROWS)], pa.int64()),
        "d": pa.array([WIDE + Decimal(i % 4) / 100 for i in range(ROWS)], pa.decimal128(38, 2)),
        "e": pa.array([Decimal(2**64) + i % 4 for i in range(ROWS)], pa.decimal128(38, 0)),
        "f": pa.array([[0.1, 2.0**63, 1e300, None][i % 4] for i in range(ROWS)], pa.float64()),
    }
)
ANSWERED = (
    f"h = {MOST}",
    f"h <> {MOST - 1}",
    f"h < {MOST}",
    "h >= 9223372036854775808",
    f"{MOST} > h",
    f"h IN ({MOST}, 5, {MOST + 1})",
    f"h NOT IN ({MOST - 1}, 6)",
    f"h BETWEEN {2**63} AND {MOST}",
    f"h = '{MOST}'",
    f"h IN ('{MOST}', '2')",
    "h % 2 = 1",
    "h % 4 = 3",
    f"{MOST} % (h + 1) = 0",
    "h // 3 > 3074457345618258605",
    "h + 1 > 18446744073709551615",
    "h + 0 = h",
    "h * 2 > h",
    f"-h = -{MOST}",
    "abs(h) = h",
    "h - n > 0",
    "h > n",
    "n < h",
    "sign(h) = 1",
    "round(h) = h",
    f"coalesce(h, 0) = {MOST}",
    f"greatest(h, n) = {MOST}",
    "least(h, n) < 0",
    "nullif(h, 0) = h",
    f"CASE WHEN n > 0 THEN h ELSE n END = {MOST}",
    f"CAST(h AS VARCHAR) = '{MOST}'",
    f"CAST('{MOST}' AS UBIGINT) = h",
    "h = CAST(h AS DOUBLE)",
    "h / 2 > 1e18",
    "h + 0.5 > h",
    "n < 9223372036854775808",
    "n > -9223372036854775809",
    "n = 9223372036854775807",
    "n >= 9223372036854775807.5",
    f"n IN ({MOST}, 9223372036854775807)",
    "n = 9e18",
    "n + 9223372036854775808 > 9223372036854775808",
    "n % 18446744073709551616 = n",
    "d = 12345678901234567890123456.01",
    "d > 12345678901234567890123456.02",
    "d IN (12345678901234567890123456.01, 5)",
    "d + 0.01 = 12345678901234567890123456.02",
    "d - 12345678901234567890123456 = 0.01",
    "d BETWEEN 1 AND 12345678901234567890123456.02",
    "d = '12345678901234567890123456.01'",
    "d > n",
    "d > h",
    "d > e",
    "d <> e",
    "-d < 0",
    "abs(d) = d",
    "floor(d) = 12345678901234567890123456",
    "round(d, 1) = d",
    "d % 2 = 0.01",
    "e = 18446744073709551616",
    "e > 18446744073709551617",
    "e = h + 1",
    "e % 4 = 1",
    "e > h",
    "f = 9223372036854775808",
    "f > 18446744073709551615",
    "f = 0.1",
    "f < n",
    "f = h",
    "f = 0.1000000000000000055511151231257827021",
    "n < 0.1e19",
    "h > 1e19",
)
REFUSED = (
    "h & 1 = 1",
    "(h | 1) = h",
    "xor(h, 1) = 2",
    "bit_count(h) = 64",
    "h >> 1 > 0",
    "gcd(h, 2) = 1",
    "h * h > 0",
    "round(h, -2) > 0",
    "DATE '2024-01-01' + h > DATE '2024-01-02'",
    f"h = {10**38}",
    "d = 1234567890123456789012345678901234567890.5",
    f"n < {10**40}",
)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with Pair({"t": T}) as made:
        yield made


@pytest.mark.parametrize("condition", ANSWERED)
def test_a_condition_is_duckdbs(pair: Pair, condition: str) -> None:
    outcome = pair.ask(f"SELECT count(*) AS n FROM t WHERE {condition}")
    assert outcome.kind in (Kind.EQUAL, Kind.UNDEFINED), outcome


@pytest.mark.parametrize("condition", REFUSED)
def test_what_would_lose_digits_is_refused(pair: Pair, condition: str) -> None:
    assert pair.ask(f"SELECT count(*) AS n FROM t WHERE {condition}").kind is Kind.REFUSED


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT h, count(*) AS n FROM t WHERE h IN ({MOST}, {MOST - 1}, 2) GROUP BY h ORDER BY h",
        f"SELECT h - 1 AS k, count(*) AS n FROM t WHERE h IN ({MOST}, 2) GROUP BY k",
        f"SELECT h % 4 AS k, count(*) AS n FROM t WHERE h IN ({MOST}, {MOST - 1}) GROUP BY k",
        f"SELECT h, count(*) AS n FROM t WHERE h BETWEEN {MOST - 3} AND {MOST} GROUP BY h",
        "SELECT e, count(*) AS n FROM t WHERE e IN (18446744073709551616, 3) GROUP BY e",
        f"SELECT h, n FROM (SELECT h, count(*) AS n FROM t WHERE h IN ({MOST}, 2) GROUP BY h) "
        f"WHERE h > {2**63}",
        f"SELECT count(*) AS n FROM (SELECT who, max(h) AS m FROM t GROUP BY who) WHERE m = {MOST}",
        f"SELECT count(*) AS n FROM (SELECT who, h + n AS m FROM t WHERE n = 0) WHERE m = {2**63}",
        f"SELECT count(*) AS n FROM (SELECT who, h FROM t UNION ALL SELECT who, n FROM t) "
        f"WHERE h = {MOST} OR h < 0",
        f"SELECT count(*) AS n FROM t a JOIN t b ON a.who = b.who AND a.h = b.h "
        f"WHERE b.h > {2**63}",
        f"SELECT count(*) AS n FROM t WHERE h IN (SELECT h FROM t AS u WHERE u.who = t.who "
        f"AND u.h > {2**63})",
        "SELECT sum(h) / 1e19 AS s FROM t WHERE h > 5",
        "SELECT CASE WHEN h > 9223372036854775807 THEN 'far' ELSE 'near' END AS k, count(*) AS n "
        "FROM t GROUP BY k",
    ],
)
def test_a_question_is_duckdbs(sql: str) -> None:
    with Pair({"t": T}, bounds={"h": (0, MOST)}) as pair:
        outcome = pair.ask(sql)
    assert outcome.kind in (Kind.EQUAL, Kind.REFUSED), outcome


def test_declared_keys_beyond_64_bits_are_groups() -> None:
    with Pair({"t": T}, keys={"h": [MOST, MOST - 1, 2**63 + 1], "e": [Decimal(2**64)]}) as pair:
        for sql in (
            "SELECT h, count(*) AS n FROM t WHERE h > 4 GROUP BY h",
            "SELECT e, count(*) AS n FROM t WHERE e < 18446744073709551617 GROUP BY e",
        ):
            assert pair.ask(sql).kind in (Kind.EQUAL, Kind.NOTED)
        rows = pair.store.sql("SELECT h, count(*) AS n FROM t GROUP BY h").rows()
    assert {row["h"] for row in rows} == {MOST, MOST - 1, 2**63 + 1, None}


@pytest.mark.parametrize(
    ("column", "key"),
    [("h", MOST + 1), ("h", -1), ("h", 2.0**64), ("n", 2**63), ("n", 0.5), ("d", Decimal("0.001"))],
)
def test_a_key_that_a_type_cannot_hold_is_refused_where_it_is_declared(
    column: str, key: object
) -> None:
    with pytest.raises(ParameterError, match=f"keys of {column}"):
        sparseq.create(None, {"t": T}, user="who", keys={column: [key]}, seed=1)


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("h = ?", MOST),
        ("h = ?", Decimal(MOST)),
        ("h = ?", str(MOST)),
        ("h = ?", value_of(str(MOST))),
        ("d = ?", WIDE),
        ("d = ?", value_of(str(WIDE))),
        ("e > ?", Decimal("18446744073709551616E0")),
        ("e < ?", Decimal("1.0000000000000000000001E+22")),
    ],
)
def test_parameters_keep_their_digits(pair: Pair, condition: str, value: Value) -> None:
    outcome = pair.ask(bound(f"SELECT count(*) AS n FROM t WHERE {condition}", [value]))
    assert outcome.kind is Kind.EQUAL, outcome


@pytest.mark.parametrize(
    ("expression", "sql"),
    [
        (pl.col("h") == MOST, f"h = {MOST}"),
        (pl.col("h").is_in([MOST, 2**63]), f"h IN ({MOST}, {2**63})"),
        (pl.col("h").cast(pl.UInt64) % 2 == 1, "CAST(h AS UBIGINT) % 2 = 1"),
        (pl.col("n") < 2**63, f"n < {2**63}"),
        (pl.col("d") == WIDE, f"d = {WIDE}"),
    ],
)
def test_a_condition_of_polars_keeps_its_digits(pair: Pair, expression: pl.Expr, sql: str) -> None:
    ours = f"SELECT count(*) AS n FROM t WHERE {to_sql(expression)}"
    assert pair.ask(ours, f"SELECT count(*) AS n FROM t WHERE {sql}").kind is Kind.EQUAL


def test_rows_that_arrive_later_keep_their_digits() -> None:
    with Pair({"t": T.slice(0, 10)}) as pair:
        pair.store.ingest(T.slice(10), "t")
        pair.plain.register("later", T.slice(10))
        pair.plain.execute("INSERT INTO t SELECT * FROM later")
        for condition in (f"h = {MOST}", "d = 12345678901234567890123456.01"):
            assert pair.ask(f"SELECT count(*) AS n FROM t WHERE {condition}").kind is Kind.EQUAL
