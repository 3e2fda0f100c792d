"""Sessions of questions in SQL, each with the matrix of everybody's contributions.

The constants of a question (days, values) are drawn from the rows, again for each seed. The matrix
is computed in NumPy from the same rows; the truth comes from the same SQL in plain DuckDB.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray

from benchmarks.truth.sets import EventSet

ROWS, SUM, AVG, PEOPLE = "count(*)", "sum(value)", "avg(value)", "count(DISTINCT person)"
RATE = "1.0 * count_if(value > {value!r}) / count(*)"
MOST_ROWS = 1000
WEEKDAY, MONTH, DAY = "dayofweek(day)", "date_trunc('month', day)", "day"


@dataclass(frozen=True)
class Shape:
    """The common form of the questions of a kind.

    Attributes:
        asks: The aggregate.
        by: The grouping keys; empty: a single number.
        days: Number of days; 0: all.
        over: How often it is restricted to rows over a value.
        people: True if it is about a value of each person: rows, cut at MOST_ROWS.
    """

    asks: str
    by: str = ""
    days: int = 0
    over: float = 0.0
    people: bool = False


MIXED = {
    "rows": Shape(ROWS, over=0.5),
    "sum": Shape(SUM, over=0.5),
    "avg": Shape(AVG, over=0.5),
    "rows by weekday": Shape(ROWS, WEEKDAY, over=0.5),
    "sum by weekday": Shape(SUM, WEEKDAY, over=0.5),
    "rows by month": Shape(ROWS, MONTH),
    "people by day": Shape(PEOPLE, DAY, 7),
    "people by month": Shape(PEOPLE, MONTH),
    "people ever": Shape(PEOPLE, over=0.5),
    "people, one day": Shape(PEOPLE, days=1),
    "rows over a value": Shape(ROWS, over=1.0),
    "people over a value": Shape(PEOPLE, over=1.0),
    "sum, one quarter": Shape(SUM, days=90),
    "rows, one month": Shape(ROWS, days=30),
}
EVERY = {
    "rows": Shape(ROWS, over=0.5),
    "sum": Shape(SUM, over=0.5),
    "avg": Shape(AVG, over=0.5),
    "avg by weekday": Shape(AVG, WEEKDAY),
    "rows by weekday": Shape(ROWS, WEEKDAY, over=0.5),
    "sum by weekday": Shape(SUM, WEEKDAY, over=0.5),
    "sum by month": Shape(SUM, MONTH),
    "rows by month": Shape(ROWS, MONTH),
    "count, sum": Shape("count(*) AS n, sum(value)", over=0.5),
    "median": Shape("median(value)", over=0.3),
    "quantile": Shape("quantile(value, 0.9)", over=0.3),
    "stddev": Shape("stddev(value)"),
    "rate": Shape(RATE),
    "people by month": Shape(PEOPLE, MONTH),
    "people ever": Shape(PEOPLE, over=0.5),
    "people, one day": Shape(PEOPLE, days=1),
    "people over a value": Shape(PEOPLE, over=1.0),
    "rows of a person": Shape("avg(n)", people=True, over=0.3),
    "people of many rows": Shape("count(*)", people=True),
    "sum, one quarter": Shape(SUM, days=90),
    "rows, one month": Shape(ROWS, days=30),
}
"""All kinds of questions."""
SOME = {
    "people, one day": Shape(PEOPLE, days=1),
    "people by day": Shape(PEOPLE, DAY, 7),
    "rows by day": Shape(ROWS, DAY, 7),
    "rows, one month": Shape(ROWS, days=30),
    "sum, one month": Shape(SUM, days=30),
    "people, one month": Shape(PEOPLE, days=30),
    "sum, one quarter": Shape(SUM, days=90),
    "rows, one quarter": Shape(ROWS, days=90),
    "avg, one quarter": Shape(AVG, days=90),
}
SAME = {"everybody": Shape(PEOPLE)}
SUMS = {"sum": Shape(SUM, over=0.5), "sum, one quarter": Shape(SUM, days=90)}
GROUPS = {kind: MIXED[kind] for kind in ("rows by weekday", "sum by weekday", "rows by month")}


@dataclass(frozen=True)
class Matrix:
    """Everybody's contributions to a question: private. Values are in rows, or in top values.

    Attributes:
        people, cells, values: One entry of the matrix each.
        coordinates: Number of coordinates of all measures together.
        norms: By person.
        sums: By coordinate.
    """

    people: NDArray[np.int64]
    cells: NDArray[np.int64]
    values: NDArray[np.float64]
    coordinates: int
    norms: NDArray[np.float64]
    sums: NDArray[np.float64]


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        kind: Name of its kind.
        sql: Its text.
        groups: Every group of the answer, as its key is written; one empty group for one number.
        truth: The exact answer, by group.
        unit: Unit of the matrix: 1, or the set's top value.
        matrix: Everybody's contributions.
        linear: True if the truth is the matrix's sums, or the quotient of two of them.
    """

    kind: str
    sql: str
    groups: tuple[str, ...]
    truth: NDArray[np.float64]
    unit: float
    matrix: Matrix
    linear: bool = True

    @property
    def average(self) -> bool:
        """It is the quotient of the matrix's two sums."""
        return self.matrix.coordinates == 2 * len(self.groups)


class Asker:
    """Draws questions about a set, and knows their answers.

    Args:
        events: The set.
    """

    def __init__(self, events: EventSet) -> None:
        self._events = events
        self._person = events.rows["person"].to_numpy().astype(np.int64)
        self._day = events.rows["day"].to_physical().to_numpy().astype(np.int64)
        self._value = events.rows["value"].to_numpy()
        self._plain = duckdb.connect()
        self._plain.register("rows", events.rows.to_arrow())
        self._plain.execute("CREATE TABLE events AS SELECT * FROM rows")

    def session(self, kinds: dict[str, Shape], length: int, seed: int) -> list[Question]:
        """Return questions of all kinds, as often each; those without a row are left out."""
        draw = np.random.default_rng([7, seed])
        names = list(kinds)
        rounds = [draw.permutation(names) for _ in range(length // len(names) + 1)]
        asked = np.concatenate(rounds)[:length].tolist()
        questions = [self.question(name, kinds[name], draw) for name in asked]
        return [q for q in questions if self._events.empty or len(q.matrix.people)]

    def question(self, kind: str, shape: Shape, draw: np.random.Generator) -> Question:
        """Draw one question."""
        where, keep = [], np.ones(len(self._day), bool)
        first = int(self._day[draw.integers(len(self._day))])
        value = round(float(np.quantile(self._value, draw.uniform(0.2, 0.97))), 4)
        back = int(draw.integers(0, 180))
        if draw.random() < shape.over:
            where, keep = [f"value > {value!r}"], self._value > value
        if shape.by == MONTH:
            start = _date(max(first - back, int(self._day.min()))).replace(day=1)
            span = start, start.replace(year=start.year + 1)
        elif shape.days:
            first = max(first - 3, int(self._day.min())) if shape.by == DAY else first
            span = _date(first), _date(first + shape.days)
        else:
            span = None
        if span is not None:
            where += [f"day >= DATE '{span[0]}'", f"day < DATE '{span[1]}'"]
            keep = keep & (self._day >= _number(span[0])) & (self._day < _number(span[1]))
        if self._events.empty:
            where, keep = [*where, f"value > {self._events.top + 1!r}"], np.zeros_like(keep)
        groups, cell = self._cells(shape.by, span)
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        key, by = (f"{shape.by} AS g, ", " GROUP BY g") if shape.by else ("", "")
        asks, source = shape.asks.format(value=value), "events"
        if shape.people:
            least = int(draw.integers(1, 6))
            source = (
                f"(SELECT person, least(count(*), {MOST_ROWS}) AS n FROM events{condition} "
                f"GROUP BY person HAVING count(*) >= {least})"
            )
            condition = ""
        sql = f"SELECT {key}{asks} AS x FROM {source}{condition}{by}"
        unit = self._events.top if shape.asks in (SUM, AVG) else 1.0
        matrix = self._matrix(shape.asks, keep, cell, len(groups))
        linear = shape.asks in (ROWS, SUM, AVG, PEOPLE) and not shape.people
        return Question(kind, sql, groups, self._truth(sql, groups), unit, matrix, linear)

    def _cells(
        self, by: str, span: tuple[dt.date, dt.date] | None
    ) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """Return the groups, and each row's place among them."""
        if by == WEEKDAY:
            return tuple(str(i) for i in range(7)), (self._day + 4) % 7  # day 0 is a Thursday
        if not by:
            return ("",), np.zeros(len(self._day), np.int64)
        assert span is not None
        days = np.arange(_number(span[0]), _number(span[1]))
        if by == DAY:
            return tuple(str(_date(int(d))) for d in days), self._day - days[0]
        months = self._day.astype("M8[D]").astype("M8[M]")
        start = np.datetime64(span[0], "M")
        keys = tuple(f"{start + i}-01" for i in range(12))
        return keys, (months - start).astype(np.int64)

    def _matrix(
        self, asks: str, keep: NDArray[np.bool_], cell: NDArray[np.int64], groups: int
    ) -> Matrix:
        person, cell = self._person[keep], cell[keep]
        part = self._value[keep] / self._events.top
        pairs, where = np.unique(person * groups + cell, return_inverse=True)
        people, cells = pairs // groups, pairs % groups
        count = np.bincount(where, minlength=len(pairs)).astype(float)
        total = np.bincount(where, part, len(pairs))
        coordinates = groups
        values = {SUM: total, PEOPLE: np.ones(len(pairs))}.get(asks, count)
        if asks == AVG:
            people, cells = np.tile(people, 2), np.concatenate([cells, cells + groups])
            values, coordinates = np.concatenate([count, total]), 2 * groups
        norms = np.sqrt(np.bincount(people, values * values, self._events.people))
        sums = np.bincount(cells, values, coordinates).astype(float)
        return Matrix(people, cells, values, coordinates, norms, sums)

    def _truth(self, sql: str, groups: tuple[str, ...]) -> NDArray[np.float64]:
        """Return the exact answer by group, of plain DuckDB; 0 where there is no row."""
        alone = groups == ("",)
        found = {"" if alone else str(row[0])[:10]: row[-1] for row in self._exactly(sql)}
        return np.array([float(found.get(g) or 0.0) for g in groups])

    def _exactly(self, sql: str) -> list[tuple[object, ...]]:
        rows: list[tuple[object, ...]] = self._plain.execute(sql).fetchall()
        return rows


def _date(number: int) -> dt.date:
    return dt.date(1970, 1, 1) + dt.timedelta(number)


def _number(day: dt.date) -> int:
    return (day - dt.date(1970, 1, 1)).days
