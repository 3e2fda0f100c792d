"""The main job on a store as it is made by default: a count of people for each day."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import duckdb
import numpy as np
import pytest

import sparseq

CDNOW = Path(sparseq.__file__).parent / "sample" / "cdnow.parquet"


@pytest.mark.parametrize("days", [240, pytest.param(365, marks=pytest.mark.deep)])
def test_daily_counts_are_better_than_by_worst_case_composition(days: int) -> None:
    """One budget for everybody, at the same kappa, has a sigma of sqrt(days / (2 kappa))."""
    start = dt.date(1997, 1, 1)
    sql = f"SELECT date, count(DISTINCT customer_id) FROM '{CDNOW}' GROUP BY date"
    truth = dict(duckdb.connect().execute(sql).fetchall())
    con = sparseq.create(
        None, {"t": CDNOW}, user="customer_id", seed=3, bounds={"amount": (0, 500)}
    )
    off, inside, kinds = list[float](), list[bool](), set[str]()
    for day in (start + dt.timedelta(k) for k in range(days)):
        answer = con.sql(f"SELECT count(DISTINCT customer_id) AS n FROM t WHERE date = '{day}'")
        (row,), true = answer.rows(), truth.get(day, 0)
        off.append(row["n"] - true)
        inside.append(row["n_low"] <= true <= row["n_high"])
        kinds.add(answer.facts.interval)
    assert np.sqrt(np.mean(np.square(off))) < np.sqrt(days / (2 * 0.5))
    assert np.mean(inside) >= 0.93
    assert np.mean(inside[days // 2 :]) >= 0.93
    assert kinds == {"exact", "measured"}  # at first nobody is cut; then few, as it was measured
