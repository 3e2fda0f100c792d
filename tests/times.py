"""Random expressions of times, conditions on them, and rows at the edges of all units of time."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import duckdb
import sqlglot

from sparseq.base.errors import QueryRefused
from sparseq.language.calendar import DAY, UNITS, first_of
from sparseq.language.column_id import ColumnId
from sparseq.language.expression_tree import Term
from sparseq.language.functions import FUNCTIONS, Function
from sparseq.language.monotone_functions import places_of
from sparseq.language.types import DATE, TIMESTAMP, Family, Type
from sparseq.question.catalog import WINDOWS
from sparseq.sql.bind_expressions import ExpressionReader
from sparseq.sql.parse import Dialect

COLUMNS = {
    "d": Term(DATE, '"d"', column=ColumnId("e", "d")),
    "s": Term(TIMESTAMP, '"s"', column=ColumnId("e", "s")),
    "k": Term(
        Type(Family.INTEGER, -(2**31), 2**31 - 1, stored="INTEGER"),
        '"k"',
        column=ColumnId("e", "k"),
    ),
}
YEARS = (1, 2, 4, 100, 1582, 1900, 1969, 1970, 1972, 2000, 2023, 2024, 2025, 2262, 9998, 9999)
SIMPLE: list[str] = [
    "{0}",
    "CAST({0} AS DATE)",
    "CAST({0} AS TIMESTAMP)",
    *(
        f"time_bucket(INTERVAL '{number} {unit}', {{0}})"
        for number in (1, 3, 7, 1000)
        for unit in ("year", "quarter", "month", "week", "day", "hour")
    ),
]


def exact() -> duckdb.DuckDBPyConnection:
    """DuckDB without the rule by which date_trunc('hour', day) = TIMESTAMP '…' is never true."""
    con = duckdb.connect()
    con.execute("SET disabled_optimizers = 'expression_rewriter'")
    return con


@cache
def database() -> duckdb.DuckDBPyConnection:
    """Times at both sides of the starts of years, quarters, months, weeks, days and hours."""
    draw, at = random.Random(1), set[int]()
    for year in YEARS:
        month = 12 * year + draw.randrange(12)
        for start in (12 * year, 12 * year + 3, month, month + 1):
            at |= {first_of(start) * DAY + by for by in (-DAY, -1, 0, 1, DAY // 24, DAY)}
        for unit in UNITS.values():
            index = unit.index(first_of(month) * DAY + draw.randrange(25 * DAY))
            at |= {unit.start(index) + by for by in (-1, 0, 1)}
    low, high = places_of(TIMESTAMP)
    at |= {low, high, *(draw.randrange(low, high) for _ in range(40))}
    rows = [(a // DAY, a, draw.choice([0, 1, 5, 2024, None])) for a in at if low <= a <= high]
    rows += [(None, None, 1), (0, None, 2), (None, 0, None)]
    con = exact()
    con.execute("CREATE TABLE given (d INTEGER, s BIGINT, k INTEGER)")
    con.executemany("INSERT INTO given VALUES (?, ?, ?)", rows)
    con.execute(
        "CREATE TABLE rows AS SELECT DATE '1970-01-01' + d AS d, make_timestamp(s) AS s, k "
        "FROM given"
    )
    return con


def values(*terms: Term) -> list[tuple[Any, ...]]:
    """Terms on all rows, NULL where Python has no such time."""
    listed = ", ".join(
        f"CASE WHEN {t.sql} BETWEEN '0001-01-01' AND '9999-12-31 23:59:59.999999' THEN {t.sql} END"
        if t.type.is_time
        else t.sql
        for t in terms
    )
    return database().execute(f"SELECT {listed} FROM rows").fetchall()


READER = ExpressionReader(
    lambda column: COLUMNS[column.name],
    lambda sql: database().execute(f"SELECT {sql}").fetchone()[0],  # type: ignore[index]
)


def term(sql: str, truth: bool = False) -> Term:
    parsed = sqlglot.parse_one(sql, dialect=Dialect)
    return READER.truth(parsed) if truth else READER.read(parsed)


def of_time(f: Function) -> bool:
    return bool({Family.DATE, Family.TIMESTAMP} & set(f.takes)) and Family.LIST not in f.takes


def calls(f: Function, draw: random.Random, time: Callable[[], str]) -> str:
    """A call of a function with a time in one place, and constants in the others."""
    kinds = (Family.DATE, Family.TIMESTAMP)
    place = draw.choice([i for i, family in enumerate(f.takes) if family in kinds])
    arguments = []
    for i, family in enumerate(f.takes):
        if i == place:
            arguments.append(time())
        elif family in kinds:
            arguments.append(draw.choice([moment(draw), moment(draw), "NULL"]))
        elif family is Family.TEXT:
            arguments.append(draw.choice(f.samples)[0])
        else:
            few = [0, 1, -1, 2, 7, 30, -40, 400, 9999, 10**6, 10**10, 10**11 - 1, 10**12]
            arguments.append(draw.choice([*map(str, few), "NULL"]))
    return f.form.format(*arguments)


def moment(draw: random.Random, years: Sequence[int] = YEARS) -> str:
    """A constant time: of some type, often the start of something."""
    year, month = draw.choice(years), draw.choice([1, 1, 4, 7, draw.randint(1, 12)])
    day = draw.choice([1, 1, 1, 15, 28, draw.randint(1, 28)])
    date = f"{year:04}-{month:02}-{day:02}"
    clock = draw.choice(["00:00:00", "00:00:00", "12:30:00", "23:59:59.999999", "00:00:00.000001"])
    return draw.choice([f"DATE '{date}'", f"TIMESTAMP '{date} {clock}'", f"'{date}'"])


def expression(draw: random.Random, depth: int = 2) -> str:
    """A function of a time, of a function of a time …"""
    if depth == 0 or draw.random() < 0.15:
        return draw.choice("ds")
    if draw.random() < 0.4:
        return draw.choice(SIMPLE).format(expression(draw, depth - 1))
    f = draw.choice([f for f in FUNCTIONS if of_time(f)])
    return calls(f, draw, lambda: expression(draw, depth - 1))


def constant(draw: random.Random, near: Term, found: list[Any]) -> str:
    """A constant to compare a term with: often a value that it has, or one beside it."""
    value = draw.choice(found)
    if draw.random() < 0.06:
        return "NULL"
    if isinstance(value, bool) or near.type.family is Family.BOOLEAN:
        return draw.choice(["true", "false"])
    if isinstance(value, dt.datetime):
        by = dt.timedelta(microseconds=draw.choice([0, 0, 1, -1]))
        with_it = value + by if 1 < value.year < 9999 else value
        return draw.choice([f"TIMESTAMP '{with_it.isoformat(' ')}'", moment(draw)])
    if isinstance(value, dt.date):
        return draw.choice([f"DATE '{value}'", f"TIMESTAMP '{value} 12:00:00'", moment(draw)])
    if isinstance(value, (int, float, decimal.Decimal)):
        number = draw.choice([value, value, float(value) + draw.choice([0.4, -0.5, 1.0])])
        far = ["CAST('nan' AS DOUBLE)", "CAST('inf' AS DOUBLE)", "CAST('-inf' AS DOUBLE)", "1e300"]
        return draw.choice([str(number)] * 9 + far) if math.isfinite(number) else "0"
    return "'" + str(value).replace("'", "''") + "'"


def condition(draw: random.Random, depth: int = 2) -> str:
    """A condition on times."""
    if depth and draw.random() < 0.55:
        a, b = condition(draw, depth - 1), condition(draw, depth - 1)
        return draw.choice(
            [
                f"({a} AND {b})",
                f"({a} OR {b})",
                f"(NOT {a})",
                f"({a} IS TRUE)",
                f"({a} IS NULL)",
                f"({a} IS FALSE)",
                f"(NOT ({a} AND {b}))",
                f"({a} AND NULL)",
                f"({a} OR k > 1)",
                f"({a} AND k > 1)",
                f"(({a}) = true)",
                f"(({a}) IS DISTINCT FROM false)",
            ]
        )
    text = expression(draw)
    try:
        near = term(text)
    except QueryRefused:
        return condition(draw, 0)
    if draw.random() < 0.2 and near.type.family is Family.INTEGER:
        kind = draw.choice(["DOUBLE", "DECIMAL(9, 2)", "TINYINT", "FLOAT", "DECIMAL(4, 3)"])
        text = f"CAST({text} AS {kind})"
    held = [v for (v,) in values(near) if v is not None] or [0]
    a, b, c = (constant(draw, near, held) for _ in range(3))
    op = draw.choice(["=", "<>", "<", "<=", ">", ">=", "<", ">="])
    return draw.choice(
        [f"({text} {op} {a})"] * 4
        + [f"({a} {op} {text})"] * 2
        + [
            f"({text} BETWEEN {a} AND {b})",
            f"({text} NOT BETWEEN {a} AND {b})",
            f"({text} IN ({a}, {b}, {c}))",
            f"({text} NOT IN ({a}, {b}))",
            f"({text} IS NULL)",
            f"({text} IS NOT NULL)",
            f"({text} IS DISTINCT FROM {a})",
            f"({a} BETWEEN {text} AND {b})",
            f"({text} IS NOT DISTINCT FROM {a})",
            f"({text} BETWEEN s AND {b})",
        ]
    )


def conditions(seed: int) -> Iterator[tuple[str, Term]]:
    draw = random.Random(seed)
    while True:
        text = condition(draw)
        try:
            found = term(text, truth=True)
        except QueryRefused:
            continue
        if not found.constant:
            yield text, found


def one_window(
    draw: random.Random, column: str, unit: str, years: Sequence[int] = YEARS
) -> list[str]:
    """Conditions that often let pass one window alone, and seem to where they do not."""
    date = moment(draw, years).split(" ", 1)[-1][:11] + "'"
    start, days = f"CAST({date} AS DATE)", draw.choice([1, 1, 6, 20, 40])
    low = draw.choice([start, start, f"date_trunc('{unit}', {start})"])
    high = f"{low} + INTERVAL {days} DAY"
    cut = draw.choice([*WINDOWS, "year", "year", "quarter", "quarter"])
    of = draw.choice(["{0}", "CAST({0} AS DATE)", *[f"date_trunc('{cut}', {{0}})"] * 4])
    upper = f"{of.format(column)} {draw.choice(['<', '<='])} {high}"
    year = f"year({column}) < {int(date[1:5])}.4"
    return [f"{column} >= {low}", draw.choice([upper, upper, upper, year])]
