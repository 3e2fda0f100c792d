"""Contributions in a table (user, coordinate, value) that a caller computed.

The guarantee holds if each row was computed from its own user's data and from public facts only;
that is the caller's responsibility. Charges follow from the values themselves, as always.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.accounting._numbers import in_range
from sparseq.base.errors import DataError, ParameterError
from sparseq.engine.contributions import Contributions
from sparseq.engine.reduction import Index, Runs, quantise, reduce
from sparseq.question.plan import (
    MAX_COORDINATES,
    Cell,
    Domain,
    Kind,
    Measure,
    Plan,
    Query,
    Relation,
)
from sparseq.released.outputs import OutputColumn, Outputs, key, measure


def contributions_of(
    plan: Plan, users: Index, coordinates: Index, values: NDArray[Any]
) -> Contributions:
    """Return the contributions of users to a plan with one measure, from triplets."""
    order = np.argsort(users, kind="stable")
    runs = Runs.of(users[order])
    steps = quantise(values[order], plan.noise[0].granularity)
    places = coordinates[order]
    size = plan.query.groups

    def pull(only: Index) -> list[NDArray[np.int64]]:
        return [reduce(runs.only(only), places, steps, size, distinct=False).totals]

    return Contributions([reduce(runs, places, steps, size, distinct=False)], pull)


def triplet_query(coordinates: int, label: str, scale: float) -> Query:
    """Return the query that a table of contributions answers."""
    if coordinates < 1 or not label.strip():
        raise ParameterError("a query needs a label, and at least one coordinate")
    if coordinates > MAX_COORDINATES:
        raise ParameterError(
            f"coordinates exceeds the limit, {MAX_COORDINATES:,}",
            ("ask for some of them at a time"),
        )
    scale = in_range("scale", scale, 0.0, math.inf, open_low=True)
    domain = Domain("coordinate", tuple(range(coordinates)), Cell("coordinate"))
    one = Measure(Kind.SUM, Cell("value"), label, integral=False, scale=scale)
    shown = (OutputColumn("coordinate", key(0)), OutputColumn("value", measure(0)))
    return Query(label, Relation("FROM contributions"), (domain,), (one,), Outputs(shown))


def as_arrow(table: Any) -> pa.Table:
    """Return an Arrow table from an Arrow table or an object that exports one.

    Raises:
        DataError: The object is neither.
    """
    try:
        return table if isinstance(table, pa.Table) else pa.table(table)
    except (TypeError, ValueError, pa.ArrowException):
        raise DataError(
            f"rows are a {type(table).__name__}", "give paths of files, or an Arrow table"
        ) from None
