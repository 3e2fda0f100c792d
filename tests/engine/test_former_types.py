"""Columns of stores of format 3 are brought to the closed list, value by value."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa

import sparseq
from checks.stores import IN_OR_OUT
from sparseq.load._duckdb.format_3_columns import keep_to_types
from sparseq.load._duckdb.storage import Storage
from sparseq.question.catalog import Catalog

FORMER = """
CREATE TABLE by_user.t AS SELECT * FROM (VALUES
    (0, 170141183460469231731687303715884105727::HUGEINT, DATE 'infinity',
     TIMESTAMP '290000-01-01', TIMESTAMPTZ '2024-01-01 10:00:00+00', repeat('x', 70000),
     123456789012345678901234567890.5::DECIMAL(38, 1)),
    (1, 5::HUGEINT, DATE '2024-01-02', TIMESTAMP '2024-01-02', TIMESTAMPTZ 'infinity', 'y',
     2.5::DECIMAL(38, 1))) AS v(_user, h, d, s, z, x, c)
"""


def test_values_keep_to_their_types() -> None:
    rows = pa.table(
        {
            "who": [1, 2],
            "h": [1, 2],
            "d": [1, 2],
            "s": [1, 2],
            "z": [1, 2],
            "x": [1, 2],
            "c": [1, 2],
        }
    )
    con = sparseq.create(None, {"t": rows}, user="who", seed=1, purposes=IN_OR_OUT)
    con.backend.database.execute("DROP TABLE by_user.t")
    con.backend.database.execute(FORMER)
    types = {
        "h": "HUGEINT",
        "d": "DATE",
        "s": "TIMESTAMP",
        "z": "TIMESTAMP WITH TIME ZONE",
        "x": "VARCHAR",
        "c": "DECIMAL(38,1)",
    }
    (table,) = con.catalog.tables
    columns = tuple(replace(c, type=types.get(c.name, c.type)) for c in table.columns)
    Storage(con.backend.database).put(
        "catalog", Catalog((replace(table, columns=columns),)).to_dict()
    )
    keep_to_types(con.backend.database)
    shown = "h, d, s, CAST(z AS VARCHAR), length(x), c"
    found = con.backend.database.sql(f"SELECT {shown} FROM by_user.t ORDER BY _user")
    assert found.fetchall() == [
        (
            2.0**127,
            None,
            None,
            "2024-01-01 10:00:00",
            65536,
            Decimal("123456789012345678901234567890.5"),
        ),
        (5.0, dt.date(2024, 1, 2), dt.datetime(2024, 1, 2), None, 1, Decimal("2.5")),
    ]
    kept = {c.name: c.type for c in Storage(con.backend.database).catalog().tables[0].columns}
    assert (kept["h"], kept["z"], kept["c"]) == ("DOUBLE", "TIMESTAMP", "DECIMAL(38,1)")
