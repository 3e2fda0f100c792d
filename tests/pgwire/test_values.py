"""Values as text and in binary; the oracle is psycopg's own reading and writing."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparseq.pgwire.pg_values import BY_OID, NUMERIC, array_items, parameter, wire_type
from sparseq.pgwire.wire_errors import WireError

DATES = st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))
SAMPLES: dict[int, Any] = {
    16: st.booleans(),
    20: st.integers(-(2**63), 2**63 - 1),
    21: st.integers(-(2**15), 2**15 - 1),
    23: st.integers(-(2**31), 2**31 - 1),
    701: st.floats(allow_nan=False),
    1700: st.decimals(allow_nan=False, allow_infinity=False, places=6),
    25: st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    1082: DATES,
    1114: st.datetimes(),
}


@pytest.mark.parametrize("oid", SAMPLES)
@given(data=st.data())
def test_what_is_written_is_read_in_both_formats(oid: int, data: st.DataObject) -> None:
    value, type = data.draw(SAMPLES[oid]), BY_OID[oid]
    assert parameter(type.text(value), oid, 0) == value
    assert parameter(type.binary(value), oid, 1) == value


@pytest.mark.parametrize("oid", SAMPLES)
@given(data=st.data())
def test_psycopg_reads_what_is_written(oid: int, data: st.DataObject) -> None:
    adapt = pytest.importorskip("psycopg.adapt", reason="psycopg is not installed")
    transformer = adapt.Transformer()
    value, type = data.draw(SAMPLES[oid]), BY_OID[oid]
    text = transformer.get_loader(oid, 0).load(type.text(value))
    binary = transformer.get_loader(oid, 1).load(type.binary(value))
    assert text == value
    assert binary == value


@given(st.binary(max_size=40), st.sampled_from([*BY_OID, 0, 1009, 1016, 77]), st.integers(0, 1))
def test_no_bytes_do_harm(raw: bytes, oid: int, format: int) -> None:
    with suppress(WireError):
        parameter(raw, oid, format)


@pytest.mark.parametrize("text", ["0", "-0.001", "12345.6", "1E+10", "10000", "0.00010000"])
def test_numerics_by_hand(text: str) -> None:
    value = Decimal(text)
    assert parameter(NUMERIC.binary(value), 1700, 1) == value


def test_a_numeric_as_postgresql_writes_it() -> None:
    assert NUMERIC.binary(Decimal("-12345.60")).hex() == "0003000140000002000109291770"


def test_arrays() -> None:
    texts = wire_type(pa.list_(pa.string()))
    assert texts.text(["a", None, 'b "c", {d}', "null", ""]) == (
        rb'{a,NULL,"b \"c\", {d}","null",""}'
    )
    numbers = wire_type(pa.list_(pa.int64()))
    assert parameter(numbers.binary([1, 2, None]), numbers.oid, 1) == [1, 2, None]
    assert parameter(numbers.text([1, 2]), numbers.oid, 0) == [1, 2]
    assert array_items('{r, "v","a\\"b"}') == ["r", "v", 'a"b']


@pytest.mark.parametrize(
    ("number", "text"), [(1.0, b"1"), (-0.0, b"-0"), (1e16, b"1e+16"), (float("inf"), b"Infinity")]
)
def test_floats_as_postgresql_writes_them(number: float, text: bytes) -> None:
    assert wire_type(pa.float64()).text(number) == text
