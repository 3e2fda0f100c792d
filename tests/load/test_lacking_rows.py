"""Rows that have NULL in a NOT NULL column are removed, each by itself, and counted."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from sparseq.load.lacking_rows import LackingRows

ROWS = pa.record_batch(
    {
        "who": [1, 2, None, 4],
        "a": [None, 1.0, None, 2.0],
        "b": ["x", "y", "z", None],
    }
)


def counted() -> LackingRows:
    return LackingRows(["a", "who"], ["who", "a", "b"], "who")


@pytest.mark.parametrize("staged", [False, True])
def test_a_row_without_a_value_is_removed_and_one_without_a_user_is_not(staged: bool) -> None:
    lacking = counted()
    if staged:
        with duckdb.connect() as connection:
            connection.register("rows", ROWS)
            connection.execute("CREATE TABLE staged AS FROM rows")
            lacking.cut_staged(connection)
            left = connection.execute("SELECT b FROM staged ORDER BY rowid").fetchall()
        assert left == [("y",), ("z",), (None,)]
    else:
        assert lacking.batch(ROWS)["b"].to_pylist() == ["y", "z", None]
    assert (lacking.rows, lacking.null) == (1, {"a": 1})
    assert lacking.valid == {"who": 1, "a": 0, "b": 1}


def test_rows_that_lack_nothing_stay_the_same_object() -> None:
    lacking, whole = counted(), ROWS.slice(1, 1)
    assert lacking.batch(whole) is whole
    assert lacking.rows == 0
