"""A check while a store is in use: a few users' rows alone give the same result as with all rows.

A user's contribution must be a function of that user's rows alone, for any range, thread or loop
that computed it. This check evaluates the rows of a few users, chosen by the operating system's
entropy, in a database with their rows only (as in the backstop). Squared norms and sums are
integers, and must be equal.

A difference changes nothing for the analyst, because that would reveal a row: it is found after the
commit, raises nothing, and is reported only to the curator. The check may take `SHARE` of the time
of questions; the time is saved up, so only some of the short questions are checked. Detection
probability: if a fault concerns a fraction f of all users, a check of one user finds it with
probability at least f/2, so k checks miss it with probability at most (1 - f/2)^k.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sparseq.engine._duckdb.backstop import Failure
from sparseq.engine.contributions import Contributions, RowBatch, of_batch
from sparseq.engine.protocol import Difference
from sparseq.question.plan import Plan

SHARE = 0.05
"""The share of questions' time that checks may take."""
PEOPLE = 2
"""The maximum number of checks after one question."""
_SAVED = 0.1  # seconds of checks that can be saved up
_FIRST = 0.005  # assumed seconds of a check, before the first measurement


@dataclass(frozen=True)
class _Held:
    """An answered question: private.

    Attributes:
        plan, made: The plan, and the result for all rows.
        users: The number of users.
    """

    plan: Plan
    made: Contributions
    users: int


class AloneCheck:
    """A comparison of a few users' contributions among all rows and alone.

    Args:
        read: Reads one user's rows for a plan from a database without others.
        clock: Returns seconds.
    """

    def __init__(
        self,
        read: Callable[[Plan, int], RowBatch | Failure],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._read, self._clock = read, clock
        self._saved, self._cost = 0.0, _FIRST
        self._held: _Held | None = None

    def consider(self, plan: Plan, made: Contributions, users: int) -> None:
        """Hold the result of a plan for `run`, if enough time has been saved up."""
        if users and self._saved >= self._cost:
            self._held = _Held(plan, made, users)

    def save(self, seconds: float) -> None:
        """Record the time that a question took."""
        self._saved = min(self._saved + SHARE * seconds, _SAVED)

    def run(self) -> list[Difference]:
        """Check a few users of the held result, and drop it; raise nothing."""
        held, self._held = self._held, None
        found: list[Difference] = []
        if held is None:
            return found
        for _ in range(PEOPLE):
            begun = self._clock()
            user = _somebody(held)
            said = self._differs(held, user)
            if said:
                found.append(Difference(user, said))
            took = self._clock() - begun
            self._saved -= took
            self._cost = (self._cost + took) / 2
            if self._saved < self._cost:
                break
        return found

    def forget(self) -> None:
        """Drop the held result, because rows have changed."""
        self._held = None

    def _differs(self, held: _Held, user: int) -> str:
        """Return the difference between a user's contributions among all rows and alone, or ""."""
        read = self._read(held.plan, user)
        if isinstance(read, Failure):
            return ""  # the backstop reports it when the question is asked
        alone, crowd = of_batch(held.plan, read).measures, held.made.measures
        pulled = None if held.made.rereads else held.made.pull(np.array([user], np.int32))
        for i, (one, all_) in enumerate(zip(alone, crowd, strict=True)):
            norms = all_.norm_of(user), one.norm_of(user)
            label = held.plan.query.measures[i].label
            if norms[0] != norms[1]:
                return f"{label}: squared norms {norms[0]:,} among all and {norms[1]:,} alone"
            if pulled is not None and not np.array_equal(pulled[i], one.totals):
                return f"{label}: other sums among all than alone"
        return ""


def _somebody(held: _Held) -> int:
    """Return a random user: with probability 1/2 a contributing user, otherwise any user."""
    there = held.made.measures[0].users
    if len(there) and secrets.randbelow(2):
        return int(there[secrets.randbelow(len(there))])
    return secrets.randbelow(held.users)
