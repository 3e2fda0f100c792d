"""Random streams over accounts by window, held against Algorithm 2 over pairs, in fractions.

Whose account a row is for is written out again here, from the calendar: docs/theorems/windows.md.
"""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import times
from algorithm2 import UNITS, Lifelong
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampled import one_in
from sqlglot import exp, parse_one
from stream.test_reference import DAY, Asked, Row, Running, Stream, follow, streams

import sparseq
from sparseq.question.catalog import WINDOWS
from sparseq.question.plan import Query


def begun(day: dt.date, window: str) -> dt.date:
    """The day that a window begins on: weeks on Mondays."""
    match window:
        case "week":
            return day - dt.timedelta(day.weekday())
        case "month":
            return day.replace(day=1)
        case "quarter":
            return dt.date(day.year, 3 * ((day.month - 1) // 3) + 1, 1)
        case "year":
            return dt.date(day.year, 1, 1)
    return day


def pair(who: int, begins: dt.date) -> int:
    return who * 10**8 + int(f"{begins:%Y%m%d}")


class Windowed(Running):
    """A store with accounts by window, beside Algorithm 2 over pairs of person and window."""

    def __init__(self, window: str, stream: Stream, path: Path | None) -> None:
        self.window = window
        self.more = self._declared()
        super().__init__(stream, path)

    def _declared(self) -> dict[str, Any]:
        return {"time": "day", "window": self.window}

    def user_of(self, row: Row) -> int | None:
        return (
            None
            if row.who is None or row.day is None
            else pair(row.who, begun(row.day, self.window))
        )

    def known_as(self, identifier: Any) -> int:
        who, begins = identifier.split(",")
        return pair(int(who), dt.date.fromisoformat(begins))

    def _sql(self, asked: Asked) -> sparseq.Answer:
        sql = asked.sql
        if not asked.by_day:  # else one day is in one window, where a person may be counted
            sql = sql.replace("DISTINCT who", f"DISTINCT who_{self.window}")
            sql = sql.replace("THEN who END", f"THEN who_{self.window} END")
        return self.con.sql(sql, request_id=asked.request_id, fresh=True, **dict(asked.options))


class Capped(Windowed):
    """The same with a cap over all windows of a person."""

    def __init__(self, window: str, times: float, stream: Stream, path: Path | None) -> None:
        self.times = times
        stream = replace(stream, halt=False)
        self.lifetime = Fraction(stream.kappa * times)
        self.more_of = {"lifetime_kappa": stream.kappa * times}
        super().__init__(window, stream, path)

    def _declared(self) -> dict[str, Any]:
        return {**super()._declared(), **self.more_of}

    def _reference(self) -> Lifelong:
        kappa, norm_budget = self.stream.kappa, self.stream.norm_budget
        whole = math.floor(Fraction(norm_budget) * UNITS)
        lifetime = math.floor(self.lifetime / Fraction(kappa) * whole)
        self.lifelong = Lifelong(kappa, norm_budget, lifetime=lifetime)
        return self.lifelong

    def _arrived(self, rows: list[Row]) -> int:
        come = [(row.who, user) for row in rows if (user := self.user_of(row)) is not None]
        for who, user in sorted(come, key=lambda one: one[1]):  # of a person, by day
            self.lifelong.of.setdefault(user, who or 0)
        return super()._arrived(rows)

    def _sql(self, asked: Asked) -> sparseq.Answer:
        self.lifelong.apart = bool(asked.by_day)
        return super()._sql(asked)

    def check_spends(self) -> None:
        super().check_spends()
        lifetimes = self.con.stream.ledger.lifetimes
        assert lifetimes is not None
        ids = self.con.backend.database.execute("SELECT id FROM ledger.users ORDER BY _user")
        users = [self.known_as(i) for (i,) in ids.fetchall()]
        first: dict[int, int] = {}
        for k, user in enumerate(users):
            first.setdefault(self.lifelong.of[user], k)
        assert lifetimes.people.tolist() == [first[self.lifelong.of[user]] for user in users]
        lived = {whose: int(lifetimes.spent[k]) for whose, k in first.items()}
        assert lived == {whose: self.lifelong.lived.get(whose, 0) for whose in first}


def spread(rows: list[Row], draw: random.Random) -> list[Row]:
    """Rows of a year and more, many of them on the first days; some have no day."""
    far = [0, 1, 2, 3, 4, 5, -1, -30, -61, 28, 31, 300, 306, 366]
    return [
        row._replace(day=draw.choice([*(DAY + dt.timedelta(d) for d in far), None])) for row in rows
    ]


@st.composite
def over_years(draw: st.DrawFn) -> Stream:
    stream = draw(streams())
    choose = random.Random(draw(st.integers(0, 2**32 - 1)))
    steps = [spread(s, choose) if isinstance(s, list) else s for s in stream.steps]
    return replace(stream, rows=spread(stream.rows, choose), steps=steps)


def examples(number: int, **more: st.SearchStrategy[Any]) -> Any:
    """Try so many streams, one of four in a file."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    some = settings(derandomize=True, max_examples=number, suppress_health_check=slow)
    given_some = given(
        stream=over_years(),
        window=st.sampled_from(WINDOWS),
        on_disk=st.sampled_from([False, False, False, True]),
        **more,
    )
    return lambda test: some(given_some(test))


@examples(6)
def test_spends_and_sums_over_windows_are_those_of_algorithm_2(
    tmp_path_factory: pytest.TempPathFactory, stream: Stream, window: str, on_disk: bool
) -> None:
    follow(tmp_path_factory, stream, on_disk, functools.partial(Windowed, window))


@pytest.mark.deep
@examples(1000)
def test_spends_and_sums_of_many_streams_over_windows_are_those_of_algorithm_2(
    tmp_path_factory: pytest.TempPathFactory, stream: Stream, window: str, on_disk: bool
) -> None:
    """The same of 1,000 streams."""
    follow(tmp_path_factory, stream, on_disk, functools.partial(Windowed, window))


capped = st.sampled_from([1.0, 1.5, 3.0, 10 / 3, 40.0])


@examples(6, times=capped)
def test_spends_under_a_cap_over_all_windows_are_those_of_algorithm_2_twice(
    tmp_path_factory: pytest.TempPathFactory,
    stream: Stream,
    window: str,
    on_disk: bool,
    times: float,
) -> None:
    """Over windows and over people; and what windows say together is paid for, in fractions."""
    follow(tmp_path_factory, stream, on_disk, functools.partial(Capped, window, times))


@pytest.mark.deep
@examples(1000, times=capped)
def test_spends_of_many_streams_under_a_cap_over_all_windows(
    tmp_path_factory: pytest.TempPathFactory,
    stream: Stream,
    window: str,
    on_disk: bool,
    times: float,
) -> None:
    """The same of 1,000 streams."""
    follow(tmp_path_factory, stream, on_disk, functools.partial(Capped, window, times))


# Conditions on time, and whether they are about one window ----------------------------------------

KEYS = (
    "d",
    "date_trunc('quarter', d)",
    "date_trunc('week', d)",
    "s::DATE",
    "date_trunc('month', s)",
    "year(s)",
    "last_day(s)",
    "date_trunc('day', s + INTERVAL 5 HOUR)",
)
"""The first three are of d."""


def leaves_the_years(plain: duckdb.DuckDBPyConnection, sql: str) -> bool:
    """Tell whether a part of a question has a date outside of the years 1 to 9999 on some row: it
    is NULL there, and a far date in the plain DuckDB that is asked here."""
    where = parse_one(sql, read="duckdb").args.get("where")
    for node in where.walk() if where is not None else ():
        moves = isinstance(node, exp.Add | exp.Sub | exp.Func) and node.find(exp.Column)
        if not moves:
            continue
        part = node.sql("duckdb")
        try:
            year = f"year(CAST({part} AS TIMESTAMP))"
            found = plain.execute(
                f"SELECT count(*) FROM t WHERE {year} NOT BETWEEN 1 AND 9999"
            ).fetchall()
        except duckdb.Error:  # it is no date
            continue
        if found[0][0]:
            return True
    return False


def questions(draw: random.Random, column: str, window: str, years: Sequence[int]) -> Iterator[str]:
    """Counts by random conditions, of which many are about one window, and by keys."""
    among = times.conditions(draw.randrange(2**32))
    while True:
        where = [text for text, _ in itertools.islice(among, int(draw.random() < 0.3))]
        where += times.one_window(draw, column, window, years) if draw.random() < 0.8 else []
        key = draw.choice(KEYS) if draw.random() < 0.3 else ""
        if key:
            of, year = "d" if key in KEYS[:3] else "s", f"{draw.choice(years):04}"
            where.append(f"{of} BETWEEN '{year}-01-01' AND '{year}-12-31'")
        shown, by = (f"{key} AS y, ", " GROUP BY 1") if key else ("", "")
        condition = " WHERE " + " AND ".join(where) if where else ""
        yield f"SELECT {shown}count(*) AS n FROM t{condition}{by}"


def vectors_of(
    plain: duckdb.DuckDBPyConnection, sql: str, column: str, window: str, query: Query
) -> dict[str, dict[int, int]]:
    """Each window's exact vector, told by DuckDB alone: person and begin, to group, to count."""
    select, _, rest = sql.removeprefix("SELECT ").partition("count(*) AS n")
    key = select.removesuffix(" AS y, ") or "0"
    where = rest.removeprefix(" FROM t").removesuffix(" GROUP BY 1")
    rows = plain.execute(
        f"SELECT who || ',' || CAST(date_trunc('{window}', {column}) AS DATE), {key}, count(*) "
        f"FROM t {where} GROUP BY 1, 2"
    ).fetchall()
    places = {v: k for k, v in enumerate(query.domains[0].values)} if query.domains else {0: 0}
    found: dict[str, dict[int, int]] = {}
    for pair, value, count in rows:
        if pair is not None and value in places:
            found.setdefault(pair, {})[places[value]] = count
    return found


@pytest.mark.parametrize(("first", "number"), one_in(3, [(0, 5), (0, 12), (1000, 1000)]))
def test_what_all_windows_say_together_is_paid_for_whatever_the_condition(
    first: int, number: int
) -> None:
    """Streams of 8 questions. Who asserts it is the reference, in fractions. Deep: 1,000."""
    asked = apart = 0
    for seed in range(first, first + number):
        draw = random.Random(seed)
        window, column = draw.choice(WINDOWS), draw.choice("ds")
        years = draw.sample(times.YEARS, 2)
        rows = (
            times.database()
            .cursor()
            .sql(f"SELECT d, s, k FROM rows WHERE year(d) IN {tuple(years)} OR s IS NULL")
            .to_arrow_table()
        )
        rows = rows.take(draw.sample(range(len(rows)), min(80, len(rows))))
        rows = rows.append_column("who", pa.array([draw.randrange(2) for _ in range(len(rows))]))
        plain = times.exact()
        plain.register("t", rows)
        ratio = draw.choice([2, 10, 100])
        con = sparseq.create(
            None,
            {"t": rows},
            user="who",
            time=column,
            window=(window, 0.5 * ratio),
            seed=seed,
            kappa=0.5,
            keys={"k": [0, 1, 5, 2024]},
            purposes=[sparseq.Questions(in_or_out=True, counts=40)],
        )
        ids = con.backend.database.execute("SELECT id FROM ledger.users ORDER BY _user").fetchall()  # type: ignore[attr-defined]
        user = {name: i for i, (name,) in enumerate(ids)}
        reference = Lifelong(0.5, 40, lifetime=40 * ratio * UNITS)
        for name, i in user.items():
            reference.add_user(i)
            reference.of[i] = int(name.split(",")[0])
        for sql in itertools.islice(questions(draw, column, window, years), 8):
            if leaves_the_years(plain, sql):
                continue
            try:
                query = con.lower(sql)
                vectors = vectors_of(plain, sql, column, window, query)
            except (sparseq.QueryRefused, duckdb.Error):  # DuckDB knows no such interval
                continue
            answer = con.ask(query, fresh=True)
            (sigma,), (step,) = answer.facts.sigma, answer.facts.granularity
            lattice = {
                user[w]: {k: round(n / step) for k, n in v.items()} for w, v in vectors.items()
            }
            reference.apart = query.apart
            reference.step([lattice], [(sigma, step)])
            assert con.stream.accounts.spent.tolist() == list(reference.spent.values()), sql
            asked, apart = asked + 1, apart + query.apart
        assert max(reference.lived.values(), default=0) <= reference.lifetime
    assert asked > 4 * number
    assert asked * 0.9 > apart > asked / 10
