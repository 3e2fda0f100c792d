"""Rows read ahead: one scan for the many queries to come that differ in their times only.

What a query takes from a scan are the rows that its own SQL would have given, so its contributions
are the same integers. Nothing here is a result: it goes when rows arrive, and with memory's limit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sparseq.engine._duckdb.windows import FOREVER, Window, hulls, window
from sparseq.sql.plan import Plan

Made = TypeVar("Made")
ROW_BYTES = 16
"""About what a row read ahead takes."""
MOST_BYTES = 1 << 29


@dataclass(frozen=True)
class PlanRows:
    """Some rows of a plan: users, groups, and (bin, value) a measure, as in a `RowBatch`."""

    users: NDArray[np.int32]
    groups: NDArray[Any] | None
    measures: list[tuple[Any, Any]]

    def at(self, rows: slice | NDArray[np.int64]) -> PlanRows:
        """Return some of the rows, or another order of them."""

        def part(array: Any) -> Any:
            return None if array is None else array[rows]

        measures = [(part(b), part(v)) for b, v in self.measures]
        return PlanRows(self.users[rows], part(self.groups), measures)


@dataclass(frozen=True)
class Scan:
    """Rows in order of time, from `low` up to `high`; `first` is where each of `times` begins."""

    low: int
    high: int
    times: NDArray[np.int64]
    first: NDArray[np.int64]
    rows: PlanRows

    @classmethod
    def of(cls, low: int, high: int, times: NDArray[Any], rows: PlanRows) -> Scan:
        """Return rows as a scan, whatever order they are in."""
        if bool(np.any(times[1:] < times[:-1])):
            order = np.argsort(times, kind="stable")
            times, rows = times[order], rows.at(order)
        first = np.flatnonzero(np.concatenate(([True], times[1:] != times[:-1]))[: len(times)])
        return cls(low, high, times[first].astype(np.int64), first, rows)

    def between(self, low: int, high: int) -> PlanRows:
        """Return the rows of a window."""
        ends = np.append(self.first, len(self.rows.users))
        start = 0 if low == -FOREVER else int(np.searchsorted(self.times, low))
        stop = len(self.times) if high == FOREVER else int(np.searchsorted(self.times, high))
        return self.rows.at(slice(int(ends[start]), int(ends[max(start, stop)])))


Read = Callable[[Plan, list[Window]], tuple[NDArray[Any], PlanRows]]


class Scans:
    """What has been read ahead, the oldest dropped first.

    Args:
        count, read: Count, or return with their times, the rows of a plan from the first of some
            windows to the last.
        capacity: Bytes.
    """

    def __init__(
        self,
        count: Callable[[Plan, list[Window]], int],
        read: Read,
        capacity: int,
    ) -> None:
        self._count, self._read = count, read
        self._most_rows = min(capacity, MOST_BYTES) // ROW_BYTES
        self._scans: OrderedDict[tuple[Hashable, int, int], Scan] = OrderedDict()
        self._made: dict[tuple[Hashable, int, int], object] = {}
        self._made_rows = 0

    def read(self, plans: Iterable[Plan]) -> None:
        """Read ahead for plans that are likely to be asked next."""
        asked: dict[Hashable, tuple[Plan, dict[tuple[int, int], Window]]] = {}
        for plan in plans:
            if (found := self._window(plan)) is not None:
                key, window = found
                _, windows = asked.setdefault(key, (plan, {}))
                windows[window.low, window.high] = window
        room = self._most_rows
        for key, (plan, windows) in asked.items():
            missing = [w for w in windows.values() if self._covering(key, w) is None]
            for part in hulls(missing):
                for together in self._small_enough(plan, part, room):
                    room -= self._keep(key, plan, together)

    def rows(self, plan: Plan) -> PlanRows | None:
        """Return the rows of a plan, if they have been read."""
        found = self._find(plan)
        return None if found is None else found[1].between(*found[0][1:])

    def made_of(self, plan: Plan, make: Callable[[bool], Made]) -> Made:
        """Return what `make` makes of a plan's rows; kept, if the rows have been read ahead.

        `make` is told whether it will be.

        The same rows are asked for again and again: by dashboards, by other people.
        """
        found = self._find(plan)
        if found is None:
            return make(False)
        at, scan = found
        if at in self._made:
            return cast(Made, self._made[at])
        made = make(True)
        self._made_rows += len(scan.between(*at[1:]).users)
        if self._made_rows <= self._most_rows // 4:
            self._made[at] = made
        return made

    def _find(self, plan: Plan) -> tuple[tuple[Hashable, int, int], Scan] | None:
        if not self._scans or (found := self._window(plan)) is None:
            return None
        key, window = found
        scan = self._covering(key, window)
        return None if scan is None else ((key, window.low, window.high), scan)

    def clear(self) -> None:
        """Forget everything: rows have arrived."""
        self._scans.clear()
        self._made.clear()
        self._made_rows = 0

    def _window(self, plan: Plan) -> tuple[Hashable, Window] | None:
        """Return the plan's window, and what it shares with the plans of the same shape."""
        relation = plan.query.relation
        found = window(relation.conditions)
        if found is None:
            return None
        steps = tuple(n.granularity for n in plan.noise)
        shape = (relation.sql, relation.user, found.column, found.rest)
        return (shape, plan.query.domains, plan.query.measures, steps), found

    def _covering(self, key: Hashable, w: Window) -> Scan | None:
        for (other, low, high), scan in self._scans.items():
            if low <= w.low and w.high <= high and other == key:
                return scan
        return None

    def _small_enough(self, plan: Plan, part: list[Window], room: int) -> Iterator[list[Window]]:
        """Halve windows until the rows from first to last fit; one alone is no use reading."""
        if len(part) < 2:
            return
        if self._count(plan, part) <= room:
            yield part
            return
        middle = len(part) // 2
        yield from self._small_enough(plan, part[:middle], room)
        yield from self._small_enough(plan, part[middle:], room)

    def _keep(self, key: Hashable, plan: Plan, part: list[Window]) -> int:
        low, high = min(w.low for w in part), max(w.high for w in part)
        times, rows = self._read(plan, part)
        held = sum(len(scan.rows.users) for scan in self._scans.values())
        while self._scans and held + len(times) > self._most_rows:
            _, oldest = self._scans.popitem(last=False)
            held -= len(oldest.rows.users)
            self._made.clear()
            self._made_rows = 0
        self._scans[key, low, high] = Scan.of(low, high, times, rows)
        return len(times)
