"""Part time: who would run out of budget takes part with a smaller weight, and leaves the rest.

A user who is dropped late was there in full, and then is a forecast in full, whose error is that of
the user's own days. It is better spread out: a user with a weight w on every tick pays w² a tick,
so that the budget lasts 1/w² times as long, and a forecast stands in for the part 1 - w. Over all
ticks the squared error is (1 - w)² of a user's own variance; dropped for the part 1 - w² of all
ticks, it would be 1 - w². At w² = 1/2 that is 0.09 against 0.5.

A user that has spent a fifth of its budget, and would run out at its own pace so far,

    at tick s        announces a weight w, such that what is left lasts to the last tick
                     w² · (own mean charge a tick) · (ticks from s + DELAY on) = left then
                     and leaves (1 - w) · (own mean contribution a tick) in the counter
    from s + DELAY   takes part with w: by then smoothing has let the forecast in
    whenever active  after that: announces anew, never more weight, and a better mean

Whoever is dropped nevertheless departs: its weight is 0, and what it has left is its whole mean.

**Privacy.** The weight is a function of the user's own contributions, own charges and own budget up
to s, and of public numbers: the ticks, DELAY, the share. So w · q_t(X_i) is a function of X_i and
of what is public, and its charge is that of the integers that are summed. Floats decide about
weights, never about who can pay. See `sparseq.monitor.forecast`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import UNITS_PER_NORM, Budget
from sparseq.ledger.accounts import Ints
from sparseq.monitor.columns import Columns
from sparseq.monitor.rates import Form
from sparseq.query.plan import Kind, Plan, Query

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

FULL = 64
"""Weights are in 64ths."""
DELAY = 6
"""Ticks between announcing a weight and taking part with it: the lag of the usual smoothing."""
BEGIN = 5.0
"""Who has spent one part in so many has begun to spend."""
_NEVER = -(2**40)
_FAR = 2.0**22  # steps; beyond every room

Cells = tuple[Ints, Ints, Floats]
"""Mean contributions a tick: of which user, where, how much; by user and coordinate."""


class Past(Protocol):
    """What some users contributed before a tick, in full."""

    @property
    def charges(self) -> Floats:
        """What it cost each of them, in ledger units."""
        ...

    def means(self, some: Mask) -> Cells:
        """Return the mean contributions of some of them."""
        ...


@dataclass(frozen=True)
class SeenPast:
    """A `Past` from what was written down.

    Attributes:
        users: Ascending.
        seen: Their contributions: user, tick, coordinate, value; by user, coordinate and tick.
        tick: The one that all of it is before.
        form: How the mean is taken.
        places: d.
        price: Ledger units that a squared unit of the query costs in full.
    """

    users: Ints
    seen: tuple[NDArray[np.integer], Ints, NDArray[np.integer], Floats]
    tick: int
    form: Form
    places: int
    price: float

    @property
    def charges(self) -> Floats:
        """See `Past`."""
        owner = np.searchsorted(self.users, self.seen[0])
        paid = np.bincount(owner, self.seen[3] ** 2, minlength=len(self.users))
        return np.asarray(paid * self.price)

    def means(self, some: Mask) -> Cells:
        """See `Past`."""
        kept = some[np.searchsorted(self.users, self.seen[0])]
        user, tick, coordinate, value = self.seen
        seen = (user[kept], tick[kept], coordinate[kept], value[kept])
        users = self.users[some]
        owners, coordinates, means = self.form.means(seen, users, self.tick, self.places)
        return users[owners], coordinates, means


@dataclass(frozen=True)
class Announcement:
    """What users announce at a tick, and what is to stand in the counter for them from then on.

    Attributes:
        users, weights: Who, ascending, and the weight announced; 0 by who departs.
        owners, coordinates, rates: The cells: whose, which, and how much in all.
    """

    users: Ints
    weights: Ints
    owners: Ints
    coordinates: Ints
    rates: Floats


def fine(plan: Plan) -> Query:
    """Return a plan's query on a lattice to weigh ones on; that of sums is fine enough."""
    steps = [n.granularity / FULL for n in plan.noise]
    pairs = zip(plan.query.measures, steps, strict=True)
    measures = tuple(m if m.kind is Kind.SUM else replace(m, step=s) for m, s in pairs)
    return replace(plan.query, measures=measures)


def weighed(values: Ints, weights: Ints) -> Ints:
    """Return values times weights, towards 0."""
    return np.sign(values) * (np.abs(values) * weights // FULL)


def price_of(budget: Budget, sigma: float) -> float:
    """Return what a squared unit costs, in ledger units; about, for decisions about weights."""
    return float(UNITS_PER_NORM * budget.unit_variance) / sigma**2


def by_tick(ticks: Ints, *columns: Ints) -> Iterator[tuple[Any, ...]]:
    """Yield every tick with its rows of the columns, in the order they are in."""
    for tick in np.unique(ticks).tolist():
        at = ticks == tick
        yield tick, *(column[at] for column in columns)


def pressed(tick: Ints | int, ticks: int, spent: Ints, left: Ints) -> Mask:
    """Tell who has begun to spend, and would run out before the last of the ticks."""
    begun = spent * BEGIN >= spent + left
    short = spent * (ticks - np.asarray(tick, np.float64)) > left * (tick + 1.0)
    return np.asarray(begun & short)


class Fading:
    """The weights of everybody in one series.

    Args:
        ticks: How many there will be.
        share: The part of everybody's budget that this series may plan with.

    Example:
        >>> fading = Fading(ticks=100)
        >>> who, spent, left = np.array([0, 1]), np.array([10, 10]), np.array([15, 15])
        >>> fading.due(who, 19, spent, left).tolist()  # 0.5 a tick would last 30 of 81 ticks
        [True, True]
        >>> half = fading.decided(who[:1], 19, np.array([10.0]), left[:1])
        >>> fading.announce(who[:1], 19, half)
        >>> fading.weights(who, 24).tolist(), fading.weights(who, 25).tolist()
        ([64, 64], [36, 64])
    """

    def __init__(self, ticks: int, share: float = 1.0) -> None:
        self._ticks, self._share = ticks, share
        self._weight: Ints = np.zeros(0, np.int64)
        self._before: Ints = np.zeros(0, np.int64)
        self._since: Ints = np.zeros(0, np.int64)

    def _room_for(self, users: NDArray[np.integer]) -> None:
        missing = int(users.max(initial=-1)) + 1 - len(self._weight)
        if missing > 0:
            missing = max(missing, len(self._weight))
            self._weight = np.append(self._weight, np.full(missing, FULL))
            self._before = np.append(self._before, np.full(missing, FULL))
            self._since = np.append(self._since, np.full(missing, _NEVER))

    def weights(self, users: NDArray[np.integer], tick: int) -> Ints:
        """Return with which weight users take part, in 64ths; 0: they have departed."""
        self._room_for(users)
        in_force = self._since[users] + DELAY <= tick
        found: Ints = np.where(in_force, self._weight[users], self._before[users])
        return found

    def departed(self) -> Ints:
        """Return who has departed, ascending."""
        return np.flatnonzero(self._weight == 0)

    def due(self, users: NDArray[np.integer], tick: int, spent: Ints, left: Ints) -> Mask:
        """Tell who may announce a weight at a tick at which it is active.

        Args:
            users: Who is active.
            tick: At which.
            spent, left: Of each one's budget before the tick, in ledger units.
        """
        self._room_for(users)
        settled = self._since[users] + DELAY <= tick
        first = pressed(tick, self._ticks, spent, left)
        return np.asarray(settled & ((self._weight[users] < FULL) | first))

    def decided(self, users: NDArray[np.integer], tick: int, charges: Floats, left: Ints) -> Ints:
        """Return the weights that make what is left last.

        Args:
            users: Who decides.
            tick: When.
            charges: What each one's contributions before the tick cost in full, in ledger units.
            left: See `due`.
        """
        self._room_for(users)
        pace = np.maximum(charges, 1.0) / (tick + 1.0)
        ticks = max(self._ticks - tick, 1)
        now = self._weight[users] / FULL
        then = np.maximum(left * self._share - now**2 * pace * min(DELAY, ticks), 0.0)
        weights = np.floor(FULL * np.sqrt(then / (pace * max(ticks - DELAY, 1))))
        found: Ints = np.clip(weights, 1, self._weight[users]).astype(np.int64)
        return found

    def turn(
        self,
        tick: int,
        gone: NDArray[np.integer],
        here: NDArray[np.integer],
        spent: Ints,
        left: Ints,
        past_of: Callable[[Ints], Past],
    ) -> Announcement:
        """Return what is announced at a tick; nothing is changed by it.

        Args:
            tick: Which.
            gone, here: Who was dropped at it, and who was active, ascending.
            spent, left: Of the budgets of `here`, before the tick, in ledger units.
            past_of: Returns what some users contributed before the tick.
        """
        due = self.due(here, tick, spent, left)
        if not due.any() and not len(gone):
            nobody = np.zeros(0, np.int64)
            return Announcement(nobody, nobody, nobody, nobody, np.zeros(0))
        some, left = here[due], left[due]
        users = np.sort(np.concatenate([gone, some]).astype(np.int64))
        past = past_of(users)
        weights = np.zeros(len(users), np.int64)
        deciding = np.searchsorted(users, some)
        weights[deciding] = self.decided(some, tick, past.charges[deciding], left)
        turning = weights < FULL
        owners, coordinates, means = past.means(turning)
        users, weights = users[turning], weights[turning]
        rates = means * (1 - weights[np.searchsorted(users, owners)] / FULL)
        return Announcement(users, weights, owners, coordinates, rates)

    def announce(self, users: NDArray[np.integer], tick: int, weights: Ints) -> None:
        """Remember weights announced at a tick; 0 is in force at once."""
        self._room_for(users)
        self._before[users] = np.where(weights > 0, self._weight[users], 0)
        self._weight[users] = weights
        self._since[users] = tick


class CounterState:
    """What everybody has left in one counter so far, and what the reserve still has room for.

    A user who leaves x_1, x_2, … at ticks s_1 < s_2 < … is asked in all for the squared norm of
    sum_k C_(s_k) x_k, at most (‖C_(s_1)‖ sum_k ‖x_k‖)² as columns only get shorter (Minkowski). So
    the norms may add up to the root of what `Columns.most` allows at s_1, and to a full forecast.

    Args:
        columns: The counter's numbers.
        coordinates: d.
        expected: Cells that will come, user · d + coordinate, ascending: time is saved by it.
    """

    def __init__(self, columns: Columns, coordinates: int, expected: Ints | None = None) -> None:
        self._columns, self._places = columns, coordinates
        keys = np.zeros(0, np.int64) if expected is None else expected
        self._keys: Ints = keys  # user and coordinate, ascending
        self._steps: Ints = np.zeros(len(keys), np.int64)
        self._users: Ints = np.unique(keys // coordinates)  # ascending
        self._room: Ints = np.full(len(self._users), -1)  # what each may still leave; -1: not set

    def missing(
        self, tick: int, users: Ints, coordinates: Ints, rates: Floats, units: Ints
    ) -> Ints:
        """Return what brings users to these rates, in steps: as much of it as there is room for.

        Args:
            tick: The counter's own.
            users, coordinates: The cells, by user and coordinate, all of a user's at once.
            rates: What is to stand there, in the query's unit.
            units: What each cell's user has for it, in ledger units.
        """
        keys = users * self._places + coordinates
        whole = np.clip(np.nan_to_num(rates) / self._columns.step, -_FAR, _FAR)
        steps: Ints = np.rint(whole).astype(np.int64) - _at(self._keys, self._steps, keys)
        who, owner, room = self._rooms(tick, users, units)
        return self._columns.shrunk(steps, owner, _norms(steps, owner, len(who)), room**2)

    def take(self, tick: int, users: Ints, coordinates: Ints, steps: Ints, units: Ints) -> None:
        """Take what users leave at a tick; see `missing`."""
        who, owner, room = self._rooms(tick, users, units)
        used = np.ceil(np.sqrt(_norms(steps, owner, len(who)))).astype(np.int64)  # exact below 2^52
        keys = users * self._places + coordinates
        standing = steps + _at(self._keys, self._steps, keys)
        self._keys, self._steps = _put(self._keys, self._steps, keys, standing)
        self._users, self._room = _put(self._users, self._room, who, room - used)

    def _rooms(self, tick: int, users: Ints, units: Ints) -> tuple[Ints, Ints, Ints]:
        """Return who is among the cells, which of these each cell is of, and the rooms."""
        who, first, owner = _distinct(users)
        room = _at(self._users, self._room, who, missing=-1)
        for i in np.flatnonzero(room < 0).tolist():
            room[i] = self._columns.root(int(units[first[i]]), tick)
        return who, owner, room


def _distinct(users: Ints) -> tuple[Ints, Ints, Ints]:
    """Return who is there, ascending, where each begins, and which of them each row is of."""
    more = np.diff(users, prepend=-1)
    if (more < 0).any():
        return np.unique(users, return_index=True, return_inverse=True)
    first = np.flatnonzero(more)
    return users[first], first, np.cumsum(more > 0) - 1


def _norms(steps: Ints, owner: Ints, users: int) -> Ints:
    norms = np.zeros(users, np.int64)
    np.add.at(norms, owner, steps**2)
    return norms


def _at(keys: Ints, values: Ints, wanted: Ints, missing: int = 0) -> Ints:
    """Return the values at some keys; keys are ascending."""
    if not len(keys):
        return np.full(len(wanted), missing, np.int64)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], missing)


def _put(keys: Ints, values: Ints, new: Ints, at: Ints) -> tuple[Ints, Ints]:
    """Return keys and values with some of them set; keys are and stay ascending."""
    place = np.searchsorted(keys, new)
    if len(keys) and np.array_equal(keys[np.minimum(place, len(keys) - 1)], new):
        values = values.copy()
        values[place] = at
        return keys, values
    stay = ~np.isin(keys, new)
    both, of_both = np.concatenate([keys[stay], new]), np.concatenate([values[stay], at])
    order = np.argsort(both)
    return both[order], of_both[order]


def anew(
    turn: Announcement, users: NDArray[np.integer], coordinates: NDArray[np.integer], rates: Floats
) -> tuple[Ints, Ints, Floats]:
    """Return what is to stand in a new counter: a turn, and of all others what they have left.

    Args:
        turn: At the counter's first tick.
        users, coordinates, rates: What was left in the counter before, in the query's unit.

    Returns:
        Users, coordinates and rates, by user and coordinate.
    """
    others = ~np.isin(users, turn.users)
    who = np.concatenate([turn.owners, users[others]]).astype(np.int64)
    where = np.concatenate([turn.coordinates, coordinates[others]]).astype(np.int64)
    places = int(where.max(initial=0)) + 1
    keys, cell = np.unique(who * places + where, return_inverse=True)
    summed = np.bincount(cell, np.concatenate([turn.rates, rates[others]]), minlength=len(keys))
    total: Floats = np.asarray(summed, np.float64)
    return keys // places, keys % places, total
