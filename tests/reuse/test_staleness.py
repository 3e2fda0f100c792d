"""Answers stand when rows come that none of them can be about, as public facts say."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from odd_rows import condition, question
from odd_rows import rows as odd
from sampled import one_in

import sparseq
from checks.stores import made_store
from sparseq.base.errors import ParameterError
from sparseq.question.plan import Options
from sparseq.reuse.question_meanings import Meaning, meaning_of
from sparseq.reuse.staleness import RowsCame, Standing

FIRST, SINCE = dt.date(2024, 1, 1), dt.date(2024, 2, 1)


def rows(
    seed: int = 1, first: int = 0, days: int = 31, size: int = 600, people: int = 50
) -> pa.Table:
    draw = random.Random(seed)
    return pa.table(
        {
            "who": [draw.randrange(people) for _ in range(size)],
            "n": [draw.randrange(5) for _ in range(size)],
            "day": [FIRST + dt.timedelta(first + draw.randrange(days)) for _ in range(size)],
        }
    )


def store(path: Path | None = None, **more: Any) -> sparseq.Store:
    args: dict[str, Any] = {"table": "t", "user": "who", "time": "day", "seed": 3}
    return made_store(path, rows(), **args | more)


BEFORE = "SELECT count(*) AS c FROM t WHERE day < '2024-02-01'"
ACROSS = "SELECT count(*) AS c FROM t WHERE day < '2024-02-02'"
EVER = "SELECT count(*) AS c FROM t"
BY_WEEK = "SELECT date_trunc('week', day) AS w, count(*) AS c FROM t WHERE day BETWEEN "
WEEKS, DAYS = "'2024-01-01' AND '2024-01-28' GROUP BY w", "'2024-01-08' AND '2024-01-14' GROUP BY w"


def free(con: sparseq.Store, text: str) -> bool:
    facts = con.sql(text).facts
    return facts.repeated or facts.follows


def test_what_is_known_of_earlier_days_stands(tmp_path: Path) -> None:
    with store(tmp_path / "s.sparseq") as con:
        for text in (BEFORE, ACROSS, EVER, BY_WEEK + WEEKS):
            con.sql(text)
        paid = con.stream.accounts.spent.sum()
        con.ingest(rows(2, first=31), since=SINCE)
        assert free(con, BEFORE)
        assert free(con, BY_WEEK + WEEKS)
        assert con.stream.known(con.lower(BY_WEEK + DAYS), Options(), anyhow=True)
        assert con.stream.accounts.spent.sum() == paid
        assert con.released == 4
    with sparseq.connect(tmp_path / "s.sparseq") as con:
        assert free(con, BEFORE)
        assert not free(con, ACROSS)
        assert not free(con, EVER)
        con.ingest(rows(3, first=40), since=dt.date(2024, 2, 10))
        assert free(con, BEFORE)
        assert free(con, ACROSS), "it was asked again after the first rows had come"
        assert not free(con, EVER)
        con.ingest(rows(4, first=40))
        assert not free(con, BEFORE), "rows of any day may have come"


def by_day(first: int, after: int) -> str:
    """Return a question for the rows of each of some days."""
    low, high = (FIRST + dt.timedelta(day) for day in (first, after))
    where = f"day >= DATE '{low}' AND day < DATE '{high}'"
    return f"SELECT day, count(*) AS c FROM t WHERE {where} GROUP BY day ORDER BY day"


def a_day(day: int) -> pa.Table:
    return rows(day, first=day, days=1, size=300, people=1000)


@pytest.mark.parametrize("in_or_out", one_in(2, [False, True]))
def test_a_series_is_paid_for_one_day_at_a_time(in_or_out: bool) -> None:
    con = sparseq.create(
        None,
        {"t": rows(size=9000, people=1000)},
        user="who",
        time="day",
        seed=3,
        kappa=64.0,
        purposes=[sparseq.Questions(in_or_out=in_or_out, counts=1e3)],
    )
    first = con.sql(by_day(3, 31)).rows()
    for day in range(31, 37):
        con.ingest(a_day(day), since=FIRST + dt.timedelta(day))
        before = con.stream.accounts.spent.astype(int)
        answer = con.sql(by_day(day - 27, day + 1))
        paid = con.stream.accounts.spent.astype(int)
        paid[: len(before)] -= before
        ids = con.backend.numbers_of(pa.array(sorted(set(a_day(day)["who"].to_pylist()))))
        assert set(np.flatnonzero(paid)) <= set(ids.tolist()), "whoever has no row of that day"
        found, facts = answer.rows(), answer.facts
        days = [FIRST + dt.timedelta(d) for d in range(day - 27, day + 1)]
        assert [row["day"] for row in found] == days
        assert found[0]["c"] == first[day - 30]["c"]
        last = found[-1]
        assert last["c"] - last["c_error"] <= 300 <= last["c"] + last["c_error"]
        assert facts.parts == (*range(1, day - 28),)
        assert (facts.follows, facts.repeated) == (False, False)
        assert facts.confidence == pytest.approx(0.95 - 0.001 * (day - 30))
        again = con.sql(by_day(day - 27, day + 1).replace("AS c", "AS d"))
        assert (again.facts.follows, again.facts.repeated) == (False, True)
        assert again.facts.parts == facts.parts
        assert [row["d"] for row in again.rows()] == [row["c"] for row in found]
        assert con.stream.accounts.spent.astype(int).sum() == before.sum() + paid.sum()
    assert "only 2024-02-06" in con.releases(1)[0].query


def test_groups_are_joined_from_several_releases_that_are_sure_enough() -> None:
    for sure, joined in ((0.99, True), (0.95, False)):
        con = store()
        for kinds in ("0, 1", "2", "3, 4"):
            con.sql(
                f"SELECT n, count(*) AS c FROM t WHERE n IN ({kinds}) GROUP BY n", confidence=sure
            )
        whole = con.lower("SELECT n, count(*) AS c FROM t WHERE n BETWEEN 0 AND 4 GROUP BY n")
        known = con.stream.known(whole, Options(), anyhow=True)
        assert (known is not None) == joined
        if known is not None:
            assert known.facts.parts == (1, 2, 3)
            assert known.facts.confidence == pytest.approx(0.97)
            asked = [row for i in (1, 2, 3) for row in con.release(i).rows()]
            assert known.rows() == asked


def test_rows_that_are_too_early_are_left_out_one_by_one() -> None:
    con = store(kappa=1024.0, norm_budget=1e6, in_or_out=True)
    new = rows(2, first=28, days=6, size=200)
    none = pa.table({"who": [1, 2], "n": [0, 0], "day": pa.array([None, None], pa.date32())})
    taken = sum(day >= SINCE for day in new["day"].to_pylist())
    assert con.ingest(pa.concat_tables([new, none]), since=SINCE) == taken
    assert f"{202 - taken} of 202 rows were left out: they are too early" in con.curator_notes()[-1]
    (found,) = con.sql(EVER, sigma=1.0).rows()
    assert found["c"] == pytest.approx(600 + taken, abs=5)


def test_since_must_say_something() -> None:
    keyed = sparseq.create(
        None, {"t": rows()}, user="who", time="day", row_key=["n", "day"], seed=1
    )
    timeless = sparseq.create(None, {"t": rows().select(["who", "n"])}, user="who", seed=1)
    for con, why in ((keyed, "may replace"), (timeless, "no column of dates")):
        with pytest.raises(ParameterError, match=why):
            con.ingest(rows(2, first=31), since=SINCE)
        assert con.stream.recall.epoch == 0


def test_rows_of_another_table_change_nothing() -> None:
    question = meaning_of(store().lower(EVER))
    assert question is not None
    for came, stands in (("visits", True), ("t", False)):
        standing = Standing([asdict(RowsCame(1, came, '~."day"', 1))], 1)
        assert standing.holds(0, question) == stands
        assert not standing.holds(0, Meaning("joined", (), ()))


def _grown(draw: random.Random, before: pa.Table, since: dt.date) -> pa.Table:
    """Return a table with rows since a day, and with the same rows before."""
    new = odd(draw, 400)
    kept = [i for i, day in enumerate(new["moment"].to_pylist()) if day and day.date() >= since]
    return pa.concat_tables([before, new.take(kept)])


def _check(pairs: int, seed: int) -> tuple[int, int]:
    """Check questions in random epochs against plain DuckDB; return how many stood, and changed."""
    draw = random.Random(seed)
    table = odd(draw, 1500)
    con = sparseq.create(None, {"t": table}, user="who", time="moment", seed=1)
    stood = changed = 0
    for epochs in range(pairs // 60):
        tables, standing = [table], Standing(None, 0)
        for epoch in range(1, draw.randrange(2, 5)):
            since = FIRST + dt.timedelta(draw.randrange(20, 90))
            arrival = RowsCame.of(epoch, con.catalog.only_private(), since)
            standing = Standing(standing.after(arrival).kept(), epoch)
            tables.append(_grown(draw, tables[-1], since))
        assert len(standing.kept()) == epoch, epochs
        plain = duckdb.connect()
        for _ in range(60):
            text = question(draw)
            if draw.random() < 0.6:
                before = FIRST + dt.timedelta(draw.randrange(90))
                text = f"SELECT count(*) AS x, sum(n) AS y FROM t WHERE moment < '{before}' "
                text += f"AND ({condition(draw)})"
            try:
                meaning = meaning_of(con.lower(text))
            except sparseq.QueryRefused:
                continue
            assert meaning is not None
            at = draw.randrange(len(tables))
            found = []
            for t in (tables[at], tables[-1]):
                plain.register("t", t)
                found.append(sorted(plain.execute(text).fetchall(), key=repr))
            if standing.holds(at, meaning):
                assert found[0] == found[1], text
                stood += at < len(tables) - 1
            changed += found[0] != found[1]
    return stood, changed


@pytest.mark.deep
def test_what_stands_is_so_quick() -> None:
    stood, changed = _check(120, 5)
    assert stood > 8
    assert changed > 20


@pytest.mark.deep
def test_what_stands_is_so() -> None:
    """5,000 pairs of a question and a history of rows, against plain DuckDB."""
    stood, changed = _check(5_000, 6)
    assert stood > 300
    assert changed > 800
