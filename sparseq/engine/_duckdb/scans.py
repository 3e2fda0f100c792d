"""Rows read ahead by one scan, for many later queries that differ only in their times.

A query takes from a scan exactly the rows that its own SQL would have returned, so its
contributions are the same integers. Nothing here is a result: it is dropped when rows arrive, or
when memory reaches its limit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sparseq.engine._duckdb.time_windows import FOREVER, Window, hulls, window
from sparseq.question.plan import Plan

Made = TypeVar("Made")
ROW_BYTES = 16
"""The approximate bytes of a row that is read ahead."""
MOST_BYTES = 1 << 29


@dataclass(frozen=True)
class PlanRows:
    """Some rows of a plan: users, groups, and (bin, value) per measure, as in a `RowBatch`."""

    users: NDArray[np.int32]
    groups: NDArray[Any] | None
    measures: list[tuple[Any, Any]]

    def at(self, rows: slice | NDArray[np.int64]) -> PlanRows:
        """Return some of the rows, or the rows in another order."""

        def part(array: Any) -> Any:
            return None if array is None else array[rows]

        measures = [(part(b), part(v)) for b, v in self.measures]
        return PlanRows(self.users[rows], part(self.groups), measures)


@dataclass(frozen=True)
class Scan:
    """Rows in order of time, from `low` up to `high`; `first`: the first row of each time."""

    low: int
    high: int
    times: NDArray[np.int64]
    first: NDArray[np.int64]
    rows: PlanRows

    @classmethod
    def of(cls, low: int, high: int, times: NDArray[Any], rows: PlanRows) -> Scan:
        """Return rows in any order as a scan."""
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
    """Scans read ahead; the oldest is dropped first.

    Args:
        count, read: Count or read the rows of a plan from the first of some windows to the last;
            `read` also returns the rows' times.
        capacity: The limit in bytes.
    """

    def __init__(
        self, count: Callable[[Plan, list[Window]], int], read: Read, capacity: int
    ) -> None:
        self._count, self._read = count, read
        self._most_rows = min(capacity, MOST_BYTES) // ROW_BYTES
        self._scans: OrderedDict[tuple[Hashable, int, int], Scan] = OrderedDict()
        self._made: dict[tuple[Hashable, int, int], object] = {}
        self._made_rows = 0

    def read(self, plans: Iterable[Plan]) -> None:
        """Read ahead for plans that are likely to come next."""
        asked: dict[Hashable, tuple[Plan, dict[tuple[int, int], Window]]] = {}
        for plan in plans:
            if (shape := self._window(plan)) is not None:
                key, window = shape
                _, windows = asked.setdefault(key, (plan, {}))
                windows[window.low, window.high] = window
        room = self._most_rows
        for key, (plan, windows) in asked.items():
            missing = [w for w in windows.values() if self._find_cover(key, w) is None]
            for part in hulls(missing):
                for together in self._small_enough(plan, part, room):
                    room -= self._keep(key, plan, together)

    def rows(self, plan: Plan) -> PlanRows | None:
        """Return the rows of a plan if a scan has them."""
        scan = self._find(plan)
        return None if scan is None else scan[1].between(*scan[0][1:])

    def made_of(self, plan: Plan, make: Callable[[], Made]) -> Made:
        """Return the result of `make` for a plan's rows; it is kept if a scan has the rows.

        Dashboards and several analysts request the same rows repeatedly.
        """
        place = self._find(plan)
        if place is None:
            return make()
        at, scan = place
        if at in self._made:
            return cast(Made, self._made[at])
        made = make()
        self._made_rows += len(scan.between(*at[1:]).users)
        if self._made_rows <= self._most_rows // 4:
            self._made[at] = made
        return made

    def _find(self, plan: Plan) -> tuple[tuple[Hashable, int, int], Scan] | None:
        if not self._scans or (shape := self._window(plan)) is None:
            return None
        key, window = shape
        scan = self._find_cover(key, window)
        return None if scan is None else ((key, window.low, window.high), scan)

    def clear(self) -> None:
        """Drop everything: rows have arrived."""
        self._scans.clear()
        self._made.clear()
        self._made_rows = 0

    def _window(self, plan: Plan) -> tuple[Hashable, Window] | None:
        """Return the plan's window, and the part that it shares with plans of the same shape."""
        relation = plan.query.relation
        stretch = window(relation.conditions)
        if stretch is None:
            return None
        steps = tuple(n.granularity for n in plan.noise)
        shape = (relation.sql, relation.user, stretch.column, stretch.rest)
        return (shape, plan.query.domains, plan.query.measures, steps), stretch

    def _find_cover(self, key: Hashable, w: Window) -> Scan | None:
        for (other, low, high), scan in self._scans.items():
            if low <= w.low and w.high <= high and other == key:
                return scan
        return None

    def _small_enough(self, plan: Plan, part: list[Window], room: int) -> Iterator[list[Window]]:
        """Halve windows until the rows from first to last fit; a single window is not worth
        reading.
        """
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
