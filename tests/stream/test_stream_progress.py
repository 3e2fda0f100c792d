"""The public clock: what everybody has left at least, by window of time."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparseq
from checks.stores import made_store
from sparseq.accounting.charge import UNITS_PER_NORM
from sparseq.stream.faded_weights import newcomer_scale, with_tails
from sparseq.stream.parent_pilots import with_parent
from sparseq.stream.stream_progress import Course

DAY = dt.date(2024, 1, 1)
MONTHS = [2024 * 12 + month for month in range(4)]
OF_A_MONTH = "day >= DATE '2024-0{}-01' AND day < DATE '2024-0{}-01'"


def store(people: int = 300, **more: Any) -> sparseq.Store:
    """People with some rows in each of four months; one has many."""
    g = np.random.default_rng(4)
    who = np.repeat(np.arange(people), 8)
    who[:200] = 0
    day = [DAY + dt.timedelta(int(n)) for n in g.integers(0, 121, len(who))]
    rows = pa.table({"who": who, "day": pa.array(day), "x": g.uniform(0, 10, len(who))})
    return made_store(
        None, rows, table="t", user="who", time="day", bounds={"x": (0, 10)}, seed=2, **more
    )


def of_months(first: int, last: int, what: str = "count(*)") -> str:
    return f"SELECT {what} FROM t WHERE {OF_A_MONTH.format(first + 1, last + 2)}"


def test_whoever_no_question_was_about_does_not_fade() -> None:
    con = store(window="month")
    for _ in range(60):
        con.sql(of_months(0, 0), fresh=True)
    course = con.stream.course
    assert course is not None
    weights = [course.about((w, w)).least_allowance(1.0) for w in MONTHS]
    assert weights[0] < 0.5
    assert weights[1:] == [1.0] * 3  # but for the parents, which are of all rows
    assert course.about((MONTHS[0], MONTHS[2])).least_allowance(1.0) == weights[0]
    assert course.about(None).least_allowance(1.0) == weights[0]
    assert con.explain(of_months(1, 2)).facts["least_weight"] == 1.0
    assert con.explain("SELECT count(*) FROM t").facts["least_weight"] == weights[0]
    assert con.budget()["weighted"]["least_weight"] == weights[0]


def test_without_windows_every_question_is_about_everybody() -> None:
    con = store()
    for _ in range(60):
        con.sql(of_months(0, 0), fresh=True)
    course = con.stream.course
    assert course is not None
    assert course.windows == {}
    assert course.about((MONTHS[3], MONTHS[3])).least_allowance(1.0) < 0.5


@pytest.mark.deep
@pytest.mark.parametrize("window", ["month", "week"])
def test_nobody_has_less_left_than_is_said_of_the_window(window: str) -> None:
    """Of any stream of questions: about a month, some, or all, of counts, people and averages."""
    g = np.random.default_rng(9)
    con = store(window=window, norm_budget=8.0)
    for _ in range(40):
        first = int(g.integers(0, 4))
        last = int(g.integers(first, 4))
        what = ["count(*)", "avg(x)", "count(DISTINCT who)", "sum(x)", "median(x)"][g.integers(5)]
        if window == "week" and "DISTINCT" in what:
            continue  # in several windows a person is several people
        if "DISTINCT" in what:
            last = first
        sql = of_months(first, last, what) if g.random() < 0.8 else "SELECT count(*) FROM t"
        con.sql(sql, fresh=True)
        course, accounts = con.stream.course, con.stream.accounts
        assert course is not None
        everybody = np.arange(con.stream.people.inside(), dtype=np.int32)
        names = con.stream.ledger.identifiers(everybody.tolist())
        left = accounts.left(everybody) / UNITS_PER_NORM
        assert left.min() >= course.about(None).least_left
        for user, mine in zip(everybody.tolist(), left.tolist(), strict=True):
            day = dt.date.fromisoformat(str(names[user]).rsplit(",", 1)[1])
            at = day.year * 12 + day.month - 1
            if window == "month":
                assert mine >= course.about((at, at)).least_left


def test_a_course_comes_back_as_it_was() -> None:
    course = Course(12.0, 48.0).about((3, 5)).after(2.0, 1.0).about((4, 4)).after(1.0, 1.0)
    course = with_parent(course.about(None), "rows of t", np.ones(32)).after(1.0, 2.0)
    edges = np.array([1.0, 1.5, 2.0])
    course = with_tails(course, "people of t", edges, np.array([9.0, 40.0, 3.0]), 7.0)
    course = course.after_answer(["t"])
    assert course.tails["people of t"].near is not None
    assert Course.from_dict(course.to_dict()) == course
    lacks = "windows", "span", "tails", "tables", "begun_with"
    old = {k: v for k, v in course.to_dict().items() if k not in lacks}
    people = {"people": [1.0] * 32, "clock": 20.0, "epoch": 0, "allowance": 0.9}
    old["parents"]["people of t"] = people  # as it was before there were tails
    read = Course.from_dict(old)
    assert (read.windows, read.tails, read.tables) == ({}, {}, ("",))
    assert set(read.parents) == {"rows of t"}
    assert newcomer_scale(read, 1.0) == 1 / read.least_allowance(
        1.0
    )  # nothing is known of newcomers


@pytest.mark.parametrize("months", [24, pytest.param(120, marks=pytest.mark.deep)])
def test_the_last_month_is_answered_like_the_second(months: int) -> None:
    """Two questions about each month: at the same width for people, within a tenth for rows."""
    g = np.random.default_rng(6)
    people = 2000
    who = np.tile(np.arange(people), months)
    month = np.repeat(np.arange(months), people)
    often = g.poisson(1.5, len(who)) + 1
    day = [dt.date(2010 + m // 12, m % 12 + 1, 3) for m in range(months)]
    rows = pa.table(
        {
            "who": np.repeat(who, often),
            "day": pa.array([day[m] for m in np.repeat(month, often)]),
        }
    )
    con = sparseq.create(None, {"t": rows}, user="who", time="day", seed=2, window="month")
    widths: dict[str, list[float]] = {"count(DISTINCT who)": [], "count(*)": []}
    off: dict[str, list[float]] = {"count(DISTINCT who)": [], "count(*)": []}
    for m in range(months):
        begins, ends = day[m].replace(day=1), (day[m] + dt.timedelta(31)).replace(day=1)
        true = {"count(DISTINCT who)": people, "count(*)": int(often[month == m].sum())}
        for what, found in widths.items():
            sql = f"SELECT {what} AS v FROM t WHERE day >= DATE '{begins}' AND day < DATE '{ends}'"
            (row,) = con.sql(sql).rows()
            found.append(row["v_high"] - row["v_low"])
            off[what].append(abs(row["v"] - true[what]) / true[what])
    of_people = widths["count(DISTINCT who)"]
    assert of_people[1] == pytest.approx(of_people[-1], abs=1)  # the ends are whole numbers
    first, last = (np.median(widths["count(*)"][some]) for some in (slice(1, 9), slice(-8, None)))
    assert last < 1.1 * first
    for found in off.values():
        assert np.median(found[-8:]) < 0.02


@pytest.mark.parametrize("cost", [1.0, 1.3125, 2.6])
def test_the_ticks_of_a_series_share_what_is_left(cost: float) -> None:
    """The last tick is as wide as the first, what a tick costs included; nobody runs out."""
    course = Course(13.0, 52.0, until=52.0, begun_with=52.0, regular=cost)
    first = course.least_allowance(0.8)
    assert first == pytest.approx(min(1.0, cost**-0.5))
    for _ in range(52):
        assert course.least_allowance(0.8) > 0.95 * first
        assert course.cautious(0.8) >= cost
        course = course.after(cost, 0.8).after_answer(["t"])
        assert course.sure or course.answers == 52
