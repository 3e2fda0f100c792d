"""Questions in Python: each is the SQL that a person would have written."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import sparseq
from sparseq.accounting import UNITS_PER_NORM
from sparseq.base.errors import DataError, ParameterError, QueryRefused

EVENTS = pl.DataFrame(
    {
        "who": [1, 1, 2, 3, 3, 3],
        "day": [dt.date(2024, 1, d) for d in (1, 2, 1, 1, 2, 3)],
        "kind": ["gift", "book", "gift", "gift", "gift", "toy"],
        "amount": [5.0, 30.0, 40.0, 1.0, 2.0, 99.0],
    }
)


@pytest.fixture
def con() -> sparseq.Store:
    return sparseq.create(
        None,
        {"events": EVENTS},
        user="who",
        seed=3,
        purposes=[sparseq.Questions(counts=100)],
    )


@pytest.fixture
def wholly() -> sparseq.Store:
    """The same where people are in or out."""
    said = sparseq.Questions(in_or_out=True, counts=100)
    return sparseq.create(None, {"events": EVENTS}, user="who", seed=3, purposes=[said])


def test_questions_become_sql(con: sparseq.Store) -> None:
    kinds = con.count(pl.col("amount") > 20).by("kind", keys=["gift", "book"])
    assert kinds.sql == (
        "SELECT kind, COUNTIF(amount > 20) AS count FROM events "
        "WHERE (kind IN ('gift', 'book')) GROUP BY kind"
    )
    days = con.users().by("day", between=(dt.date(2024, 1, 1), dt.date(2024, 1, 3)))
    assert days.ask().arrow()["day"].to_pylist() == EVENTS["day"].unique().sort().to_list()


def test_the_same_question_in_sql_and_in_python_is_the_same_plan(con: sparseq.Store) -> None:
    ours = con.sum(pl.col("amount").clip(0, 50)).where(pl.col("kind") == "gift")
    sql = "SELECT sum(least(greatest(amount, 0), 50)) AS sum FROM events WHERE kind = 'gift'"
    mine, theirs = ours.explain(), con.explain(con.lower(sql))
    assert mine.noise == theirs.noise
    assert mine.query.relation.where == theirs.query.relation.where


def test_without_noise_answers_are_the_truth(
    wholly: sparseq.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "sparseq.stream.step.rounded_gaussian", lambda sigma, n, _: np.zeros(n, np.int64)
    )
    answer = wholly.table("events").count().by("kind", keys=["gift", "none"]).ask().pl()
    assert dict(zip(answer["kind"], answer["count"], strict=True)) == {"gift": 4, "none": 0}


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c.sum("amount"),
        lambda c: c.mean(pl.col("amount").clip(0, 100)),
        lambda c: c.table("events").quantile("amount", 0.5, [0, 10, 100]),
        lambda c: c.table("events").histogram("amount", [0, 10, 100]),
    ],
)
def test_every_aggregate_answers(con: sparseq.Store, ask: object) -> None:
    question = ask(con)  # type: ignore[operator]
    options = {"scale": 100.0} if "SUM" in question.sql else {}
    assert question.ask(**options).arrow().num_rows >= 1


def test_keys_and_between_are_one_thing(con: sparseq.Store) -> None:
    with pytest.raises(ParameterError):
        con.count().by("kind", keys=["a"], between=("a", "b"))


def test_a_key_without_a_public_domain_is_refused(con: sparseq.Store) -> None:
    with pytest.raises(QueryRefused, match="not public"):
        con.count().by("kind").ask()


# -- contributions handed over ---------------------------------------------------------------------


def handed(**columns: list[object]) -> pa.Table:
    return pa.table(columns)


def test_contributions_are_charged_their_true_squared_norm(con: sparseq.Store) -> None:
    rows = handed(user=[1, 1, 3, 1], coordinate=[0, 2, 1, 0], value=[1.0, 2.0, 0.5, 0.5])
    con.contribute(rows, coordinates=3, label="three features")
    norms = [Fraction(9, 4) + 4, Fraction(0), Fraction(1, 4)]  # users 1, 2, 3
    assert con.stream.accounts.spent.tolist() == [n * UNITS_PER_NORM for n in norms]


def test_contributions_and_sql_spend_one_budget(wholly: sparseq.Store) -> None:
    wholly.contribute(
        handed(user=[2], coordinate=[0], value=[9.9]), coordinates=1, label="most of it"
    )
    before = wholly.stream.accounts.spent[1]
    wholly.contribute(
        handed(user=[2], coordinate=[0], value=[9.9]), coordinates=1, label="too much"
    )
    assert wholly.stream.accounts.spent[1] == before
    wholly.sql("SELECT count(*) AS n FROM events")
    assert wholly.stream.accounts.spent[1] == before + UNITS_PER_NORM


def test_contributions_that_are_not_finite_count_for_nothing(con: sparseq.Store) -> None:
    values = [float("nan"), float("inf"), None]
    answer = con.contribute(
        handed(user=[1, 2, 3], coordinate=[0, 0, 0], value=values), coordinates=1, label="holes"
    )
    assert con.stream.accounts.spent.tolist() == [0, 0, 0]
    assert abs(answer.arrow()["value"][0].as_py()) <= answer.bound(1e-9)


def test_a_request_id_returns_the_recorded_answer(con: sparseq.Store) -> None:
    rows = handed(user=[1], coordinate=[0], value=[1.0])
    first = con.contribute(rows, coordinates=1, label="once", request_id="r")
    again = con.contribute(rows, coordinates=1, label="once", request_id="r")
    assert first.arrow() == again.arrow()
    assert len(con.releases()) == 1


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (handed(user=[1], coordinate=[0]), "no column 'value'"),
        (handed(user=[99], coordinate=[0], value=[1.0]), "without an account"),
        (handed(user=[1], coordinate=[5], value=[1.0]), "outside 0..1"),
        (handed(user=[1], coordinate=[-1], value=[1.0]), "outside 0..1"),
        (handed(user=["x"], coordinate=[0], value=[1.0]), "don't fit"),
    ],
)
def test_contributions_that_do_not_fit_change_nothing(
    con: sparseq.Store, rows: pa.Table, says: str
) -> None:
    with pytest.raises(DataError, match=says):
        con.contribute(rows, coordinates=2, label="wrong")
    assert not con.stream.accounts.spent.any()
    assert con.releases() == []


def test_contributions_in_any_order_are_the_same_query() -> None:
    rng = np.random.default_rng(5)
    users, coordinates = rng.integers(1, 4, 200), rng.integers(0, 7, 200)
    rows = handed(user=users, coordinate=coordinates, value=rng.normal(size=200) / 8)
    spent, values = [], []
    for order in (np.arange(200), rng.permutation(200)):
        con = sparseq.create(
            None,
            {"events": EVENTS},
            user="who",
            seed=3,
        )
        answer = con.contribute(rows.take(order), coordinates=7, label="shuffled")
        spent.append(con.stream.accounts.spent.tolist())
        values.append(answer.arrow()["value"].to_pylist())
    assert spent[0] == spent[1]
    assert values[0] == values[1]


def test_rows_as_mappings_are_a_table() -> None:
    rows = [{"who": 1, "x": 2.5}, {"who": 2, "x": None, "kind": "a"}]
    con = sparseq.create(None, {"t": rows}, user="who", seed=1)
    types = {c.name: c.type for c in con.catalog.tables[0].columns}
    assert types == {"who": "BIGINT", "x": "DOUBLE", "kind": "VARCHAR"}
    for bad in ([{"who": 1}, 3], [{"who": 1}, {"who": "b"}]):
        with pytest.raises(DataError, match="the rows can't be read as a table"):
            sparseq.create(None, {"t": bad}, user="who", seed=1)
