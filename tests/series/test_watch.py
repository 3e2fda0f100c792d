"""The watch: exact counts under no noise, charges against Algorithm 2, errors within their ±."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from algorithm2 import UNITS, Algorithm2
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy import stats

import sparseq
import sparseq.stream.step
from checks.stores import made_store
from sparseq.accounting import Budget, budget_units
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.cli.budget import budget_text
from sparseq.ledger.pots import Pot
from sparseq.mechanisms import AboveThreshold, LaplaceSparseVector, SeededEntropy, TreeCounter
from sparseq.mechanisms.gaussian import rounded_gaussian
from sparseq.mechanisms.laplace import discrete_laplace
from sparseq.mechanisms.tree_counter import window
from sparseq.series.watch import ActiveWatch, WatchEstimate
from sparseq.series.watch_design import WatchDesign
from sparseq.store._duckdb.file_backend import DuckBackend

SHARE = 0.25


def people(weights: list[int], first: int = 0) -> pa.Table:
    return pa.table({"who": [first + i for i, w in enumerate(weights) for _ in range(w)]})


def make(weights: list[int], path: Any = None, **more: Any) -> sparseq.Store:
    options: dict[str, Any] = {"reserves": {"watch": SHARE}, "norm_budget": 8, "seed": 1}
    return made_store(
        path, people(weights), table="t", user="who", **(options | more), in_or_out=True
    )


@contextmanager
def silence() -> Iterator[None]:
    """No noise at all: a sum is released as it is, a comparison is exact."""
    with pytest.MonkeyPatch.context() as patch:
        silent = lambda sigma, size, entropy: np.zeros(size, np.int64)  # noqa: E731
        patch.setattr(sparseq.stream.step, "rounded_gaussian", silent)
        for noise in ("threshold_noise", "query_noise"):
            patch.setattr(LaplaceSparseVector, noise, lambda self, entropy: 0)
        yield


class Reference:
    """Both pots of everybody by Algorithm 2, and the watch's counts as its page states them."""

    def __init__(self, con: sparseq.Store, thresholds: list[float]) -> None:
        budget = con.guarantee
        self.pots = {pot: Algorithm2(budget.kappa, budget.norm_budget) for pot in con.reserves}
        self.pots[Pot.QUERIES] = Algorithm2(budget.kappa, budget.norm_budget)
        self.thresholds = list(thresholds)
        self.weights: dict[int, int] = {}
        self.joined: dict[int, int] = {}  # tick, by user
        self.left_out: dict[int, int] = {}
        self.entered: set[int] = set()
        self.tick = 1

    def add(self, weights: list[int], first: int, own: float) -> None:
        whole = math.floor(Fraction(own) * UNITS)
        for user, weight in enumerate(weights, first):
            self.weights[user], self.joined[user] = weight, self.tick
            for pot, accounts in self.pots.items():
                aside = math.floor(Fraction(SHARE) * whole)
                accounts.budgets[user] = aside if pot is Pot.WATCH else whole - aside
                accounts.spent[user] = 0

    def query(self, answer: sparseq.Answer) -> None:
        accounts, before = self.pots[Pot.QUERIES], dict(self.pots[Pot.QUERIES].spent)
        (sigma,), (step,) = answer.facts.sigma, answer.facts.granularity
        vectors = {user: {0: w * round(1 / step)} for user, w in self.weights.items()}
        accounts.step([vectors], [(sigma, step)])
        for user, spent in accounts.spent.items():
            if spent == before[user]:
                self.left_out.setdefault(user, self.tick)

    def charge(self, answer: sparseq.Answer, *groups: set[int]) -> list[int]:
        """Charge the watch's pot with a 1 by each user of each group; return how many paid."""
        noise = list(zip(answer.facts.sigma, answer.facts.granularity, strict=True))
        vectors = [
            {user: {0: round(1 / g)} for user in group}
            for group, (_, g) in zip(groups, noise, strict=True)
        ]
        sums = self.pots[Pot.WATCH].step(vectors, noise)
        return [s.get(0, 0) // round(1 / g) for s, (_, g) in zip(sums, noise, strict=True)]

    def watch(self, con: sparseq.Store, seen: WatchEstimate) -> None:
        first, last = window(self.tick)
        node = con.release(seen.release)
        groups = [
            {u for u, t in when.items() if first <= t <= last}
            for when in (self.left_out, self.joined)
        ]
        paid = self.charge(node, *groups)
        assert paid == [len(group) for group in groups], "whoever is in a node can pay for it"
        (row,) = node.rows()
        assert [row["left_out"], row["joined"]] == paid
        assert (seen.dropped, seen.users) == (len(self.left_out), len(self.weights))
        assert seen.active_share == pytest.approx(1 - len(self.left_out) / len(self.weights))
        if not self.thresholds:
            assert (seen.alarm, seen.threshold, seen.alarm_release) == (None, None, None)
        else:
            design = ActiveWatch(con).design
            allowed = (1 - Fraction(self.thresholds[0])) * len(self.weights)
            limit = design.limit(self.tick, self.thresholds[0], len(self.weights))
            assert limit > allowed, "it is no false alarm without noise"
            assert seen.threshold == self.thresholds[0]
            assert seen.alarm == (len(self.left_out) >= limit)
            entering = set(self.left_out) - self.entered
            assert seen.alarm_release is not None
            alarm = con.release(seen.alarm_release)
            assert self.charge(alarm, entering) == [len(entering)]
            self.entered |= entering
            if seen.alarm:
                self.thresholds.pop(0)
                self.entered = set()
        assert (
            list(self.pots[Pot.WATCH].spent.values()) == con.stream.pots[Pot.WATCH].spent.tolist()
        )
        assert list(self.pots[Pot.QUERIES].spent.values()) == con.stream.accounts.spent.tolist()
        self.tick += 1


@settings(derandomize=True, max_examples=10, phases=[Phase.explicit, Phase.generate])
@given(
    weights=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    ticks=st.integers(1, 9),
    thresholds=st.sampled_from([[], [0.9], [0.9, 0.5, 0.2]]),
    kappa=st.sampled_from([0.02, 0.5, 512.0]),
    seed=st.integers(0, 999),
)
def test_counts_and_charges_are_those_of_the_reference(
    weights: list[int], ticks: int, thresholds: list[float], kappa: float, seed: int
) -> None:
    draw = random.Random(seed)
    with silence(), make(weights, kappa=kappa) as con:
        reference = Reference(con, thresholds)
        reference.add(weights, 0, 8)
        watch = ActiveWatch(con, ticks, thresholds)
        for tick in range(1, ticks + 1):
            for _ in range(draw.randrange(3)):
                factor = draw.choice([0.7, 1.0, 2.0])
                reference.query(
                    con.sql(
                        "SELECT count(*) FROM t", sigma=factor * con.guarantee.sigma_0, fresh=True
                    )
                )
            if draw.random() < 0.3:
                more = [draw.randrange(1, 4) for _ in range(draw.randrange(1, 3))]
                first = len(reference.weights)
                con.ingest(people(more, first))
                reference.add(more, first, 8)
            reference.watch(con, watch.tick(tick, str(tick)))
        spent, pot = (
            con.stream.pots[Pot.WATCH].spent,
            con.stream.pots[Pot.WATCH].budgets,
        )
        assert np.all(spent <= np.minimum(pot, watch.design.need))


@given(
    kappa=st.floats(2.0**-20, 2.0**9),
    norm_budget=st.floats(0.01, 1000),
    share=st.floats(0.001, 0.9),
    ticks=st.integers(1, 2**31),
    levels=st.integers(0, 5),
)
def test_whatever_a_user_has_to_pay_for_its_share_pays(
    kappa: float, norm_budget: float, share: float, ticks: int, levels: int
) -> None:
    """The dearest user of all joins and leaves in the node-richest ticks, and meets every alarm."""
    budget = Budget(kappa, norm_budget, gaussian=False)
    units = math.floor(Fraction(share) * budget_units(norm_budget))
    thresholds = [0.9 - 0.1 * i for i in range(levels)]
    if units < 2**13:
        return
    design = WatchDesign.fitting(budget, ticks, thresholds, units)
    accounts = Algorithm2(kappa, norm_budget)
    accounts.budgets, accounts.spent = {0: units, 1: units}, {0: 0, 1: 0}
    nodes = [(n.sigma, n.granularity) for n in design.node_plan.noise]
    ones = [{0: round(1 / g)} for _, g in nodes]
    for _ in range(math.floor(math.log2(ticks)) + 1):
        accounts.step([{0: ones[0]}, {0: ones[1]}], nodes)  # both in one node
        accounts.step([{1: ones[0]}], nodes[:1])  # or in two
        accounts.step([{1: ones[1]}], nodes[1:])
    for _ in thresholds:
        (noise,) = design.alarm_plan.noise
        alarm = {0: round(1 / noise.granularity)}
        accounts.step([{0: alarm, 1: alarm}], [(noise.sigma, noise.granularity)])
    assert 0.9 * units < max(accounts.spent.values())
    per_node = [accounts.rate(*n) * round(1 / n[1]) ** 2 for n in nodes]
    assert sum(accounts.spent.values()) >= sum(per_node) * 2  # nobody was left out of anything
    assert max(accounts.spent.values()) <= design.need <= units


def test_own_budgets_that_cant_pay_are_in_neither_count() -> None:
    own = {0: 8.0, 1: 8.0, 2: 4.0, 3: 1.0}
    rows = pa.table(
        {"who": [u for u in own for _ in range(3)], "own": np.repeat([*own.values()], 3)}
    )
    for smallest, users in ((None, 2), (4.0, 3), (1.0, 4)):
        with (
            silence(),
            sparseq.create(
                None,
                {"t": rows},
                user="who",
                budget_column="own",
                purposes=[sparseq.Questions(in_or_out=True, counts=8, watch=SHARE)],
            ) as con,
        ):
            watch = ActiveWatch(con, 3, [0.9, 0.5], smallest_budget=smallest)
            con.sql("SELECT count(*) FROM t", fresh=True)  # 9 a user: nobody can pay
            seen = watch.tick(1)
            assert (seen.dropped, seen.users) == (users, users)


# What an analyst sees -----------------------------------------------------------------------------


def test_nothing_but_the_noised_values_depends_on_whether_anybody_was_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the noised values held fixed, two stores that could not differ more look the same."""
    fixed = lambda plan, sums, entropy: [np.full(len(s), 1000) for s in sums]  # noqa: E731
    monkeypatch.setattr(sparseq.stream.step, "add_gaussian", fixed)
    monkeypatch.setattr(AboveThreshold, "above", lambda self, value: False)
    looks = []
    for weights in ([1] * 30, [9] * 30):
        with make(weights) as con:
            watch = ActiveWatch(con, 4)
            seen: list[Any] = []
            for tick in range(1, 5):
                con.sql("SELECT count(*) FROM t", sigma=2 * con.guarantee.sigma_0, fresh=True)
                seen.append(watch.tick(tick, f"day {tick}"))
            for wrong in ((9,), (2, "another day")):
                with pytest.raises(sparseq.SparseqError) as error:
                    watch.tick(*wrong)  # type: ignore[arg-type]
                seen.append(str(error.value))
            journal = [
                (r.id, r.request_id, r.query, r.sigma, r.bound, r.pot, r.answer)
                for r in con.releases()
            ]
            looks.append((seen, journal))
            assert bool(con.stream.departures.first.any()) == (weights[0] == 9)
    assert looks[0] == looks[1]


def test_both_are_releases_with_bounds_that_can_be_read_back() -> None:
    with make([1] * 50) as con:
        watch = ActiveWatch(con, 4, confidence=0.9)
        seen = watch.tick(1, "Monday")
        node, alarm = con.releases()
        assert (node.request_id, alarm.request_id) == ("watch/1", "watch/1/alarm")
        assert (node.pot, alarm.pot) == (Pot.WATCH, Pot.WATCH)
        assert "Monday" in node.query
        answer = con.release(alarm.id)
        assert answer.bound(0.1) == pytest.approx(alarm.bound[0]) == seen.alarm_error
        assert (answer.facts.comparisons, answer.facts.gaussian) == (4, False)
        assert watch.tick(1, "Monday") == seen
        assert len(con.releases()) == 2
        assert watch.done == 1


def test_the_budget_command_says_what_the_watch_was_begun_as() -> None:
    with make([1] * 5) as con:
        assert con.budget()["watch"] is None
        ActiveWatch(con, 31, [0.9, 0.5]).tick(1)
        facts = con.budget()
        assert facts["watch"] == {"ticks": 31, "thresholds": [0.9, 0.5], "smallest_budget": 8.0}
        assert "for 31 ticks; the alarm is for less than 90 %, 50 % active" in budget_text(facts)


# Misuse -------------------------------------------------------------------------------------------


def test_mistakes_are_told() -> None:
    with make([1] * 5, reserves={}) as con, pytest.raises(ParameterError, match="no reserve"):
        ActiveWatch(con, 4)
    with make([1] * 5) as con:
        for wrong, says in [
            ({"ticks": 0}, "ticks is 0"),
            ({"ticks": 4, "threshold": 1.5}, "threshold is 1.5"),
            ({"ticks": 4, "threshold": [0.5, 0.9]}, "must descend"),
            ({"ticks": 4, "smallest_budget": 2.0**-20}, "too little is set aside"),
            ({}, "number of ticks"),
        ]:
            with pytest.raises(ParameterError, match=says):
                ActiveWatch(con, **wrong)
        watch = ActiveWatch(con, 2, [0.9, 0.5])
        with pytest.raises(ParameterError, match="tick 2 does not follow tick 0"):
            watch.tick(2)
        watch.tick(1, "a")
        with pytest.raises(QueryRefused, match="belongs to another query"):
            watch.tick(1, "b")
        with pytest.raises(QueryRefused, match="used its 2 ticks"):
            watch.tick(3)
        with pytest.raises(ParameterError, match="tick is 0"):
            watch.tick(0)
        with pytest.raises(ParameterError, match=r"begun with ticks 2, thresholds \[0.9, 0.5\]"):
            ActiveWatch(con, 2, 0.8)
        assert ActiveWatch(con).tick(2).tick == 2


# Errors -------------------------------------------------------------------------------------------

RUNS, BETA, FALSE_ALARM = 600, 0.05, 1e-6


def exceeds(failures: int, runs: int = RUNS) -> bool:
    """Tell whether a failure rate of at most BETA is ruled out, at a false-alarm rate of 1e-6."""
    return bool(stats.binomtest(failures, runs, BETA, "greater").pvalue < FALSE_ALARM)


def test_the_counters_error_is_within_its_bound_and_half_the_bound_fails() -> None:
    """600 seeded runs of the counters at the watch's noise, all ticks of a run at once."""
    ticks = 31
    with make([1] * 5) as con:
        watch = ActiveWatch(con, ticks)
    halves = outside = at_tick = 0
    steps = np.zeros(1, np.int64)
    nodes = watch.design.node_plan.noise
    for seed in range(RUNS):
        entropy = SeededEntropy(seed)
        counters = [TreeCounter(ticks, n.lattice_sigma, entropy=entropy) for n in nodes]
        errors = np.array(
            [
                [abs(int(c.release(steps)[0])) * n.granularity for c, n in zip(counters, nodes)]  # noqa: B905
                for _ in range(ticks)
            ]
        )
        bounds = np.array([watch.errors(t, ticks) for t in range(1, ticks + 1)])
        outside += bool((errors > bounds).any())
        halves += bool((errors > bounds / 2).any())
        at_tick += bool((errors[14] > watch.errors(15)).any())
    assert not exceeds(outside)
    assert not exceeds(at_tick)
    assert exceeds(halves)
    assert at_tick > RUNS * BETA / 2, "the bound of one tick is not far too wide"


class Drawn:
    """The alarm's noise, all of a run's drawn at once, since that is quick."""

    positives, queries = 1, None

    def __init__(self, scale: float, comparisons: int, seed: int) -> None:
        self._noise = iter(discrete_laplace(scale, comparisons + 1, SeededEntropy(seed)).tolist())

    def threshold_noise(self, entropy: Any) -> int:
        return int(next(self._noise))

    query_noise = threshold_noise


def compare(design: WatchDesign, counts: list[int], limit: int, seed: int) -> list[bool]:
    """One run of the alarm's sparse vector, at the watch's noise, until it fires."""
    (noise,) = design.alarm_plan.noise
    one = round(1 / noise.granularity)
    vector = AboveThreshold(Drawn(noise.lattice_sigma, len(counts), seed), limit * one)
    fired: list[bool] = []
    while not vector.halted and len(fired) < len(counts):
        fired.append(vector.above(counts[len(fired)] * one))
    return fired


def test_the_alarms_error_is_within_its_bound_and_half_the_bound_fails() -> None:
    """600 seeded runs over a whole year; wrong: fired too early, or not in time, by the bound."""
    design = WatchDesign.fitting(Budget(0.5, 20, False), 365, [0.9], budget_units(1.0))
    bound = design.alarm_plan.bounds[0]
    limit = 1000

    def wrong(by: float, seed: int) -> bool:
        low, high = math.floor(limit - by - 1), math.ceil(limit + by)
        fired = compare(design, [low] * 364 + [high], limit, seed)
        return any(fired[:364]) or not fired[-1]

    assert not exceeds(sum(wrong(bound, seed) for seed in range(RUNS)))
    assert exceeds(sum(wrong(bound / 2, seed) for seed in range(RUNS)))


YEAR = 365


def fires(design: WatchDesign, users: int, left_out: int, margin: float, runs: int) -> Any:
    """Where watches of a year fire, (runs, ticks), drawn from the samplers of the store.

    As many are left out at every tick; `margin`: times that of the design.
    """
    (laplace,), nodes = design.alarm_plan.noise, design.node_plan.noise[1]
    of_nodes = rounded_gaussian(nodes.lattice_sigma, runs * YEAR, SeededEntropy(1))
    of_nodes = of_nodes.reshape(runs, YEAR) * nodes.granularity
    noise = discrete_laplace(laplace.lattice_sigma, runs * (YEAR + 1), SeededEntropy(2))
    noise = noise.reshape(runs, YEAR + 1) * laplace.granularity
    released, limits = np.zeros((runs, YEAR)), np.zeros((runs, YEAR))
    allowed = 1 - design.thresholds[0]
    for tick in range(1, YEAR + 1):
        released[:, tick - 1] = of_nodes[:, tick - 1]
        if before := tick & (tick - 1):
            released[:, tick - 1] += released[:, before - 1]
        more = design.limit(tick, design.thresholds[0], 0.0)
        seen = users + released[:, tick - 1]
        assert design.limit(tick, design.thresholds[0], seen[0]) in (
            math.floor(allowed * seen[0]) + more,
            1,
        )
        limits[:, tick - 1] = np.floor(allowed * seen) + margin * more
    return left_out + noise[:, 1:] >= limits + noise[:, :1]


def test_at_most_one_store_in_a_hundred_has_a_false_alarm_in_a_year() -> None:
    """2,000 stores in which as many are left out, from the first tick on, as may be without alarm.

    A rate of 1 % is ruled out at 1e-6 by 45 stores; with a rate of 3 % there are as many with a
    chance of 98 %. Two thirds of the margin fail.
    """
    design = WatchDesign.fitting(Budget(0.5, 20, False), YEAR, [0.9], budget_units(1.0))
    for users in (105, 614, 20_005):
        most = math.floor((1 - Fraction(0.9)) * users)
        false = fires(design, users, most, 1.0, 2000).any(axis=1)
        assert stats.binomtest(int(false.sum()), 2000, 0.01, "greater").pvalue > FALSE_ALARM
        early = fires(design, users, most, 2 / 3, 2000).any(axis=1)
        assert stats.binomtest(int(early.sum()), 2000, 0.01, "greater").pvalue < FALSE_ALARM
    nobody = fires(design, 105, 0, 0.0, 2000).any(axis=1)
    assert nobody.mean() > 0.95, "what it was without a margin"


def test_the_alarm_has_the_power_that_its_page_states() -> None:
    """In 95 of 100 stores it goes off on the worst day of a year, or in the month before it."""
    design = WatchDesign.fitting(Budget(0.5, 20, False), YEAR, [0.9], budget_units(1.0))
    stated = [
        (200, 0.72, 0.55),
        (614, 0.31, 0.25),
        (1220, 0.21, 0.18),
        (5000, 0.13, 0.12),
        (20_000, 0.107, 0.106),
    ]
    for users, day, month in stated:
        at_once = fires(design, users, math.ceil(day * users), 1.0, 2000)[:, 254]
        within = fires(design, users, math.ceil(month * users), 1.0, 2000)[:, 225:255]
        assert at_once.mean() > 0.94
        assert within.any(axis=1).mean() > 0.94


def whole_runs(runs: int) -> tuple[int, int, int]:
    """Runs of the watch itself: how many had an error outside of ±, of ±/2, and a wrong alarm.

    Everybody is left out in the second of three ticks. A wrong alarm is one in the first tick, with
    nobody left out, or none in the others, when all are.
    """
    weights = [1] * 300
    con = make(weights, norm_budget=4)
    outside = halves = alarms = 0
    for seed in range(runs):
        for table in ("release_1", "snapshot", "watched", "alarm"):
            con.backend.database.execute(f"DELETE FROM ledger.{table}")
        con.backend.database.execute("DROP TABLE IF EXISTS ledger.meanings")
        con.backend.database.execute("DELETE FROM meta WHERE key = 'watch'")
        con = sparseq.Store(DuckBackend(con.backend.database, None))
        con.seed = seed
        watch = ActiveWatch(con, 3, 0.5)
        errors, fired = [], []
        for tick in (1, 2, 3):
            sigma = con.guarantee.sigma_0 / 1.3  # 1.69 of 3
            con.sql("SELECT count(*) FROM t", sigma=sigma, fresh=True)
            seen = watch.tick(tick)
            truth = [300.0 if tick > 1 else 0.0, 300.0]
            bounds = np.array(watch.errors(tick, 3))
            errors.append(abs(np.array([seen.dropped, seen.users]) - truth) / bounds)
            fired.append(seen.alarm)
            assert seen.share_error is not None
            if np.all(errors[-1] <= np.array(watch.errors(tick)) / bounds):
                assert abs(seen.active_share - (tick == 1)) <= seen.share_error + 1e-12
        outside += bool(np.max(errors) > 1)
        halves += bool(np.max(errors) > 0.5)
        alarms += fired != [False, True, None]
    return outside, halves, alarms


def test_twenty_whole_runs() -> None:
    outside, halves, alarms = whole_runs(20)
    assert not exceeds(outside, 20)
    assert not exceeds(alarms, 20)
    assert exceeds(halves, 20)


@pytest.mark.deep
def test_a_thousand_whole_runs() -> None:
    outside, halves, alarms = whole_runs(1000)
    assert not exceeds(outside)
    assert not exceeds(alarms)
    assert exceeds(halves)
