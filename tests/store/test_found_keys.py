"""Privately found keys: what nobody has enough of does not come out, and both accounts hold."""

from __future__ import annotations

import datetime as dt
import decimal
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
from checks.stores import made_store
from sparseq.base.errors import ParameterError, QueryRefused, StoreError
from sparseq.engine.protocol import USER
from sparseq.mechanisms import SeededEntropy, rounded_gaussian
from sparseq.pictures.guarantee_texts import guarantee
from sparseq.question.catalog import OTHER, FoundColumns
from sparseq.store.found_keys import Keys
from sparseq.store.store import Store
from sparseq.stream.partition_selection import (
    DELTAS,
    STEPS,
    UNITS_PER_DELTA,
    chance_above,
    count_rows,
    encode_keys,
    pick_keys,
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
        "SELECT who FROM visits",
        "SELECT page FROM nothing",
        "SELECT page FROM visits WHERE true",
        "SELECT upper(page) FROM visits",
        "SELECT FROM",
        "SELECT page, who FROM visits",
        "SELECT count(*) FROM visits GROUP BY page",
        "SELECT page FROM visits GROUP BY upper(page)",
    ],
)
def test_only_a_column_of_texts_is_looked_through(sql: str) -> None:
    with made() as con, pytest.raises(QueryRefused):
        Keys(con).discover(sql)


# -- keys of several columns, of numbers, dates and times -----------------------------------------


DAYS = [dt.date(2024, 1, 1) + dt.timedelta(i) for i in range(3)]


def typed(path: str | Path | None = None, people: int = 400, **options: object) -> Store:
    """A key of two columns that many have, and one of one person; the rest lack a value."""
    both = [("a", 1), ("a", 2), ("1:a", 1), ("b", None), (None, 2), (OTHER, 1)]
    own = [both[i % 6] for i in range(people - 1)] + [("a", 3)]
    rows = pa.table(
        {
            "who": range(people),
            "kind": [k for k, _ in own],
            "z": pa.array([z for _, z in own], pa.int32()),
            "day": [DAYS[i % 3] for i in range(people)],
            "f": [(-0.0, 0.1, math.nan, 0.0)[i % 4] for i in range(people)],
            "at": [dt.datetime(2024, 1, 1, i % 3, 30) for i in range(people)],
            "p": [decimal.Decimal(i % 2) / 4 for i in range(people)],
        }
    )
    said = {"seed": 3, "keys_delta": 1e-6, "kappa": 1024.0} | options
    return made_store(path, rows, table="t", user="who", **said)


@pytest.mark.parametrize("place", ["file", "windows", pytest.param("lake", marks=pytest.mark.deep)])
def test_keys_of_several_columns_are_those_that_occur_together(place: str, tmp_path: Path) -> None:
    where = {"windows": {"window": "month", "time": "day"}, "lake": {"buckets": 2}}
    path = f"lake://{tmp_path}/l" if place == "lake" else tmp_path / "s.sparseq"
    with typed(path, **where.get(place, {})) as con:
        found = Keys(con).discover("SELECT z, kind FROM t").arrow().to_pydict()
        assert found == {"kind": ["1:a", "a", "a"], "z": [1, 1, 2]}
        answer = con.sql("SELECT z, count(*) AS n, kind FROM t GROUP BY kind, z").rows()
        exact = {("1:a", 1): 67, ("a", 1): 67, ("a", 2): 67, (OTHER, None): 199}
        assert {(r["kind"], r["z"]) for r in answer} == exact.keys()
        assert all(abs(r["n"] - exact[r["kind"], r["z"]]) < 5 for r in answer)
        some = con.sql("SELECT kind, z, count(*) AS n FROM t WHERE z = 2 GROUP BY kind, z").rows()
        assert [(r["kind"], r["z"], round(r["n"], -1)) for r in some] == [
            ("a", 2, 70),
            (OTHER, None, 70),
        ]
        outer = con.sql("SELECT z, n FROM (SELECT kind, z, count(*) AS n FROM t GROUP BY 1, 2)")
        assert sorted(str(r["z"]) for r in outer.rows()) == ["1", "1", "2", "None"]
        assert len(Keys(con).discover("SELECT z, kind FROM t")) == 0, "each is found once"
    with sparseq.connect(path) as con:
        assert Keys(con).list() == {"t": {"kind, z": [["1:a", 1], ["a", 1], ["a", 2]]}}


def test_keys_are_typed_and_the_rest_has_none() -> None:
    with typed() as con:
        for column, keys in {
            "day": DAYS,
            "f": [0.0, 0.1],
            "p": [decimal.Decimal(0), decimal.Decimal("0.25")],
            "at": [dt.datetime(2024, 1, 1, h, 30) for h in range(3)],
        }.items():
            found = Keys(con).discover(f"SELECT {column} FROM t").arrow()[column].to_pylist()
            assert sorted(found) == keys
            rows = con.sql(f"SELECT {column}, count(*) AS n FROM t GROUP BY {column}").rows()
            assert sorted(r[column] for r in rows if r[column] is not None) == keys
            assert sum(round(r["n"]) for r in rows) == pytest.approx(400, abs=8)
        hours = con.sql("SELECT hour(at) AS h, count(*) AS n FROM t GROUP BY h").rows()
        assert [r["h"] for r in hours] == [*range(24)], (
            "what is public without a search stays what it was"
        )


def test_no_two_keys_have_one_text_and_each_is_read_back() -> None:
    """Random tuples of a few odd values, so that lengths and separators would be mistaken."""
    rng = random.Random(7)
    texts, numbers = ["", ":", "1:", "1:1", "0:", "11", "é", "12:"], [0, 1, 11, 12, -1, 2**40]
    rows = [
        (rng.choice(texts), rng.choice(numbers), rng.choice(texts), rng.choice(DAYS))
        for _ in range(3000)
    ]
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    keys = encode_keys(columns).to_pylist()
    assert len(set(keys)) == len(set(rows)) == len(set(zip(keys, rows, strict=True)))
    of = FoundColumns(("a", "b", "c", "d"), ("VARCHAR", "BIGINT", "VARCHAR", "DATE"))
    assert [of.decoded(key) for key in keys] == rows


def test_a_level_of_a_life_has_no_keys() -> None:
    with pytest.raises(ParameterError, match="level for life"):
        typed(window="month", time="day", lifetime_kappa=2048.0)


@pytest.mark.deep
def test_a_tuple_of_one_person_comes_out_at_most_at_the_rate_of_delta() -> None:
    """400 stores with 20 tuples of one person each, delta 0.2 at the most a person: as in theory.

    Each person has 20 picks, pays a delta of 0.2 for them together, and so has a key that comes
    out with a chance of at most 0.2 (about 0.18): 400 stores tell 0.2 from 0.3 by 4 deviations.
    """
    some = 0
    for seed in range(400):
        rows = pa.table({"who": [1] * 20, "a": [f"k{i}" for i in range(20)], "b": range(20)})
        said = sparseq.Questions(keys_delta=0.2)
        with sparseq.create(
            None, {"t": rows}, user="who", seed=seed, kappa=1.0, purposes=[said]
        ) as con:
            some += len(Keys(con).discover("SELECT a, b FROM t", picks=20, delta=0.2)) > 0
    assert 0.1 < some / 400 < 0.2 + 4 * math.sqrt(0.2 * 0.8 / 400)


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
    tighter = [m * chance_above(weight_of(m), found.steps - 1, sigma) for m in range(1, 17)]
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
    sums = pick_keys([count_rows([batch])], [], 16)
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
    names = con.stream.engine.by_people(con.catalog.table("t"), ["page"], count_rows, people)
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
        sums = pick_keys(tallies, known, most)
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
