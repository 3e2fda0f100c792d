"""Columns that are kept in memory: a query finds the ones that were made for it, and no others."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest

import sparseq
from sparseq.compiled import compiled
from sparseq.query.plan import Options, Plan, calibrate

ASKED = (
    "SELECT k, count(DISTINCT who) AS n FROM t GROUP BY k",
    "SELECT k, count(*) AS n FROM t GROUP BY k",
    "SELECT k, count(DISTINCT CASE WHEN x > 3 THEN who END) AS n FROM t GROUP BY k",
    "SELECT k, countif(x > 3) AS n FROM t GROUP BY k",
    "SELECT k, sum(x) AS n FROM t GROUP BY k",
)
FINE = Options(sigma=1e-6)  # a lattice so fine that a few rows are 2**31 steps of it
PEOPLE, ROWS = 500, 5000  # enough for the compiled loops


def made() -> sparseq.Store:
    compiled()
    rng = np.random.default_rng(6)
    rows = pa.table(
        {
            "who": np.sort(rng.integers(0, PEOPLE, ROWS)),
            "k": rng.choice(["a", "b", "c"], ROWS),
            "x": rng.integers(0, 9, ROWS).astype(float),
        }
    )
    keys = {"k": ("a", "b", "c")}
    return sparseq.create(None, rows, table="t", user="who", bounds={"x": (0, 9)}, keys=keys)


def asked(con: sparseq.Store, sql: str) -> tuple[Plan, list[int], list[int]]:
    plan = calibrate(con.lower(sql), con.budget, FINE)
    (reduced,) = con.stream.engine.contributions(plan, PEOPLE).measures
    return plan, reduced.norms.tolist(), reduced.totals.tolist()


@pytest.mark.parametrize("pair", list(permutations(range(len(ASKED)), 2)))
def test_what_was_asked_before_changes_no_contribution(pair: tuple[int, int]) -> None:
    first, second = (ASKED[i] for i in pair)
    with made() as con, made() as fresh:
        granularities = {asked(con, first)[0].noise[0].granularity}
        plan, *kept = asked(con, second)
        assert kept == list(asked(fresh, second)[1:])
        granularities.add(plan.noise[0].granularity)
        assert max(granularities) < 2.0**-15
