"""A program over one table, fused with the reduction: blocks of people's rows that stay in cache.

The rows lie in order of user. Each block is some people, whole; its rows are narrowed down by the
conditions, put on the lattice and reduced before the next one is looked at. Blocks are shared out
between threads, and all that meets are integers, so that the result depends on neither.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparseq.base.cancellation import current
from sparseq.compiled import SHARED, THREADS, bits_as, looked_up
from sparseq.engine.columns import combine_positions
from sparseq.engine.contributions import (
    Contributions,
    RowBatch,
    Weights,
    lattice,
    losses,
    pulled,
    reduce_measure,
)
from sparseq.engine.operations import ALL
from sparseq.engine.program import Program, Rows, StepValues, with_tables
from sparseq.engine.reduce import Index, Reduction, Runs, join_parts, quantise
from sparseq.sql.plan import Plan

Made = TypeVar("Made")
BLOCK_ROWS = 1 << 18
"""Small enough for a core's cache, large enough that few calls are made."""


class Interpreter:
    """Evaluates the program of a plan.

    Args:
        plan, program: What is asked.
        leaves: What the program's leaves are, by step.
        users: Whose each row is, ascending.
        runs: Where each user's rows lie, without gaps.
    """

    def __init__(
        self,
        plan: Plan,
        program: Program,
        leaves: Mapping[int, StepValues],
        users: Index,
        runs: Runs,
    ) -> None:
        self._plan, self._program = plan, program
        with np.errstate(all="ignore"):
            self._columns = with_tables(program, leaves)
        self._users, self._runs = users, runs
        size = max(plan.query.groups * m.bins for m in plan.query.measures)
        self._blocks = _blocks(runs, max(BLOCK_ROWS, size))

    def contributions(self) -> Contributions:
        """Return what everybody contributes."""
        measures = range(len(self._plan.query.measures))
        norms = [np.empty(len(self._runs.owners), np.int64) for _ in measures]

        def reduced(people: slice) -> tuple[RowBatch, list[Reduction]]:
            batch, some = self._batch(people), people.stop - people.start
            own = [n[people] if len(batch.runs.owners) == some else None for n in norms]
            return batch, [reduce_measure(self._plan, batch, i, own[i]) for i in measures]

        parts = self._shared(reduced, self._blocks)
        batches = [batch for batch, _ in parts]
        return Contributions(
            [join_parts([found[i] for _, found in parts]) for i in measures],
            lambda only: self._pull(batches, only),
            weigh=lambda weights: self._weigh(batches, weights),
        )

    def batches(self) -> list[RowBatch]:
        """Return everybody's rows on the lattice, some people after the other."""
        return self._shared(self._batch, self._blocks)

    def whole(self) -> RowBatch:
        """Return all rows on the lattice, of a program without conditions."""
        parts = self.batches()

        def joined(arrays: list[Any]) -> NDArray[Any] | None:
            return None if arrays[0] is None else np.concatenate(arrays)

        groups = joined([p.groups for p in parts])
        if groups is not None:  # less to read in every pass
            groups = groups.astype(np.min_scalar_type(-max(self._plan.query.groups, 1)))
        columns = list(zip(*(p.measures for p in parts), strict=True))
        measures = [(joined([b for b, _ in c]), joined([v for _, v in c])) for c in columns]
        return RowBatch(self._runs, groups, measures)

    def _pull(self, batches: list[RowBatch], only: Index) -> list[NDArray[np.int64]]:
        """Return the sums over some users' rows."""

        def sums(batch: RowBatch) -> list[NDArray[np.int64]]:
            first, last = _ends(batch)
            here = only[slice(*np.searchsorted(only, [first, last + 1]))]
            return pulled(self._plan, batch, here)

        return self._added(sums, batches)

    def _weigh(self, batches: list[RowBatch], weights: Weights) -> list[NDArray[np.int64]]:
        """Return what weights take from the sums."""
        return self._added(
            lambda batch: losses(self._plan, batch, weights.between(*_ends(batch))), batches
        )

    def _added(
        self, sums: Callable[[RowBatch], list[NDArray[np.int64]]], batches: list[RowBatch]
    ) -> list[NDArray[np.int64]]:
        parts = self._shared(sums, batches)
        return [np.sum(found, axis=0, dtype=np.int64) for found in zip(*parts, strict=True)]

    def _shared(self, work: Callable[[Any], Made], blocks: list[Any]) -> list[Made]:
        """Return what comes of each block, in order."""

        stopped, cancellation = threading.Event(), current()

        def one(block: Any) -> Made:
            if cancellation is not None:
                cancellation.check()
            if stopped.is_set():
                raise CancelledError
            return work(block)

        def part(some: list[Any]) -> list[Made]:
            with np.errstate(all="ignore"):
                return [one(block) for block in some]

        if self._runs.rows < SHARED:
            return part(blocks)
        cuts = [len(blocks) * i // THREADS for i in range(THREADS + 1)]
        try:
            parts = _pool().map(part, [blocks[a:b] for a, b in pairwise(cuts)])
            return [found for some in parts for found in some]
        finally:
            stopped.set()  # by Ctrl-C: the other threads look at no further block

    def _batch(self, people: slice) -> RowBatch:
        """Return a block's rows on the lattice; those that the program does not keep count 0."""
        all_ = self._runs
        runs = Runs(all_.owners[people], all_.first[people], all_.stop[people])
        start = int(runs.first[0]) if len(runs.first) else 0
        runs = Runs(runs.owners, runs.first - start, runs.stop - start)
        block = slice(start, start + int(runs.stop[-1]) if len(runs.stop) else start)
        rows = Rows(self._program, self._columns, block)
        if rows.rows is not None:
            runs = Runs.of(looked_up(self._users[block], rows.rows))
        groups = self._groups(rows)
        return RowBatch(runs, groups, [
            self._measure(rows, lattice(m, n.granularity), *steps, groups is None)
            for m, n, steps in zip(self._plan.query.measures, self._plan.noise,
                                   self._program.measures, strict=True)
        ])  # fmt: skip

    def _groups(self, rows: Rows) -> NDArray[Any] | None:
        places = [_by_row(rows, step) for step in self._program.positions]
        sizes = [len(d.values) for d in self._plan.query.domains]
        index = places[0] if len(places) == 1 else combine_positions(places, sizes)
        return None if index is None else _placed_if(rows.kept, index)

    def _measure(
        self, rows: Rows, step: float, bin: int | None, value: int | None, alone: bool
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """Return a measure's (bin, value) by row; `alone`: nothing else says which rows count."""
        bins = None if bin is None else _by_row(rows, bin)
        values = None if value is None else _by_row(rows, value)
        if values is None and step != 1.0:
            values = np.full(len(rows), quantise(np.ones(1), step)[0])
        if rows.kept is ALL or not alone:
            return bins, values
        if bins is not None:
            return _placed_if(rows.kept, bins), values
        ones = bits_as(rows.kept, np.bool_, np.uint8)
        return None, ones if values is None else values * ones


def _ends(batch: RowBatch) -> tuple[int, int]:
    """Return the first and the last user of a batch."""
    owners = batch.runs.owners
    return (int(owners[0]), int(owners[-1])) if len(owners) else (0, -1)


def _by_row(rows: Rows, step: int) -> NDArray[Any]:
    values = rows.result(step).values
    return values if np.ndim(values) else np.full(len(rows), values)


def _placed_if(kept: Any, places: NDArray[Any]) -> NDArray[Any]:
    """Return places of the rows that are kept, -1 for the others."""
    return places if kept is ALL else places | (bits_as(kept, np.bool_, np.int8) - np.int8(1))


def _blocks(runs: Runs, rows: int) -> list[slice]:
    """Split people into ranges of about so many rows each."""
    people, total = len(runs.owners), runs.rows
    cuts = np.searchsorted(runs.first, np.arange(0, total, rows)).tolist()
    edges = sorted({0, *cuts, people})
    return [slice(a, b) for a, b in pairwise(edges)] or [slice(0, 0)]


@cache
def _pool() -> ThreadPoolExecutor:
    """Return threads of the interpreter's own: they wait for those of the loops."""
    return ThreadPoolExecutor(THREADS)
