"""Columns that are kept in memory: a query finds the ones that were made for it, and no others."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
from sampled import one_in

import sparseq
from sparseq.compiled import compiled
from sparseq.engine._duckdb.reader import _column_span as _span_of
from sparseq.language.types import Family
from sparseq.sql.plan import Options, Plan, calibrate

ASKED = (
    "SELECT k, count(DISTINCT who) AS n FROM t GROUP BY k",
    "SELECT k, count(*) AS n FROM t GROUP BY k",
    "SELECT k, count(DISTINCT CASE WHEN x > 3 THEN who END) AS n FROM t GROUP BY k",
    "SELECT k, countif(x > 3) AS n FROM t GROUP BY k",
    "SELECT k, sum(x) AS n FROM t GROUP BY k",
)
FINE = Options(sigma=1e-6)  # a lattice so fine that a few rows are 2**31 steps of it
PEOPLE, ROWS = 500, 5000  # enough for the compiled loops


def made(seed: int | None = None) -> sparseq.Store:
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
    return sparseq.create(None, {"t": rows}, user="who", bounds={"x": (0, 9)}, keys=keys, seed=seed)


def asked(con: sparseq.Store, sql: str) -> tuple[Plan, list[int], list[int]]:
    plan = calibrate(con.lower(sql), con.guarantee, FINE)
    (reduced,) = con.stream.engine.contributions(plan, PEOPLE).measures
    return plan, reduced.norms.tolist(), reduced.totals.tolist()


@pytest.mark.parametrize(
    "pair", one_in(3, [pytest.param(pair) for pair in permutations(range(len(ASKED)), 2)])
)
def test_what_was_asked_before_changes_no_contribution(pair: tuple[int, int]) -> None:
    first, second = (ASKED[i] for i in pair)
    with made() as con, made() as fresh:
        granularities = {asked(con, first)[0].noise[0].granularity}
        plan, *kept = asked(con, second)
        assert kept == list(asked(fresh, second)[1:])
        granularities.add(plan.noise[0].granularity)
        assert max(granularities) < 2.0**-15


def test_a_warm_store_answers_as_a_cold_one_and_reads_no_column_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    more = pa.table({"who": [1, 2], "k": ["a", "d"], "x": [8.0, None]})
    warm, cold = made(seed=4), made(seed=4)
    for con in (warm, cold):
        con.ingest(more)
    warm.warm().join()
    stored = warm.stream.engine.stored  # type: ignore[attr-defined]
    held, fetch, read = stored.cache.nbytes, stored._fetch, []
    monkeypatch.setattr(stored, "_fetch", lambda *a: read.append(a) or fetch(*a))
    assert [warm.sql(q).to_bytes() for q in ASKED] == [cold.sql(q).to_bytes() for q in ASKED]
    assert (read, held > 0) == ([], True)


def test_warming_ends_when_the_store_is_closed() -> None:
    con = made()
    warming = con.warm()
    con.close()
    warming.join(timeout=60)
    assert not warming.is_alive()
    con.warm().join(timeout=60)


def test_codes_of_the_largest_numbers_stand_for_them() -> None:
    """One more than the last has no place: as floats, the values would be others'."""
    most = 2**63 - 1
    for first, last in ((most - 2, most), (-most - 1, -most), (-1, 1)):
        low, high = (pa.chunked_array([[end]]) for end in (first, last))
        span = _span_of("n", Family.INTEGER, True, low, high)
        assert span is not None
        assert span.table.values.tolist() == [*range(first, last + 1), 0]
