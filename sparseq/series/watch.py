"""A watch over the active set: estimates of its share tick by tick, and an alarm; both are charged.

**What is counted.** d_t, the users who have been left out of a query (of the pot of queries) by
tick t, and n_t, the number of users. User i counts from the tick in which i was first left out.
Algorithm 2's filter looks at i's own rows, own budget and past releases, so this tick is a function
of i's own data and of past releases (`sparseq.ledger.departures`); so is the tick that i joined in.

**The counters.** Each tick releases one node of a binary-tree counter (`mechanisms.tree_counter`)
for d and for n: q_t(X_i) is 1 if i was first left out in the node's window. That is a linear query
with Gaussian noise, one step of Algorithm 2, paid from the reserve of the watch. A user who is
never left out is not charged for d; i is first left out once, and so in at most floor(log2 T) + 1
nodes. Sums of nodes are post-processing.

**The alarm.** Each tick compares d_t, exact, with a limit computed from the released n_t, by a
sparse vector with Laplace noise of scale b: z is drawn once a run, nu_t at every comparison. Users
enter the compared count and stay, so the run is 1/b-DP, and a user pays 1/(2b²) of zCDP once, in
the tick in which the user is first left out (`mechanisms.sparse_vector`, *Entering*). After the
alarm has fired, the next threshold's run begins, and every user in the count pays for it again;
after the last threshold there is no further alarm.

**Both, interleaved with all other queries.** Fix user i, and let t run over everything released.
R_t, the ratio of the probabilities of the run's answers with and without i, given the limits so
far, is a martingale under "without", is 1 until i enters, and never leaves [e^-eps, e^eps], eps =
1/b. The chord of x^alpha over that interval lies above it and is linear, so that chord(R_t) is a
martingale as well, and chord(1) <= exp(alpha (alpha-1) eps²/2) (Bun & Steinke 2016, Proposition
3.3). So the supermartingale of Theorem 3.1 of Feldman & Zrnic (2021) remains one with the factor
chord(R_t) from the tick at which i enters, and with eps²/2 among i's charges from then on: in each
step one factor moves, and on entering it is multiplied by
chord(1) exp(-alpha (alpha-1) eps²/2) <= 1. Paying eps²/2 on entering is therefore enough, however
the queries in between were chosen, and in both directions. docs/theorems/watch.md has the full
proof.

**State.** The releases that a tick covers, z and the compared count are private. They are written
in the transaction of the release that they belong to, so a restart does not draw z again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparseq.accounting import budget_units, simultaneous_bound
from sparseq.accounting._numbers import count
from sparseq.base.defaults import CONFIDENCE
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.ledger.notes import Fact
from sparseq.ledger.pots import Pot, Pots
from sparseq.ledger.watch_settings import WATCH, watch_begun
from sparseq.mechanisms.tree_counter import window
from sparseq.question.plan import Options
from sparseq.series.watch_alarm import Alarm
from sparseq.series.watch_design import WatchDesign
from sparseq.series.watch_state import WatchState, watch_request
from sparseq.store.store import Store


@dataclass(frozen=True)
class WatchEstimate:
    """The release of a tick; its half-widths hold at once, with the watch's confidence.

    Attributes:
        tick: Number of the tick.
        dropped, dropped_error: Users who have ever been left out of a query, and the half-width.
        users, users_error: Number of users, and the half-width.
        active_share: 1 - dropped / users, in [0, 1]: the share of users never left out.
        share_error: Its half-width; None if the number of users is not known well enough.
        alarm: True if the share has fallen below `threshold`; None: the alarm is over or unset.
        threshold: The share that the alarm compares with; None as above.
        alarm_error: By how many users any comparison of the alarm's run may be wrong.
        release, alarm_release: Ids of the releases.
    """

    tick: int
    dropped: float
    dropped_error: float
    users: float
    users_error: float
    active_share: float
    share_error: float | None
    alarm: bool | None
    threshold: float | None
    alarm_error: float | None
    release: int
    alarm_release: int | None


class ActiveWatch:
    """The watch of one store; a watch made after a restart continues the same one.

    Neither count includes users whose share of their own budget can't pay for the whole watch.

    Args:
        store: A store with a reserve for the watch.
        ticks: T, the number of ticks to serve; accuracy falls with its logarithm. None: as begun.
        threshold: Share of users for the alarm; several, descending: the next is armed when one
            has fired. None: no alarm, and more of the reserve for the counters.
        smallest_budget: Users with own budgets down to this one are counted, at the price of more
            noise; by default only users with the whole norm_budget are.
        confidence: Confidence of every half-width.

    Raises:
        ParameterError: A number is out of its range, the store has no reserve, or the watch was
            begun with other settings.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> people = pa.table({"who": list(range(50_000))})
        >>> said = sparseq.Questions(watch=0.05)
        >>> con = sparseq.create(None, {"t": people}, user="who", purposes=[said], seed=1)
        >>> seen = ActiveWatch(con, ticks=31).tick(1, "2024-01-01")
        >>> seen.alarm, seen.active_share > 0.99, seen.release
        (False, True, 1)
    """

    def __init__(
        self,
        store: Store,
        ticks: int | None = None,
        threshold: float | Sequence[float] | None = 0.9,
        *,
        smallest_budget: float | None = None,
        confidence: float = CONFIDENCE,
    ) -> None:
        if Pot.WATCH not in store.reserves:
            raise ParameterError(
                "the store has no reserve for a watch",
                "it is set when a store is made: sparseq create … --for questions,watch=5%",
            )
        levels = [threshold] if isinstance(threshold, int | float) else list(threshold or ())
        smallest = store.guarantee.norm_budget if smallest_budget is None else smallest_budget
        with store.stream.held():
            begun = watch_begun(store.stream.ledger)
        if ticks is None:
            if begun is None:
                raise ParameterError("the number of ticks of the watch is missing", "give ticks")
            ticks, levels, smallest = begun["ticks"], begun["thresholds"], begun["smallest_budget"]
        settings = {"ticks": ticks, "thresholds": levels, "smallest_budget": smallest}
        if begun not in (None, settings):
            words = ", ".join(f"{name} {value}" for name, value in begun.items())
            raise ParameterError(
                f"the watch of this store was begun with {words}", "use the same settings"
            )
        pot = Pots(np.array([budget_units(smallest)]), store.reserves)[Pot.WATCH]
        self.store = store
        self.confidence = confidence
        self.design = WatchDesign.fitting(store.guarantee, ticks, levels, int(pot.budgets[0]))
        self._settings = settings
        self._options = Options(confidence=confidence)
        self._state = WatchState(store, self.design.need)
        self._alarm = Alarm(self._state, self.design, self._options)

    @property
    def done(self) -> int:
        """Number of released ticks."""
        with self.store.stream.held():
            return self._state.last_tick()

    def tick(self, number: int, label: str = "") -> WatchEstimate:
        """Release tick `number`, or read it back, free, if it was released before.

        Args:
            number: 1, 2, … up to T, one after another.
            label: Public name of the tick, such as a date; a tick keeps its label.

        Raises:
            ParameterError: It is neither the next tick nor an earlier one.
            QueryRefused: The tick was released under another label, or is later than T.
        """
        number = count("tick", number, 1)
        if number > self.design.ticks:
            raise QueryRefused(
                f"the watch has used its {self.design.ticks} ticks",
                "the reserve was planned for these ticks; its releases stay in the history",
            )
        with self.store.stream.held():
            last = self._state.last_tick()
            if number > last + 1:
                raise ParameterError(
                    f"tick {number} does not follow tick {last}", f"the next is {last + 1}"
                )
            if number == last + 1 > 1:  # the last may have been interrupted before its comparison
                self._alarm.compared(last, self._prefix(last)[1])
            release, users = self._state.covered(window(number)[0] - 1)
            node = self.store.step(
                self.design.node_query(number, label),
                lambda plan: self._state.ones(
                    plan, self._state.left_out(release, None), self._state.joined(users)
                ),
                self._options,
                watch_request(number),
                pot=Pot.WATCH,
                gated=lambda gated: [
                    *self._begun(number),
                    self._state.cover(number, gated.release),
                ],
            )
            return self._estimate(number, node.facts.release)

    def _begun(self, tick: int) -> list[Fact]:
        """Return the public settings of the watch, to be written with the first tick."""
        return [] if tick > 1 else [Fact(WATCH, self._settings)]

    def _prefix(self, tick: int) -> tuple[float, float]:
        """Return the noised d_t and n_t: sums of released nodes."""
        dropped = users = 0.0
        while tick:
            node = self.store.recorded(watch_request(tick))
            assert node is not None
            (row,) = node.rows()
            dropped, users = dropped + row["left_out"], users + row["joined"]
            tick &= tick - 1
        return dropped, users

    def errors(self, tick: int, ticks: int = 1) -> tuple[float, float]:
        """Return the half-widths of dropped and of users at a tick, both at once.

        Args:
            tick: The tick; its sums have as many nodes as its binary form has ones.
            ticks: Number of ticks whose half-widths hold at once (Šidák 1967: their noises are
                jointly Gaussian).
        """
        nodes, beta = tick.bit_count(), 1 - self.confidence
        dropped, users = (
            simultaneous_bound(
                n.sigma * math.sqrt(nodes), 2 * ticks, beta, lattice_step=n.granularity * nodes
            )
            for n in self.design.node_plan.noise
        )
        return dropped, users

    def _estimate(self, tick: int, release: int) -> WatchEstimate:
        dropped, users = self._prefix(tick)
        errors = self.errors(tick)
        compared = self._alarm.compared(tick, users)
        share = min(max(1 - dropped / users, 0.0), 1.0) if users > 0 else 0.0
        return WatchEstimate(
            tick,
            dropped,
            errors[0],
            users,
            errors[1],
            share,
            _share_error(share, dropped, users, *errors),
            compared.fired if compared else None,
            compared.threshold if compared else None,
            compared.error if compared else None,
            release,
            compared.release if compared else None,
        )


def _share_error(
    share: float, dropped: float, users: float, dropped_error: float, users_error: float
) -> float | None:
    """Return how far 1 - d/n can be from the share, if d and n are within their half-widths.

    An estimate of less than 0 users keeps its whole half-width, although part of it is impossible.
    """
    if users - users_error <= 0:
        return None
    low = 1 - (max(dropped, 0.0) + dropped_error) / (users - users_error)
    high = 1 - max(dropped - dropped_error, 0.0) / (users + users_error)
    return max(share - max(low, 0.0), high - share)
