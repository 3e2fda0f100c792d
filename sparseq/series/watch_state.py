"""The memory of the watch, and who is in its counts: private, in the store's file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sparseq.engine.contributions import Contributions
from sparseq.engine.reduce import NORM_LIMIT, Index, Ints, Reduction
from sparseq.ledger.notes import Asker, NoteRows, NoteTable, RequestId
from sparseq.ledger.purposes import Pot
from sparseq.sql.plan import Plan
from sparseq.store.store import Store

WATCHED = NoteTable("watched", {"tick": "BIGINT", "release_id": "BIGINT", "users": "BIGINT"})


def watch_request(tick: int, what: str = "") -> RequestId:
    """Return what a tick's node, or its `what`, is called in the journal."""
    return RequestId.of(Asker.WATCH, *([f"{tick}", what] if what else [f"{tick}"]))


class WatchState:
    """Which releases and users each tick covers.

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
        return max(self._watched()["tick"].to_pylist(), default=0)

    def covered(self, tick: int) -> tuple[int, int]:
        """Return the release that a tick ended with, and how many users there were then."""
        if tick == 0:
            return 0, 0
        (row,) = self._watched(tick=tick).to_pylist()
        return row["release_id"], row["users"]

    def cover(self, tick: int, release: int) -> NoteRows:
        """Return what is written with a tick's release."""
        return WATCHED.rows(tick=tick, release_id=release, users=self.store.stream.people)

    def _watched(self, **equal: Any) -> pa.Table:
        return self.store.stream.ledger.notes(WATCHED, **equal)

    def left_out(self, after: int, until: int | None) -> Index:
        """Return who was first left out of a release later than `after`, up to `until` or now."""
        last = self.store.stream.next_release if until is None else until
        return self._served(self.store.stream.departures.between(after + 1, last))

    def joined(self, known: int) -> Index:
        """Return who has joined since there were `known` users."""
        return self._served(np.arange(known, self.store.stream.people, dtype=np.int32))

    def _served(self, users: Index) -> Index:
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
