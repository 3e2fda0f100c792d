"""Parts of every budget by purpose: charges to the last unit; one leaves the others alone."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from algorithm2 import UNITS, Parted

import sparseq
from sparseq.accounting import Budget
from sparseq.base.errors import ParameterError
from sparseq.ledger.pots import Pot
from sparseq.ledger.purposes import Purpose, made, read
from sparseq.question.plan import Options
from sparseq.store.store import Store
from sparseq.stream.new_purpose import add_purpose

DAYS = 12


def rows_of(people: range, rng: random.Random) -> pa.Table:
    pairs = [(who, day) for who in people for day in range(DAYS) if rng.random() < 0.4]
    pairs += [(who, 0) for who in people]
    return pa.table({"who": [w for w, _ in pairs], "day": [d for _, d in pairs]})


def present(rows: list[pa.Table], day: int) -> dict[int, dict[int, int]]:
    """Who came on a day: the vectors of a count of people."""
    table = pa.concat_tables(rows).to_pylist()
    return {row["who"]: {0: 1} for row in table if row["day"] == day}


def asked(store: Store, day: int, sigma: float, pot: Pot) -> None:
    query = store.lower(f"SELECT count(DISTINCT who) AS n FROM t WHERE day = {day}")
    store.step(query, store.stream.contributions, Options(sigma=sigma), pot=pot)


def pots_of(store: Store) -> dict[str, Pot]:
    named = {p.name: Pot(p.answers) for p in store.stream.pots.purposes}
    return {"questions": Pot.QUERIES, **named}


def names(store: Store, users: int) -> list[int]:
    return [int(store.stream.ledger.identifiers([user])[user]) for user in range(users)]


def check_units(store: Store, reference: Parted) -> None:
    who = names(store, store.stream.people.inside())
    for name, pot in pots_of(store).items():
        accounts, part = store.stream.pots[pot], reference.parts[name]
        assert accounts.budgets.tolist() == [part.budgets[w] for w in who], name
        assert accounts.spent.tolist() == [part.spent[w] for w in who], name
    assert all(reference.loss(w) <= Fraction(reference.kappa) for w in who)


def life(seed: int, path: Path) -> None:
    """A random stream of questions, ticks, purposes that come, people who come, and restarts."""
    rng = random.Random(seed)
    norm_budget, kappa = rng.choice([3.0, 7.7, 20.0]), rng.choice([0.5, 0.1])
    rows, count = [rows_of(range(6), rng)], 6
    first = [Purpose("a", rng.choice([0.3, 0.1]), 5, rng.choice([2.0, 5.0]))] * rng.choice([0, 1])
    store = sparseq.create(
        path,
        {"t": rows[0]},
        user="who",
        kappa=kappa,
        seed=seed,
        purposes=[sparseq.Questions(in_or_out=True, counts=norm_budget), *first],
    )
    reference = Parted(kappa, norm_budget)
    for p in store.stream.pots.purposes:
        reference.purpose(p.name, p.share, p.kappa, p.counts, came=False)
    for who in range(count):
        reference.add_user(who)
    for turn in range(14):
        what = rng.random()
        if what < 0.7:
            name, pot = rng.choice(list(pots_of(store).items()))
            day, sigma = rng.randrange(DAYS), rng.choice([1.5, 3.0, 4.4])
            asked(store, day, sigma, pot)
            reference.parts[name].step([present(rows, day)], [(sigma, 1.0)])
        elif what < 0.8:
            new = rows_of(range(count, count + 2), rng)
            store.ingest(new)
            rows.append(new)
            for who in range(count, count + 2):
                reference.add_user(who)
            count += 2
        elif what < 0.9 and len(store.stream.pots.purposes) < 3:
            made = Purpose(f"later_{turn}", rng.choice([0.2, 0.5]), 6, rng.choice([1.0, 6.0]))
            p = add_purpose(store.stream, made)
            reference.purpose(p.name, p.share, p.kappa, p.counts, came=True)
        else:
            store.close()
            store = sparseq.connect(path)
        check_units(store, reference)
    store.close()


@pytest.mark.parametrize(
    "seed", [*range(5), *(pytest.param(k, marks=pytest.mark.deep) for k in (*range(5, 12), -1))]
)
def test_charges_are_those_of_the_reference(seed: int, tmp_path: Path) -> None:
    for one in range(1000, 2000) if seed < 0 else [seed]:
        life(one, tmp_path / f"{one}.sparseq")


def visits(people: int = 60) -> pa.Table:
    return rows_of(range(people), random.Random(3))


def weekly(share: float = 0.4, **more: Any) -> Purpose:
    return Purpose("weekly", share, 8, **more)


def test_a_part_that_is_enough_for_all_ticks_leaves_nobody_out() -> None:
    con = sparseq.create(None, {"t": visits()}, user="who", seed=2, purposes=[weekly()])
    (p,) = con.promise.purposes
    for day in range(8):
        query = con.lower(f"SELECT count(DISTINCT who) AS n FROM t WHERE day < {DAYS + day}")
        answer = con.ask(query, None, f"{day}", pot=Pot(p.answers))
        assert answer.facts.series == "weekly"
        assert answer.facts.sigma == (pytest.approx(p.budget().sigma_0, rel=1e-4),)
    accounts = con.stream.pots[Pot(p.answers)]
    assert np.all(accounts.spent <= accounts.budgets)
    assert np.all(con.stream.accounts.spent == 0)


def test_what_is_asked_for_one_purpose_leaves_the_others_alone() -> None:
    """Answers of a series and weights of questions are the same, whatever is asked beside them."""

    def run(beside: bool) -> tuple[list[Any], Any]:
        con = sparseq.create(None, {"t": visits()}, user="who", seed=2, purposes=[weekly()])
        pot, found = Pot(con.promise.purposes[0].answers), []
        for day in range(8):
            query = con.lower(f"SELECT count(DISTINCT who) AS n FROM t WHERE day = {day}")
            found.append(con.ask(query, None, f"{day}", pot=pot).facts.sigma)
            for _ in range(6 if beside else 0):
                con.ask(con.lower("SELECT count(DISTINCT who) AS n FROM t"), fresh=True)
        return found, con.stream.pots[pot].spent.tolist()

    assert run(True) == run(False)


def test_a_person_has_the_same_parts_alone_and_in_a_crowd() -> None:
    alone = visits().filter(pc.equal(visits()["who"], 7))

    def of_seven(rows: pa.Table) -> list[tuple[int, int]]:
        con = sparseq.create(
            None,
            {"t": rows},
            user="who",
            seed=2,
            purposes=[sparseq.Questions(in_or_out=True), weekly(counts=2.0)],
        )
        for day in range(3):
            asked(con, day, 5.0, Pot.QUERIES)
        add_purpose(con.stream, Purpose("late", 0.5, 3))
        for day in range(5):
            asked(con, day, 5.0, pots_of(con)["late"])
        at = names(con, con.stream.people.inside()).index(7)
        return [(int(a.budgets[at]), int(a.spent[at])) for _, a in con.stream.pots.items()]

    assert of_seven(visits()) == of_seven(alone)


def test_a_later_purpose_takes_its_share_of_what_is_left_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "s.sparseq"
    with sparseq.create(path, {"t": visits()}, user="who", seed=2) as con:
        con.sql("SELECT count(DISTINCT who) AS n FROM t")
        before = con.stream.accounts.left(np.arange(60, dtype=np.int32))
        p = add_purpose(con.stream, weekly(0.25))
        after = con.stream.accounts.left(np.arange(60, dtype=np.int32))
        assert (before - after == before // 4).all()
        worth = Fraction(p.kappa) / Fraction(p.counts) * int(con.stream.pots[Pot(16)].budgets.max())
        assert worth <= Fraction(0.5) / 48 * int(before.max() // 4)
        assert con.releases()[-1].query.startswith("weekly has 25% of what everybody had left")
        course = con.course_facts()
    with sparseq.connect(path) as con:
        assert con.course_facts() == course
        assert con.promise.purposes == (p,)
        assert (con.stream.accounts.left(np.arange(60, dtype=np.int32)) == after).all()


def test_a_part_that_was_in_part_time_is_read_with_wider_intervals() -> None:
    one = {"name": "weekly", "share": 0.2, "ticks": 7, "counts": 3.0, "forecast": 0.05, "off": 0.4}
    assert [p.off for p in read([one | {"fade": f} for f in (False, True)])] == [0.4, 1.0]


def test_what_makes_no_sense_is_told() -> None:
    def store_of(*purposes: Purpose) -> None:
        sparseq.create(None, {"t": visits(6)}, user="who", purposes=purposes)

    with pytest.raises(ParameterError, match="two series are called 'weekly'"):
        store_of(weekly(), weekly())
    with pytest.raises(ParameterError, match="leave something for questions"):
        store_of(weekly(0.7), Purpose("b", 0.3, 3))
    with pytest.raises(ParameterError, match="the name 'questions' is not valid for a series"):
        Purpose("questions", 0.3, 3)
    with pytest.raises(ParameterError, match="forecasts or a strategy"):
        Purpose("b", 0.3, 3, forecast=0.1, strategy="news")


def test_units_are_worth_no_more_than_what_was_given() -> None:
    store = Budget(0.37, 13.3)
    for share, counts in ((0.1, 17.0), (0.61, 3.3), (1 / 3, 546.0)):
        (p,) = made([Purpose("x", share, 9, counts)], store)
        given = p.given(np.array([int(13.3 * UNITS), 12345, 1, 0]))
        answers, aside = p.units(store, given)
        rate = Fraction(p.kappa) / Fraction(p.counts)
        for units, back in zip((answers + aside).tolist(), given.tolist(), strict=True):
            assert units * rate <= back * Fraction(0.37) / Fraction(13.3)
        assert answers[0] == int(Fraction(counts) * UNITS)  # who gave all can take part in all
