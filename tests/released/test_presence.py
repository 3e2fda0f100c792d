"""Groups that are not present: their values are NULL, and NULL is no group unless it is present."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sparseq
from sparseq.answers.answer_texts import said
from sparseq.question.plan import Cell, Domain, Kind, Measure
from sparseq.released.outputs import Measurements
from sparseq.released.presence import Presence

PEOPLE = 4_000
KEYS = {"status": ["open", "paid", "gone"]}
BOUNDS = {"score": (0, 100), "day": ("2024-01-01", "2024-01-10")}


def rows(seed: int, without: int = 0) -> pa.Table:
    """Two statuses; of some people's rows the status is NULL."""
    rng = np.random.default_rng(seed)
    status = [None] * without + list(rng.choice(["open", "paid"], PEOPLE - without))
    day = np.datetime64("2024-01-01") + rng.integers(0, 10, PEOPLE).astype("timedelta64[D]")
    score = rng.normal(30, 5, PEOPLE).clip(0, 100)
    return pa.table({"who": np.arange(PEOPLE), "status": status, "score": score, "day": day})


def store(table: pa.Table, seed: int = 1, keys: bool = True) -> sparseq.Store:
    known = KEYS if keys else {"status": ["open", "paid"]}
    return sparseq.create(
        None, {"t": table}, user="who", keys=known, bounds=BOUNDS, kappa=1.0, seed=seed
    )


@pytest.fixture(scope="module")
def con() -> Iterator[sparseq.Store]:
    with store(rows(1)) as made:
        yield made


@pytest.fixture(scope="module")
def truth() -> duckdb.DuckDBPyConnection:
    plain = duckdb.connect()
    plain.register("t", rows(1))
    return plain


@pytest.mark.parametrize("runs", [3, pytest.param(20, marks=pytest.mark.deep)])
@pytest.mark.parametrize("counted", ["", ", count(*) AS n"])
def test_the_group_of_nobody_never_comes_first(runs: int, counted: str) -> None:
    """Its average is noise: in SQL there is no such group."""
    for seed in range(runs):
        with store(rows(seed), seed) as con:
            found = {
                con.sql(
                    f"SELECT status, avg(score) AS a{counted} FROM t GROUP BY status "
                    f"ORDER BY a {way} LIMIT 1",
                ).rows()[0]["status"]
                for way in ("DESC", "ASC")
            }
        assert found <= {"open", "paid"}, seed


@pytest.mark.parametrize(("people", "listed"), [(0, 0), pytest.param(50, 1), pytest.param(400, 1)])
def test_null_is_a_group_if_rows_are_sure_to_have_it(people: int, listed: int) -> None:
    with store(rows(3, people), keys=False) as con:
        answer = con.sql("SELECT status, count(*) AS n, avg(score) AS a FROM t GROUP BY status")
        found = [row for row in answer if row["status"] is None]
        assert len(found) == listed
        assert any("NULL is not listed" in note for note in answer.facts.notes) != bool(listed)
        assert all(row["n_low"] <= people <= row["n_high"] for row in found)
        assert all(row["a"] is not None for row in found)


def test_declared_keys_and_days_keep_their_rows(con: sparseq.Store) -> None:
    answer = con.sql("SELECT status, count(*) AS n, avg(score) AS a FROM t GROUP BY status")
    assert {row["status"] for row in answer} == {"open", "paid", "gone"}
    gone = answer["gone"]
    assert gone["a"] is None
    assert gone["n_low"] <= 0 <= gone["n_high"]
    assert (gone["a_low"], gone["a_high"]) == (0, 100)  # of a row that may be there all the same
    days = con.sql("SELECT day, count(*) AS n FROM t WHERE score < 0 GROUP BY day")
    assert len(days) == 10


OVER_GROUPS = [
    "SELECT avg(n) AS v FROM (SELECT day, count(*) AS n FROM t GROUP BY day)",
    "SELECT min(n) AS v FROM (SELECT day, count(*) AS n FROM t GROUP BY day)",
    "SELECT count(*) AS v FROM (SELECT day, count(*) AS n FROM t GROUP BY day)",
    "SELECT avg(a) AS v FROM (SELECT status, avg(score) AS a FROM t GROUP BY status)",
    "SELECT min(a) AS v FROM (SELECT status, avg(score) AS a FROM t GROUP BY status)",
    "SELECT max(a) AS v FROM (SELECT status, avg(score) AS a FROM t GROUP BY status)",
    "SELECT sum(a) AS v FROM (SELECT status, avg(score) AS a FROM t GROUP BY status)",
    "SELECT avg(avg(score)) OVER () AS v FROM t GROUP BY status LIMIT 1",
]


@pytest.mark.parametrize("sql", OVER_GROUPS)
def test_results_over_groups_leave_out_those_that_are_not_present(
    con: sparseq.Store, truth: duckdb.DuckDBPyConnection, sql: str
) -> None:
    ((exact,),) = truth.execute(sql).fetchall()
    (row,) = con.sql(sql)
    if "v_low" in row:
        assert row["v_low"] <= exact <= row["v_high"]
    assert row["v"] == pytest.approx(exact, rel=0.1)


def test_an_interval_over_groups_has_room_for_a_group_that_may_be_there() -> None:
    """A status of three people is not present, and its average is part of the truth."""
    few = {"who": [PEOPLE, PEOPLE + 1, PEOPLE + 2], "status": ["gone"] * 3}
    few |= {"score": [90.0, 95.0, 99.0], "day": rows(1)["day"].slice(0, 3)}
    table = pa.concat_tables([rows(1), pa.table(few)])
    plain = duckdb.connect()
    plain.register("t", table)
    with store(table) as con:
        assert (
            con.sql("SELECT status, avg(score) AS a, count(*) AS n FROM t GROUP BY 1")["gone"]["a"]
            is None
        )
        for sql in OVER_GROUPS[3:]:
            ((exact,),) = plain.execute(sql).fetchall()
            (row,) = con.sql(sql)
            assert row["v_low"] <= exact <= row["v_high"], sql


def test_a_question_without_any_count_keeps_all_groups(con: sparseq.Store) -> None:
    answer = con.sql("SELECT status, sum(score) AS s FROM t GROUP BY status")
    assert {row["status"] for row in answer} == {"open", "paid", "gone", None}


@pytest.mark.parametrize(
    "value",
    ["avg(score)", "stddev(score)", "median(score)", "max(score)", "sum(score) / count(*)"],
)
def test_a_value_over_all_rows_is_null_if_there_may_be_none(con: sparseq.Store, value: str) -> None:
    """The interval stays, and sums and counts are as measured."""
    none = con.sql(f"SELECT {value} AS v, count(*) AS n FROM t WHERE score < -5")
    (row,) = none.rows()
    assert row["v"] is None
    assert row["n"] is not None
    assert any(note.startswith("values over rows are NULL") for note in none.facts.notes)
    some = con.sql(f"SELECT {value} AS v, sum(score) AS s FROM t")
    assert some.rows()[0]["v"] is not None
    assert not any("NULL" in note for note in some.facts.notes)
    without = con.sql("SELECT sum(score) AS s FROM t WHERE score < -5")
    assert without.rows()[0]["s"] is not None


def test_a_value_over_no_rows_is_null_in_an_outer_select_too(con: sparseq.Store) -> None:
    (row,) = con.sql(
        "SELECT a + 1 AS b, coalesce(a, -1) AS c FROM "
        "(SELECT avg(score) AS a FROM t WHERE score < -5)"
    ).rows()
    assert row["b"] is None
    assert row["c"] == -1


def test_how_many_rows_of_a_total_are_in_no_group_is_said() -> None:
    with store(rows(1), keys=False) as con:
        con_notes = [
            con.sql(sql).facts.notes[-1]
            for sql in (
                "SELECT status, count(*) AS n FROM t GROUP BY ROLLUP(status)",
                "SELECT status, count(*) AS n, (SELECT count(*) FROM t) AS k FROM t GROUP BY 1",
            )
        ]
    table = rows(1).set_column(1, "status", pa.array(["open", "paid", "odd", "odd"] * 1000))
    assert all(
        note.startswith("rows of the total that are in no group by status: at most")
        for note in con_notes
    )
    with store(table, keys=False) as con:
        answer = con.sql("SELECT status, count(*) AS n FROM t GROUP BY ROLLUP(status)")
        (note,) = (n for n in answer.facts.notes if n.startswith("rows of the total"))
        about, low, high = (
            int(part.replace(",", ""))
            for part in note.partition(": ")[2].replace("(", "").replace(")", "").split()
            if part != "to"
        )
        assert low <= 2000 <= high
        assert abs(about - 2000) < 60
        assert note in said(answer.arrow(), answer.facts)


def test_bins_are_counted_as_one() -> None:
    """A hundred rows in a thousand bins are rows, though no bin is above its noise."""
    bins = 1000
    counts = [Measure(Kind.ROWS, None, "bins", edges=tuple(map(float, range(bins + 1))))]
    presence = Presence.of(counts, [Domain("k", ("a", "b"), Cell("i"))])
    assert presence is not None
    noise = np.random.default_rng(1).normal(0, 1, (2, bins))
    noised = Measurements([noise + np.array([[0.0], [0.3]])], [4.0], [], 2)
    assert presence.absent(noised).tolist() == [True, False]
