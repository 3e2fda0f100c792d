"""What follows from a release is exactly what asking would give, or nothing follows."""

from __future__ import annotations

import math
import random
from itertools import product
from typing import Any

import duckdb
import pytest
from odd_rows import question, rows

import sparseq
from sparseq.base.errors import QueryRefused
from sparseq.question.plan import Options, Query
from sparseq.reuse.answer_cache import MEASURED
from sparseq.reuse.grid_data import from_data, to_data
from sparseq.reuse.grids import MOST_GROUPS, find_covered
from sparseq.reuse.question_meanings import meaning_of
from sparseq.reuse.recorded_cells import RecordedCells

QUESTIONS = 90  # and all of their ordered pairs


def exact(plain: duckdb.DuckDBPyConnection, text: str, query: Query) -> list[list[Any]]:
    """Return the true cells of each measure, in the order of the question's groups."""
    many = len(query.domains)
    found = {row[:many]: row[many:] for row in plain.execute(text).fetchall()}
    empty = (0,) * len(query.measures)
    cells = [found.get(key, empty) for key in product(*(d.values for d in query.domains))]
    return [[cell[i] or 0 for cell in cells] for i in range(len(query.measures))]


@pytest.mark.parametrize("seed", [1])
def test_what_follows_is_exact(seed: int) -> None:
    """8,100 pairs of a question and a release, against plain DuckDB."""
    draw = random.Random(seed)
    table = rows(draw)
    con = sparseq.create(None, {"t": table}, user="who", time="day", seed=1)
    plain = duckdb.connect()
    plain.register("t", table)
    asked = []
    while len(asked) < QUESTIONS:
        text = question(draw)
        try:
            query = con.lower(text)
        except sparseq.QueryRefused:
            continue  # no value of a key is left
        meaning = meaning_of(query)
        assert meaning is not None
        if meaning.grid is None:
            assert query.groups > MOST_GROUPS
            continue
        assert from_data(to_data(meaning.grid)) == meaning.grid
        asked.append((text, meaning.grid, exact(plain, text, query)))
    follow = added = some = 0
    for text, grid, wanted in asked:
        for other, known, cells in asked:
            parts = find_covered(grid, known)
            for one, true in zip(parts.sums, wanted, strict=False):
                found = [sum(cells[one.measure][k] for k in ks) for ks in one.groups]
                assert found == [true[group] for group in parts.groups], f"{text}\nfrom\n{other}"
            whole = len(parts.groups) == grid.groups
            follow += whole and text != other
            some += bool(parts.groups) and not whole
            added += any(len(ks) > 1 for one in parts.sums for ks in one.groups)
    assert some > 5
    assert follow > 30, "the algebra is not silent about everything"
    assert added > 10


@pytest.mark.parametrize("in_or_out", [False, True])
def test_an_answer_that_follows_is_that_sum_and_is_free(in_or_out: bool) -> None:
    table = rows(random.Random(5), 20_000)
    con = sparseq.create(
        None,
        {"t": table},
        user="who",
        time="day",
        seed=1,
        kappa=1024.0,
        purposes=[sparseq.Questions(in_or_out=in_or_out, counts=1e6)],
    )
    within = "day BETWEEN '2024-01-01' AND '2024-03-30'"
    noise = {"sigma": 0.1} if in_or_out else {"sigma": 0.25, "scale": 4}
    by_day = con.sql(f"SELECT day, count(*) AS n FROM t WHERE {within} GROUP BY day", **noise)
    paid = con.stream.accounts.spent.tolist()
    months = con.lower(
        f"SELECT date_trunc('month', day) AS m, count(*) AS n FROM t WHERE {within} GROUP BY 1"
    )
    answer = con.stream.known(months, Options(), anyhow=True)
    assert answer is not None
    assert (answer.facts.release, answer.facts.follows) == (1, True)
    assert con.stream.accounts.spent.tolist() == paid
    assert con.released == 1
    summed: dict[int, int] = {}
    for row in by_day.rows():
        summed[row["day"].month] = summed.get(row["day"].month, 0) + row["n"]
    assert [row["n"] for row in answer.rows()] == pytest.approx(list(summed.values()), rel=0.02)
    assert answer.facts.sigma[0] == pytest.approx(by_day.facts.sigma[0] * math.sqrt(31))
    assert answer.facts.confidence == pytest.approx(0.95 if in_or_out else 0.949)
    for other in (Options(sigma=1e3), Options(scale=3.0), Options(price=2.0)):
        assert con.stream.known(months, other, anyhow=True) is None
    assert con.ask(months, fresh=True).facts.follows is False


def test_precision_that_is_met_is_free() -> None:
    con = sparseq.create(
        None,
        {"t": rows(random.Random(5), 20_000)},
        user="who",
        seed=1,
        purposes=[sparseq.Questions(counts=100)],
    )
    query = con.lower("SELECT count(*) AS n FROM t WHERE n BETWEEN 0 AND 5")
    con.ask(query)  # from now on what a precision costs is known
    first = con.ask(query, Options(precision=0.25))
    looser = con.ask(query, Options(precision=0.5))
    assert looser.facts.release == first.facts.release
    assert looser.facts.follows
    row, other = looser.rows()[0], first.rows()[0]
    assert row == other
    with pytest.raises(QueryRefused, match="can be reached"):
        con.ask(query, Options(precision=1e-4))


def test_nothing_follows_for_more_people_or_other_confidence() -> None:
    con = sparseq.create(
        None,
        {"t": rows(random.Random(5))},
        user="who",
        seed=1,
        purposes=[sparseq.Questions(counts=1e4)],
    )
    within = "n BETWEEN 0 AND 3"
    con.sql(f"SELECT n, count(DISTINCT who) AS p FROM t WHERE {within} GROUP BY n")

    def follows(where: str, confidence: float | None = None) -> bool:
        query = con.lower(f"SELECT count(DISTINCT who) AS p FROM t WHERE {where}")
        known = con.stream.known(query, Options(confidence=confidence), anyhow=True)
        return known is not None and known.facts.follows

    assert follows("n = 2")
    assert follows("n > 1 AND n < 3", 0.9)
    assert not follows("n = 2", 0.99)
    assert not follows(within)
    assert not follows("n IN (2, 3)")
    wider = con.sql("SELECT count(DISTINCT who) AS p FROM t WHERE n = 2")
    assert not wider.facts.follows, "the interval of one of four cells is wider than one of one"


def test_intervals_of_sums_hold_the_truth_as_often_as_they_say() -> None:
    """Weighted: 20 stores, the sum of 12 cells whose people are cut and whose noise is not."""
    missed = 0
    table = rows(random.Random(9), 4000).select(["who", "n"])
    plain = duckdb.connect()
    plain.register("t", table)
    ((truth,),) = plain.execute("SELECT count(*) FROM t WHERE n BETWEEN -2 AND 7").fetchall()
    for seed in range(20):
        with sparseq.create(None, {"t": table}, user="who", seed=seed) as con:
            con.sql("SELECT n, count(*) AS c FROM t WHERE n BETWEEN -2 AND 7 GROUP BY n")
            total = con.lower("SELECT count(*) AS c FROM t WHERE n BETWEEN -2 AND 7")
            found = con.stream.known(total, Options(), anyhow=True)
            assert found is not None
            (row,) = found.rows()
            missed += not row["c_low"] <= truth <= row["c_high"]
    assert missed <= 20 * 0.051 + 3 * math.sqrt(20 * 0.051)


def test_cells_are_read_back_to_the_bit() -> None:
    con = sparseq.create(None, {"t": rows(random.Random(5))}, user="who", seed=1)
    con.sql(
        "SELECT n, count(*) AS c, sum(x) AS s FROM t WHERE n BETWEEN 0 AND 3 GROUP BY n", scale=10.0
    )
    (data,) = con.stream.ledger.notes(MEASURED, release=1)["measured"].to_pylist()
    cells = RecordedCells.from_bytes(data)
    assert cells.to_bytes() == data
