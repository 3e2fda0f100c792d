"""A program over one table, fused with the reduction: blocks of people's rows that stay in cache.

The rows lie in order of user. Each block is some people, whole; its rows are narrowed down by the
conditions, put on the lattice and reduced before the next one is looked at. Blocks are shared out
between threads, and all that meets are integers, so that the result depends on neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparseq.compiled import SHARED, THREADS
from sparseq.engine.columns import combine_positions
from sparseq.engine.contributions import Contributions, RowBatch, lattice, pulled, reduce_measure
from sparseq.engine.operations import Vector
from sparseq.engine.program import Column, Program, Rows
from sparseq.engine.reduce import Index, Reduction, Runs, join_parts, quantise
from sparseq.query.plan import Kind, Measure, Noise, Plan

Made = TypeVar("Made")
BLOCK_ROWS = 1 << 16


class Interpreter:
    """Evaluates the program of a plan.

    Args:
        plan, program: What is asked.
        columns: What the program's leaves are, by step.
        users: Whose each row is, ascending.
        runs: Where each user's rows lie, without gaps.
    """

    def __init__(
        self,
        plan: Plan,
        program: Program,
        columns: Mapping[int, Column],
        users: Index,
        runs: Runs,
    ) -> None:
        self._plan, self._program, self._columns = plan, program, columns
        self._users, self._runs = users, runs
        size = max(plan.query.groups * m.bins for m in plan.query.measures)
        self._blocks = _blocks(runs, max(BLOCK_ROWS, size))

    def contributions(self) -> Contributions:
        """Return what everybody contributes."""
        measures = range(len(self._plan.query.measures))

        def reduced(people: slice) -> tuple[RowBatch, list[Reduction]]:
            batch = self._batch(people)
            return batch, [reduce_measure(self._plan, batch, i) for i in measures]

        parts = self._shared(reduced, self._blocks)
        batches = [batch for batch, _ in parts]
        return Contributions(
            [join_parts([found[i] for _, found in parts]) for i in measures],
            lambda only: self._pull(batches, only),
        )

    def whole(self) -> RowBatch:
        """Return all rows on the lattice, of a program without conditions."""
        parts = self._shared(self._batch, self._blocks)

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
            owners = batch.runs.owners
            ends = [owners[0], owners[-1] + 1] if len(owners) else [0, 0]
            return pulled(self._plan, batch, only[slice(*np.searchsorted(only, ends))])

        parts = self._shared(sums, batches)
        return [np.sum(found, axis=0, dtype=np.int64) for found in zip(*parts, strict=True)]

    def _shared(self, work: Callable[[Any], Made], blocks: list[Any]) -> list[Made]:
        """Return what comes of each block, in order."""

        def part(some: list[Any]) -> list[Made]:
            with np.errstate(all="ignore"):
                return [work(block) for block in some]

        if self._runs.rows < SHARED:
            return part(blocks)
        cuts = [len(blocks) * i // THREADS for i in range(THREADS + 1)]
        parts = _pool().map(part, [blocks[a:b] for a, b in pairwise(cuts)])
        return [found for some in parts for found in some]

    def _batch(self, people: slice) -> RowBatch:
        """Return a block's rows that the program keeps, on the lattice."""
        all_ = self._runs
        runs = Runs(all_.owners[people], all_.first[people], all_.stop[people])
        start = int(runs.first[0]) if len(runs.first) else 0
        runs = Runs(runs.owners, runs.first - start, runs.stop - start)
        block = slice(start, start + int(runs.stop[-1]) if len(runs.stop) else start)
        rows = Rows(self._program, self._columns, block)
        if rows.rows is not None:
            runs = Runs.of(self._users[block].take(rows.rows))
        return RowBatch(runs, self._groups(rows), [
            self._measure(rows, m, n, *steps)
            for m, n, steps in zip(self._plan.query.measures, self._plan.noise,
                                   self._program.measures, strict=True)
        ])  # fmt: skip

    def _groups(self, rows: Rows) -> Index | None:
        sizes = [len(d.values) for d in self._plan.query.domains]
        places = [
            _places(rows.result(step), size, len(rows))
            for step, size in zip(self._program.positions, sizes, strict=True)
        ]
        return places[0] if len(places) == 1 else combine_positions(places, sizes)

    def _measure(
        self, rows: Rows, measure: Measure, noise: Noise, bin: int | None, value: int | None
    ) -> tuple[Index | None, Index | None]:
        """Return a measure's (bin, value) by row."""
        bins = None if bin is None else _places(rows.result(bin), measure.bins, len(rows))
        step = lattice(measure, noise.granularity)
        if value is None:
            one = None if step == 1.0 else np.repeat(quantise(np.ones(1), step), len(rows))
            return bins, one
        found = rows.result(value)
        values = np.broadcast_to(found.values, len(rows))
        if measure.kind is not Kind.SUM:
            return bins, quantise(values.view(np.uint8), step)
        if found.known is not True:
            values = np.where(found.known, values, np.nan)
        return bins, quantise(values, step)


def _places(found: Vector, size: int, rows: int) -> Index:
    """Return places as int32, -1 for what is out of range or not known."""
    places = np.broadcast_to(np.asarray(found.values), rows)
    if places.dtype != np.int32:
        places = places.astype(np.int64)
    inside = places.view(f"u{places.dtype.itemsize}") < size  # what is negative is above all
    if found.known is not True:
        inside = inside & found.known
    if inside.all():
        return places.astype(np.int32, copy=False)
    return np.where(inside, places, -1).astype(np.int32)


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
