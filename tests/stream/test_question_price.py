"""What explain says is what is charged, to the unit; what can't be met is refused before."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparseq
from sparseq.accounting import UNITS_PER_NORM
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.question.plan import Options

PEOPLE = 240
WHAT = (
    "count(*) AS v",
    "count(DISTINCT who) AS v",
    "sum(x) AS v",
    "avg(x) AS v",
    "median(x) AS v",
    "stddev(x) AS v",
    "corr(x, y) AS v",
    "sum(z) AS v",
    "avg(z) AS v",
    "count_if(x > 2) AS v",
    "count(*) AS v, sum(x) AS w",
    "avg(x) AS v, avg(y) AS w, count(DISTINCT who) AS n",
    "sum(x) / count(*) AS v",
)
WHERE = (
    "",
    " WHERE x > 1",
    " WHERE g = 1",
    " WHERE day >= DATE '2024-02-01'",
    " WHERE day >= DATE '2024-01-01' AND day < DATE '2024-02-01'",
    " WHERE x > (SELECT avg(x) FROM t)",
)
INSIDE = (
    "SELECT {what} FROM (SELECT who, sum(x) AS x, max(y) AS y, max(z) AS z, max(g) AS g, "
    "max(day) AS day FROM t GROUP BY who) AS t"
)
STORES: dict[str, dict[str, Any]] = {
    "usual": {},
    "many answers": {"purposes": [sparseq.Questions(answers=240)]},
    "declared": {"most": {"rows": 512}},
    "parts": {"purposes": [sparseq.Questions(share=0.75), sparseq.Purpose("weekly", 0.25, 52)]},
    "windows": {"window": "month", "time": "day"},
    "lifetime": {"window": ("month", 2.0), "time": "day"},
    "in or out": {"purposes": [sparseq.Questions(in_or_out=True)]},
}


def table(seed: int) -> pa.Table:
    """Rows of many users, one of whom has 2**9 at the largest value: the full payer."""
    g = np.random.default_rng(seed)
    who = np.append(np.repeat(np.arange(PEOPLE), g.integers(1, 5, PEOPLE)), np.full(512, PEOPLE))
    n, of = len(who), len(who) - 512
    full = np.arange(n) >= of
    days = np.datetime64("2024-01-01") + np.where(full, 3, g.integers(0, 60, n))
    return pa.table(
        {
            "who": who,
            "g": np.where(full, 1, g.integers(0, 3, n)),
            "day": days.astype("datetime64[D]"),
            "x": np.where(full, 4.0, g.random(n) * 4),
            "y": np.where(full, 8.0, g.random(n) * 8),
            "z": np.where(full, 16.0, g.random(n) * 16),
        }
    )


def store(kind: str, seed: int) -> sparseq.Store:
    return sparseq.create(
        None,
        {"t": table(seed)},
        user="who",
        seed=seed,
        keys={"g": [0, 1, 2]},
        bounds={"x": (0, 4), "y": (0, 8)},
        **STORES[kind],
    )


def question(g: random.Random, kind: str) -> tuple[str, dict[str, Any]]:
    """Return a random question with random options."""
    what, where = g.choice(WHAT), g.choice(WHERE)
    if kind == "lifetime":  # it has to say from when to when, and has to be of known bounds
        what, where = what.replace("z", "x"), WHERE[4]
    if g.random() < 0.15:
        text = INSIDE.format(what=what)
    elif g.random() < 0.3 and "SELECT" not in where:
        where = f"{where} AND" if where else " WHERE"
        text = f"SELECT g, {what} FROM t{where} g IS NOT NULL GROUP BY g"
    else:
        text = f"SELECT {what} FROM t{where}"
    knob = g.choice(("", "", "price", "price", "accuracy", "precision", "sigma"))
    size = {
        "price": (0.01, 64.0),
        "accuracy": (3.0, 3e3),
        "precision": (0.02, 1.0),
        "sigma": (2.0, 2e3),
    }
    options: dict[str, Any] = {}
    if knob:
        low, high = np.log(size[knob])
        options[knob] = min(float(np.exp(g.uniform(low, high))), 1e9)
        if g.random() < 0.4 and knob == "price":
            options[knob] = float(g.choice((0.25, 0.5, 2, 3, 4, 8, 40)))
    if g.random() < 0.15:
        options["scale"] = float(g.choice((1, 2.5, 8, 40)))
    if g.random() < 0.15:
        options["confidence"] = 0.9
    if g.random() < 0.1:
        options["interval"] = g.choice(("proved", "alike"))
    return text, options


KINDS = ("asked", "refused", "too few", "attained", "wishes", "exact")


def check(kind: str, seed: int, number: int) -> dict[str, int]:
    """Ask random questions; what explain says is on the answers and in the ledger."""
    con, g, seen = store(kind, seed), random.Random(f"{kind} {seed}"), dict.fromkeys(KINDS, 0)
    accounts = con.stream.accounts
    for _ in range(number):
        text, options = question(g, kind)
        before, released = accounts.spent.copy(), con.released
        try:
            said = con.explain(text, **options)
        except (QueryRefused, ParameterError) as refused:
            with pytest.raises(type(refused)):
                con.sql(text, fresh=True, **options)
            assert np.array_equal(accounts.spent, before), (text, options)
            assert con.released == released, (text, options)
            seen["refused"] += 1
            continue
        if said.facts.get("known", {}).get("free"):
            continue
        try:
            con.sql(text, **options)
        except QueryRefused as refused:  # found by a charged question: nobody can know it before
            if "too few people have a value" not in refused.message:
                raise
            seen["too few"] += 1
        new = con.releases(con.released - released) if con.released > released else []
        stated = [con.release(one.id).facts.charge * UNITS_PER_NORM for one in new]
        most = int((accounts.spent - before).max())
        units = said.facts["charge_units"]
        exact = said.facts["charge_exact"]
        assert most <= sum(stated) <= units, (text, options, most, stated, units)
        assert sum(stated) == units or not exact, (text, options, most, stated, units)
        seen["asked"] += 1
        seen["exact"] += exact
        seen["wishes"] += any(name in options for name in ("sigma", "accuracy", "precision"))
        seen["attained"] += most == units
    return seen


FULL: tuple[tuple[str, dict[str, Any]], ...] = (
    ("SELECT count(DISTINCT who) AS v FROM t", {}),
    ("SELECT count(*) AS v FROM t", {}),
    ("SELECT sum(x) AS v FROM t", {}),
    ("SELECT count(*) AS v FROM t", {"price": 2}),
    ("SELECT count(DISTINCT who) AS v FROM t", {"accuracy": 6}),
    ("SELECT count(DISTINCT who) AS v FROM t", {"sigma": 3.5}),
)


def test_the_full_payer_is_charged_what_explain_says() -> None:
    con = store("usual", 1)
    accounts = con.stream.accounts
    for text, options in FULL:
        before = accounts.spent.copy()
        said = con.explain(text, **options).facts["charge_units"]
        answer = con.sql(text, **options)
        assert (accounts.spent - before).max() == said == answer.facts.charge * UNITS_PER_NORM
    assert answer.facts.sigma[0] <= 3.5
    assert con.sql(FULL[4][0], accuracy=6).rows()[0]["v_error"] <= 6


@pytest.mark.parametrize("wish", [{"accuracy": 2}, {"sigma": 1}, {"precision": 1e-3}])
@pytest.mark.parametrize("kind", ["usual", "in or out"])
def test_a_wish_that_cannot_be_met_is_refused_and_what_can_be_is_told(
    kind: str, wish: dict[str, float]
) -> None:
    con, text = store(kind, 1), "SELECT count(DISTINCT who) AS v FROM t"
    if kind == "in or out":
        wish = {"sigma": 0.1} if "sigma" in wish else {"accuracy": 0.1}
    con.sql(text)
    before = con.stream.accounts.spent.copy()
    ways = [lambda: con.sql(text, **wish), lambda: con.explain(text, **wish)]
    for way in ways:
        with pytest.raises(QueryRefused, match=r"can be reached") as refused:
            way()
        assert np.array_equal(con.stream.accounts.spent, before)
    name, reached, *_ = refused.value.hint.split()
    answer = con.sql(text, **{name: float(reached)})  # and it is
    if name == "accuracy" and kind == "usual":
        assert answer.rows()[0]["v_error"] <= float(reached)


def test_a_number_that_stands_in_for_one_to_come_is_no_earlier_question() -> None:
    """With -1 in the place of the average, or its number, it is a question of another scale."""
    con, text = store("usual", 1), "SELECT count_if(x > 2) AS v FROM t WHERE x > "
    for plain in ("SELECT avg(x) AS v FROM t WHERE g = 1", f"{text} 1", f"{text} -1"):
        con.sql(plain)
    told, before = con.explain(f"{text} (SELECT avg(x) FROM t)", sigma=33).facts, con.released
    con.sql(f"{text} (SELECT avg(x) FROM t)", sigma=33)
    charged = [con.release(one.id).facts.charge for one in con.releases(con.released - before)]
    assert (len(charged), told["charge_exact"]) == (2, True)
    assert sum(charged) * UNITS_PER_NORM == told["charge_units"]


def test_what_cannot_be_known_before_is_refused_with_what_to_do() -> None:
    con = store("usual", 1)
    for text, wish, hint in (
        ("SELECT count(*) AS v FROM t WHERE x > 1", {"precision": 0.1}, "ask it once without"),
        ("SELECT count(DISTINCT who) AS v FROM t", {"precision": 0.1}, "ask it once"),
        ("SELECT avg(x) AS v FROM t", {"accuracy": 0.1}, "give a price"),
    ):
        with pytest.raises(QueryRefused, match=hint):
            con.sql(text, **wish)
    assert con.released == 0
    with pytest.raises(ParameterError, match="given twice"):
        con.explain("SELECT count(*) FROM t", Options(price=2), price=2)


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("SELECT count(*) AS v FROM t", {"accuracy": 400}),
        ("SELECT count(*) AS v FROM t", {"precision": 0.3}),
        ("SELECT sum(x) AS v FROM t", {"accuracy": 2000}),
        ("SELECT count(*) AS v FROM t WHERE x > 1", {"accuracy": 400}),
        ("SELECT count(*) AS v FROM t", {"accuracy": 1e-3}),
        ("SELECT count(*) AS v FROM t", {"sigma": 100}),
    ],
)
def test_a_first_question_with_a_wish_has_its_price_from_parent_pilots(
    text: str, wish: dict[str, float]
) -> None:
    con = store("usual", 1)
    told = con.explain(text, **wish).facts
    answer = con.sql(text, **wish)
    paid = int(con.stream.accounts.spent.max())
    assert not told["charge_exact"]
    assert paid == answer.facts.charge * UNITS_PER_NORM <= told["charge_units"]
    unreachable = wish == {"accuracy": 1e-3}
    assert (answer.facts.charge > told["charge"] - 1) == unreachable
    if "sigma" in wish:
        assert answer.facts.sigma[0] <= wish["sigma"]
    else:
        assert answer.facts.notes[-1].startswith("wanted ± ")


@pytest.mark.parametrize("kind", STORES)
def test_what_explain_says_is_charged(kind: str) -> None:
    assert check(kind, 1, 8)["asked"] >= 1


@pytest.mark.deep
@pytest.mark.parametrize("kind", STORES)
def test_what_explain_says_is_charged_of_many(kind: str) -> None:
    total = dict.fromkeys(KINDS, 0)
    for seed in range(2, 7):
        for name, count in check(kind, seed, 48).items():
            total[name] += count
    assert total["asked"] >= 90, total
    assert total["too few"] <= total["asked"] / 10, total
    assert total["wishes"] >= (5 if kind == "lifetime" else 10), total  # many cannot be met there
    assert total["exact"] >= total["asked"] / 2, total  # others are of columns nobody asked about
    assert total["attained"] >= (1 if kind == "in or out" else 12), total  # else it is mostly out


def test_a_curator_can_say_how_high_prices_may_be() -> None:
    con = sparseq.create(None, {"t": table(1)}, user="who", seed=1, most={"price": 4})
    text = "SELECT count(DISTINCT who) AS v FROM t"
    assert con.sql(text, price=4).facts.charge == 4.0
    before = con.stream.accounts.spent.copy()
    for way in (con.sql, con.explain):
        with pytest.raises(QueryRefused, match=r"the query has 4.5 as its price; the limit is 4"):
            way(text, price=4.5)
        with pytest.raises(QueryRefused, match=r"can have 4 at most"):
            way(text, accuracy=5)
    assert np.array_equal(con.stream.accounts.spent, before)
    assert con.sql(text, accuracy=7).facts.price <= 4


def test_what_a_wish_reached_stands_under_its_answer() -> None:
    """Expected and reached are the same where nobody can be above the scale, about so elsewhere."""
    con = store("usual", 1)
    exact = con.sql("SELECT count(DISTINCT who) AS v FROM t", accuracy=6)
    assert exact.facts.notes[-1] == "wanted ± 6, reached ± 6"
    text = "SELECT count(*) AS v FROM t"
    usual = con.sql(text).rows()[0]
    wanted = (usual["v_high"] - usual["v_low"]) / 2 * 0.7
    told = con.explain(text, accuracy=wanted).facts
    answer = con.sql(text, accuracy=wanted)
    assert answer.facts.charge == told["charge"] > 1.3125
    assert answer.facts.notes[-1].startswith(f"wanted ± {wanted:g}, reached ± ")
    (row,) = answer.rows()
    assert (row["v_high"] - row["v_low"]) / 2 <= 1.5 * wanted
    assert told["expected"]["v"]["half_width"] <= 1.05 * wanted


@pytest.mark.parametrize("price", [1.0, 4.0, 16.0])
def test_a_price_is_charged_to_the_unit(price: float) -> None:
    """Who has many rows pays p + 5/16, as people are counted for p."""
    for text, pilots in (("SELECT count(*) AS v FROM t", 5 / 16), (FULL[0][0], 0.0)):
        con = store("usual", 1)
        con.sql(text)  # what is asked once is known from now on
        before = con.stream.accounts.spent.copy()
        answer = con.sql(text, price=price, fresh=True)
        paid = int((con.stream.accounts.spent - before).max())
        assert paid == round((price + pilots) * UNITS_PER_NORM) == answer.facts.charge * 2**24
