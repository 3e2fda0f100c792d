"""Measured cells, kept beside an answer: every question that follows is computed from them.

Noised numbers only: as public as the answer, of which they are all the cells, also those that
HAVING and LIMIT leave out.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparseq.released.outputs import Floats, Intervals, Measurements
from sparseq.released.render import key_columns
from sparseq.reuse.answer_views import Grid, from_data, to_data
from sparseq.sql.plan import Domain


@dataclass(frozen=True)
class RecordedCells:
    """Noised measures, by what each of them means (`MeasureMeaning.key`), and their grid."""

    meanings: tuple[str, ...]
    noised: Measurements
    grid: Grid | None = None

    def to_bytes(self) -> bytes:
        """Return it as JSON, a line, and then the numbers."""
        known = self.noised.weighted
        arrays = [self.noised.measures]
        head = {
            "meanings": self.meanings,
            "grid": None if self.grid is None else to_data(self.grid),
            "groups": self.noised.groups,
            "bins": [array.shape[1] for array in self.noised.measures],
            "bounds": list(map(float, self.noised.bounds)),
        }
        if known is not None:
            arrays += [known.lows, known.highs, known.noised, known.missing]
            head |= {"sigmas": list(map(float, known.sigmas)), "z": list(map(float, known.z))}
            head["statistics"] = list(known.statistics)
            arrays += list(known.statistics.values())
        numbers = [np.ascontiguousarray(a, "<f8").tobytes() for some in arrays for a in some]
        return b"\n".join([json.dumps(head).encode(), b"".join(numbers)])

    @classmethod
    def from_bytes(cls, data: bytes) -> RecordedCells:
        """Return what `to_bytes` wrote; its keys are not kept."""
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

        measures, known = one_a_measure(), None
        if "z" in head:
            lows, highs, summed, missing = (one_a_measure() for _ in range(4))
            statistics = {
                (role, tuple(places), level): tuple(taken(groups) for _ in range(3))
                for role, places, level in head.get("statistics", ())
            }
            known = Intervals(lows, highs, summed, head["sigmas"], missing, head["z"], statistics)
        grid = head.get("grid")
        return cls(
            tuple(head["meanings"]),
            Measurements(measures, head["bounds"], (), groups, known),
            None if grid is None else from_data(grid),
        )

    def places(self, meanings: Sequence[str]) -> list[int] | None:
        """Return which of the measures are wanted, in their order; None: one is not there."""
        found = defaultdict(list)
        for place, meaning in enumerate(self.meanings):
            found[meaning].append(place)
        try:
            return [found[meaning].pop(0) for meaning in meanings]
        except IndexError:
            return None

    def of(self, places: Sequence[int], domains: Sequence[Domain]) -> Measurements:
        """Return some of the measures, in cells of these keys."""
        noised, known = self.noised, self.noised.weighted
        if known is not None:
            known = Intervals(
                [known.lows[i] for i in places],
                [known.highs[i] for i in places],
                [known.noised[i] for i in places],
                [known.sigmas[i] for i in places],
                [known.missing[i] for i in places],
                [known.z[i] for i in places],
                dict(known.told(places)),
            )
        return Measurements(
            [noised.measures[i] for i in places], [noised.bounds[i] for i in places],
            key_columns(domains), noised.groups, known,
        )  # fmt: skip
