"""Privately found keys: what nobody has enough of does not come out, and both accounts hold."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from algorithm2 import UNITS, Algorithm2

import sparseq
from benchmarks.stores import made_store
from sparseq.base.errors import ParameterError, QueryRefused, StoreError
from sparseq.engine.protocol import USER
from sparseq.mechanisms import SeededEntropy, rounded_gaussian
from sparseq.pictures.tables import guarantee
from sparseq.sql.catalog import OTHER
from sparseq.store.found_keys import Keys
from sparseq.store.store import Store
from sparseq.stream.partition_selection import (
    DELTAS,
    STEPS,
    UNITS_PER_DELTA,
    lifted,
    picked,
    tallied,
    threshold_for,
    units_of_delta,
    weight_of,
)

PAGES = ["home"] * 300 + ["cart"] * 98 + ["mine", None]


def made(path: Path | None = None, keys_delta: float = 1e-6, **options: object) -> Store:
    rows = pa.table({"who": [*range(len(PAGES))], "page": PAGES})
    return made_store(
        path, rows, table="visits", user="who", seed=3, keys_delta=keys_delta, **options
    )


def test_found_keys_are_grouped_by_with_a_row_for_the_rest() -> None:
    with made(kappa=1024.0, norm_budget=2.0**16) as con:
        with pytest.raises(QueryRefused, match="not public"):
            con.sql("SELECT page, count(*) AS n FROM visits GROUP BY page")
        found = Keys(con).discover("SELECT page, count(*) FROM visits GROUP BY page")
        assert found.arrow().to_pydict() == {"page": ["cart", "home"]}
        answer = con.sql("SELECT page, count(*) AS n FROM visits GROUP BY page")
        asked = {row["page"]: row for row in answer}
        assert list(asked) == ["cart", "home", None, OTHER]
        for page, exact in (("cart", 98), ("home", 300), (None, 1), (OTHER, 1)):
            assert asked[page]["n_low"] <= exact <= asked[page]["n_high"]
        texts = con.sql("SELECT upper(left(page, 2)) AS k, count(*) AS n FROM visits GROUP BY k")
        assert [row["k"] for row in texts] == ["CA", "HO", None, OTHER]
        for row, exact in zip(texts, (98, 300, 1, 1), strict=True):
            assert row["n_low"] <= exact <= row["n_high"]
        some = con.sql("SELECT page, count(*) AS n FROM visits WHERE page = 'home' GROUP BY page")
        assert [row["page"] for row in some] == ["home"]


def test_a_key_that_nobody_pays_for_is_never_found() -> None:
    """However likely noise alone is above the threshold: keys without picks are no candidates."""
    rows = pa.table({"who": [1] * 3000, "page": [f"p{i}" for i in range(3000)]})
    with sparseq.create(
        None,
        {"t": rows},
        user="who",
        seed=5,
        kappa=0.001,
        purposes=[sparseq.Questions(keys_delta=0.25)],
    ) as con:
        keys = Keys(con)
        assert len(keys.discover("SELECT page FROM t", picks=3, delta=0.125)) <= 3
        assert len(keys.discover("SELECT page FROM t", picks=3, delta=0.125)) <= 3
        paid = con.stream.ledger.notes(DELTAS)["units"].to_pylist()
        assert 0 < sum(paid) <= units_of_delta(0.25)
        assert (
            len(keys.discover("SELECT page FROM t", picks=3, delta=0.125)) == 0
        )  # nothing is left


def test_what_is_found_is_durable_and_an_ingest_finds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "web.sparseq"
    with made(path) as con:
        Keys(con).discover("SELECT page FROM visits")
        paid = con.stream.ledger.notes(DELTAS).num_rows
    with sparseq.connect(path) as con:
        assert Keys(con).list() == {"visits": {"page": ["cart", "home"]}}
        con.ingest(pa.table({"who": [*range(1000, 1400)], "page": ["new"] * 400}))
        assert Keys(con).list() == {"visits": {"page": ["cart", "home"]}}
        assert Keys(con).discover("SELECT page FROM visits").arrow().to_pydict() == {
            "page": ["new"]
        }
        again = con.stream.ledger.notes(DELTAS).num_rows
        assert again == paid + 401, "whoever has no new key pays nothing"


def test_a_search_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "web.sparseq"
    with made(path) as con:
        before = con.stream.accounts.spent.copy()

        def full(entries: object) -> None:
            raise StoreError("the disk is full")

        monkeypatch.setattr(con.stream.ledger, "commit", full)
        with pytest.raises(StoreError):
            Keys(con).discover("SELECT page FROM visits")
    with sparseq.connect(path) as con:
        assert Keys(con).list() == {}
        assert con.released == 0
        assert con.stream.ledger.notes(DELTAS).num_rows == 0
        assert np.array_equal(con.stream.accounts.spent, before)


def test_no_promise_is_shown_without_its_delta() -> None:
    with made() as con, made(keys_delta=0.0) as without:
        assert guarantee(con.guarantee).startswith("1e-6-approximate 0.5-zCDP")
        assert con.guarantee.epsilon(1e-6) == math.inf
        assert con.guarantee.epsilon(2e-6) >= without.guarantee.epsilon(1e-6)
        assert con.sql("SELECT count(*) FROM visits").facts.keys_delta == 1e-6
        assert without.guarantee.promise == "0.5-zCDP"
        with pytest.raises(ParameterError, match="keys_delta"):
            Keys(without).discover("SELECT page FROM visits")
    with pytest.raises(ParameterError, match="a tenth"):
        made(keys_delta=1e-6, epsilon=(1.0, 1e-6))
    whole = made(keys_delta=1e-7, epsilon=(1.0, 1e-6))
    assert 0.99 < whole.guarantee.epsilon(1e-6) <= 1.0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT who FROM visits", "SELECT page FROM nothing", "SELECT page FROM visits WHERE true",
        "SELECT upper(page) FROM visits", "SELECT FROM", "SELECT page, who FROM visits",
    ],
)  # fmt: skip
def test_only_a_column_of_texts_is_looked_through(sql: str) -> None:
    with made() as con, pytest.raises(QueryRefused):
        Keys(con).discover(sql)


# -- the numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
def test_a_delta_is_never_below_the_chance_that_it_pays_for(delta: float) -> None:
    from mpmath import mp, mpf, ncdf

    mp.dps = 60
    sigma = 7.3 * STEPS
    found = threshold_for(sigma, 16, delta)
    for m, units in enumerate(found.deltas[1:], 1):
        exact = m * ncdf(-(mpf(found.steps) - weight_of(m) + mpf(1) / 2) / mpf(sigma))
        assert exact * UNITS_PER_DELTA <= units <= units_of_delta(delta)
        assert units <= exact * UNITS_PER_DELTA * (1 + mpf(10) ** -10) + 3 * m
        assert m * weight_of(m) ** 2 <= STEPS**2
    tighter = [m * lifted(weight_of(m), found.steps - 1, sigma) for m in range(1, 17)]
    assert max(tighter) > units_of_delta(delta), "no lower threshold would do"


def rate_of_one(trials: int, delta: float) -> float:
    """How often the one key that one person has is released, by the store's own noise."""
    sigma = 5.0 * STEPS
    found = threshold_for(sigma, 1, delta)
    noise = rounded_gaussian(sigma, trials, SeededEntropy(11))
    return float(np.mean(weight_of(1) + noise > found.steps))


def test_a_key_of_one_person_appears_at_most_at_the_rate_of_delta() -> None:
    """400,000 trials: a rate of 1.1e-2 in place of 1e-2 would be 6 standard deviations off."""
    rate, sd = rate_of_one(400_000, 1e-2), math.sqrt(1e-2 / 400_000)
    assert 1e-2 - 4 * sd < rate < 1e-2 + 4 * sd


def mass(keys: int, seed: int) -> tuple[float, float]:
    """The mass of a Zipf law's keys that are found, with noise and by an exact threshold."""
    random_ = np.random.default_rng(seed)
    p = 1 / np.arange(1, keys + 1)
    rows, people = 60_000, 6_000
    names = random_.choice(keys, rows, p=p / p.sum())
    users = np.sort(random_.integers(0, people, rows)).astype(np.int32)
    texts = [f"/page/{i}" for i in names]
    batch = pa.record_batch({USER: users, "page": texts})
    sums = picked([tallied([batch])], [], 16)
    (measure,) = sums.contributions().measures
    sigma = 5.0 * STEPS
    found = threshold_for(sigma, 16, 1e-6 / 8)
    noised = measure.totals + rounded_gaussian(sigma, len(sums.keys), SeededEntropy(seed))
    counts = Counter(texts)
    own = np.array([counts[key] for key in sums.keys])
    above = [own[released > found.steps].sum() / rows for released in (noised, measure.totals)]
    return float(above[0]), float(above[1])


@pytest.mark.parametrize("keys", [1000, 5000])
def test_nearly_all_that_an_exact_threshold_finds_is_found(keys: int) -> None:
    noised, exact = mass(keys, 5)
    assert exact > 0.3
    assert noised >= 0.95 * exact


# -- both accounts, judged by the reference --------------------------------------------------------


def one_stream(seed: int) -> tuple[int, int]:
    """Ask a random stream of searches and questions; return who ran out of norm, and of delta."""
    rng = random.Random(seed)
    people, whole = rng.randint(3, 12), rng.choice([1e-2, 1e-4])
    who = [rng.randrange(people) for _ in range(40)]
    rows = pa.table({"who": who, "page": [rng.choice("abcdefgh") for _ in who]})
    norm_budget = rng.uniform(1.0, 6.0)
    con = sparseq.create(
        None,
        {"t": rows},
        user="who",
        kappa=8.0,
        seed=seed,
        purposes=[sparseq.Questions(in_or_out=True, counts=norm_budget, keys_delta=whole)],
    )
    names = con.stream.engine.by_people(con.catalog.table("t"), ["page"], tallied, people)
    tallies = list(names)
    reference = Algorithm2(8.0, norm_budget)
    for user in range(len(con.stream.accounts)):
        reference.add_user(user)
    spent: Counter[int] = Counter()
    budget, dropped = math.floor(Fraction(whole) * 2**62), 0
    left_out = 0
    for _ in range(rng.randint(2, 6)):
        most, delta = rng.randint(1, 4), whole * rng.uniform(0.05, 0.9)
        price = rng.choice([0.5, 1.0, 2.0])
        known = Keys(con).list().get("t", {}).get("page", [])
        answer = Keys(con).discover("SELECT page FROM t", picks=most, delta=delta, price=price)
        sigma = answer.facts.sigma[0]
        vectors, due = {}, {}
        steps = threshold_for(sigma * STEPS, most, delta)
        sums = picked(tallies, known, most)
        for user in set(sums.users.tolist()):
            own = sums.places[sums.users == user].tolist()
            if spent[user] + steps.deltas[len(own)] <= budget:
                vectors[user] = dict.fromkeys(own, weight_of(len(own)))
                due[user] = steps.deltas[len(own)]
            else:
                dropped += 1
        before = dict(reference.spent)
        reference.step([vectors], [(sigma, 1 / STEPS)])
        for user, units in due.items():
            if reference.spent[user] > before[user]:
                spent[user] += units
            else:
                left_out += 1
        assert all(units <= budget for units in spent.values())
    paid: Counter[int] = Counter()
    for row in con.stream.ledger.notes(DELTAS).to_pylist():
        paid[row[USER]] += row["units"]
    assert +paid == +spent
    assert con.stream.accounts.spent.tolist() == list(reference.spent.values())
    assert max(reference.spent.values()) <= norm_budget * UNITS
    con.close()
    return left_out, dropped


def judged(streams: range) -> None:
    found = [one_stream(seed) for seed in streams]
    assert sum(norm for norm, _ in found) > 0, "some ran out of norm"
    assert sum(delta for _, delta in found) > 0, "and some of delta"


def test_neither_account_is_overdrawn() -> None:
    judged(range(6))


@pytest.mark.deep
def test_neither_account_is_overdrawn_in_a_thousand_streams() -> None:
    judged(range(1000))
