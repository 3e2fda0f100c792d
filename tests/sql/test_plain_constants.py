"""Constants that are not asked of DuckDB have the values that DuckDB gives them."""

from __future__ import annotations

import datetime as dt
import random

import duckdb
import pytest

from sparseq.language import types as T
from sparseq.language.casts import cast
from sparseq.language.expression_tree import constant, in_range
from sparseq.sql.plain_constants import MOST_DIGITS, plain_value


def decimal_sql(text: str) -> str:
    digits = text.lstrip("-")
    term = constant(text, T.decimal(*T.digits_of(digits)))
    done = cast(term, T.DOUBLE)
    assert done is not None
    return done.sql


def day_sql(text: str) -> str:
    done = cast(constant(text, T.TEXT), T.DATE)
    assert done is not None
    return in_range(done).sql


def value_of(sql: str) -> object:
    ((value,),) = duckdb.execute(f"SELECT {sql}").fetchall()
    return value


def test_decimals_have_duckdbs_bits() -> None:
    draw, known = random.Random(1), 0
    for _ in range(3000):
        digits = draw.randint(1, MOST_DIGITS + 3)
        text = str(draw.randrange(10**digits)).zfill(digits)
        at = draw.randint(0, digits)
        text = f"{draw.choice(['', '-'])}{text[:at] or '0'}.{text[at:] or '0'}"
        sql = decimal_sql(text)
        value, right = plain_value(sql), value_of(sql)
        assert value is None or str(value) == str(right), sql  # -0.0 is another text
        known += value is not None
    assert 1500 < known < 3000


def test_days_are_duckdbs() -> None:
    draw, known = random.Random(2), 0
    for _ in range(1000):
        text = f"{draw.randint(0, 9999):04}-{draw.randint(0, 13):02}-{draw.randint(0, 32):02}"
        value, right = plain_value(day_sql(text)), value_of(day_sql(text))
        assert value == right, text
        known += isinstance(value, dt.date)
    assert known > 500


@pytest.mark.parametrize(
    "sql",
    [
        "CAST(CAST('1.25' AS DECIMAL(2, 1)) AS DOUBLE)",
        "CAST(CAST('123' AS DECIMAL(2, 0)) AS DOUBLE)",
        "CAST(CAST('1.5' AS DECIMAL(3, 1)) AS FLOAT)",
        "CAST('1.5' AS DOUBLE)",
        "1 + CAST(CAST('1.5' AS DECIMAL(3, 1)) AS DOUBLE)",
    ],
)
def test_other_forms_are_asked_of_duckdb(sql: str) -> None:
    assert plain_value(sql) is None


def test_a_decimal_has_no_negative_zero() -> None:
    sql = decimal_sql("-0.00")
    assert str(plain_value(sql)) == str(value_of(sql)) == "0.0"
