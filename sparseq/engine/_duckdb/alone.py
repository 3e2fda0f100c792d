"""The last line: a few people's rows, evaluated alone and by the other way, against the crowd.

What a person contributes is to be a function of that person's rows alone, whichever evaluator,
block, thread or cache made it. Here that is looked at while the store is in use, for a few people
chosen by the operating system's entropy: by DuckDB, with no rows but theirs, where the interpreter
made the answer; where DuckDB did, in a database that has their rows alone (as the backstop has it),
by the interpreter if there is a program. Squared norms and sums are integers, and must be equal.

A difference changes nothing for the analyst, as it would tell of a row: it is found after the
commit, it raises nothing, and only the curator is told. Time is what it costs: `SHARE` of what
questions take, saved up, so that short questions are checked one in so many. Chance of being told:
where a fault concerns a part f of all people, a check of one of them finds it with probability at
least f/2, so k checks miss it with probability at most (1 - f/2)^k.
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
from sparseq.sql.plan import Plan

SHARE = 0.05
"""Of the time that questions take: what checks may take."""
PEOPLE = 2
"""At most, after one question."""
_SAVED = 0.1  # seconds of checks that can be saved up
_FIRST = 0.005  # seconds that a check takes, until one was made


@dataclass(frozen=True)
class _Held:
    """A question that was answered: private.

    Attributes:
        plan, made: What was asked, and what came of everybody's rows.
        users: How many people there are.
        interpreted: The interpreter made it; else DuckDB did.
    """

    plan: Plan
    made: Contributions
    users: int
    interpreted: bool


class AloneCheck:
    """Compares what a few people contribute in a crowd and alone.

    Args:
        read: Reads one person's rows for a plan, told whether the interpreter has made the answer;
            returns the name of the way as well.
        clock: Seconds.
    """

    def __init__(
        self,
        read: Callable[[Plan, int, bool], tuple[str, RowBatch | Failure]],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._read, self._clock = read, clock
        self._saved, self._cost = 0.0, _FIRST
        self._held: _Held | None = None

    def consider(self, plan: Plan, made: Contributions, users: int, interpreted: bool) -> None:
        """Hold what was made of a plan until `run`, where there is time for it."""
        if users and self._saved >= self._cost:
            self._held = _Held(plan, made, users, interpreted)

    def save(self, seconds: float) -> None:
        """Take note that a question took so long."""
        self._saved = min(self._saved + SHARE * seconds, _SAVED)

    def run(self) -> list[Difference]:
        """Check a few people of what is held, and let go of it; it raises nothing."""
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
        """Forget what is held, as rows are not what they were."""
        self._held = None

    def _differs(self, held: _Held, user: int) -> str:
        """Return how a person's part in the crowd and alone differ, "" if they don't."""
        way, read = self._read(held.plan, user, held.interpreted)
        if isinstance(read, Failure):
            return ""  # the backstop tells of it, where it is asked
        alone, crowd = of_batch(held.plan, read).measures, held.made.measures
        pulled = None if held.made.rereads else held.made.pull(np.array([user], np.int32))
        ways = f"{'the interpreter' if held.interpreted else 'DuckDB'} among all, by {way} alone"
        for i, (one, all_) in enumerate(zip(alone, crowd, strict=True)):
            norms = all_.norm_of(user), one.norm_of(user)
            label = held.plan.query.measures[i].label
            if norms[0] != norms[1]:
                return f"{label}: squared norms {norms[0]:,} and {norms[1]:,}, by {ways}"
            if pulled is not None and not np.array_equal(pulled[i], one.totals):
                return f"{label}: other sums, by {ways}"
        return ""


def _somebody(held: _Held) -> int:
    """Return somebody: as often one of those who contribute as one of all."""
    there = held.made.measures[0].users
    if len(there) and secrets.randbelow(2):
        return int(there[secrets.randbelow(len(there))])
    return secrets.randbelow(held.users)
