"""The engine of a lake: users' contributions, by tasks over buckets; only integers come back.

A user's index is the position in its bucket times the number of buckets, plus the bucket.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.base.cancellation import check
from sparseq.base.errors import StoreError
from sparseq.engine.cells import Cells
from sparseq.engine.contributions import Contributions
from sparseq.engine.protocol import USER, Difference, SideReader
from sparseq.engine.reduction import Index, Reduction
from sparseq.engine.weighted_reduction import Weights
from sparseq.lake.fleets import Fleet
from sparseq.lake.task_messages import pack_frame, plan_document, unpack_frame
from sparseq.ledger.engine_failure import EngineFailure
from sparseq.question.catalog import Table
from sparseq.question.plan import Plan, Query

Made = TypeVar("Made")
Arrays = list[NDArray[Any]]
GROUP = 512  # plans that share a job


class LakeEngine:
    """See `sparseq.engine.protocol.Engine`.

    Args:
        fleet: Runs the tasks.
        buckets: Returns the paths of the buckets' current files, in their order.
    """

    def __init__(self, fleet: Fleet, buckets: Callable[[], Sequence[str]]) -> None:
        self._fleet, self._buckets = fleet, buckets
        self._failures: list[EngineFailure] = []
        self._coming: dict[str, Plan] = {}
        self._ahead: dict[str, list[Arrays]] = {}
        self.version = 0

    def lacks(self, plan: Plan) -> str:
        """See `Engine`: tasks can evaluate the same plans as the engine for one machine."""
        return ""

    def read_ahead(self, plans: Iterable[Plan]) -> None:
        """See `Engine`: the first evaluation of one of these plans runs all plans in one job."""
        self.rows_arrived()
        self._coming = {_key(plan_document(plan)): plan for plan in plans}

    def rows_arrived(self) -> None:
        """See `Engine`."""
        self._coming, self._ahead = {}, {}
        self.version += 1

    def reads_long(self, query: Query) -> bool:
        """See `Engine`: tasks read, and the stream waits."""
        return False

    def beside(self) -> SideReader:
        """See `Engine`; nothing reads long."""
        raise NotImplementedError

    def contributions(self, plan: Plan, users: int) -> Contributions:
        """See `Engine`: one job; and another one if a user is left out, or has a smaller weight."""
        found = self._found(plan)
        count = len(self._buckets())

        def measures() -> list[Reduction]:
            return [_join(parts, count) for parts in zip(*map(_by_measure, found), strict=True)]

        def pull(only: Index) -> Arrays:
            inner = [[(only[only % count == b] // count).astype(np.int32)] for b in range(count)]
            return self._add("pull", plan, {}, inner)

        def weigh(weights: Weights) -> Arrays:
            inner: list[Arrays] = []
            for b in range(count):
                at = np.flatnonzero(weights.users % count == b)
                places = (weights.users[at] // count).astype(np.int32)
                inner.append([places, weights.mantissa[at], weights.exponent[at]])
            return self._add("weigh", plan, {"shifts": list(weights.shifts)}, inner)

        return Contributions(measures, pull, weigh=weigh)

    def _found(self, plan: Plan) -> list[Arrays]:
        """Return each bucket's part of a plan: users, norms and totals of its measures."""
        document = plan_document(plan)
        key = _key(document)
        if key in self._ahead:
            return self._ahead.pop(key)
        if key not in self._coming:
            return self._job("measures", {"plans": [document]})
        keys = list(self._coming)
        group = keys[keys.index(key) :][:GROUP]
        plans = [self._coming.pop(one) for one in group]
        answers = self._job("measures", {"plans": [plan_document(one) for one in plans]})
        at = 0
        for one, its in zip(group, plans, strict=True):
            size = 3 * len(its.query.measures)
            self._ahead[one] = [arrays[at : at + size] for arrays in answers]
            at += size
        return self._ahead.pop(key)

    def _add(self, do: str, plan: Plan, more: dict[str, Any], inner: list[Arrays]) -> Arrays:
        """Return sums over the buckets that have some of the users, one array per measure."""
        head = {"plans": [plan_document(plan)], **more}
        which = [b for b, arrays in enumerate(inner) if len(arrays[0])]
        sizes = [plan.query.groups * m.bins for m in plan.query.measures]
        totals: Arrays = [np.zeros(size, np.int64) for size in sizes]
        for arrays in self._job(do, head, which, [inner[b] for b in which]):
            for total, some in zip(totals, arrays, strict=True):
                total += some
        return totals

    def _job(
        self,
        do: str,
        head: dict[str, Any],
        which: Sequence[int] | None = None,
        inner: Sequence[Arrays] | None = None,
    ) -> list[Arrays]:
        """Run one task on each of some buckets; each is counted once."""
        paths = self._buckets()
        which = range(len(paths)) if which is None else which
        arrays = [[]] * len(which) if inner is None else inner
        tasks = [
            pack_frame({"do": do, "bucket": paths[b], "place": b, **head}, some)
            for b, some in zip(which, arrays, strict=True)
        ]
        found: dict[int, Arrays] = {}
        for answer in self._fleet.run(tasks) if tasks else ():
            check()
            said, its = unpack_frame(answer)
            if said["place"] in found:
                raise StoreError("a bucket came twice")
            found[said["place"]] = its
            for user, error in said["failures"]:
                number = user * len(paths) + said["place"]
                self._failures.append(EngineFailure(number, error))
        if sorted(found) != sorted(which):
            raise StoreError("a bucket is missing")
        return [found[b] for b in which]

    def cells(self, plan: Plan, users: int) -> Cells:
        """See `Engine`: one job; the cells come to the driver, which must have memory for them."""
        found = self._job("cells", {"plans": [plan_document(plan)]})
        whose, places, values = map(np.concatenate, zip(*found, strict=True))
        sizes = [len(arrays[0]) for arrays in found]
        whose = _numbers(whose, np.repeat(np.arange(len(found)), sizes), len(found))
        order = np.argsort(whose, kind="stable")  # a bucket has a user's cells in their order
        return Cells(whose[order], places[order], values[order])

    def by_people(
        self,
        table: Table,
        columns: Sequence[str],
        make: Callable[[Iterable[pa.RecordBatch]], Made],
        users: int,
    ) -> Iterator[Made]:
        """See `Engine`: the columns come to the driver, which must have memory for them."""
        parts, count = [], len(self._buckets())
        found = self._job("rows", {"table": table.name, "columns": list(columns)})
        for bucket, (stream,) in enumerate(found):
            rows = pa.ipc.open_stream(pa.py_buffer(stream)).read_all()
            numbers = _numbers(rows[USER].to_numpy(), bucket, count)
            parts.append(rows.set_column(0, USER, pa.array(numbers, pa.int32())))
        whole = pa.concat_tables(parts)
        order = np.argsort(whole[USER].to_numpy(), kind="stable")
        yield from self._made(whole.take(pa.array(order)), make)

    def _made(
        self, rows: pa.Table, make: Callable[[Iterable[pa.RecordBatch]], Made]
    ) -> Iterator[Made]:
        """Yield results of rows; if that fails, results of halves of the users."""
        try:
            yield make(rows.to_batches())
        except Exception as error:
            check()
            whose = rows[USER].to_numpy()
            people = np.unique(whose)
            if len(people) < 2:
                self._failures += [EngineFailure(int(u), type(error).__name__) for u in people]
                return
            cut = int(np.searchsorted(whose, people[len(people) // 2]))
            yield from self._made(rows.slice(0, cut), make)
            yield from self._made(rows.slice(cut), make)

    def check_alone(self) -> list[Difference]:
        """See `Engine`: only tasks read rows, so the driver has nothing to compare."""
        return []

    def take_failures(self) -> list[EngineFailure]:
        """See `Engine`."""
        taken, self._failures = self._failures, []
        return taken


def _key(document: dict[str, Any]) -> str:
    return json.dumps(document)


def _by_measure(arrays: Arrays) -> list[Arrays]:
    return [arrays[k : k + 3] for k in range(0, len(arrays), 3)]


def _join(parts: Sequence[Arrays], count: int) -> Reduction:
    """Return one measure of all buckets, in order of user."""
    users = np.concatenate([_numbers(some[0], b, count) for b, some in enumerate(parts)])
    order = np.argsort(users, kind="stable")
    norms = np.concatenate([some[1] for some in parts])
    totals = np.zeros(len(parts[0][2]), np.int64)
    for some in parts:
        totals += some[2]
    return Reduction(users[order], norms[order], totals)


def _numbers(places: NDArray[Any], bucket: Any, count: int) -> Index:
    """Return the indices of users by their positions in a bucket, or in one bucket each."""
    numbers: Index = (places.astype(np.int64) * count + bucket).astype(np.int32)
    return numbers
