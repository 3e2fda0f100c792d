"""The alarm of the watch: a sparse vector, tick after tick, whose threshold stays secret.

Its price, and why it may be paid user by user, is in `sparseq.series.watch`.

**False alarms.** The alarm at tick t is false if it fires though d_t <= (1-s) n_t, s being the
threshold: at least a share s has never been left out. Whoever declares T ticks has a false alarm in
any of them with probability at most `FALSE_ALARMS`, however the queries are chosen and whatever was
released before: at most 1 % of all stores, and less in a year if T is more than one.

Proof sketch. It fires where d_t + nu_t >= limit_t + z, and with n'_t the released number of users
    limit_t = floor((1-s) n'_t) + m_t + 1.
A false alarm at t has d_t <= (1-s) n_t, and so (nu_t - z) + (1-s) (n_t - n'_t) > m_t. On the left
is noise alone, drawn without looking at anything: two independent Laplace and a Gaussian of known
sigma (and its rounding). m_t is such that this has probability at most beta / T, where beta is 1 %
over the number of thresholds; a union over T ticks, and over the thresholds. How the queries were
chosen is of no account: the event is one of noise, and whoever chooses does not choose it.

Without the margin m_t the noise alone reached the limit in stores of up to a few hundred people,
where it is as large as a tenth of all: 97 % of stores with 200 people had an alarm in a year in
which nobody was left out, and 12 % of those with 614 (docs/theorems/watch.md). A store of any size
had one where nearly as many were left out as may be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sparseq.accounting import UNITS_PER_NORM, Budget, add_charges, round_up
from sparseq.accounting._numbers import count, in_range
from sparseq.base.errors import ParameterError
from sparseq.engine.contributions import NORM_LIMIT, Contributions, Index, Ints, Reduction
from sparseq.ledger.notes import Asker, NoteRows, NoteTable, RequestId
from sparseq.ledger.purposes import Pot
from sparseq.mechanisms.laplace import laplace_pair_tail
from sparseq.mechanisms.tree_counter import MAX_HORIZON, window
from sparseq.released.outputs import Estimate, Measurements, OutputColumn, Outputs, measure
from sparseq.sql.plan import Kind, Measure, Options, Plan, Query, Relation, calibrate
from sparseq.store.answer import Answer
from sparseq.store.store import Store
from sparseq.stream.draft import Participation
from sparseq.stream.partition_selection import Comparison

# -- the noise of the watch, so that everybody it counts can pay for all of it: public facts -------

ALARM_SHARE = Fraction(2, 5)
"""Of the pot, for the alarm; the counters have the rest."""
USERS_SHARE = Fraction(1, 6)
"""Of what the counters have, for the number of users. Its error counts for little: the share's
error is about (error of those left out + share left out · error of the users) / users."""
FALSE_ALARMS = 0.01
"""Of all stores, at most so many have a false alarm in all the ticks of their watch."""
_SHRINK = 1 - 2.0**-9
_DEVIATIONS, _CELLS = 9.0, 1152  # of a Gaussian, bounded in cells


@dataclass(frozen=True)
class WatchDesign:
    """The two counters and the alarm of one watch.

    A user who is first left out, once, and joined, once, pays at most `need`: each is in at most
    `nodes` nodes, and each alarm is paid once (see `sparseq.series.watch`).

    Args:
        budget: The store's.
        ticks: T.
        thresholds: Of the alarms, descending; none: no alarm.
        norm: Squared norm that somebody has for the watch.
    """

    budget: Budget
    ticks: int
    thresholds: tuple[float, ...]
    norm: float

    @classmethod
    def fitting(
        cls, budget: Budget, ticks: int, thresholds: Sequence[float], units: int
    ) -> WatchDesign:
        """Return the design of least noise that `units`, a pot in ledger units, can pay.

        Raises:
            ParameterError: A number is out of its range.

        Example:
            >>> design = WatchDesign.fitting(Budget(0.5, 20), 365, [0.9], units=2**24)
            >>> design.need <= 2**24, design.nodes
            (True, 9)
        """
        count("ticks", ticks, 1, MAX_HORIZON)
        for threshold in thresholds:
            in_range("threshold", threshold, 0.0, 1.0, open_low=True)
        if any(a <= b for a, b in pairwise(thresholds)):
            raise ParameterError("the thresholds must descend", "for example 0.9, 0.8, 0.5")
        norm = units / UNITS_PER_NORM
        while 2 * norm * UNITS_PER_NORM >= max(units, 1):
            design = cls(budget, ticks, tuple(thresholds), norm)
            if design.need <= units:
                return design
            norm *= _SHRINK  # charges are rounded up
        raise ParameterError(
            "too little is set aside for the watch", "give a larger share, or a larger budget"
        )

    @property
    def nodes(self) -> int:
        """The most nodes that one tick lies in: floor(log2 T) + 1."""
        return self.ticks.bit_length()

    @cached_property
    def need(self) -> int:
        """The most that a user may have to pay, in ledger units.

        Both counters' nodes may be the same ones or others, and charges are rounded up together.
        """
        left_out, joined = _charges(self.node_plan)
        together = int(round_up(add_charges(left_out, joined))[0])
        apart = int((round_up(left_out) + round_up(joined))[0])
        alarms = sum(int(round_up(_charges(self.alarm_plan)[0])[0]) for _ in self.thresholds)
        return self.nodes * max(together, apart) + alarms

    @cached_property
    def node_plan(self) -> Plan:
        """Noise and lattice of every node."""
        return calibrate(self.node_query(1, ""), self.budget, Options())

    @cached_property
    def alarm_plan(self) -> Plan:
        """Noise and lattice of every comparison."""
        return calibrate(self.alarm_query(1, 1.0, 1), self.budget, Options())

    def limit(self, tick: int, threshold: float, users: float) -> int:
        """Return how many people must have been left out, noise included, for an alarm.

        So many that it is no false alarm, whatever the noise: see above.

        Args:
            tick: Which: as many nodes add up to the number of users as its number has ones.
            threshold: The share of people of whom an alarm tells that there are fewer.
            users: The released number of users.
        """
        allowed = math.floor((1 - Fraction(threshold)) * Fraction(users))
        return max(allowed + _margin(self, tick.bit_count(), threshold) + 1, 1)

    @property
    def _counters(self) -> Fraction:
        return (1 - ALARM_SHARE if self.thresholds else Fraction(1)) * Fraction(self.norm)

    def node_query(self, tick: int, label: str) -> Query:
        """Return the query of a tick's node: how many were first left out, and joined, in it."""
        first, last = window(tick)
        ticks = f"tick {tick}" if first == last else f"ticks {first} to {last}"
        each = self._counters / self.nodes
        shares = {"left_out": 1 - USERS_SHARE, "joined": USERS_SHARE}
        measures = tuple(
            Measure(Kind.USERS, None, name, scale=math.sqrt(1 / (share * each)))
            for name, share in shares.items()
        )
        outputs = Outputs(tuple(OutputColumn(n, measure(i), True) for i, n in enumerate(shares)))
        text = f"watch {ticks}: people first left out, and people who joined"
        return Query(_label(text, label), Relation("FROM ledger"), (), measures, outputs)

    def alarm_query(self, tick: int, threshold: float, limit: int) -> Query:
        """Return the query of a comparison: have at least `limit` people been left out?"""
        share = ALARM_SHARE * Fraction(self.norm) / max(len(self.thresholds), 1)
        compared = Measure(Kind.USERS, None, "alarm", scale=math.sqrt(1 / share))

        def alarm(noised: Measurements) -> np.typing.NDArray[np.bool_]:
            return noised.measures[0][:, 0] > 0

        def limits(noised: Measurements) -> Estimate:
            value = np.array([float(limit)])
            return Estimate(value, value - noised.bounds[0], value + noised.bounds[0])

        below = OutputColumn("threshold", lambda _: np.array([threshold]))
        outputs = Outputs(
            (OutputColumn("alarm", alarm), below, OutputColumn("limit", limits, True))
        )
        words = f"{100 * threshold:g} %"
        text = f"watch tick {tick}: are surely fewer than {words} active, {limit} left out?"
        return Query(
            text, Relation("FROM ledger"), (), (compared,), outputs, comparisons=self.ticks
        )


@lru_cache(maxsize=256)
def _margin(design: WatchDesign, nodes: int, threshold: float) -> int:
    """Return the least m, in people, that noise passes at a tick with too small a chance.

    The noise is that of the comparison, two Laplaces, and (1 - threshold) times that of the number
    of users, a Gaussian of so many nodes; its chance is bounded from above on a grid.
    """
    (noise,), of_users, allowed = design.alarm_plan.noise, design.node_plan.noise[1], 1 - threshold
    edges = np.linspace(-_DEVIATIONS, _DEVIATIONS, _CELLS + 1)
    below = np.array([math.erfc(-edge / math.sqrt(2)) / 2 for edge in edges.tolist()])
    here, rest = np.diff(below), 2 * float(below[0])
    rounding = of_users.granularity * nodes / 2
    error = allowed * (edges[1:] * of_users.sigma * math.sqrt(nodes) + rounding)
    enough = FALSE_ALARMS / len(design.thresholds) / design.ticks

    def too_likely(m: int) -> bool:
        least = np.floor((m - error) / noise.granularity).astype(np.int64) + 1
        return float(here @ laplace_pair_tail(noise.lattice_sigma, least)) + rest > enough

    low, high = -1, 1
    while too_likely(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if too_likely(middle) else (low, middle)
    return high


def _label(text: str, label: str) -> str:
    return f"{text} ({label})" if label else text


def _charges(plan: Plan) -> list[np.typing.NDArray[np.int64]]:
    """Return what one user costs, by measure, not yet rounded."""
    return [n.price.charge(np.array([round(1 / n.granularity) ** 2], np.int64)) for n in plan.noise]


# -- the memory of the watch, and who is in its counts: private, in the store's file ---------------

WATCHED = NoteTable("watched", {"tick": "BIGINT", "release_id": "BIGINT", "users": "BIGINT"})


def watch_request(tick: int, what: str = "") -> RequestId:
    """Return what a tick's node, or its `what`, is called in the journal."""
    return RequestId.of(Asker.WATCH, *([f"{tick}", what] if what else [f"{tick}"]))


class WatchState:
    """The releases and users that each tick covers.

    Args:
        store: Open.
        need: What a user must have for the watch, in ledger units, to be in its counts: own
            budgets don't depend on data, so neither does who is counted.
    """

    def __init__(self, store: Store, need: int) -> None:
        self.store = store
        self._need = need

    def last_tick(self) -> int:
        """Return the number of the last tick released; 0: none."""
        return max(self._watch()["tick"].to_pylist(), default=0)

    def covered(self, tick: int) -> tuple[int, int]:
        """Return the release that a tick ended with, and how many users there were then."""
        if tick == 0:
            return 0, 0
        (row,) = self._watch(tick=tick).to_pylist()
        return row["release_id"], row["users"]

    def cover(self, tick: int, release: int) -> NoteRows:
        """Return what is written with a tick's release."""
        return WATCHED.rows(tick=tick, release_id=release, users=self.store.stream.people)

    def _watch(self, **equal: Any) -> pa.Table:
        return self.store.stream.ledger.notes(WATCHED, **equal)

    def left_out(self, after: int, until: int | None) -> Index:
        """Return who was first left out of a release later than `after`, up to `until` or now."""
        last = self.store.stream.next_release if until is None else until
        return self._serve(self.store.stream.departures.between(after + 1, last))

    def joined(self, known: int) -> Index:
        """Return who has joined since there were `known` users."""
        return self._serve(np.arange(known, self.store.stream.people, dtype=np.int32))

    def _serve(self, users: Index) -> Index:
        served: Index = users[self.store.stream.pots[Pot.WATCH].budgets[users] >= self._need]
        return served

    @staticmethod
    def ones(plan: Plan, *groups: Index) -> Contributions:
        """Return contributions of 1 by each group's users, a measure a group."""
        one = [round(1 / n.granularity) for n in plan.noise]

        def sums(chosen: tuple[Index, ...]) -> list[Ints]:
            return [np.array([o * len(who)], np.int64) for o, who in zip(one, chosen, strict=True)]

        measures = [
            Reduction(users, np.full(len(users), min(o**2, NORM_LIMIT), np.int64), total)
            for o, users, total in zip(one, groups, sums(groups), strict=True)
        ]
        return Contributions(
            measures, lambda only: sums(tuple(np.intersect1d(who, only) for who in groups))
        )


# -- the alarm of the watch: a sparse vector, tick after tick, whose threshold stays secret --------

ALARM = NoteTable(
    "alarm",
    {
        "tick": "BIGINT",
        "release_id": "BIGINT",
        "level": "BIGINT",
        "noise": "BIGINT",
        "counted": "BIGINT",
        "fired": "BOOLEAN",
    },
)
"""The note of each comparison: private."""


@dataclass(frozen=True)
class AlarmCheck:
    """One comparison, public: did it fire, below which share, and its ± in users."""

    fired: bool
    threshold: float
    error: float
    release: int


@dataclass(frozen=True)
class _AlarmRun:
    """The run that the next comparison belongs to: private.

    Attributes:
        level: Which threshold.
        noise: z, or None if it is still to be drawn.
        counted: Who has entered, in lattice steps.
        since: The last release whose departures have entered.
    """

    level: int
    noise: int | None = None
    counted: int = 0
    since: int = 0


class Alarm:
    """One run of a sparse vector for each threshold, one comparison a tick."""

    def __init__(self, state: WatchState, design: WatchDesign, options: Options) -> None:
        self._state = state
        self._store = state.store
        self._design = design
        self._options = options

    def compared(self, tick: int, users: float) -> AlarmCheck | None:
        """Return the comparison of a tick; make it if there is none. None: the alarm is over.

        Args:
            tick: Released, and the last one if its comparison is still to be made.
            users: The released number of users: with the threshold it makes the limit.
        """
        answer = self._store.recorded(watch_request(tick, "alarm"))
        run = self._run()
        if answer is None and run.level < len(self._design.thresholds):
            answer = self._compare(tick, users, run)
        if answer is None:
            return None
        (row,) = answer.rows()
        return AlarmCheck(row["alarm"], row["threshold"], row["limit_error"], answer.facts.release)

    def _compare(self, tick: int, users: float, run: _AlarmRun) -> Answer:
        """Compare, and write the state of the run with the release, or neither."""
        threshold = self._design.thresholds[run.level]
        limit = self._design.limit(tick, threshold, users)
        until, _ = self._state.covered(tick)
        compare = Comparison(limit, run.noise, run.counted)

        def state(gated: Participation) -> list[NoteRows]:
            after = {"noise": compare.noise, "counted": compare.counted, "fired": compare.fired}
            return [ALARM.rows(tick=tick, release_id=gated.release, level=run.level, **after)]

        return self._store.step(
            self._design.alarm_query(tick, threshold, limit),
            lambda plan: self._state.ones(plan, self._state.left_out(run.since, until)),
            self._options,
            watch_request(tick, "alarm"),
            pot=Pot.WATCH,
            gated=state,
            mechanism=compare,
        )

    def _run(self) -> _AlarmRun:
        rows = self._store.stream.ledger.notes(ALARM).sort_by("tick")
        if not rows.num_rows:
            return _AlarmRun(0)
        (last,) = rows.slice(rows.num_rows - 1).to_pylist()
        tick, level, noise, counted, fired = (
            last[name] for name in ("tick", "level", "noise", "counted", "fired")
        )
        if fired:
            return _AlarmRun(level + 1)
        return _AlarmRun(level, noise, counted, self._state.covered(tick)[0])
