"""Contributions from a table of the caller, for the users of a DuckDB file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.base.errors import DataError
from sparseq.base.sql_text import first_line
from sparseq.engine.protocol import USER

if TYPE_CHECKING:
    from sparseq.engine.reduction import Index, Ints

_COLUMNS = ("user", "coordinate", "value")


def triplets(
    connection: duckdb.DuckDBPyConnection, table: pa.Table, size: int
) -> tuple[Index, Index, NDArray[Any]]:
    """Return users, coordinates and values of a table of contributions.

    Raises:
        DataError: A column is missing or has a wrong type, a user has no account, or a coordinate
            is not below `size`.
    """
    missing = [name for name in _COLUMNS if name not in table.column_names]
    if missing:
        raise DataError(
            f"the contributions have no column {missing[0]!r}",
            ("use the columns user, coordinate, value"),
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
        raise DataError(
            "some contributions belong to users without an account", "ingest them first"
        )
    if len(users) and (coordinates.min() < 0 or coordinates.max() >= size):
        raise DataError(f"a coordinate is outside 0..{size - 1}")
    values = found["v"].fill_null(0.0).to_numpy()
    return users.astype(np.int32), coordinates.astype(np.int32), values


def numbers_of(connection: duckdb.DuckDBPyConnection, identifiers: pa.Array) -> Ints:
    """Return the indices of users by identifier, -1 without an account.

    Raises:
        DataError: The identifiers have another type than those of the store.
    """
    connection.register("handed", pa.table({"user": identifiers}))
    try:
        answer = connection.sql(
            f"SELECT coalesce(u.{USER}, -1)::BIGINT AS u FROM (SELECT user, row_number() OVER () "
            "AS place FROM handed) AS h LEFT JOIN ledger.users AS u ON u.id = h.user ORDER BY place"
        ).to_arrow_table()
    except duckdb.Error as error:
        raise DataError(f"the identifiers don't fit: {first_line(error)}") from None
    finally:
        connection.unregister("handed")
    numbers: Ints = answer["u"].to_numpy()
    return numbers
