"""The bounds that an answer about the largest values shows: post-processing of released numbers.

The rule. The answer's intervals hold simultaneously with confidence 1 - FAILURE. So, except with
probability FAILURE over all cells together, every cell whose interval is above 0 has somebody in
it, and noise alone raises the bound above everybody's values with at most that probability. The
bound is the upper edge of the highest such cell, plus `MARGIN` edges where people are weighted:
there a wide bound costs little, as pilots choose the scale. Values below 0 are clamped to 0 if no
cell of people with negative values stands out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.base.errors import QueryRefused
from sparseq.question.bound_cells import EDGES
from sparseq.question.plan import Options, Sought, ValueSearch
from sparseq.released.result_columns import ColumnRole, column_parts
from sparseq.store.bound_questions import FAILURE, Lowers, questions_about

MARGIN = 2


def read_off(cells: pa.Table, margin: int) -> tuple[float, float] | None:
    """Return the bounds from an answer to `question`; None: no cell stands out of the noise.

    Args:
        cells: The answer; the intervals of all cells hold simultaneously.
        margin: Edges above the highest cell that stands out.
    """
    lows, _ = interval_ends(cells)
    below = np.array(cells["below_0"].to_pylist(), np.bool_)
    firsts = np.asarray(cells["bin_low"].to_numpy(), np.float64)
    there = lows > 0
    if not there.any():
        return None
    top = EDGES.index(firsts[there].max()) + 1 + margin
    high = EDGES[min(top, len(EDGES) - 2)]
    signed = bool((there & below).any())
    return (-high if signed else 0.0), high


def interval_ends(cells: pa.Table) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the ends of the intervals of all cells."""
    parts = column_parts(cells)["people"]
    if ColumnRole.LOW in parts:
        low, high = (cells[parts[role]].to_numpy() for role in (ColumnRole.LOW, ColumnRole.HIGH))
        return low, high
    people, error = (cells[parts[role]].to_numpy() for role in (ColumnRole.VALUE, ColumnRole.ERROR))
    return people - error, people + error


def too_few(store: Lowers, sought: Sought) -> QueryRefused:
    """Return the refusal of a value whose bounds an answer does not show."""
    if isinstance(sought, ValueSearch):
        name, hint = sought.name, ""
    else:
        name, written = sought.name, store.catalog.written(sought)
        hint = f"; or ask the curator to declare bounds (create --bounds {written}=0..100)"
    return QueryRefused(
        f"too few people have a value of {name} for its bounds to be found",
        f"clamp it, as in SUM(LEAST(GREATEST({name}, 0), 100)){hint}",
    )


def check_known(store: Lowers, sought: Sought) -> None:
    """Refuse a value if a recorded answer already shows that its bounds cannot be found.

    Raises:
        QueryRefused: It does; the same refusal as when the answer was new.
    """
    cells, _ = questions_about(store, sought)
    known = store.stream.known(cells, Options(confidence=1 - FAILURE))
    if known is not None and read_off(known.arrow(), 0) is None:
        raise too_few(store, sought)
