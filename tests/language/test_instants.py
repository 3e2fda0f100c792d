"""What a condition says of times, held against DuckDB's evaluation of it, row by row."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import math
import random
from typing import Any

import pytest
import sqlglot
from sampled import one_in
from sqlglot import exp
from times import COLUMNS, calls, conditions, expression, of_time, one_window, term, values

from sparseq.base.errors import QueryRefused
from sparseq.language.calendar import DAY, UNITS, first_of, month_of
from sparseq.language.conditions import read, values_of_any
from sparseq.language.expression_tree import Term
from sparseq.language.functions import FUNCTIONS, Function
from sparseq.language.monotone_functions import step_of
from sparseq.language.time_stretches import cells, fineness
from sparseq.language.types import DATE, INT64, Type
from sparseq.language.value_sets import Spans, Texts, Values, common, in_order, place_of, union
from sparseq.question.catalog import WINDOWS
from sparseq.sql.account_windows import is_window_apart
from sparseq.sql.parse import Dialect

EXACT = {
    "year",
    "isoyear",
    "last_day",
    "epoch",
    "isfinite",
    "-",
    "+",
    *(f"date_trunc {unit}" for unit in UNITS),
    *(f"date_diff {unit}" for unit in UNITS if unit != "week"),
    *(f"{sign} {unit}" for sign in "+-" for unit in UNITS),
}
"""Functions of times that never fall or never rise: sets have an inverse."""
NOT_KNOWN = {
    "month",
    "day",
    "quarter",
    "week",
    "dow",
    "isodow",
    "doy",
    "hour",
    "minute",
    "second",
    "strftime",
    "timezone",
    "dayname",
    "monthname",
    "decade",
    "century",
    "millennium",
    "yearweek",
    "epoch_ms",
    "epoch_us",
    "age year",
    "age month",
    "age day",
    "- epoch",
    "date_diff week",
    *(f"date_sub {unit}" for unit in UNITS),
}
"""The others: whatever is said of them, every time may pass."""


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


@pytest.mark.parametrize("part", ["extract(day FROM {} - {})", "epoch({} - {})"])
def test_a_distance_from_a_written_moment_is_no_shift(part: str) -> None:
    """They have names of intervals: taken for one, the condition let no time pass."""
    for sides in (("s", "TIMESTAMP '1970-01-01'"), ("DATE '1970-01-01'", "s")):
        assert '"s"' not in read(term(f"{part.format(*sides)} >= -5")).said


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


@pytest.mark.parametrize(("seed", "number"), one_in(3, [(1, 150), (1, 500), (2, 8000)]))
def test_what_a_condition_says_is_so_on_each_row(seed: int, number: int) -> None:
    """Deep: 8,000 conditions."""
    seen = {"exact": 0, "said": 0}
    for text, found in itertools.islice(conditions(seed), number):
        check(text, found, seen)
    assert seen["exact"] > number / 3, "it is not silent about everything"
    assert seen["said"] > number / 2


@pytest.mark.parametrize(("seed", "number"), one_in(2, [(3, 120), (4, 5000)]))
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
        held = values_of_any(key, where)
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
    assert min(seen.values()) >= number / 20


def columns(text: str) -> list[exp.Column]:
    return list(sqlglot.parse_one(text, dialect=Dialect).find_all(exp.Column))


@pytest.mark.parametrize(("seed", "number"), one_in(3, [(5, 80), (5, 200), (6, 6000)]))
def test_what_is_told_to_be_one_window_is_one(seed: int, number: int) -> None:
    """By random conditions, of which some span a window, and random keys."""
    draw, told = random.Random(seed), 0
    among = conditions(seed)
    for _ in range(number):
        column, unit = draw.choice("ds"), draw.choice(WINDOWS)
        time = COLUMNS[column]
        where = [found for _, found in itertools.islice(among, draw.randint(0, 2))]
        keys = []
        with contextlib.suppress(QueryRefused):  # a constant after the last day
            if draw.random() < 0.7:
                where += [term(text, truth=True) for text in one_window(draw, column, unit)]
            keys = [term(expression(draw, 1)) for _ in range(draw.randint(0, 1))]
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
            (a.both(b), x & y),
            (a.either(b), x | y),
            (a.others(), everything - x),
            (union([a, b]), x | y),
            (common([a, b]), x & y),
        ):
            assert isinstance(found.known, Spans)
            places = {p for p in range(-9, 10) if p in found.known}
            assert places | ({None} if found.null else set()) == held
            assert Spans.of(found.known.spans) == found.known
    texts = [Values(Texts(frozenset(t), but)) for t in ("", "a", "ab", "bc") for but in (0, 1)]
    for a, b in itertools.product(texts, texts):
        assert union([a, b]) == a.either(b)
        assert common([a, b]) == a.both(b)
    assert in_order(math.nan) > in_order(math.inf) > in_order(1e308) > INT64[0]
