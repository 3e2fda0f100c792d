"""What is said of an answer before it is asked, and what an interval may be asked to rest on."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparseq
from checks.stores import made_store
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.ledger.pots import Pot

ONCE = "count(*)", "sum(x)", "avg(x)", "median(x)", "stddev(x)"
"""What lets the rest be expected."""
QUESTIONS = {
    "count(*)": (),
    "sum(x)": (),
    "avg(x)": (),
    "median(x)": (),
    "quantile(x, 0.9)": (),
    "stddev(x)": (),
    "count(DISTINCT who)": (),
    "count_if(x > 0) / count(*)": (),
    "avg(x) ": ("g",),
    "count(*) ": ("g",),
    "sum(x) ": ("g",),
    "count(DISTINCT who) ": ("g",),
}


def store(people: int, **more: Any) -> sparseq.Store:
    g = np.random.default_rng(3)
    who = np.repeat(np.arange(people), g.poisson(3, people) + 1)
    x = np.clip(g.normal(40, 10, len(who)), 0, 100)
    rows = {
        "who": who,
        "x": x,
        "y": np.clip(x + g.normal(0, 10, len(who)), 0, 200),
        "g": g.integers(0, 5, len(who)),
    }
    return made_store(
        None,
        pa.table(rows),
        table="t",
        user="who",
        seed=1,
        keys={"g": [*range(5)]},
        bounds={"x": (0, 100), "y": (0, 200)},
        **({} if more else {"answers": 240}) | more,
    )


def sql(what: str, keys: tuple[str, ...]) -> str:
    by = f" WHERE g IS NOT NULL GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join([*keys, what])} AS v FROM t{by}"


def test_what_is_expected_is_about_what_comes() -> None:
    """Half-widths within a factor of 4, the median within 1.4; values within 15 %."""
    con = store(8000)
    assert con.explain("SELECT count(*) AS v FROM t").facts["expected"] == {}
    for what in ONCE:
        con.sql(sql(what, ()), fresh=True)
    ratios = []
    for what, keys in QUESTIONS.items():
        (expected,) = con.explain(sql(what, keys)).facts["expected"].values()
        rows = con.sql(sql(what, keys), fresh=True).rows()
        half = median((row["v_high"] - row["v_low"]) / 2 for row in rows)
        ratios.append(expected["half_width"] / half)
        assert 1 / 4 < ratios[-1] < 4, (what, expected, half)
        if "corr" not in what and "count_if" not in what and "DISTINCT" not in what:
            assert expected["value"] == pytest.approx(median(row["v"] for row in rows), rel=0.15)
    assert 1 / 1.4 < median(ratios) < 1.4
    con.sql(sql("corr(x, y)", ()))
    assert con.explain(sql("corr(x, y)", ())).facts["expected"] == {}  # how two values go together


def test_what_is_of_no_use_is_refused_before_it_is_paid_for() -> None:
    con = store(60)
    con.sql("SELECT count(*) FROM t")
    by_group = "SELECT g, count(*) AS n FROM t GROUP BY g"
    left = con.stream.accounts.left(np.arange(60, dtype=np.int32)).tolist()
    course, released = con.stream.course, con.released
    with pytest.raises(QueryRefused, match=r"wider than the value: n about \d+\.?\d* ± \d+"):
        con.sql(by_group, at_least_useful=True)
    assert con.stream.accounts.left(np.arange(60, dtype=np.int32)).tolist() == left
    assert (con.stream.course, con.released) == (course, released)
    assert "wider than the value" in con.explain(by_group).facts["doubt"]
    assert con.sql(by_group).facts.release == released + 1  # it is not forbidden
    assert con.sql("SELECT count(DISTINCT who) FROM t", at_least_useful=True).facts.release


def test_of_which_nothing_is_known_is_asked() -> None:
    con = store(5)
    assert con.explain("SELECT count(*) FROM t").facts["doubt"] == ""
    con.sql("SELECT count(*) FROM t", at_least_useful=True)


def test_proved_is_what_maxima_prove_and_alike_what_is_assumed() -> None:
    con = store(4000, most={"rows": 60})
    by_default = con.sql("SELECT count(*) AS v FROM t")
    assert by_default.facts.interval == "bounded"
    alike = con.sql("SELECT count(*) AS v FROM t", interval="alike")
    assert alike.facts.interval == "assumed"
    assert alike.facts.release != by_default.facts.release  # another answer: it is paid for
    again = con.sql("SELECT count(*) AS v FROM t", interval="alike")
    assert again.facts.repeated
    assert again.facts.release == alike.facts.release
    (wide,), (narrow,) = by_default.rows(), alike.rows()
    assert narrow["v_high"] - narrow["v_low"] < wide["v_high"] - wide["v_low"]


@pytest.mark.parametrize(
    "what", ["avg(x)", "stddev(x)", "median(x)", "corr(x, y)", "count_if(x > 40) / count(*)"]
)
def test_a_proved_statistic_is_made_of_proved_measures(what: str) -> None:
    con = store(8000, most={"rows": 20})
    rows = con.sql(f"SELECT {what} AS v FROM t", interval="proved")
    assert rows.facts.interval == "bounded"
    truth = {"avg(x)": 40, "stddev(x)": 10, "median(x)": 40, "corr(x, y)": 0.7}.get(what, 0.5)
    (row,) = rows.rows()
    assert row["v_low"] <= 1.01 * truth
    assert 0.99 * truth <= row["v_high"]


def test_where_nothing_was_declared_nothing_is_proved() -> None:
    con = store(300)
    with pytest.raises(QueryRefused, match="nothing bounds what one person may add"):
        con.sql("SELECT count(*) FROM t", interval="proved")
    assert con.released == 0
    counted = con.sql("SELECT count(DISTINCT who) AS v FROM t", interval="proved")
    assert counted.facts.interval == "exact"
    with pytest.raises(ParameterError, match="it is proved or alike"):
        con.sql("SELECT count(*) FROM t", interval="true")


def faded(**more: Any) -> sparseq.Store:
    """A store that was asked until whoever was in every question counts for less than a half."""
    con = store(3000, norm_budget=48.0, **more)
    for _ in range(60):
        con.sql("SELECT sum(x) FROM t", fresh=True)
    assert con.stream.course is not None
    assert con.stream.course.least_allowance(1.0) < 0.4
    return con


@pytest.fixture(scope="module")
def of_faded() -> sparseq.Store:
    """A store of people who have faded, of which tests may ask a few questions more."""
    return faded()


def test_of_people_who_have_faded_what_is_proved_is_proved(of_faded: sparseq.Store) -> None:
    con = of_faded
    assert "nobody can be above scale" in repr(con.explain("SELECT count(DISTINCT who) FROM t"))
    by_default = con.sql("SELECT count(DISTINCT who) AS v FROM t")
    assert by_default.facts.interval == "measured"  # most pay less for a sum, and fade less
    exact = con.sql("SELECT count(DISTINCT who) AS v FROM t", interval="proved", fresh=True)
    assert exact.facts.interval == "exact"
    assert _half_width(by_default) < _half_width(exact)
    few = con.sql("SELECT count(DISTINCT who) AS v FROM t WHERE x > 70", interval="proved")
    assert few.facts.interval == "exact"
    (row,) = by_default.rows()
    assert row["v_low"] <= 3000 <= row["v_high"]


def _half_width(answer: sparseq.Answer) -> float:
    (row,) = answer.rows()
    return float(row["v_high"] - row["v_low"]) / 2


def test_where_maxima_were_declared_faded_people_are_counted_by_proof() -> None:
    con = faded(most={"rows": 40})
    answer = con.sql("SELECT count(DISTINCT who) AS v FROM t")
    assert answer.facts.interval in ("exact", "bounded")


def test_a_precision_of_people_who_have_faded_is_of_those_who_are_counted(
    of_faded: sparseq.Store,
) -> None:
    """Of some among 3,000: how many they are decides, once that is known."""
    con, text = of_faded, "SELECT count(DISTINCT who) AS v FROM t WHERE x > 45"
    with pytest.raises(QueryRefused, match="ask it once without precision"):
        con.sql(text, precision=0.5)  # how many they are is not known
    usual = con.sql(text)
    few = con.sql(text, precision=0.5)
    assert few.facts.sigma[0] < 4 * usual.facts.sigma[0]


def test_a_value_that_all_rows_have_is_explained() -> None:
    con = store(300)
    con.sql("SELECT sum(1) AS v FROM t")
    assert con.explain("SELECT sum(1) AS v FROM t").facts["expected"] == {}


def test_a_value_that_may_be_negative_is_of_use_where_it_is_near_0() -> None:
    con = store(3000)
    con.sql("SELECT avg(x - y) FROM t")
    con.sql("SELECT count(*) FROM t")
    plan = con.explain("SELECT avg(x - y) AS v FROM t")
    assert plan.facts["doubt"] == ""


def test_where_people_are_in_or_out_it_is_refused_in_words() -> None:
    con = store(50, in_or_out=True)
    for more in ({"interval": "proved"}, {"at_least_useful": True}):
        with pytest.raises(ParameterError, match="for weighted answers"):
            con.sql("SELECT count(DISTINCT who) FROM t", **more)
    assert con.released == 0


def test_a_row_tells_nothing_of_what_is_expected(tmp_path: Path) -> None:
    """What is expected follows from the course: two stores with one course say the same."""
    first, second = store(2000), store(50)
    for con in (first, second):
        con.sql("SELECT count(*) FROM t")
    second.stream.parts[Pot.QUERIES].course = first.stream.course
    text = sql("count(*) ", ("g",))
    assert first.explain(text).facts["expected"] == second.explain(text).facts["expected"]
