"""Grids as plain data."""

from __future__ import annotations

import math
from typing import Any

from sparseq.language.value_sets import Spans, Texts, Values
from sparseq.reuse.grids import Grid, GridKey, GridMeasure
from sparseq.reuse.regions import Region


def to_data(grid: Grid) -> Any:
    """Return a grid as data for JSON."""
    return [
        grid.origin,
        [[key.name, [_values_data(p) for p in key.pieces]] for key in grid.keys],
        [
            [
                m.adds,
                {name: _values_data(v) for name, v in m.region.values.items()},
                sorted(m.region.conditions),
                m.additive,
            ]
            for m in grid.measures
        ],
    ]


def from_data(data: Any) -> Grid:
    """Return the grid from the result of `to_data`."""
    origin, keys, measures = data
    return Grid(
        origin,
        tuple(GridKey(name, tuple(map(_values, pieces))) for name, pieces in keys),
        tuple(
            GridMeasure(
                adds,
                Region({name: _values(v) for name, v in values.items()}, frozenset(conditions)),
                adds_up,
            )
            for adds, values, conditions, adds_up in measures
        ),
    )


def _values_data(values: Values) -> Any:
    if isinstance(values.known, Texts):
        return ["texts", sorted(values.known.listed), values.known.but, values.null]
    spans = [[None if math.isinf(end) else end for end in span] for span in values.known.spans]
    return ["spans", spans, values.null]


def _values(data: Any) -> Values:
    if data[0] == "texts":
        return Values(Texts(frozenset(data[1]), data[2]), data[3])
    spans = tuple(
        (-math.inf if low is None else low, math.inf if high is None else high)
        for low, high in data[1]
    )
    return Values(Spans(spans), data[2])
