"""TPC-H as it is: loaded by links, and most of its questions answered as they are written."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

from benchmarks.tpch import Outcome, compare, queries, run


def test_errors_are_of_the_rows_that_plain_sql_has() -> None:
    found = Outcome("q00")
    ours = pa.table({"k": ["a", "b"], "n": [9, 5], "n_error": [2.0, 1.0], "n_low": [7.0, 4.0]})
    compare(ours, pa.table({"K": ["a", "c"], "N": [10, 3]}), found)
    assert (found.errors, found.widths) == ([0.1], [0.2])
    assert len(queries()) == 22


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("tpchgen-cli") is None, reason="tpchgen-cli is not installed")
def test_most_questions_are_answered_as_they_are_written() -> None:
    figures = {one["name"]: one for one in run(0.1)}
    assert figures["tpch: answered as written"]["ok"]
