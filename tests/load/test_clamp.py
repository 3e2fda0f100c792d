"""Numbers are cut to their bounds in memory and in DuckDB alike, as plain Python would."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sampled import one_in

import sparseq
from sparseq.base.errors import ParameterError
from sparseq.load.clamp import Clamp, ends
from sparseq.store.curator import exact_sql

BOUNDS = st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)).filter(lambda b: b[0] + 2 < b[1])
TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "DOUBLE": (pa.float64(), st.floats()),
    "FLOAT": (pa.float32(), st.floats(width=32)),
    "INTEGER": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "UBIGINT": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "DECIMAL(9,2)": (
        pa.decimal128(9, 2),
        st.decimals(-9_999_999, 9_999_999, places=2).map(lambda x: x + 0),
    ),
}


def _expected(value: Any, low: Any, high: Any) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return value
    return min(max(value, low), high)


@pytest.mark.parametrize("name", one_in(2, TYPES))
@settings(derandomize=True, max_examples=24, deadline=None)
@given(data=st.data())
def test_both_ways_cut_as_python_does(name: str, data: st.DataObject) -> None:
    kind, values = TYPES[name]
    bounds = data.draw(BOUNDS)
    given_values = data.draw(st.lists(st.none() | values, max_size=20))
    low, high = ends(name, bounds) or (0, 0)
    assume(low <= high)
    assert bounds[0] <= low <= high <= bounds[1]
    expected = [_expected(x, low, high) for x in given_values]
    batch = pa.record_batch({"X": pa.array(given_values, kind)})
    here = Clamp({"x": bounds}, {"X": name})
    assert repr(here.batch(batch).column(0).to_pylist()) == repr(expected)
    there = Clamp({"x": bounds}, {"X": name})
    with duckdb.connect() as con:
        con.register("incoming", batch)
        con.execute("CREATE TEMP TABLE staged AS FROM incoming")
        there.cut_staged(con)
        assert repr([x for (x,) in con.sql("FROM staged").fetchall()]) == repr(expected)
    changed = sum(a != b for a, b in zip(given_values, expected, strict=True) if a == a)
    assert here.outside == there.outside == {"X": changed}


def test_ends_lie_within() -> None:
    assert ends("TINYINT", (-1000, 5.5)) == (-128, 5)
    assert ends("DECIMAL(3,1)", (0.05, 1e9)) == (Decimal("0.1"), Decimal("99.9"))
    assert ends("DATE", (0, 1)) is None
    with pytest.raises(ParameterError, match=r"bounds of x are 200\.\.300; no TINYINT lies within"):
        Clamp({"x": (200, 300)}, {"x": "TINYINT"})


@pytest.mark.parametrize("row_key", [(), ("n",)])
def test_a_store_has_no_value_out_of_bounds(row_key: tuple[str, ...]) -> None:
    rows = pa.table({"who": [1, 2, 3, 3], "n": [1, 2, 3, 4], "x": [-50.0, 5.0, 1e9, None]})
    bounds = {"X": (0, 10)}
    with sparseq.create(None, {"t": rows}, user="who", bounds=bounds, row_key=row_key) as con:
        assert exact_sql(con, "SELECT sum(x) AS s FROM t")["s"].to_pylist() == [15]
        assert con.curator_notes() == [
            "t: x: 2 of 3 values (67 %) were outside of the bounds 0 to 10, and were cut to them"
        ]
        con.ingest(pa.table({"who": [4], "n": [9], "x": [77.0]}), again=True)
        assert exact_sql(con, "SELECT sum(x) AS s FROM t")["s"].to_pylist() == [25]


def test_bounds_say_that_a_column_has_numbers(tmp_path: Any) -> None:
    file = tmp_path / "t.csv"
    file.write_text("who,x\na,1\nb,two\n")
    with sparseq.create(None, file, user="who", bounds={"x": (0, 10)}) as con:
        (table,) = con.catalog.tables
        assert table.column("x").type == "DOUBLE"
        assert con.curator_notes() == ["t: x: 1 values did not fit, and are NULL"]
    with sparseq.create(None, file, user="who") as con:
        assert con.catalog.tables[0].column("x").type == "VARCHAR"
