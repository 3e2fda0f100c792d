"""One budget for a population: no person above it, whatever stops, copies or mixes its stores."""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import receipt_check

import sparseq
from checks import population_kills
from checks.population_kills import audited, worth
from sparseq.base.errors import ParameterError, StoreError, StoreInUse
from sparseq.cli.app import sparseq as command
from sparseq.ledger._duckdb.journal import Journal
from sparseq.ledger._duckdb.progress_record import Lock
from sparseq.ledger.pots import Pot
from sparseq.ledger.purposes import Purpose
from sparseq.store import population as populations
from sparseq.store import store_draws
from sparseq.store.account_roots import publish_root, published_roots
from sparseq.store.curator import forget
from sparseq.store.population import UNITS, Population, open_population
from sparseq.store.receipt import receipt
from sparseq.store.store_draws import newcomers
from sparseq.stream.new_purpose import add_purpose
from sparseq.training import ClosedForm, PrivateGD, family

COUNT = "SELECT count(*) AS n FROM t"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    sparseq.create_population(tmp_path / "people", kappa=0.5)
    return tmp_path


def store(place: Path, name: str | None, people: Any, kappa: float = 0.25, **more: Any) -> Any:
    rows = pa.table({"who": list(people)})
    path = None if name is None else place / name
    drawn = more.pop("population", place / "people"), more.pop("draw", 1.0)
    more = {"user": "who", "population": drawn, "kappa": kappa} | more
    return sparseq.create(path, {"t": rows}, **more)


def budget(con: sparseq.Store) -> dict[str, int]:
    """Units of questions, by person."""
    names = con.stream.ledger.identifiers(con.backend.people().inside().tolist())
    return {str(n): int(con.stream.accounts.budgets[u]) for u, n in names.items() if n is not None}


@pytest.mark.deep
def test_what_is_public_does_not_tell_whether_anybody_came(place: Path) -> None:
    """Neighbours: rows of somebody new, or of nobody new; another store has drawn in between."""
    seen = []
    for name, who in (("a", 2), ("b", 99)):
        sparseq.create_population(place / f"{name}.people", kappa=0.5)
        more = {"population": place / f"{name}.people"}
        with store(place, name, range(3), 0.375, draw=0.5, **more) as con:
            store(place, None, [7], 0.5, **more).close()
            con.ingest(pa.table({"who": [who]}))
            facts = con.budget()
            facts["population"] |= {"id": "", "place": ""}
            people = sparseq.population_facts(place / f"{name}.people")
            seen.append(
                (
                    facts,
                    con.stream.course,
                    people["least_left"],
                    [(s["share"], s["draws"]) for s in people["stores"]],
                )
            )
    assert seen[0] == seen[1]


def given(place: Path) -> dict[str, int]:
    with open_population(place / "people") as population:
        names = population.ledger.identifiers(range(population.people))
        return {n: int(population.spent[u]) for u, n in names.items()}


def test_each_is_given_the_amount_or_what_is_left_and_all_of_it_is_charged(place: Path) -> None:
    with store(place, "a", range(6), 0.375) as a, store(place, "b", range(4, 9), draw=0.5) as b:
        b.draw(0.5)  # 3/4, then 1/4, then 1/4 of everybody: for 4 and 5 there is 1/4 in all
        whole = 48 << 24
        assert budget(a) == {str(w): whole for w in range(6)}
        assert budget(b) == {"4": whole // 2, "5": whole // 2, "6": whole, "7": whole, "8": whole}
        assert given(place) == {
            str(w): UNITS * (3 if w < 4 else 4 if w < 6 else 2) // 4 for w in range(9)
        }
        facts = sparseq.population_facts(place / "people")
        assert (facts["least_left"], [s["share"] for s in facts["stores"]]) == (0.0, [0.75, 0.5])
        assert b.stream.course is not None
        assert b.stream.course.least == 24.0  # what 4 and 5 have; of others nobody is told
        b.ingest(pa.table({"who": [0, 20]}))
        assert budget(b)["0"] == whole // 2  # a newcomer of b, whom a has known
        assert budget(b)["20"] == whole


@pytest.mark.deep
def test_amounts_are_rounded_so_that_no_store_is_worth_more_than_it_has_drawn(place: Path) -> None:
    """In exact fractions, for levels and shares that no whole units fit."""
    with (
        store(place, "a", [1, 2], 0.3, draw=1 / 3) as a,
        store(place, "b", [2, 3], 0.2 + 1e-9) as b,
    ):
        a.draw(1 / 7)
        a.draw(0.1)
        charged = given(place)
        for who in "123":
            held = sum(Fraction(budget(con).get(who, 0)) * worth(con) for con in (a, b))
            paid = Fraction(charged[who], UNITS) * Fraction(0.5)
            assert 0 < held <= paid <= Fraction(0.5)
            assert paid - held < Fraction(1, 10**8)


class Stop(BaseException):
    """Ends a draw as a kill would: nothing after it is done."""


def before(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **more: Any) -> Any:
        raise Stop

    return call


def after(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **more: Any) -> Any:
        function(*args, **more)
        raise Stop

    return call


def come(con: sparseq.Store, who: int) -> None:
    con.ingest(pa.table({"who": [who]}))


SEAMS: dict[str, tuple[Any, str, Any]] = {
    "begun, and not asked": (Population, "give", before),
    "accounts are there, and not charged": (Journal, "commit", before),
    "charged, and not told": (Population, "give", after),
    "told, and not added": (store_draws, "_add", before),
    "added, and not in memory": (store_draws, "_add", after),
}


@pytest.mark.parametrize("newcomers", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_a_draw_that_stops_between_its_phases_is_done_once(
    place: Path, monkeypatch: pytest.MonkeyPatch, newcomers: bool
) -> None:
    con = store(place, "a", range(3), draw=0.25)
    expected = Fraction(1, 4)
    step = come if newcomers else lambda con, _: con.draw(0.125)
    for place_of, (seam, (owner, name, how)) in enumerate(SEAMS.items()):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, how(getattr(owner, name)))
            with pytest.raises(Stop):
                step(con, 100 + place_of)
            con.backend.abandon()  # what is durable is what a kill leaves
        con = sparseq.connect(place / "a")
        expected += 0 if newcomers else Fraction(1, 8)
        assert set(budget(con).values()) == {int(expected * (48 << 24))}, seam
        assert set(given(place).values()) == {int(expected * UNITS // 2)}, seam
        assert len(budget(con)) == 3 + newcomers * (place_of + 1)
    con.close()


def test_a_copy_that_was_put_back_does_not_open_nor_does_one_that_goes_on_all_the_same_spend(
    place: Path,
) -> None:
    with store(place, "a", range(3), draw=0.5) as a:
        a.sql(COUNT)
    shutil.copy(place / "a", place / "copy")
    with sparseq.connect(place / "a") as a:
        a.draw(0.25)
        a.sql(COUNT, fresh=True)
        drawn = budget(a)
    with pytest.raises(StoreError, match="copy lacks 1 answer"):
        sparseq.connect(place / "copy")
    with sparseq.connect(place / "copy", accept_loss=True) as copy:
        accounts = copy.stream.accounts
        assert accounts.spent.tolist() == accounts.budgets.tolist() != [0, 0, 0]
        before = accounts.budgets.copy()
        copy.draw(0.125)  # and not what the other copy was given
        assert (accounts.budgets - before).tolist() == [6 << 24] * 3
        assert copy.sql(COUNT, fresh=True).facts.release
    with sparseq.connect(place / "copy") as copy:
        assert copy.stream.accounts.spent.max() < copy.stream.accounts.budgets.max()
    with pytest.raises(StoreError, match=r"not the copy that was asked last|lacks"):
        sparseq.connect(place / "a")
    both = sum(drawn.values()) + 3 * (6 << 24)
    rate = Fraction(both, 48 << 24) / 2  # kappa 0.25 of 0.5
    assert sum(given(place).values()) == rate * UNITS


def test_a_population_that_was_put_back_is_refused(place: Path) -> None:
    with store(place, "a", range(3), draw=0.5) as a:
        shutil.copy(place / "people", place / "then")
        a.draw(0.25)
        now = place / "now"
        shutil.move(place / "people", now)
        shutil.copy(place / "then", place / "people")
        with pytest.raises(StoreError, match="not the population that was drawn from last"):
            a.draw(0.125)
        a.sql(COUNT)  # what it has, it has
    with pytest.raises(StoreError, match="not the population that was drawn from last"):
        sparseq.connect(place / "a")  # the draw that was begun
    shutil.copy(now, place / "people")
    with sparseq.connect(place / "a") as a:
        assert set(budget(a).values()) == {int(0.875 * (48 << 24))}


@pytest.mark.deep
def test_a_store_goes_on_without_a_population_that_is_gone(place: Path) -> None:
    con = store(place, "a", range(3), draw=0.5)
    gone = place / "people"
    rows, now = pa.table({"who": [7]}), place / "now"
    with newcomers(con.stream, con.backend):
        con.backend.ingest(con.catalog.only_private(), rows, None, "", True, False)
        gone.rename(now)
        con.backend.abandon()  # a kill before anything was drawn for 7
    with pytest.raises(StoreError, match="there is no population"):
        sparseq.connect(place / "a")
    with sparseq.connect(place / "a", accept_loss=True) as con:
        assert budget(con) == {"0": 24 << 24, "1": 24 << 24, "2": 24 << 24, "7": 0}
        assert con.stream.course is not None
        assert con.stream.course.least == 0
        assert not con.losses
        now.rename(gone)
        con.draw(0.25)
        assert budget(con)["7"] == 12 << 24


@pytest.mark.deep
def test_what_is_told_where_it_can_not_be(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with store(place, "a", range(3), draw=0.5) as a:
        for share in (0.75, 0.0, 1.5):
            with pytest.raises(ParameterError, match=r"may draw 50.0000% more|more than 0"):
                a.draw(share)
        with pytest.raises(ParameterError, match=r"identifiers are text in .*, and whole numbers"):
            store(place, "text", ["x"])
        assert not (place / "text").exists()
        sparseq.create_population(place / "other")
        with pytest.raises(StoreError, match="another population"):
            a.draw(0.1, str(place / "other"))
        with pytest.raises(StoreError, match=r"no population at .*missing"):
            a.draw(0.1, str(place / "missing"))
        monkeypatch.setattr(populations, "PATIENCE", 0.0)
        held = Lock(place / "people.lock")
        with pytest.raises(StoreInUse, match="other stores have had"):
            a.draw(0.1)
        held.release()
    with pytest.raises(ParameterError, match=r"may draw 0.75 at most, and the population has 0.5"):
        store(place, None, [1], 0.75)
    without: dict[str, Any] = {
        "windows": {"window": "day", "time": "d"},
        "halt": {"purposes": [sparseq.Questions(halt=True)]},
        "a watch": {"purposes": [sparseq.Questions(watch=0.1)]},
    }
    for word, option in without.items():
        with pytest.raises(ParameterError, match=f"has not {word}"):
            store(place, None, [1], **option)
    with pytest.raises(StoreError, match="is a population, and no store"):
        sparseq.connect(place / "people")
    with pytest.raises(StoreError, match="is a store, and no population"):
        sparseq.population_facts(place / "a")


@pytest.mark.deep
def test_series_and_training_are_paid_from_what_was_drawn(place: Path) -> None:
    """A part for a series and a run: no account has more than was drawn, and each pays of it."""
    part = Purpose("daily", 0.25, 4)
    with store(place, "a", range(40), draw=0.5, purposes=[part]) as con:
        pots = con.stream.pots
        own = Pot(pots.purposes[0].answers)
        assert set(pots[own].budgets.tolist()) == {4 * (2**24 + 2**15) // 2}
        con.draw(0.25)
        held = sum(
            Fraction(int(accounts.budgets[0])) * Fraction(pots.worth(pot))
            for pot, accounts in pots.items()
        )
        assert held <= 36 << 24
        query = con.lower("SELECT count(DISTINCT who) AS n FROM t")
        con.ask(query, pot=own)
        add_purpose(con.stream, Purpose("later", 0.5, 3))
        con.draw(0.125)
        con.ingest(pa.table({"who": [100]}))
        later = Pot(pots.purposes[1].answers)
        assert pots[later].budgets[-1] > 0  # a newcomer has a part in it, as everybody
        engine = ClosedForm(
            family("linear"), np.arange(40), np.zeros((40, 1)), np.ones(40), bound=1.0
        )
        PrivateGD(steps=2, most=2, rate=0.0, people=40).fit(con, engine, run="a")
        assert pots[own].spent.max() > 0
        assert con.stream.accounts.spent.max() > 0
        assert np.all(con.stream.accounts.spent <= con.stream.accounts.budgets)
        then = {pot: accounts.budgets.tolist() for pot, accounts in pots.items()}
    assert set(given(place).values()) == {UNITS * 7 // 16}
    with sparseq.connect(place / "a") as con:
        assert then == {pot: of.budgets.tolist() for pot, of in con.stream.pots.items()}
        audited(place / "people", [con])


@pytest.mark.deep
@pytest.mark.parametrize("steps", [25, 200])
def test_random_lives_of_three_stores(place: Path, steps: int) -> None:
    """Draws, people who come and go, questions, reopening: nobody is above the budget, ever."""
    rng = random.Random(steps)
    stores = [store(place, n, range(k, k + 12), 0.3, draw=0.01) for k, n in enumerate("abc")]
    for _ in range(steps):
        k = rng.randrange(3)
        con = stores[k]
        kind = rng.choices(["draw", "ask", "come", "go", "again"], [4, 4, 2, 1, 1])[0]
        if kind == "draw":
            left = 1 - con.budget()["population"]["drawn"]
            con.draw(
                min(rng.choice([0.01, 0.07, 0.3]), left) if left > 1e-6 else 1e-6
            ) if left > 1e-6 else None
        elif kind == "ask":
            con.sql(COUNT, fresh=True)
        elif kind == "come":
            con.ingest(pa.table({"who": [rng.randrange(30)]}))
        elif kind == "go":
            forget(con, rng.choice(list(budget(con))))
        else:
            con.close()
            stores[k] = sparseq.connect(place / "abc"[k])
        if kind != "ask":
            audited(place / "people", stores)
    audited(place / "people", stores)
    for con in stores:
        con.close()


@pytest.mark.deep
def test_a_lake_draws_and_a_copy_of_it_is_refused(place: Path) -> None:
    rows = pa.table({"who": list(range(20))})
    how = {"user": "who", "population": (place / "people", 0.5), "kappa": 0.25, "buckets": 2}
    address = f"lake://{place}/lake"
    with sparseq.create(address, {"t": rows}, **how) as lake:
        lake.sql(COUNT)
        lake.draw(0.25)
    shutil.copytree(place / "lake", place / "copy")
    with sparseq.connect(place / "lake") as lake:
        lake.ingest(pa.table({"who": [100]}), once="x")
        assert sorted(set(lake.stream.accounts.budgets.tolist())) in ([36 << 24], [0, 36 << 24])
        lake.sql(COUNT, fresh=True)
        audited(place / "people", [lake])
    with pytest.raises(StoreError, match="the lake is not the copy that was asked last"):
        sparseq.connect(place / "copy")
    assert set(given(place).values()) == {int(0.375 * UNITS)}


@pytest.mark.deep
def test_of_two_copies_of_a_lake_that_are_both_open_one_answers(place: Path) -> None:
    rows = pa.table({"who": list(range(20))})
    how = {"user": "who", "population": place / "people", "kappa": 0.25, "buckets": 1}
    sparseq.create(f"lake://{place}/lake", {"t": rows}, **how).close()
    shutil.copytree(place / "lake", place / "copy")
    with sparseq.connect(place / "lake") as one, sparseq.connect(place / "copy") as other:
        one.sql(COUNT)
        with pytest.raises(StoreError, match="is not the copy that was asked last"):
            other.sql(COUNT)
        assert one.sql(COUNT, fresh=True).facts.release == 2


@pytest.mark.deep
def test_a_receipt_says_which_population_and_holds_after_more_is_drawn(place: Path) -> None:
    with store(place, "a", ["x", "y"], draw=0.5) as con:
        con.sql(COUNT)
        publish_root(con)
        con.draw(0.25)
        found = receipt(con, "x", proof=True)
        assert found["population"]["id"] == sparseq.population_facts(place / "people")["population"]
        (part,) = found["accounts"][0]["parts"]
        assert part["drawn"] == part["budget"] == 36 << 24
        roots = published_roots(con)
        receipt_check.check(*(json.loads(json.dumps(one)) for one in (found, roots)))
        part["drawn"] -= 1
        with pytest.raises(ValueError, match="root"):
            receipt_check.check(found, roots)


@pytest.mark.deep
def test_the_commands(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> str:
        command.main([str(w) for w in words], standalone_mode=False)
        return capsys.readouterr().out

    (place / "t.csv").write_text("who\n1\n2\n")
    people, shop = str(place / "people"), str(place / "shop")
    made = run(
        "create",
        shop,
        str(place / "t.csv"),
        "--user",
        "who",
        "--population",
        f"{people}=50%",
        "--kappa",
        "0.25",
    )
    assert "50 % of the most that this one may draw is drawn" in made
    assert "has drawn 75 % of the most" in run("population", "draw", people, shop, "25%")
    shown = run("population", "show", people)
    assert "62.5 % of everybody's" in shown
    assert "37.5 %" in shown
    moved = str(place / "moved")
    (place / "people").rename(moved)
    run("population", "relocate", moved, shop)
    run("ingest", shop, str(place / "t.csv"), "--again")
    assert "erased 1" in run("population", "forget", moved, "1")
    facts = json.loads(run("budget", shop, "--format", "json"))["population"]
    assert (facts["place"], facts["drawn"], facts["draws"]) == ("moved", 0.75, 3)
    assert math.isclose(
        json.loads(run("population", "show", moved, "--format", "json"))["kappa"], 0.5
    )


@pytest.mark.deep
def test_three_stores_are_killed_200_times() -> None:
    report = population_kills.run(200, seed=2)
    assert report.ok, report
    assert report.kills >= 200
    assert report.answers
    assert report.refused
