"""Series under strategies, held against their definition in fractions, and against their theorem.

The reference keeps, for each person, the ticks taken in and their vectors, and nothing that lies
ahead; it multiplies them out anew at every tick. It shares no code with the package.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from algorithm2 import UNITS, Algorithm2, Vector, on_lattice, round_up
from numpy.typing import NDArray

import sparseq
import sparseq.stream.step
from checks.stores import IN_OR_OUT
from sparseq.accounting import Budget, Price
from sparseq.accounting.strategies import Strategy
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.engine.cells import Cells
from sparseq.series.derive import DERIVED, NoisySeries
from sparseq.series.methods import band
from sparseq.series.methods.band import Band
from sparseq.series.methods.strategy_series import CorrelatedSeries
from sparseq.store import curator
from sparseq.store.store import Store

DAY = dt.date(2024, 3, 1)
TICKS = 9
KINDS = ("a", "b")
Row = tuple[int, int, str, float]
"""Who, tick, kind, amount."""


@dataclass
class Reference:
    """One series, by its definition."""

    accounts: Algorithm2
    taps: list[Fraction]
    step: Fraction  # of what is taken in
    sigma: float
    taken: dict[int, dict[int, Vector]] = field(default_factory=dict)

    @property
    def band(self) -> int:
        return len(self.taps) - 1

    def measured(self, user: int, tick: int) -> dict[int, int]:
        """What is measured of a person at a tick, in 2^-16 lattice steps."""
        found: dict[int, Fraction] = {}
        for s, vector in self.taken.get(user, {}).items():
            if 0 <= tick - s <= self.band:
                for k, x in vector.items():
                    found[k] = found.get(k, Fraction()) + self.taps[tick - s] * 2**16 * x
        assert all(v.denominator == 1 for v in found.values())
        return {k: int(v) for k, v in found.items() if v}

    def charge(self, square: int) -> int:
        rate = self.accounts.rate(self.sigma, float(self.step / 2**16))
        return math.ceil(square * rate)

    def held(self, user: int, tick: int) -> int:
        """What is held back for the ticks from `tick` on, were nothing more taken in."""
        mine = [s for s in self.taken.get(user, {}) if s + self.band >= tick]
        if not mine:
            return 0
        until = max(mine) + self.band
        ahead = [self.measured(user, t) for t in range(tick, until + 1)]
        square = sum(v * v for vector in ahead for v in vector.values())
        units = self.charge(square) + len(ahead)
        return units + math.ceil(Fraction(units, 1024))

    def noted(self, user: int, tick: int) -> int:
        """What is held back as long as nobody has read the series: `tick` was its last."""
        last = max(self.taken.get(user, {}), default=-1)
        blocks = tick // (self.band + 1) - last // (self.band + 1)
        return self.held(user, last + 1) if last >= 0 and blocks <= 1 else 0

    def tick(self, tick: int, vectors: dict[int, Vector]) -> dict[int, int]:
        """Take in a tick, charge it, and return the sums."""
        for user, vector in vectors.items():
            x = {k: v for k, v in vector.items() if v}
            if not x:
                continue
            mine = self.taken.setdefault(user, {})
            mine[tick] = x
            left = self.accounts.budgets[user] - self.accounts.spent[user]
            if self.held(user, tick) > left:
                del mine[tick]
        sums: dict[int, int] = {}
        for user in self.taken:
            at = self.measured(user, tick)
            due = round_up(self.charge(sum(v * v for v in at.values())))
            self.accounts.spent[user] += due
            assert self.accounts.spent[user] <= self.accounts.budgets[user]
            for k, v in at.items():
                sums[k] = sums.get(k, 0) + v
        return sums


@dataclass(frozen=True)
class Asked:
    """A question, and what a row is worth to it."""

    sql: str
    scale: float
    grouped: bool

    def vectors(self, rows: list[Row], tick: int, step: Fraction) -> dict[int, Vector]:
        found: dict[int, dict[int, int]] = {}
        for who, day, kind, amount in rows:
            if day == tick and (kind in KINDS or not self.grouped):
                mine = found.setdefault(who, {})
                at = KINDS.index(kind) if self.grouped else 0
                value = on_lattice(min(max(amount, 0.0), 10.0), float(step))
                if "sum" not in self.sql:
                    value = round(1 / step)
                mine[at] = value if "DISTINCT" in self.sql else mine.get(at, 0) + value
        return found


QUESTIONS = [
    Asked(f"SELECT {key}{what} AS n FROM t WHERE day = DATE '{{}}'{by}", scale, bool(key))
    for what, scale in (
        ("count(DISTINCT who)", 1.0),
        ("count(*)", 1.0),
        ("sum(LEAST(GREATEST(amount, 0), 10))", 10.0),
    )
    for key, by in (("", ""), ("kind, ", " GROUP BY kind"))
]


def arrow(rows: list[Row]) -> pa.Table:
    who, tick, kind, amount = zip(*rows, strict=True) if rows else ([], [], [], [])
    return pa.table(
        {
            "who": pa.array(who, pa.int64()),
            "day": pa.array([DAY + dt.timedelta(t) for t in tick], pa.date32()),
            "kind": pa.array(kind, pa.string()),
            "amount": pa.array(amount, pa.float64()),
        }
    )


def silent(sigma: float, size: int, entropy: Any = None) -> NDArray[np.int64]:
    return np.zeros(size, np.int64)


def step_of(scale: float, text: str) -> float:
    """A sum's lattice: eight full contributions can be squared over the whole band in 60 bits."""
    taps = Strategy.of(text).taps
    most = math.isqrt(2**60 // len(taps)) // sum(map(abs, taps))
    step = 2.0**-60
    while 8 * scale > most * step:
        step *= 2
    return step


def spends(store: Store) -> dict[int, int]:
    found = store.backend.database.execute("SELECT _user, id FROM ledger.users").fetchall()
    return {i: int(store.stream.accounts.spent[u]) for u, i in found if i is not None}


class World:
    """A random series in a store, beside its reference; late rows, new people, erasures, restarts,
    and an analyst who spends from the same accounts."""

    def __init__(self, seed: int, path: Path | None) -> None:
        self.random = random.Random(seed)
        r = self.random
        self.asked = r.choice(QUESTIONS)
        taps = [1.0] + [round(r.uniform(-1, 1), r.choice([1, 5])) for _ in range(r.randint(0, 4))]
        self.text = ",".join(f"{t:.6f}" for t in taps)
        self.budget = r.choice([1.3, 3.0, 8.0, 40.0])
        self.names = list(range(1, 8))  # nobody who was erased comes again
        self.ever = set(self.names)
        self.rows = [row for tick in range(TICKS) for row in self.some(tick, 8, late=False)]
        self.store = sparseq.create(
            path,
            {"t": arrow(self.rows)},
            user="who",
            kappa=0.5,
            keys={"kind": KINDS},
            bounds={"amount": (0, 10)},
            purposes=[sparseq.Questions(in_or_out=True, counts=self.budget)],
        )
        self.accounts = Algorithm2(0.5, self.budget)
        self.arrived(self.rows)
        self.series = CorrelatedSeries(self.store, "s", self.text)
        first = self.store.explain(self.store.lower(self.asked.sql.format(DAY)))
        sums = "sum" in self.asked.sql
        step = Fraction(step_of(self.asked.scale, self.text)) if sums else Fraction(1)
        taps = [Fraction(round(float(t) * 2**16), 2**16) for t in self.text.split(",")]
        self.reference = Reference(self.accounts, taps, step, first.noise[0].sigma)
        self.left_out = 0

    def some(self, tick: int, many: int, late: bool) -> list[Row]:
        r = self.random
        ticks = range(max(tick - 3, 0), tick + 1) if late else [tick]
        return [
            (
                r.choice(self.names),
                r.choice(list(ticks)),
                r.choice("abz"),
                r.choice([2.5, 9.9, 0.3, 77]),
            )
            for _ in range(r.randint(0, many))
        ]

    def arrived(self, rows: list[Row]) -> None:
        for who, *_ in rows:
            self.accounts.add_user(who)

    def run(self) -> None:
        for tick in range(TICKS):
            if tick and self.random.random() < 0.3:
                new = self.some(tick, 3, late=False) + self.some(tick - 1, 3, late=True)
                self.store.ingest(arrow(new))
                self.rows += new
                self.arrived(new)
            self.tick(tick)
            self.happens(tick)

    def tick(self, tick: int) -> None:
        sql = self.asked.sql.format(DAY + dt.timedelta(tick))
        done = self.series.ask(tick, self.store.lower(sql))
        facts, step = done.answer.facts, self.reference.step
        assert (facts.sigma, facts.granularity) == ((self.reference.sigma,), (step / 2**16,))
        vectors = self.asked.vectors(self.rows, tick, step)
        sums = self.reference.tick(tick, vectors)
        found = done.answer.arrow()["measured"].to_pylist()
        unit = step / 2**16
        assert found == [float(sums.get(k, 0) * unit) for k in range(len(found))]
        taken = self.reference.taken
        self.left_out += sum(tick not in taken[u] for u, x in vectors.items() if any(x.values()))
        assert self.accounts.spent == spends(self.store)

    def happens(self, tick: int) -> None:
        what = self.random.random()
        if what < 0.15 and self.accounts.spent:
            self.forget(self.random.choice(sorted(self.accounts.spent)))
        elif what < 0.4 and self.store.path is not None:
            path = self.store.path
            self.store.close()
            self.store = sparseq.connect(path)
            if what < 0.3:
                self.analyst(self.reference.noted, tick)
            self.series = CorrelatedSeries(self.store, "s")
        elif what < 0.5:
            self.series = CorrelatedSeries(self.store, "s", self.text)
        elif what < 0.7:
            self.analyst(self.reference.held, tick + 1)

    def forget(self, gone: int) -> None:
        curator.forget(self.store, gone)
        self.rows = [row for row in self.rows if row[0] != gone]
        self.reference.taken.pop(gone, None)
        del self.accounts.spent[gone], self.accounts.budgets[gone]
        self.names = [*(n for n in self.names if n != gone), max(self.ever) + 1]
        self.ever |= set(self.names)

    def analyst(self, held: Callable[[int, int], int], tick: int) -> None:
        """Somebody asks about everybody, and may spend what is not held back."""
        self.store.sql("SELECT count(DISTINCT who) AS n FROM t", fresh=True)
        for user in {who for who, *_ in self.rows}:
            mine = self.accounts.spent[user] + held(user, tick) + UNITS
            if mine <= self.accounts.budgets[user]:
                self.accounts.spent[user] += UNITS
        assert self.accounts.spent == spends(self.store)


def follow(seeds: range, folder: Path) -> int:
    left_out = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparseq.stream.step, "rounded_gaussian", silent)
        for seed in seeds:
            world = World(seed, folder / f"{seed}.sparseq" if seed % 4 == 0 else None)
            world.run()
            world.store.close()
            left_out += world.left_out
    return left_out


@pytest.mark.deep
def test_charges_and_measurements_are_those_of_the_definition(tmp_path: Path) -> None:
    """To the last unit; and somebody is left out in many of these streams."""
    assert follow(range(6), tmp_path) > 6


@pytest.mark.deep
def test_charges_and_measurements_of_many_streams_are_those_of_the_definition(
    tmp_path: Path,
) -> None:
    assert follow(range(1000, 2000), tmp_path) > 1000


# ---- the noise of what is published --------------------------------------------------------------

CELLS, LONG = 4000, 10


@pytest.fixture(scope="module")
def published() -> dict[str, tuple[Strategy, NDArray[np.float64], float]]:
    """Series of nobody: what is published of thousands of groups is noise alone."""
    keys = [f"k{i}" for i in range(CELLS)]
    sql = "SELECT key, count(DISTINCT who) AS n FROM t WHERE day = {} GROUP BY key"
    rows = pa.table({"who": [1], "day": [-1], "key": ["k0"]})
    found = {}
    for text in ("none", "news:0.6,3", "window:4", "fractional:-0.5,9"):
        with sparseq.create(
            None,
            {"t": rows},
            user="who",
            seed=len(found) + 5,
            keys={"key": keys},
            purposes=[sparseq.Questions(in_or_out=True, counts=30)],
        ) as store:
            series = CorrelatedSeries(store, "s", text)
            ticks = [series.ask(t, store.lower(sql.format(t))) for t in range(LONG)]
            values = np.array([tick.values for tick in ticks])
            found[text] = (series.strategy, values, float(ticks[0].answer.facts.sigma[0]))
    return found


def covariance(strategy: Strategy, sigma: float) -> NDArray[np.float64]:
    """C^-1 C^-T sigma², by a solver that knows nothing of power series."""
    c = np.zeros((LONG, LONG))
    for k, tap in enumerate(strategy.numbers.tolist()):
        c += np.diag(np.full(LONG - k, tap), -k)
    inverse = np.linalg.inv(c)
    return np.asarray(inverse @ inverse.T * sigma**2)


def fits(values: NDArray[np.float64], expected: NDArray[np.float64]) -> bool:
    """Whether noise has a covariance: each entry, after whitening, within 5 standard deviations."""
    white = np.linalg.solve(np.linalg.cholesky(expected), values)
    found = white @ white.T / CELLS
    off = np.abs(found - np.eye(LONG)) / np.sqrt((1 + np.eye(LONG)) / CELLS)
    return bool(off.max() < 5)


def test_the_noise_of_what_is_published_has_its_covariance_and_no_other(
    published: dict[str, tuple[Strategy, NDArray[np.float64], float]],
) -> None:
    """Power: with sigma 10 % off, or the taps of another strategy, the test fails."""
    for text, (strategy, values, sigma) in published.items():
        assert fits(values, covariance(strategy, sigma)), text
        assert not fits(values, covariance(strategy, 1.1 * sigma))
        assert not fits(values, covariance(strategy, 0.9 * sigma))
        others = [other for name, (other, _, _) in published.items() if name != text]
        assert not any(fits(values, covariance(other, sigma)) for other in others)


@pytest.mark.parametrize("name", ["ticks", *DERIVED])
def test_intervals_of_what_is_derived_hold_the_truth_as_often_as_they_say(
    published: dict[str, tuple[Strategy, NDArray[np.float64], float]], name: str
) -> None:
    """Over 4,000 series each; the truth is 0. `deviation` looks back further than these ticks."""
    for text, (strategy, values, sigma) in published.items():
        inside = []
        for one in values.T[: CELLS if name == "ticks" else 500]:
            series = NoisySeries.of(one, sigma, strategy=strategy)
            made = series if name == "ticks" else DERIVED[name](series)
            known = np.isfinite(made.values)
            inside.append(np.abs(made.values[known]) <= made.error[known])
        share = np.concatenate(inside)
        assert not len(share) or 0.93 < share.mean() < 0.975, (text, share.mean())


def test_a_tick_that_a_restart_follows_is_the_tick_without_it(tmp_path: Path) -> None:
    rows = [(who, t, "a", 1.0) for t in range(8) for who in range(20) if (who * t) % 3]
    sql = QUESTIONS[0].sql

    def made(path: Path | None, again: bool) -> list[float]:
        store = sparseq.create(
            path,
            {"t": arrow(rows)},
            user="who",
            seed=3,
            purposes=[sparseq.Questions(in_or_out=True, counts=4)],
        )
        found = []
        for t in range(8):
            series = CorrelatedSeries(store, "s", "news:0.5,3")
            done = series.ask(t, store.lower(sql.format(DAY + dt.timedelta(t))))
            found.append(float(done.values[0]))
            if again and path is not None:
                store.close()
                store = sparseq.connect(path)
        store.close()
        return found

    assert made(tmp_path / "a.sparseq", True) == made(None, False)


def test_what_is_fixed_before_the_first_tick_stays() -> None:
    rows = [(1, 0, "a", 1.0), (2, 1, "b", 1.0)]
    with sparseq.create(
        None, {"t": arrow(rows)}, user="who", seed=1, keys={"kind": KINDS}, purposes=IN_OR_OUT
    ) as store:
        sql = QUESTIONS[0].sql
        day = [store.lower(sql.format(DAY + dt.timedelta(t))) for t in range(3)]
        series = CorrelatedSeries(store, "s", "1,-0.5")
        first = series.ask(0, day[0])
        with pytest.raises(ParameterError, match=r"begun with strategy 1,-0\.5, not 1,0\.5"):
            CorrelatedSeries(store, "s", "1,0.5")
        with pytest.raises(ParameterError, match="give a strategy"):
            CorrelatedSeries(store, "other")
        with pytest.raises(ParameterError, match="is not the next"):
            series.ask(2, day[2])
        with pytest.raises(QueryRefused, match="was asked another query"):
            series.ask(0, day[1])
        with pytest.raises(QueryRefused, match="other groups"):
            series.ask(1, store.lower(QUESTIONS[1].sql.format(DAY)))
        assert CorrelatedSeries(store, "s").ask(0, day[0]).values == first.values
        assert store.released == 1
    weighted = sparseq.create(None, {"t": arrow(rows)}, user="who")
    with pytest.raises(ParameterError, match="in or out"):
        CorrelatedSeries(weighted, "s", "news")
    weighted.close()


@pytest.mark.parametrize("places", [1, 3])
def test_the_compiled_loops_take_in_and_measure_the_same(
    monkeypatch: pytest.MonkeyPatch, places: int
) -> None:
    price = Price.of(3.0, 2.0**-16, Budget(0.5, 9.0))

    def run(loops: bool) -> list[list[int]]:
        monkeypatch.setattr(band, "worthwhile", lambda n: loops and n > 0)
        rng, here, found = (
            np.random.default_rng(3),
            Band(Strategy.of("news:0.7,4"), price, places),
            [],
        )
        for _ in range(12):
            keys = np.flatnonzero(rng.random(200 * places) < 0.3)
            users, coordinates = np.divmod(keys.astype(np.int32), places)
            cells = Cells(users, coordinates, rng.integers(-3, 4, len(keys)))
            done = here.tick(cells, lambda users: 2**24 * (users % 30))
            found += [x.tolist() for x in (done.measured.users, done.measured.values)]
            found += [done.cells.users.tolist(), *(x.tolist() for x in here.owed())]
        return found

    assert run(loops=True) == run(loops=False)


@pytest.mark.deep
def test_a_series_goes_on_for_years_where_each_month_has_an_account(tmp_path: Path) -> None:
    """Month 36 is as exact as month 2, and nobody is missing; somebody is in every tick."""
    path, days = tmp_path / "s.sparseq", [DAY + dt.timedelta(10 * k) for k in range(108)]
    none = arrow([]).slice(0, 0)
    store = sparseq.create(
        path,
        {"t": none},
        user="who",
        time="day",
        window="month",
        seed=6,
        purposes=[sparseq.Questions(in_or_out=True, counts=5)],
    )
    store.ingest(
        pa.concat_tables(
            [arrow([(who, 10 * k, "a", 1.0) for who in range(30)]) for k in range(108)]
        )
    )
    found = []
    for t, day in enumerate(days):
        if t % 36 == 0:
            store.close()
            store = sparseq.connect(path)
            series = CorrelatedSeries(store, "s", "news:0.3,2")
        sql = f"SELECT count(DISTINCT who_month) AS n FROM t WHERE day = DATE '{day}'"
        tick = series.ask(t, store.lower(sql))
        found.append((float(tick.values[0]) - 30, tick.sigma))
    store.close()
    off, sigma = np.array(found).T
    assert sigma[-1] == pytest.approx(sigma[3], rel=0.01)
    assert np.abs(off / sigma)[-36:].mean() < 1.3
    assert np.abs(off / sigma).mean() == pytest.approx(math.sqrt(2 / math.pi), abs=0.25)
