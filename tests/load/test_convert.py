"""Every value of every type becomes a value or NULL in every other type; nothing raises."""

from __future__ import annotations

import itertools
from typing import Any

import duckdb
import pytest
from sampled import one_in

from sparseq.base.errors import ParameterError
from sparseq.load.convert import expression
from sparseq.load.read_schema import Declarations, declared_type

INTS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
EXTREMES: dict[str, list[str]] = {
    "BOOLEAN": ["true", "false"],
    **{
        k: [f"({-(2 ** (b - 1))})::{k}", f"{2 ** (b - 1) - 1}::{k}", f"0::{k}"]
        for k, b in INTS.items()
    },
    **{f"U{k}": [f"{2**b - 1}::U{k}", f"0::U{k}"] for k, b in INTS.items()},
    "FLOAT": [
        "'nan'::FLOAT",
        "'inf'::FLOAT",
        "'-inf'::FLOAT",
        "3.4e38::FLOAT",
        "-0.0::FLOAT",
        "1e-45::FLOAT",
        "0.1::FLOAT",
    ],
    "DOUBLE": [
        "'nan'::DOUBLE",
        "'inf'::DOUBLE",
        "'-inf'::DOUBLE",
        "1.7e308::DOUBLE",
        "-1.7e308::DOUBLE",
        "5e-324::DOUBLE",
        "-0.0::DOUBLE",
        "9.3e18::DOUBLE",
        "9223372036854775807::DOUBLE",
        "0.5::DOUBLE",
    ],
    "DECIMAL(18,4)": [f"'{'9' * 14}.9999'::DECIMAL(18,4)", "'-0.0001'::DECIMAL(18,4)"],
    "DECIMAL(38,0)": [f"'{'9' * 38}'::DECIMAL(38,0)", f"'-{'9' * 38}'::DECIMAL(38,0)"],
    "DECIMAL(38,38)": [f"'0.{'9' * 38}'::DECIMAL(38,38)"],
    "DATE": ["DATE '0001-01-01'", "DATE '9999-12-31'", "DATE '1970-01-01'"],
    "TIMESTAMP": ["TIMESTAMP '0001-01-01'", "TIMESTAMP '9999-12-31 23:59:59.999999'"],
    "TIME": ["TIME '00:00:00'", "TIME '23:59:59.999999'"],
    "UUID": [
        "'00000000-0000-0000-0000-000000000000'::UUID",
        "'ffffffff-ffff-ffff-ffff-ffffffffffff'::UUID",
    ],
    "VARCHAR": [
        f"'{text}'"
        for text in (
            "",
            " ",
            "x",
            "-",
            "+",
            ".",
            "1e400",
            "-1e400",
            "1e-400",
            "1e99999999999",
            "nan",
            "inf",
            "-Infinity",
            "infinity",
            "epoch",
            "9" * 400,
            "0" * 60_000 + "7",
            "0x1F",
            "1_000",
            "７",
            "99999999999-01-01",
            "-9999-01-01",
            "2024-02-30",
            "9999-12-31 23:59:59.9999999",
            "9999-12-31 23:59:59-23:59",
            "0001-01-01 00:00:00+23:59",
            "24:00:00",
            "23:59:60",
            "290309-12-22 (BC)",
            "294247-01-10",
            "2024-01-01 00:00:00 America/New_York",
            "\u202e",
            "{1-1}",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "1,5",
            "1.234,56",
            "%",
            "12:00 PM",
        )
    ],
}
TARGETS = [
    *(t for t in EXTREMES if t not in ("DECIMAL(38,0)", "DECIMAL(38,38)")),
    "TIMESTAMP WITH TIME ZONE",
    "HUGEINT",
    "DECIMAL(38,10)",
]


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:")


def value(con: duckdb.DuckDBPyConnection, text: str, target: str, format: str = "") -> Any:
    sql = expression("x", "VARCHAR", target, format)
    return con.execute(f"SELECT {sql} FROM (SELECT ? AS x)", [text]).fetchall()[0][0]


@pytest.mark.parametrize(("kind", "target"), one_in(3, itertools.product(EXTREMES, TARGETS)))
def test_every_value_has_a_result(con: duckdb.DuckDBPyConnection, kind: str, target: str) -> None:
    """In a crowd the same as alone, too: an error on one would be an error for all."""
    formats = {"DATE": ["", "%d/%m/%Y", "%Y-%m-%d %z"], "DOUBLE": ["", ","]}.get(target, [""])
    some = [*EXTREMES[kind], f"NULL::{kind}"]
    crowd = " UNION ALL ".join(f"SELECT {k} AS k, {x} AS x" for k, x in enumerate(some))
    for format in formats:
        sql = f"CAST({expression('x', kind, target, format)} AS VARCHAR)"
        together = con.execute(f"SELECT {sql} FROM ({crowd}) ORDER BY k").fetchall()
        apart = [con.execute(f"SELECT {sql} FROM (SELECT {x} AS x)").fetchone() for x in some]
        assert together == apart
        assert together[-1] == (None,)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("7", 7),
        ("+7", 7),
        ("-7", -7),
        ("007", 7),
        ("7.0", 7),
        ("7.", 7),
        (" 7 ", 7),
        ("-0", 0),
        ("7.5", None),
        ("1e5", None),
        ("0x1F", None),
        ("1_000", None),
        ("TRUE", None),
        ("", None),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("９", None),
    ],
)
def test_what_is_a_whole_number(
    con: duckdb.DuckDBPyConnection, text: str, whole: int | None
) -> None:
    assert value(con, text, "BIGINT") == whole


@pytest.mark.parametrize(
    ("text", "format", "moment"),
    [
        ("2024-01-05", "", "2024-01-05 00:00:00"),
        ("2024-1-5", "", "2024-01-05 00:00:00"),
        (" 2024-01-05T10:00 ", "", "2024-01-05 10:00:00"),
        ("2024-01-05 10:00:00.5Z", "", "2024-01-05 10:00:00.5"),
        ("2024-01-05T10:00:00+02:00", "", "2024-01-05 08:00:00"),
        ("05/01/2024", "", None),
        ("05/01/2024", "%d/%m/%Y", "2024-01-05 00:00:00"),
        ("05/13/2024", "%d/%m/%Y", None),
        ("2024-01-05", "%d/%m/%Y", None),
        ("0000-01-01", "", None),
        ("10000-01-01", "", None),
        ("9999-12-31 23:59:59-10:00", "", None),
        ("infinity", "", None),
        ("2024-01-05 10:00 foo", "", None),
    ],
)
def test_what_is_a_moment(
    con: duckdb.DuckDBPyConnection, text: str, format: str, moment: str | None
) -> None:
    found = value(con, text, "TIMESTAMP", format)
    assert (None if found is None else str(found)[:21]) == moment
    day = value(con, text, "DATE", format)
    assert (None if day is None else str(day)) == (moment and moment[:10])


def test_numbers_that_become_text_have_one_spelling(con: duckdb.DuckDBPyConnection) -> None:
    for x, kind in [("7", "TINYINT"), ("7", "BIGINT"), ("7", "DOUBLE"), ("7.00", "DECIMAL(9,2)")]:
        sql = expression(f"CAST({x} AS {kind})", kind, "VARCHAR")
        assert con.execute(f"SELECT {sql}").fetchall() == [("7",)]
    half = expression("CAST(7.50 AS DECIMAL(9,2))", "DECIMAL(9,2)", "VARCHAR")
    assert con.execute(f"SELECT {half}").fetchall() == [("7.5",)]
    hundred = expression("CAST(100 AS DECIMAL(9,2))", "DECIMAL(9,2)", "VARCHAR")
    assert con.execute(f"SELECT {hundred}").fetchall() == [("100",)]


@pytest.mark.parametrize(
    "kind",
    [
        "HUGEINT",
        "DECIMAL(39,2)",
        "DECIMAL(0,0)",
        "BLOB",
        "",
        "INTEGER:%d",
        "DATE:%Q",
        "DOUBLE:;",
        "DATE)); SELECT",
    ],
)
def test_declarations_that_make_no_sense(kind: str) -> None:
    with pytest.raises(ParameterError, match="day"):
        declared_type("day", kind)
    with pytest.raises(ParameterError):
        Declarations({"day": kind}).parsed()
