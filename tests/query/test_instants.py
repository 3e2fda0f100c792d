"""What a condition says of times, held against DuckDB's evaluation of it, row by row."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import math
import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from sparseq.errors import QueryRefused
from sparseq.query.catalog import WINDOWS
from sparseq.query.functions import FUNCTIONS, Function
from sparseq.query.instants import (
    DAY,
    UNITS,
    allowed,
    cells,
    fineness,
    first_of,
    month_of,
    places_of,
    read,
    step_of,
)
from sparseq.query.parse import Dialect
from sparseq.query.spans import Spans, Texts, Values, common, in_order, place_of, union
from sparseq.query.terms import Term
from sparseq.query.typed import ExpressionReader
from sparseq.query.types import DATE, INT64, TIMESTAMP, Family, Type
from sparseq.query.windows import is_window_apart

EXACT = {
    "year", "isoyear", "last_day", "epoch", "isfinite", "-", "+",
    *(f"date_trunc {unit}" for unit in UNITS),
    *(f"date_diff {unit}" for unit in UNITS if unit != "week"),
    *(f"{sign} {unit}" for sign in "+-" for unit in UNITS),
}  # fmt: skip
"""Functions of times that never fall or never rise: sets have an inverse."""
NOT_KNOWN = {
    "month", "day", "quarter", "week", "dow", "isodow", "doy", "hour", "minute", "second",
    "strftime", "dayname", "monthname", "date_diff week",
    *(f"date_sub {unit}" for unit in UNITS),
}  # fmt: skip
"""The others: whatever is said of them, every time may pass."""
COLUMNS = {
    "d": Term(DATE, '"d"', column="d"),
    "s": Term(TIMESTAMP, '"s"', column="s"),
    "k": Term(Type(Family.INTEGER, -(2**31), 2**31 - 1, stored="INTEGER"), '"k"', column="k"),
}
YEARS = (1, 2, 4, 100, 1582, 1900, 1969, 1970, 1972, 2000, 2023, 2024, 2025, 2262, 9998, 9999)
SIMPLE: list[str] = ["{0}", "CAST({0} AS DATE)", "CAST({0} AS TIMESTAMP)", *(
    f"time_bucket(INTERVAL '{number} {unit}', {{0}})"
    for number in (1, 3, 7, 1000) for unit in ("year", "quarter", "month", "week", "day", "hour")
)]  # fmt: skip


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
    con = duckdb.connect()
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
    return bool({Family.DATE, Family.TIMESTAMP} & set(f.takes))


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


def moment(draw: random.Random) -> str:
    """A constant time: of some type, often the start of something."""
    year, month = draw.choice(YEARS), draw.choice([1, 1, 4, 7, draw.randint(1, 12)])
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
            [f"({a} AND {b})", f"({a} OR {b})", f"(NOT {a})", f"({a} IS TRUE)", f"({a} IS NULL)",
             f"({a} IS FALSE)", f"(NOT ({a} AND {b}))", f"({a} AND NULL)", f"({a} OR k > 1)",
             f"({a} AND k > 1)", f"(({a}) = true)", f"(({a}) IS DISTINCT FROM false)"]
        )  # fmt: skip
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
        + [f"({text} BETWEEN {a} AND {b})", f"({text} NOT BETWEEN {a} AND {b})",
           f"({text} IN ({a}, {b}, {c}))", f"({text} NOT IN ({a}, {b}))", f"({text} IS NULL)",
           f"({text} IS NOT NULL)", f"({text} IS DISTINCT FROM {a})",
           f"({a} BETWEEN {text} AND {b})", f"({text} IS NOT DISTINCT FROM {a})",
            f"({text} BETWEEN s AND {b})"]
    )  # fmt: skip


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


@pytest.mark.parametrize(
    "f", list(filter(of_time, FUNCTIONS)), ids=lambda f: f"{f.name} {f.takes[0]}"
)
def test_each_function_of_a_time_is_exact_or_said_not_to_be_known(f: Function) -> None:
    draw = random.Random(3)
    assert (f.name in EXACT) != (f.name in NOT_KNOWN)
    for column in "ds":
        try:
            found = term(calls(f, draw, lambda column=column: column))  # type: ignore[misc]
        except QueryRefused:
            continue
        known = step_of(found) is not None
        assert known == (f.name in EXACT), found.sql


def place(type: Type, value: Any) -> tuple[Any, bool]:
    found = place_of(type, value)
    assert found is not None
    if isinstance(found.known, Texts):
        return (next(iter(found.known.listed), None), found.null)
    return (found.known.ends[0] if found.known else None, found.null)


def has(held: Values, at: tuple[Any, bool]) -> bool:
    value, null = at
    if null:
        return held.null
    if isinstance(held.known, Texts):
        return (value in held.known.listed) != held.known.but
    return value in held.known


def check(text: str, found: Term, seen: dict[str, int]) -> None:
    reading = read(found)
    seen["exact"] += reading.exact
    seen["said"] += bool(reading.said)
    for said in reading.said.values():
        beyond = said.of.type.is_time and not said.of.type.within(*DATE_ENDS)
        for subject, truth in values(said.of, found):
            if beyond and subject is None:
                continue  # it may be a time that Python does not know
            at = place(said.of.type, subject)
            true, false = has(said.true, at), has(said.false, at)
            if reading.exact:
                assert (true, false) == (truth is True, truth is False), f"{text} at {subject}"
            assert true or truth is not True, f"{text} at {subject}"
            assert false or truth is not False, f"{text} at {subject}"


DATE_ENDS = DATE.low, DATE.high


@pytest.mark.parametrize(
    ("seed", "number"), [(1, 500), pytest.param(2, 8000, marks=pytest.mark.deep)]
)
def test_what_a_condition_says_is_so_on_each_row(seed: int, number: int) -> None:
    """Deep: 8,000 conditions."""
    seen = {"exact": 0, "said": 0}
    for text, found in itertools.islice(conditions(seed), number):
        check(text, found, seen)
    assert seen["exact"] > number / 3, "it is not silent about everything"
    assert seen["said"] > number / 2


@pytest.mark.parametrize(
    ("seed", "number"), [(3, 300), pytest.param(4, 5000, marks=pytest.mark.deep)]
)
def test_keys_and_values_are_those_of_rows(seed: int, number: int) -> None:
    """What a term can be, which stretch of time it keeps, and what decides it."""
    draw, among, seen = random.Random(seed), conditions(seed), dict.fromkeys(("a", "b", "c"), 0)
    for _ in range(number):
        text = expression(draw)
        try:
            key = term(text)
        except QueryRefused:
            continue
        where = [found for _, found in itertools.islice(among, 2)]
        rows = values(key, *COLUMNS.values(), *where)
        names = [column.name for column in columns(text)]
        held = allowed(key, where)
        if held is not None and (not key.type.is_time or key.type.within(*DATE_ENDS)):
            seen["a"] += not has(held, (0, False))
            for value, *_, one, other in rows:
                assert has(held, place(key.type, value)) or not (one and other), text
        for i, column in enumerate(("d", "s")):
            of = COLUMNS[column]
            unit, fine = cells(key, of), fineness(key, of)
            own, same = dict[Any, int](), dict[int, Any]()
            for value, *others in rows:
                if others[i] is None:
                    continue
                at = place(of.type, others[i])[0] * (DAY if column == "d" else 1)
                if unit not in ("", "microsecond") and value is not None:
                    assert own.setdefault(value, UNITS[unit].index(at)) == UNITS[unit].index(at)
                if fine and names == [column]:
                    assert same.setdefault(UNITS[fine].index(at), value) == value, text
            seen["b"] += bool(unit)
            seen["c"] += bool(fine)
    assert min(seen.values()) > number / 20


def columns(text: str) -> list[exp.Column]:
    return list(sqlglot.parse_one(text, dialect=Dialect).find_all(exp.Column))


@pytest.mark.parametrize(
    ("seed", "number"), [(5, 400), pytest.param(6, 6000, marks=pytest.mark.deep)]
)
def test_what_is_told_to_be_one_window_is_one(seed: int, number: int) -> None:
    """By random conditions, of which some span a window, and random keys."""
    draw, told = random.Random(seed), 0
    among = conditions(seed)
    for _ in range(number):
        column, unit = draw.choice("ds"), draw.choice(WINDOWS)
        time = COLUMNS[column]
        where = [found for _, found in itertools.islice(among, draw.randint(0, 2))]
        if draw.random() < 0.7:
            start = f"date_trunc('{unit}', {moment(draw).removeprefix('DATE ')}::TIMESTAMP)"
            start = start.replace("TIMESTAMP '", "'")
            more = draw.choice(["=", "<=", "<", ">="])
            where.append(term(f"{column} >= {start}", truth=True))
            where.append(term(f"date_trunc('{unit}', {column}) {more} {start}", truth=True))
        try:
            keys = [term(expression(draw, 1)) for _ in range(draw.randint(0, 1))]
        except QueryRefused:
            keys = []
        if not is_window_apart(unit, time, where, keys):
            continue
        told += 1
        found: dict[Any, int] = {}
        for at, *rest in values(time, *keys, *where):
            group = tuple(rest[: len(keys)])
            if at is None or None in group or not all(rest[len(keys) :]):
                continue
            instant = place(time.type, at)[0] * (DAY if column == "d" else 1)
            index = UNITS[unit].index(instant)
            assert found.setdefault(group, index) == index, [w.sql for w in where]
    assert told > number / 10


def test_the_calendar_is_pythons_and_has_no_end() -> None:
    for year in (1, 4, 100, 400, 1970, 2000, 2024, 9999):
        for month in range(1, 13):
            day = (dt.date(year, month, 1) - dt.date(1970, 1, 1)).days
            assert first_of(12 * year + month - 1) == day
            assert month_of(day) == 12 * year + month - 1 == month_of(day - 1) + 1
    for month in (-(10**9), -1, 0, 10**9):
        assert month_of(first_of(month)) == month == month_of(first_of(month + 1) - 1)


def test_sets_are_those_of_their_places() -> None:
    draw = random.Random(1)

    def some() -> tuple[Values, set[int | None]]:
        spans = [(a, a + draw.randrange(4)) for a in draw.sample(range(-9, 9), draw.randrange(4))]
        held = {x for a, b in spans for x in range(a, b + 1)} & set(range(-9, 10))
        null = draw.random() < 0.5
        both: set[int | None] = {*held, *([None] if null else [])}
        return Values(Spans.of(spans).both(Spans.of([(-9, 9)])), null), both

    everything: set[int | None] = {None, *range(-9, 10)}
    for _ in range(2000):
        (a, x), (b, y) = some(), some()
        for found, held in (
            (a.both(b), x & y), (a.either(b), x | y), (a.others(), everything - x),
            (union([a, b]), x | y), (common([a, b]), x & y),
        ):  # fmt: skip
            assert isinstance(found.known, Spans)
            places = {p for p in range(-9, 10) if p in found.known}
            assert places | ({None} if found.null else set()) == held
            assert Spans.of(found.known.spans) == found.known
    texts = [Values(Texts(frozenset(t), but)) for t in ("", "a", "ab", "bc") for but in (0, 1)]
    for a, b in itertools.product(texts, texts):
        assert union([a, b]) == a.either(b)
        assert common([a, b]) == a.both(b)
    assert in_order(math.nan) > in_order(math.inf) > in_order(1e308) > INT64[0]
