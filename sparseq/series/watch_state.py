"""Memory of the watch: the releases and users that each tick covers; private, in the ledger."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sparseq.engine.contributions import Contributions
from sparseq.engine.reduction import NORM_LIMIT, Index, Ints, Reduction
from sparseq.ledger.notes import NoteRows, NoteTable
from sparseq.ledger.pots import Pot
from sparseq.ledger.request_id import Asker, RequestId
from sparseq.question.plan import Plan
from sparseq.store.store import Store

WATCHED = NoteTable("watched", {"tick": "BIGINT", "release_id": "BIGINT", "users": "BIGINT"})


def watch_request(tick: int, what: str = "") -> RequestId:
    """Return the id in the journal of a tick's node, or of its `what`."""
    return RequestId.of(Asker.WATCH, *([f"{tick}", what] if what else [f"{tick}"]))


class WatchState:
    """The releases and users that each tick covers.

    Args:
        store: An open store.
        need: Budget for the watch, in ledger units, from which a user is counted: own budgets do
            not depend on data, so neither does the set of counted users.
    """

    def __init__(self, store: Store, need: int) -> None:
        self.store = store
        self._need = need

    def last_tick(self) -> int:
        """Return the number of the last released tick; 0: none."""
        return max(self._watch()["tick"].to_pylist(), default=0)

    def covered(self, tick: int) -> tuple[int, int]:
        """Return the last release of a tick, and the number of users at that moment."""
        if tick == 0:
            return 0, 0
        (row,) = self._watch(tick=tick).to_pylist()
        return row["release_id"], row["users"]

    def cover(self, tick: int, release: int) -> NoteRows:
        """Return the note to write with a tick's release."""
        return WATCHED.rows(tick=tick, release_id=release, users=self.store.stream.people.inside())

    def _watch(self, **equal: Any) -> pa.Table:
        return self.store.stream.ledger.notes(WATCHED, **equal)

    def left_out(self, after: int, until: int | None) -> Index:
        """Return the users first left out by a release after `after`, up to `until` or now."""
        last = self.store.stream.next_release if until is None else until
        return self._serve(self.store.stream.departures.between(after + 1, last))

    def joined(self, known: int) -> Index:
        """Return the users who have joined since there were `known` users."""
        return self._serve(np.arange(known, self.store.stream.people.inside(), dtype=np.int32))

    def _serve(self, users: Index) -> Index:
        served: Index = users[self.store.stream.pots[Pot.WATCH].budgets[users] >= self._need]
        return served

    @staticmethod
    def ones(plan: Plan, *groups: Index) -> Contributions:
        """Return contributions of 1 by each group's users, one measure per group."""
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
