"""Questions with expressions that may take long are read beside the stream, whatever they ask."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from stream.test_cancellation import LONG, beside, standing, store

import sparseq
from sparseq.base.errors import TimedOut
from sparseq.engine.contributions import Contributions
from sparseq.question.plan import Plan, Query
from sparseq.question.work import is_slow
from sparseq.stream.batches import Request
from sparseq.stream.side_reads import Readings

SLOW = "levenshtein(repeat(kind, 40), 'abba') > 2"
LIKE = "kind LIKE '%a%'"
MEASURES = {
    "rows": "count(*) AS n",
    "people": "count(DISTINCT who) AS n",
    "a sum": "sum(x) AS s",
    "several": "sum(x) AS s, count(*) AS n, count(DISTINCT who) AS people",
    "an average": "avg(x) AS a",
    "a variance": "stddev(x) AS d",
    "a pair": "corr(x, y) AS c",
    "a median": "median(x) AS m",
    "a slow average": f"avg(CASE WHEN {SLOW} THEN x ELSE 0 END) AS a",
}


def shop() -> sparseq.Store:
    n = 400
    table = {
        "who": [i % 40 for i in range(n)],
        "kind": [("a", "bb", "abc")[i % 3] for i in range(n)],
        "x": [float(i % 7) for i in range(n)],
        "y": [float(i % 5) for i in range(n)],
    }
    bounds: dict[str, Any] = {"x": (0, 7), "y": (0, 5)}
    return sparseq.create(None, {"t": pa.table(table)}, user="who", seed=1, bounds=bounds)


def noting(con: sparseq.Store) -> list[Plan]:
    """Return a list to which the slow plans are added that the stream itself reads."""
    found, engine = list[Plan](), con.stream.engine
    read = engine.contributions

    def reads(plan: Plan, users: int) -> Contributions:
        if is_slow(plan.query):
            found.append(plan)
        return read(plan, users)

    engine.contributions = reads  # type: ignore[method-assign]
    return found


@pytest.mark.parametrize("measures", MEASURES.values(), ids=MEASURES)
def test_the_stream_reads_none_of_it(measures: str) -> None:
    """Not at first, when parents are asked, nor later; and the answer is that of the stream."""
    con, other = shop(), shop()
    in_stream = noting(con)
    for where in (f"{SLOW} AND x > 1", f"{SLOW} AND x > 2"):
        text = f"SELECT {measures} FROM t WHERE {where}"
        assert beside(con, text, Readings())
        assert not in_stream
        there = other.sql(text)
        assert con.release(con.released).arrow().equals(there.arrow())
        assert standing(con) == standing(other)
    con.close()
    other.close()


@pytest.mark.parametrize("of", ["avg(x)", "median(x)"])
def test_a_column_that_is_known_is_used(of: str) -> None:
    con, other = shop(), shop()
    in_stream = noting(con)
    for each in (con, other):
        each.sql(f"SELECT {of} AS a FROM t")
    text = f"SELECT {of} AS a FROM t WHERE {LIKE}"
    plans = beside(con, text, Readings())
    assert plans
    assert not in_stream
    assert "kind" in plans[0].query.relation.where
    assert con.release(2).arrow().equals(other.sql(text).arrow())
    assert standing(con) == standing(other)


def test_what_is_plain_is_read_in_the_stream() -> None:
    con = shop()
    assert not beside(con, "SELECT sum(x) AS s, avg(y) AS a FROM t WHERE kind = 'a'", Readings())


def test_many_operations_are_slow() -> None:
    con = shop()

    def asks(conditions: int) -> Query:
        listed = " AND ".join(f"abs(x - {i}) > 0.5" for i in range(conditions))
        return con.lower(f"SELECT count(*) AS n FROM t WHERE {listed}")

    assert not is_slow(asks(10))
    assert is_slow(asks(100))


def test_reading_beside_ends_after_its_time_and_nothing_is_charged() -> None:
    con, readings = store(), Readings(seconds=0.3)
    before, query = standing(con), con.lower(LONG)
    request = Request(query, readings=readings)
    (outcome,) = con.ask_many([request])
    assert outcome.unread is not None
    read = readings.reading(con.stream.engine, outcome.unread, con.stream.people)
    with ThreadPoolExecutor(1) as reader, pytest.raises(TimedOut, match="nothing was charged"):
        reader.submit(read).result()
    assert standing(con) == before
    assert readings.seconds is not None
    assert readings.seconds < 0.1


def test_reading_in_the_stream_has_the_same_time() -> None:
    con, readings = store(), Readings(seconds=0.3, versions=100)  # rows came all the time
    before = standing(con)
    (outcome,) = con.ask_many([Request(con.lower(LONG), readings=readings)])
    assert isinstance(outcome.refused, TimedOut)
    assert standing(con) == before
    con.sql("SELECT count(*) AS n FROM t")
