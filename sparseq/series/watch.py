"""Is the active set still the whole set? An estimate tick by tick, and an alarm; both are charged.

**What is counted.** d_t, the users who have been left out of a query (of the pot of queries) by
tick t, and n_t, the users there are. User i counts from the tick in which i was first left out.
Algorithm 2's filter looks at i's own rows, own budget and past releases, so this tick is a function
of i's own data and of past releases (`sparseq.ledger.accounts`); so is the tick that i joined in.

**The counters.** Each tick releases one node of a binary-tree counter (`mechanisms.tree_counter`)
for d and for n: q_t(X_i) is 1 if i was first left out in the node's window. That is a linear query
with Gaussian noise, one step of Algorithm 2, paid from what is set aside for the watch. Who is
never left out pays for none of d; i is first left out once, and so in at most floor(log2 T) + 1
nodes. Sums of nodes are post-processing.

**The alarm.** Each tick compares d_t, exact, with a limit made of the released n_t, by a sparse
vector with Laplace noise of scale b: z once a run, nu_t anew. Users enter the compared count and
stay, so the run is 1/b-DP, and a user pays 1/(2b²) of zCDP once, in the tick that it is first left
out in (`mechanisms.sparse_vector`, *Entering*). After it has fired, the next threshold's run
begins, and everybody in the count pays for it anew; after the last one it is over.

**Both, interleaved with all other queries.** Fix user i, and let t run over everything released.
R_t, the ratio of the chances of the run's answers with and without i, given the limits so far, is a
martingale under "without", is 1 until i enters, and never leaves [e^-eps, e^eps], eps = 1/b. The
chord of x^alpha over that interval lies above it and is linear, so that chord(R_t) is a martingale
as well, and chord(1) <= exp(alpha (alpha-1) eps²/2) (Bun & Steinke 2016, Proposition 3.3). So the
supermartingale of Theorem 3.1 of Feldman & Zrnic (2021), with the factor chord(R_t) from the tick
on that i enters at and eps²/2 among i's charges from then on, is one still: in each step one factor
moves, and on entering it is multiplied by chord(1) exp(-alpha (alpha-1) eps²/2) <= 1. Paying eps²/2
on entering is therefore enough, however the queries in between were chosen, and in both directions.
docs/theorems/watch.md has it in full.

**State.** Which releases a tick covers, z and the count compared are private, and are written in
the transaction of the release that they belong to: a restart neither draws z anew nor shows it.

An alarm where a series is no longer like the data that it was planned on: from released numbers.

A plan says of other data how far forecasts may be off and how much may be missing; where people
come far more often than there, or far less, the ± of the series may be too small. So a part keeps
the lowest and the highest mean of `window_of` ticks in the data that were planned on (`seen`), and
the same mean of what is released is compared with them.

**False alarms.** It goes off where the mean is more than `FAR` times the highest, or less than the
lowest over `FAR`, by more than the mean of the half-widths. All intervals of the window hold at
once with some probability, and then the true mean is within the mean half-width, however errors go
together. So as long as the truth stays within `FAR` of what was seen, it goes off only where one of
the window's intervals is wrong, and their errors don't even out. It costs nothing: all of it is
released already.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparseq.accounting import budget_units, simultaneous_bound
from sparseq.accounting._numbers import count
from sparseq.base.defaults import CONFIDENCE
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.ledger.notes import Fact
from sparseq.ledger.protocol import WATCH, watch_begun
from sparseq.ledger.purposes import Pot, Pots, Purpose
from sparseq.mechanisms.tree_counter import window
from sparseq.series.planning.known_stream import KnownStream
from sparseq.series.series_file import ANSWER, Row
from sparseq.series.watch_alarm import Alarm, WatchDesign, WatchState, watch_request
from sparseq.sql.plan import Options
from sparseq.store.store import Store

# -- is the active set still the whole set? An estimate tick by tick -------------------------------


@dataclass(frozen=True)
class WatchEstimate:
    """The release of a tick; its ± hold at once, with the watch's confidence.

    Attributes:
        tick: Its number.
        dropped, dropped_error: Users who have ever been left out of a query, ±.
        users, users_error: Users there are, ±.
        active_share: 1 - dropped / users, in [0, 1]; of those who have never been left out.
        share_error: Its ±; None where too little is known of the number of users.
        alarm: Whether the share has fallen below `threshold`; None: the alarm is over, or there is
            none.
        threshold: What the alarm compares with; None as above.
        alarm_error: By how many users any comparison of the alarm's run may be wrong.
        release, alarm_release: Numbers in the history.
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
    """The watch of one store; made again on the store opened anew, it goes on where it was.

    Users whose share of their own budget can't pay for the whole watch are in neither count.

    Args:
        store: Made with a reserve for the watch.
        ticks: T, how many ticks it will serve; its logarithm costs accuracy. None: as it was begun.
        threshold: Of the alarm, a share of users; several, descending: the next is armed when one
            has fired. None: no alarm, and more for the counters.
        smallest_budget: Users with own budgets down to this one are counted, at the price of more
            noise; by default only those with the whole norm_budget are.
        confidence: Of every ±.

    Raises:
        ParameterError: A number is out of its range, the store has set nothing aside, or the watch
            was begun with other numbers.

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
        """Number of ticks that were released."""
        with self.store.stream.held():
            return self._state.last_tick()

    def tick(self, number: int, label: str = "") -> WatchEstimate:
        """Release tick `number`, or read it back if it was released before: free.

        Args:
            number: 1, 2, … up to T, one after another.
            label: What the tick is, public: a date. It belongs to the tick for good.

        Raises:
            ParameterError: It is not the next tick, nor an earlier one.
            QueryRefused: The tick was released under another label, or is later than T.
        """
        number = count("tick", number, 1)
        if number > self.design.ticks:
            raise QueryRefused(
                f"the watch has used its {self.design.ticks} ticks",
                "what was set aside was planned for these; its releases stay in the history",
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
        """Write down with the first tick what the watch is: public."""
        return [] if tick > 1 else [Fact(WATCH, self._settings)]

    # -- post-processing ---------------------------------------------------------------------------

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
        """Return the ± of dropped and of users at a tick, both at once.

        Args:
            tick: Which; as many nodes add up as its number has ones.
            ticks: How many ticks' ± shall hold at once (Šidák 1967: their noises are jointly
                Gaussian).
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
    """Return how far 1 - d/n can be from the share, d and n being within their ±.

    An estimate of fewer than nobody keeps all of its ±: what is known to be off is not the surest.
    """
    if users - users_error <= 0:
        return None
    low = 1 - (max(dropped, 0.0) + dropped_error) / (users - users_error)
    high = 1 - max(dropped - dropped_error, 0.0) / (users + users_error)
    return max(share - max(low, 0.0), high - share)


# -- an alarm where a series is no longer like the data that it was planned on ---------------------

FAR = 1.5
"""Most that a series may leave what was seen: growth and another year's seasons are no alarm."""
_WINDOW = 28
_DIGITS = 3


def window_of(ticks: int) -> int:
    """Return over how many ticks means are taken, of a series that is planned for so many.

    Example:
        >>> window_of(365), window_of(52), window_of(2)
        (28, 13, 1)
    """
    return max(min(_WINDOW, ticks // 4), 1)


def seen_in(stream: KnownStream) -> tuple[float, float]:
    """Return the lowest and the highest mean of a window in data that are known."""
    sums = np.cumsum(np.append(0.0, stream.truth.sum(axis=1)))
    window = window_of(stream.ticks)
    means = (sums[window:] - sums[:-window]) / window
    low, high = (float(f"{m:.{_DIGITS}g}") for m in (means.min(), means.max()))
    return max(low, 0.0), max(high, 0.0)


class UnlikeThePlan:
    """Looks at a series, tick after tick.

    Args:
        purpose: The part of the series.
        known: Rows that were released before.

    Example:
        >>> import datetime as dt
        >>> part = Purpose("buyers", 0.4, 8, 3.0, strategy="window:4", seen=(10.0, 20.0))
        >>> series = UnlikeThePlan(part)
        >>> ticks = [[Row("buyers", day, "n", 25.0 + 3 * day, error=4.0)] for day in range(8)]
        >>> [series.after(rows) for rows in ticks][4]
        'buyers: the last 2 ticks have 35.5 on average, and the plan was made for 10 to 20'
    """

    def __init__(self, purpose: Purpose, known: pa.Table | None = None) -> None:
        self._name, self._seen = purpose.name, purpose.seen
        self._latest: deque[tuple[float, float]] = deque(maxlen=window_of(purpose.ticks))
        self._told = False
        if known is not None:
            some = known.filter(pc.equal(known["series"], self._name))
            for tick in some["tick"].unique().sort()[-_WINDOW - 1 :]:
                rows = some.filter(pc.equal(some["tick"], tick))
                self.after([_row(row) for row in rows.to_pylist()])

    def after(self, rows: Sequence[Row]) -> str:
        """Take in the rows of a tick; return what is to be said, once: "" for nothing."""
        mine = [r for r in rows if r.series == self._name and r.value is not None]
        corrected = [r for r in mine if r.estimate != ANSWER] or mine
        if not corrected or any(r.error is None for r in corrected):
            return ""
        self._latest.append(
            (sum(r.value or 0.0 for r in corrected), sum(r.error or 0.0 for r in corrected))
        )
        if len(self._latest) < (self._latest.maxlen or 0):
            return ""
        mean, error = np.mean(self._latest, axis=0).tolist()
        low, high = self._seen
        before, self._told = self._told, mean - error > FAR * high or mean + error < low / FAR
        if before or not self._told:
            return ""
        shown, lowest, highest = (
            f"{v:,.0f}" if v >= 100 else f"{v:.3g}" for v in (mean, low, high)
        )
        return (
            f"{self._name}: the last {len(self._latest)} ticks have {shown} on average, and the "
            f"plan was made for {lowest} to {highest}"
        )


def _row(row: dict[str, object]) -> Row:
    return Row(**{k: row[k] for k in ("series", "tick", "column", "value", "error", "estimate")})  # type: ignore[arg-type]
