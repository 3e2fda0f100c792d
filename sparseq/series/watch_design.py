"""Noise of the watch, chosen so that every counted user can pay for the whole watch: public facts.

Why the alarm may be charged user by user, and its price, is in `sparseq.series.watch`.

**False alarms.** The alarm at tick t is false if it fires although d_t <= (1-s) n_t, s being the
threshold: at least a share s has never been left out. A watch that declares T ticks has a false
alarm in any of them with probability at most `FALSE_ALARMS`, however the queries are chosen and
whatever was released before: at most 1 % of all stores, and less in a year if T is more than one.

Proof sketch. It fires if d_t + nu_t >= limit_t + z, and with n'_t the released number of users
    limit_t = floor((1-s) n'_t) + m_t + 1.
A false alarm at t has d_t <= (1-s) n_t, and so (nu_t - z) + (1-s) (n_t - n'_t) > m_t. The left side
is noise alone, drawn independently of the data: two independent Laplace variables and a Gaussian of
known sigma (and its rounding). m_t is such that this has probability at most beta / T, where beta
is 1 % over the number of thresholds; a union bound over T ticks, and over the thresholds. It does
not matter how the queries were chosen: the event is one of noise, and no choice affects it.

Without the margin m_t the noise alone reached the limit in stores of up to a few hundred people,
where it is as large as a tenth of all: 97 % of stores with 200 people had an alarm in a year in
which nobody was left out, and 12 % of those with 614 (docs/theorems/watch.md). A store of any size
had one if nearly as many people were left out as the threshold allows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from sparseq.accounting import UNITS_PER_NORM, Budget, add_charges, round_up
from sparseq.accounting._numbers import count, in_range
from sparseq.base.errors import ParameterError
from sparseq.mechanisms.laplace import laplace_pair_tail
from sparseq.mechanisms.tree_counter import MAX_HORIZON, window
from sparseq.question.plan import Kind, Measure, Options, Plan, Query, Relation, calibrate
from sparseq.released.outputs import Estimate, Measurements, OutputColumn, Outputs, measure

ALARM_SHARE = Fraction(2, 5)
"""Share of the pot that pays for the alarm; the counters have the rest."""
USERS_SHARE = Fraction(1, 6)
"""Share of the counters' part that pays for the number of users. Its error matters little: the
share's error is about (error of those left out + share left out · error of the users) / users."""
FALSE_ALARMS = 0.01
"""Largest share of stores that have a false alarm in any of the ticks of their watch."""
_SHRINK = 1 - 2.0**-9
_DEVIATIONS, _CELLS = 9.0, 1152  # range and cells of the grid that bounds a Gaussian


@dataclass(frozen=True)
class WatchDesign:
    """The two counters and the alarm of one watch.

    A user who joins once and is first left out once pays at most `need`: the user is in at most
    `nodes` nodes for each, and each alarm is paid once (see `sparseq.series.watch`).

    Args:
        budget: Budget of the store.
        ticks: T.
        thresholds: Thresholds of the alarms, descending; none: no alarm.
        norm: Squared norm that a user has for the watch.
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
        """The largest number of nodes that contain one tick: floor(log2 T) + 1."""
        return self.ticks.bit_length()

    @cached_property
    def need(self) -> int:
        """The largest charge to a user, in ledger units.

        Both counters may use the same nodes or different ones, and charges are rounded up together.
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
        """Return the number of people left out, noise included, from which the alarm fires.

        It is so large that a false alarm is improbable: see the module.

        Args:
            tick: The tick; the number of nodes in the number of users is its number of binary ones.
            threshold: Share of active people below which the alarm should fire.
            users: The released number of users.
        """
        allowed = math.floor((1 - Fraction(threshold)) * Fraction(users))
        return max(allowed + _margin(self, tick.bit_count(), threshold) + 1, 1)

    @property
    def _counters(self) -> Fraction:
        return (1 - ALARM_SHARE if self.thresholds else Fraction(1)) * Fraction(self.norm)

    def node_query(self, tick: int, label: str) -> Query:
        """Return the query of a tick's node: how many people were first left out, and joined."""
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
    """Return the least m, in people, that the noise exceeds with small enough probability.

    The noise is that of the comparison, two Laplace variables, plus (1 - threshold) times that of
    the number of users, a Gaussian over `nodes` nodes; its tail is bounded from above on a grid.
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
    """Return the charges of one user, one for each measure, before rounding."""
    return [n.price.charge(np.array([round(1 / n.granularity) ** 2], np.int64)) for n in plan.noise]
