"""Lowering a daily query by its shape gives what lowering it in full gives."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pyarrow as pa
import pytest

import sparseq
from sparseq.question.plan import Query
from sparseq.sql import select as lowering

DAYS = [dt.date(2024, 1, 1) + dt.timedelta(days=i) for i in range(40)]
NOON = [dt.datetime(day.year, day.month, day.day, 12) for day in DAYS]
EVENTS = pa.table(
    {"who": [i % 7 for i in range(40)], "day": DAYS, "at": NOON, "kind": ["a", "b"] * 20}
)
ONE_DAY = "SELECT count(DISTINCT who) AS n FROM events WHERE day = DATE '{0}'"
ONE_HOUR = (
    "SELECT count(DISTINCT who) AS n FROM events "
    "WHERE at >= TIMESTAMP '{0} 06:00:00' AND at < TIMESTAMP '{0} 07:00:00'"
)
ONE_DAY_OF_MOMENTS = "SELECT count(*) AS n FROM events WHERE at >= DATE '{0}' AND kind = 'a'"
SHAPES = {
    "one day": ONE_DAY,
    "a string for a date": "SELECT count(*) AS n FROM events WHERE day = '{0}'",
    "one hour": ONE_HOUR,
    "a string for a moment": "SELECT count(*) AS n FROM events WHERE at > '{0} 06:00:00'",
    "a day and a moment": "SELECT count(*) AS n FROM events "
    "WHERE day > DATE '{0}' AND at < TIMESTAMP '{1} 06:00:00'",
    "days of a moment": "SELECT count(*) AS n FROM events WHERE at >= DATE '{0}' AND at < '{1}'",
    "midnight beside its day": "SELECT count(*) AS n FROM events "
    "WHERE at >= DATE '{0}' AND day < '{0} 00:00:00'",
    "by kind and hour": "SELECT kind, count(*) AS n FROM events WHERE kind IN ('a', 'b') "
    "AND at BETWEEN TIMESTAMP '{0} 06:00:00' AND TIMESTAMP '{0} 07:00:00' GROUP BY kind",
    "a moment for a day": "SELECT count(*) AS n FROM events WHERE day > TIMESTAMP '{0} 06:00:00'",
    "a moment in the aggregate": "SELECT countif(at > TIMESTAMP '{0} 06:00:00') AS n FROM events",
    "two dates": "SELECT count(*) AS n FROM events WHERE day >= DATE '{0}' AND day < DATE '{1}'",
    "dates the other way": "SELECT count(*) AS n FROM events WHERE day < '{1}' AND day > '{0}'",
    "between, by kind": "SELECT kind, count(*) AS n FROM events "
    "WHERE day BETWEEN '{0}' AND '{1}' AND kind IN ('a', 'b') GROUP BY kind",
    "by day": "SELECT day, count(*) AS n FROM events "
    "WHERE day BETWEEN '{0}' AND '{1}' GROUP BY day",
    "a date in the aggregate": "SELECT countif(day > DATE '{0}') AS n FROM events",
    "a date in both": "SELECT countif(day > DATE '{0}') AS n FROM events WHERE day < '{1}'",
    "a date in the output": "SELECT CASE WHEN count(*) > 5 THEN '{0}' ELSE 'no' END AS n "
    "FROM events WHERE day < '{1}'",
    "a date as text": "SELECT count(*) AS n FROM events WHERE kind = '{0}'",
    "a coarser key": "SELECT year(day + 345) AS m, count(*) AS n FROM events "
    "WHERE day BETWEEN '{0}' AND '{1}' GROUP BY m",
    "a look at a public table": "SELECT count(*) AS n FROM events "
    "WHERE day = (SELECT day FROM holidays WHERE day = '{0}')",
    "arithmetic": "SELECT count(*) AS n FROM events WHERE day < DATE '{0}' + INTERVAL 3 DAY",
}


@pytest.fixture
def con() -> sparseq.Store:
    public = {"holidays": pa.table({"day": DAYS[:3:2]})}
    return sparseq.create(None, {"events": EVENTS}, user="who", public=public, seed=1)


def public(query: Query) -> Query:
    return replace(query, outputs=None)


@pytest.mark.parametrize("texts", [4, pytest.param(12, marks=pytest.mark.deep)])
@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_lowers_as_the_text_does(con: sparseq.Store, name: str, texts: int) -> None:
    for i in range(texts):
        text = SHAPES[name].format(DAYS[2 * i], DAYS[2 * i + 5])
        assert public(con.lower(text)) == public(
            lowering.lower_sql(text, con.catalog, con.lowering.public)
        )


@pytest.mark.parametrize("query", [ONE_DAY, ONE_HOUR, ONE_DAY_OF_MOMENTS], ids=str)
def test_a_query_of_every_tick_is_lowered_in_full_twice_only(
    con: sparseq.Store, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    calls = []
    full = lowering.lower_sql
    monkeypatch.setattr(
        "sparseq.sql.lowered_queries.lower_sql", lambda *a: calls.append(a[0]) or full(*a)
    )
    for day in DAYS:
        assert con.lower(query.format(day)).text == query.format(day)
    assert len(calls) == 2


@pytest.mark.parametrize("today", ["current_date", "today()", "CURRENT_DATE"])
def test_today_is_another_day_tomorrow(
    con: sparseq.Store, monkeypatch: pytest.MonkeyPatch, today: str
) -> None:
    seen = []
    for day in DAYS[:3]:

        class Date(dt.date):
            now = day

            @classmethod
            def today(cls) -> dt.date:
                return cls.now

        for module in ("sparseq.sql.lowered_queries.dt", "sparseq.sql.spellings.dt"):
            monkeypatch.setattr(f"{module}.date", Date, raising=True)
        seen.append(con.lower(f"SELECT count(*) AS n FROM events WHERE day < {today}"))
    assert [str(day) in q.relation.where for day, q in zip(DAYS, seen, strict=False)] == [True] * 3


def test_what_is_no_date_is_lowered_in_full_and_refused(con: sparseq.Store) -> None:
    for query, wrong in ((ONE_DAY, "2024-02-31"), (ONE_HOUR.replace("06:", "26:"), "2024-02-01")):
        for day in DAYS[:3]:
            con.lower(query.replace("26:", "06:").format(day))
        with pytest.raises(sparseq.QueryRefused):
            con.lower(query.format(wrong))


def test_a_question_mark_is_no_date(con: sparseq.Store) -> None:
    """It stood for one among the shapes: the two texts of the last query changed places."""
    text = "SELECT count(*) AS n FROM events WHERE kind = '{}' OR kind || 'x' = '{}'"
    for day in DAYS[:3]:
        con.lower(text.format("?", day))
    for other in (text.format(DAYS[3], "?"), text.format(DAYS[3], DAYS[4])):
        lowered = lowering.lower_sql(other, con.catalog, con.lowering.public)
        assert public(con.lower(other)) == public(lowered)


def test_every_hour_of_some_days_lowers_as_the_text_does(con: sparseq.Store) -> None:
    """Midnight is an hour like the others, but for a column of dates."""
    text = "SELECT count(*) AS n FROM events WHERE {0} >= TIMESTAMP '{1}' AND {0} < TIMESTAMP '{2}'"
    for column in ("at", "day"):
        for hour in range(0, 120, 6):
            start = NOON[0] + dt.timedelta(hours=hour)
            query = text.format(column, start, start + dt.timedelta(hours=6))
            lowered = lowering.lower_sql(query, con.catalog, con.lowering.public)
            assert public(con.lower(query)) == public(lowered)


def test_a_moment_does_not_stand_where_a_date_stood(con: sparseq.Store) -> None:
    text = "SELECT count(*) AS n FROM events WHERE kind = '{}'"
    for day in DAYS[:3]:
        con.lower(text.format(day))
    other = text.format("2024-01-09 06:00:00")
    lowered = lowering.lower_sql(other, con.catalog, con.lowering.public)
    assert public(con.lower(other)) == public(lowered)


def test_another_shape_is_another_query(con: sparseq.Store) -> None:
    for day in DAYS[:3]:
        con.lower(ONE_DAY.format(day))
    other = con.lower(ONE_DAY.format(DAYS[3]).replace("=", "<>"))
    assert "<>" in other.relation.where
