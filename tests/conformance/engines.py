"""Every promise of `sparseq.engine.protocol.Engine`, once: each check is given a `Maker`.

What people contribute is written down here again for each question, row by row in Python.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pytest

from sparseq.base.errors import QueryRefused
from sparseq.engine.contributions import Contributions
from sparseq.engine.protocol import USER, Engine
from sparseq.engine.weighted_reduction import Weights
from sparseq.question.catalog import Table
from sparseq.question.plan import Options, Plan

PEOPLE = 25
Row = dict[str, Any]
Value = Callable[[Row], Any]


class Maker(Protocol):
    """Makes an engine over rows of `visits`: who, day, kind, x."""

    def engine(self, rows: list[Row]) -> Engine:
        """Return an engine; its people are numbered by their names, 0, 1, …"""

    def plan(self, sql: str, options: Options) -> Plan:
        """Return the plan of a question."""

    def add(self, rows: list[Row]) -> None:
        """Add rows by people who are known."""

    def table(self) -> Table:
        """Return what the catalogue says of `visits`."""


def some_rows(seed: int = 1) -> list[Row]:
    """Everybody has a row; some have many, and values that are odd."""
    draw = random.Random(seed)
    odd = [None, math.inf, -math.inf, math.nan, -0.0, 1e300, 0.1, 2.5, -3.0]
    whose = [*range(PEOPLE), *(draw.randrange(5) for _ in range(60))]
    return [
        {
            "who": who,
            "day": draw.choice([*range(6), None]),
            "kind": draw.choice(["a", "b", "c", None]),
            "x": draw.choice([*odd, draw.uniform(-4, 9)]),
        }
        for who in whose
    ]


KINDS, DAYS = ("a", "b", None), (0, 1, 2, 3, None)
QUESTIONS: list[tuple[str, Callable[[Row], int | None], list[tuple[str, Value]]]] = [
    ("SELECT count(*) AS n FROM visits", lambda r: 0, [("rows", lambda r: 1)]),
    ("SELECT count(DISTINCT who) AS n FROM visits", lambda r: 0, [("users", lambda r: 1)]),
    (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 10) kind, sum(x) AS s FROM visits "
        "GROUP BY kind",
        lambda r: KINDS.index(r["kind"]) if r["kind"] in KINDS else None,
        [("sum", lambda r: r["x"])],
    ),
    (
        "SELECT day, count(DISTINCT who) AS n, count(*) AS m FROM visits WHERE x > 1 GROUP BY day",
        lambda r: DAYS.index(r["day"]) if r["day"] in DAYS and _above(r["x"], 1) else None,
        [("users", lambda r: 1), ("rows", lambda r: 1)],
    ),
    (
        "SELECT count(*) AS n FROM visits WHERE day = 3 AND x <= 2.5",
        lambda r: 0 if r["day"] == 3 and r["x"] is not None and r["x"] <= 2.5 else None,
        [("rows", lambda r: 1)],
    ),
]
SELF_JOIN = "SELECT count(*) AS n FROM visits AS a JOIN visits AS b USING (who)"


def _above(x: float | None, low: float) -> bool:
    return x is not None and (x > low or math.isnan(x))  # in SQL, NaN is above every number


def expected(
    rows: list[Row], cell: Callable[[Row], int | None], kind: str, value: Value, step: float
) -> dict[int, dict[int, int]]:
    """Each person's vector on the lattice, from raw rows."""
    found: dict[int, dict[int, int]] = {}
    for row in rows:
        at = cell(row)
        if at is None:
            continue
        one = found.setdefault(row["who"], {})
        if kind == "users":
            one[at] = round(1 / step)
        elif kind == "rows":
            one[at] = one.get(at, 0) + round(1 / step)
        else:
            x = value(row)
            finite = x is not None and math.isfinite(x)
            steps = round(Fraction(x) / Fraction(step)) if finite else 0
            one[at] = one.get(at, 0) + max(min(steps, 2**31 - 1), 1 - 2**31)
    return found


def answered(maker: Maker, rows: list[Row]) -> list[tuple[Any, Plan, Contributions]]:
    """All questions that an engine can answer, with what it says of them."""
    engine = maker.engine(rows)
    found = []
    for question in QUESTIONS:
        plan = maker.plan(question[0], Options())
        assert engine.lacks(plan) == ""
        found.append((question, plan, engine.contributions(plan, PEOPLE)))
    return found


def tame(rows: list[Row]) -> list[Row]:
    """The rows without what no budget could pay."""
    return [r for r in rows if r["x"] is None or not 1e9 < abs(r["x"]) < math.inf]


def norms_and_sums_are_those_of_the_rows(maker: Maker) -> None:
    rows = tame(some_rows())
    for (_, cell, measures), plan, found in answered(maker, rows):
        for (kind, value), noise, measure in zip(measures, plan.noise, found.measures, strict=True):
            people = expected(rows, cell, kind, value, noise.granularity)
            norms = dict(zip(measure.users.tolist(), measure.norms.tolist(), strict=True))
            assert {u: n for u, n in norms.items() if n} == {
                u: sum(v * v for v in one.values())
                for u, one in people.items()
                if any(one.values())
            }
            totals = [0] * len(measure.totals)
            for one in people.values():
                for at, steps in one.items():
                    totals[at] += steps
            assert measure.totals.tolist() == totals


def cells_are_those_of_the_rows(maker: Maker) -> None:
    rows = tame(some_rows(11))
    engine = maker.engine(rows)
    for sql, cell, measures in QUESTIONS:
        plan = maker.plan(sql, Options())
        if len(measures) > 1:
            continue
        ((kind, value),) = measures
        people = expected(rows, cell, kind, value, plan.noise[0].granularity)
        found = engine.cells(plan, PEOPLE)
        parts = (found.users.tolist(), found.coordinates.tolist(), found.values.tolist())
        assert list(zip(*parts, strict=True)) == [
            (who, at, steps)
            for who, one in sorted(people.items())
            for at, steps in sorted(one.items())
            if steps
        ]


def people_are_in_order_and_once(maker: Maker) -> None:
    for _, _, found in answered(maker, some_rows(2)):
        for measure in found.measures:
            assert measure.users.dtype == np.int32
            assert np.all(np.diff(measure.users) > 0)
            assert measure.norms.dtype == measure.totals.dtype == np.int64
            assert np.all(measure.norms >= 0)


def without_somebody_is_as_if_they_had_no_rows(maker: Maker) -> None:
    rows = tame(some_rows(3))
    gone = np.array([0, 3, PEOPLE - 1], np.int32)
    less = [r for r in rows if r["who"] not in gone.tolist()]
    for (_, cell, measures), plan, found in answered(maker, rows):
        assert [t.tolist() for t in found.without(gone[:0])] == [
            m.totals.tolist() for m in found.measures
        ]
        for (kind, value), noise, total in zip(
            measures, plan.noise, found.without(gone), strict=True
        ):
            sums = [0] * len(total)
            for one in expected(less, cell, kind, value, noise.granularity).values():
                for at, steps in one.items():
                    sums[at] += steps
            assert total.tolist() == sums


def a_person_contributes_the_same_alone_and_in_the_crowd(maker: Maker) -> None:
    rows = tame(some_rows(4))
    crowd = answered(maker, rows)
    for who in (0, 4, 20):
        alone = answered(maker, [r for r in rows if r["who"] == who])
        for (_, _, many), (_, _, one) in zip(crowd, alone, strict=True):
            for all_, own in zip(many.measures, one.measures, strict=True):
                theirs = all_.norms[all_.users == who].tolist()
                assert own.norms[own.users == who].tolist() == theirs
                assert not own.norms[own.users != who].any()
            weights = some_weights(who, len(one.measures))
            nothing = np.where(weights.users == who, 0, weights.mantissa)
            without = replace(weights, mantissa=nothing)
            for with_, less, alone_ in zip(
                many.weighted(weights), many.weighted(without), one.weighted(weights), strict=True
            ):
                if who in weights.users:
                    assert (with_ - less).tolist() == alone_.tolist()


def some_weights(seed: int, measures: int) -> Weights:
    """Of some people: 1, nothing, and all between; lattices that keep all bits, and that don't."""
    draw = random.Random(seed)
    users = sorted(draw.sample(range(PEOPLE), 15))
    odd = [(2**15, 15), (0, 16), (2**16 - 1, 16), (2**15, 40)]
    parts = [
        draw.choice([*odd, *[(draw.randrange(2**15, 2**16), draw.randrange(16, 30))] * 4])
        for _ in users
    ]
    mantissa, exponent = np.array(parts, np.int64).T
    shifts = tuple(draw.choice([0, 2, 9, 24]) for _ in range(measures))
    return Weights(np.array(users, np.int32), mantissa, exponent, shifts)


def sums_under_weights_are_cut_towards_zero_cell_by_cell(maker: Maker) -> None:
    """After a person's rows in a cell were added up; whoever has no weight counts wholly."""
    rows = tame(some_rows(10))
    for (_, cell, measures), plan, found in answered(maker, rows):
        for seed in range(6):
            weights = some_weights(seed, len(measures))
            parts = zip(weights.mantissa.tolist(), weights.exponent.tolist(), strict=True)
            of = dict(zip(weights.users.tolist(), parts, strict=True))
            for (kind, value), noise, shift, total in zip(
                measures, plan.noise, weights.shifts, found.weighted(weights), strict=True
            ):
                sums = [0] * len(total)
                for user, one in expected(rows, cell, kind, value, noise.granularity).items():
                    mantissa, exponent = of.get(user, (1, 0))
                    for at, steps in one.items():
                        exact = Fraction(mantissa * abs(steps) * 2**shift, 2**exponent)
                        sums[at] += math.floor(exact) * (1 if steps > 0 else -1)
                assert total.tolist() == sums


def nobody_weighted_is_everybody(maker: Maker) -> None:
    rows = tame(some_rows(11))
    for _, _, found in answered(maker, rows):
        none = np.zeros(0, np.int64)
        shifts = tuple(range(len(found.measures)))
        whole = found.weighted(Weights(none.astype(np.int32), none, none, shifts))
        for total, measure, shift in zip(whole, found.measures, shifts, strict=True):
            assert total.tolist() == (measure.totals << shift).tolist()


def reading_ahead_changes_nothing(maker: Maker) -> None:
    rows = tame(some_rows(5))
    engine = maker.engine(rows)
    days = "SELECT count(DISTINCT who) AS n FROM visits WHERE day = {}"
    plans = [maker.plan(days.format(day), Options()) for day in range(6)]
    before = [engine.contributions(p, PEOPLE).measures[0].totals.tolist() for p in plans]
    engine.read_ahead(plans)
    assert [engine.contributions(p, PEOPLE).measures[0].totals.tolist() for p in plans] == before


def rows_that_come_count_from_then_on(maker: Maker) -> None:
    rows = tame(some_rows(6))
    engine = maker.engine(rows)
    plan = maker.plan(QUESTIONS[0][0], Options())
    assert engine.contributions(plan, PEOPLE).measures[0].totals.tolist() == [len(rows)]
    maker.add([{"who": 1, "day": 2, "kind": "a", "x": 1.0}])
    engine.rows_arrived()
    assert engine.contributions(plan, PEOPLE).measures[0].totals.tolist() == [len(rows) + 1]


def what_can_not_be_evaluated_is_said(maker: Maker) -> None:
    engine = maker.engine(some_rows(7))
    plan = maker.plan(SELF_JOIN, Options(scale=100))
    if engine.lacks(plan):
        with pytest.raises(QueryRefused):
            engine.contributions(plan, PEOPLE)
    else:
        engine.contributions(plan, PEOPLE)


def nothing_is_raised_and_failures_are_told_once(maker: Maker) -> None:
    engine = maker.engine(some_rows(8))
    for sql, _, _ in QUESTIONS:
        for measure in engine.contributions(maker.plan(sql, Options()), PEOPLE).measures:
            assert len(measure.users) <= PEOPLE
    assert engine.take_failures() == []


def rows_are_read_in_order_of_person(maker: Maker) -> None:
    rows = some_rows(9)
    engine = maker.engine(rows)

    def made(batches: Iterable[pa.RecordBatch]) -> list[tuple[int, int, str | None]]:
        found = [(r[USER], r["day"], r["kind"]) for batch in batches for r in batch.to_pylist()]
        if any(who in (3, 7) for who, _, _ in found):
            raise ValueError("an odd row")
        return found

    parts = list(engine.by_people(maker.table(), ["day", "kind"], made, PEOPLE))
    whose = [row[0] for part in parts for row in part]
    assert whose == sorted(whose)
    read = Counter(row for part in parts for row in part)
    assert read == Counter((r["who"], r["day"], r["kind"]) for r in rows if r["who"] not in (3, 7))
    assert sorted(f.user for f in engine.take_failures()) == [3, 7]
    assert engine.take_failures() == []


CHECKS: list[Callable[[Maker], None]] = [
    norms_and_sums_are_those_of_the_rows,
    cells_are_those_of_the_rows,
    people_are_in_order_and_once,
    without_somebody_is_as_if_they_had_no_rows,
    a_person_contributes_the_same_alone_and_in_the_crowd,
    sums_under_weights_are_cut_towards_zero_cell_by_cell,
    nobody_weighted_is_everybody,
    reading_ahead_changes_nothing,
    rows_that_come_count_from_then_on,
    what_can_not_be_evaluated_is_said,
    rows_are_read_in_order_of_person,
    nothing_is_raised_and_failures_are_told_once,
]
