"""Measured cells that are recorded with an answer, so that later answers can follow from them.

They are noised numbers, as public as the answer, and include the cells that HAVING and LIMIT leave
out.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparseq.language.interval_arithmetic import Floats
from sparseq.question.plan import Domain
from sparseq.released.outputs import Intervals, Measurements
from sparseq.released.render import key_columns
from sparseq.reuse.grid_data import from_data, to_data
from sparseq.reuse.grids import Grid


@dataclass(frozen=True)
class RecordedCells:
    """Noised measures with their meanings (`MeasureMeaning.key`) and their grid."""

    meanings: tuple[str, ...]
    noised: Measurements
    grid: Grid | None = None

    def to_bytes(self) -> bytes:
        """Return the cells as one line of JSON, followed by the numbers."""
        intervals = self.noised.weighted
        arrays = [self.noised.measures]
        head = {
            "meanings": self.meanings,
            "grid": None if self.grid is None else to_data(self.grid),
            "groups": self.noised.groups,
            "bins": [array.shape[1] for array in self.noised.measures],
            "bounds": list(map(float, self.noised.bounds)),
        }
        if intervals is not None:
            arrays += [intervals.lows, intervals.highs, intervals.noised, intervals.missing]
            head |= {
                "sigmas": list(map(float, intervals.sigmas)),
                "z": list(map(float, intervals.z)),
            }
            head["statistics"] = list(intervals.statistics)
            arrays += list(intervals.statistics.values())
        numbers = [np.ascontiguousarray(a, "<f8").tobytes() for some in arrays for a in some]
        return b"\n".join([json.dumps(head).encode(), b"".join(numbers)])

    @classmethod
    def from_bytes(cls, data: bytes) -> RecordedCells:
        """Return the cells from the bytes of `to_bytes`; the keys are not kept."""
        text, _, numbers = data.partition(b"\n")
        head = json.loads(text)
        groups, bins = head["groups"], head["bins"]
        flat, at = np.frombuffer(numbers, "<f8"), 0

        def taken(size: int) -> Floats:
            nonlocal at
            at += size
            return flat[at - size : at]

        def one_a_measure() -> list[Floats]:
            return [taken(groups * size).reshape(groups, -1) for size in bins]

        measures, intervals = one_a_measure(), None
        if "z" in head:
            lows, highs, summed, missing = (one_a_measure() for _ in range(4))
            statistics = {
                (role, tuple(places), level): tuple(taken(groups) for _ in range(3))
                for role, places, level in head.get("statistics", ())
            }
            intervals = Intervals(
                lows, highs, summed, head["sigmas"], missing, head["z"], statistics
            )
        grid = head.get("grid")
        return cls(
            tuple(head["meanings"]),
            Measurements(measures, head["bounds"], (), groups, intervals),
            None if grid is None else from_data(grid),
        )

    def places(self, meanings: Sequence[str]) -> list[int] | None:
        """Return the indices of the wanted measures, in their order; None: one is missing."""
        by_meaning = defaultdict(list)
        for place, meaning in enumerate(self.meanings):
            by_meaning[meaning].append(place)
        try:
            return [by_meaning[meaning].pop(0) for meaning in meanings]
        except IndexError:
            return None

    def of(self, places: Sequence[int], domains: Sequence[Domain]) -> Measurements:
        """Return some of the measures, in cells of these keys."""
        noised, intervals = self.noised, self.noised.weighted
        if intervals is not None:
            intervals = Intervals(
                [intervals.lows[i] for i in places],
                [intervals.highs[i] for i in places],
                [intervals.noised[i] for i in places],
                [intervals.sigmas[i] for i in places],
                [intervals.missing[i] for i in places],
                [intervals.z[i] for i in places],
                dict(intervals.told(places)),
            )
        return Measurements(
            [noised.measures[i] for i in places],
            [noised.bounds[i] for i in places],
            key_columns(domains),
            noised.groups,
            intervals,
        )
