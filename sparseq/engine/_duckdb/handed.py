"""Contributions handed over as a table (user, coordinate, value), by whoever computed them.

The guarantee holds if each row was computed from its own user's data and from public facts alone;
that is the caller's promise. Charges come from the values themselves, as always.
"""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.engine._duckdb.people import USER
from sparseq.engine.contributions import Contributions
from sparseq.engine.files.load import first_line
from sparseq.engine.reduce import Index, Runs, quantise, reduce
from sparseq.errors import DataError, ParameterError
from sparseq.query.outputs import Output, Outputs, key, measure
from sparseq.query.plan import Cell, Domain, Kind, Measure, Plan, Query, Relation

COLUMNS = ("user", "coordinate", "value")


def contributions_of(
    connection: duckdb.DuckDBPyConnection, table: pa.Table, plan: Plan
) -> Contributions:
    """Return the contributions in `table` to a plan with one measure.

    Raises:
        DataError: A column is missing or does not fit, a user has no account, or a coordinate is
            out of range.
    """
    users, coordinates, values = columns_of(connection, table, plan.query.groups)
    order = np.argsort(users, kind="stable")
    runs = Runs.of(users[order])
    steps = quantise(values[order], plan.noise[0].granularity)
    places = coordinates[order]
    size = plan.query.groups

    def pull(only: Index) -> list[NDArray[np.int64]]:
        return [reduce(runs.only(only), places, steps, size, distinct=False).totals]

    return Contributions([reduce(runs, places, steps, size, distinct=False)], pull)


def columns_of(
    connection: duckdb.DuckDBPyConnection, table: pa.Table, size: int
) -> tuple[Index, Index, NDArray[Any]]:
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise DataError(
            f"the contributions have no column {missing[0]!r}", "columns: user, coordinate, value"
        )
    connection.register("handed", table)
    try:
        found = connection.sql(
            f"SELECT coalesce(u.{USER}, -1) AS u, coalesce(h.coordinate::BIGINT, -1) AS k, "
            "h.value::DOUBLE AS v "
            "FROM handed AS h LEFT JOIN ledger.users AS u ON u.id = h.user"
        ).to_arrow_table()
    except duckdb.Error as error:
        raise DataError(f"the contributions don't fit: {first_line(error)}") from None
    finally:
        connection.unregister("handed")
    users, coordinates = found["u"].to_numpy(), found["k"].to_numpy()
    if len(users) and users.min() < 0:
        raise DataError("some contributions are by users who have no account", "ingest them first")
    if len(users) and (coordinates.min() < 0 or coordinates.max() >= size):
        raise DataError(f"a coordinate is outside 0..{size - 1}")
    values = found["v"].fill_null(0.0).to_numpy()
    return users.astype(np.int32), coordinates.astype(np.int32), values


def handed_query(coordinates: int, label: str, scale: float) -> Query:
    """Return the query that a table of contributions answers."""
    if coordinates < 1 or not label.strip():
        raise ParameterError("a query has a label, and at least one coordinate")
    domain = Domain("coordinate", tuple(range(coordinates)), Cell("coordinate"))
    one = Measure(Kind.SUM, Cell("value"), label, integral=False, scale=scale)
    shown = (Output("coordinate", key(0)), Output("value", measure(0)))
    return Query(label, Relation("FROM contributions"), (domain,), (one,), Outputs(shown))
