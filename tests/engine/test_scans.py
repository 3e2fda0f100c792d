"""However rows lie, arrive, are sliced or reduced, a stream costs and answers the same."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sampled import one_in

import sparseq
import sparseq.stream.contributors
import sparseq.stream.step
from sparseq.engine import reduction, weighted_reduction
from sparseq.engine._duckdb import engine as duck
from sparseq.load._duckdb.storage import MAX_RUNS

ROWS = 600
QUERIES = [
    "SELECT count(*) AS x FROM t",
    "SELECT count(DISTINCT who) AS x FROM t",
    "SELECT sum(amount) AS x FROM t",
    "SELECT kind, sum(amount) AS x, count(*) AS y FROM t GROUP BY kind",
    "SELECT kind, k, count(DISTINCT who) AS x FROM t GROUP BY kind, k",
    "SELECT day, count(DISTINCT who) AS x FROM t "
    "WHERE day BETWEEN DATE '2024-01-02' AND DATE '2024-01-09' GROUP BY day",
    "SELECT count(*) AS x FROM t WHERE day = DATE '2024-01-03' AND kind <> 'a'",
    "SELECT histogram(amount, [0, 10, 20, 50]) AS x FROM t",
    "SELECT kind, avg(amount) AS x FROM t GROUP BY kind",
    "SELECT sum(n) AS x FROM (SELECT who, count(*) AS n FROM t WHERE k < 3 GROUP BY who)",
    "SELECT countif(kind = 'c') AS x, count(DISTINCT CASE WHEN k > 2 THEN who END) AS y FROM t",
]


def silent(sigma: float, size: int, entropy: Any = None) -> NDArray[np.int64]:
    return np.zeros(size, np.int64)


@pytest.fixture(autouse=True)
def _exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparseq.stream.step, "rounded_gaussian", silent)


def events() -> pa.Table:
    """Rows of 40 people, heavy-tailed, so that some are dropped; and a second time column."""
    draw = np.random.default_rng(3)
    who = np.minimum(draw.zipf(1.6, ROWS), 40)
    days = [dt.date(2024, 1, 1) + dt.timedelta(int(d)) for d in draw.integers(0, 12, ROWS)]
    return pa.table(
        {
            "who": [f"u{u:02}" for u in who],
            "day": days,
            "kind": [None if k == 4 else "abcd"[k] for k in draw.integers(0, 5, ROWS)],
            "k": draw.integers(0, 5, ROWS).astype(np.int16),
            "amount": np.round(draw.uniform(-5, 60, ROWS), 3),
            "late": [dt.date(2030, 1, 1)] * ROWS,
        }
    )


def load(rows: pa.Table, path: Path | None = None, time: str = "day") -> sparseq.Store:
    return sparseq.create(
        path,
        {"t": rows},
        user="who",
        time=time,
        keys={"kind": ["c", "a", "b"], "k": [0, 1, 2, 3, 4]},
        bounds={"amount": (-5, 60)},
        purposes=[sparseq.Questions(in_or_out=True, counts=60)],
    )


def stream(con: sparseq.Store) -> tuple[dict[str, int], list[Any]]:
    """Ask everything twice, with more noise the second time; spends by identifier, and answers."""
    answers = []
    for factor in (1.0, 3.7):
        for query in QUERIES:
            answers.append(con.sql(query, sigma=factor * 60 * con.guarantee.sigma_0).arrow())
            answers.append(con.sql(query, scale=30 * factor).arrow())
    ids = con.backend.database.execute("SELECT id FROM ledger.users ORDER BY _user").fetchall()
    return dict(zip((i for (i,) in ids), con.stream.accounts.spent.tolist(), strict=True)), answers


@pytest.fixture(scope="module")
def expected() -> tuple[dict[str, int], list[Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparseq.stream.step, "rounded_gaussian", silent)
        con = load(events())
        result = stream(con)
        counted = [result[1][i]["x"][0].as_py() for i in (0, 4)]
        assert counted[0] == ROWS
        assert counted[1] < sum(events()["amount"].to_pylist()) / 2, "many were too dear"
    return result


Patch = Callable[[pytest.MonkeyPatch], None]


def sliced(rows: int) -> Patch:
    return lambda patch: patch.setattr(duck, "SLICE_ROWS", rows)


def compiled(patch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    for module in (reduction, weighted_reduction, sparseq.stream.contributors):
        patch.setattr(module, "worthwhile", lambda rows: True)


def by_numpy(patch: pytest.MonkeyPatch) -> None:
    for module in (reduction, weighted_reduction, sparseq.stream.contributors):
        patch.setattr(module, "worthwhile", lambda rows: False)


@pytest.mark.parametrize(
    "how",
    [
        *one_in(2, [sliced(300), sliced(70), compiled, by_numpy]),
        pytest.param(sliced(9), marks=pytest.mark.deep),
    ],
)
def test_slices_and_kernels_change_nothing(
    how: Patch, expected: tuple[dict[str, int], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    how(monkeypatch)
    assert stream(load(events())) == expected


@pytest.mark.parametrize("time", ["day", "late"])
@pytest.mark.parametrize("seed", one_in(2, [1, 2]))
def test_the_order_of_rows_and_the_layout_by_time_change_nothing(
    time: str, seed: int, expected: tuple[dict[str, int], list[Any]]
) -> None:
    """Where `late` is the time column, the queries about a day read the rows by user."""
    order = np.random.default_rng(seed).permutation(ROWS)
    assert stream(load(events().take(order), time=time)) == expected


@pytest.mark.parametrize(
    ("parts", "opened_again"),
    one_in(5, itertools.product([MAX_RUNS, MAX_RUNS - 1, 2 * MAX_RUNS + 3, 2], [False, True])),
)
def test_rows_that_arrive_in_parts_are_as_if_they_had_come_at_once(
    parts: int,
    opened_again: bool,
    expected: tuple[dict[str, int], list[Any]],
    tmp_path: Path,
) -> None:
    rows = events()
    cuts = np.linspace(0, ROWS, parts + 1).astype(int).tolist()
    con = load(rows.slice(0, cuts[1]), tmp_path / "s" if opened_again else None)
    for start, stop in itertools.pairwise(cuts[1:]):
        assert con.ingest(rows.slice(start, stop - start)) == stop - start
    if opened_again:
        con.close()
        con = sparseq.connect(tmp_path / "s")
    runs = con.backend.storage.get("runs.t")
    assert runs < MAX_RUNS
    assert stream(con) == expected
    con.close()


def test_rows_that_arrive_between_queries_are_seen_by_the_next_one() -> None:
    """Nothing that was kept in memory of the rows before outlives them."""
    rows = events()
    con = load(rows.slice(0, 100))
    con.stream.accounts.budgets[:] = 2**62
    for start in range(100, ROWS, 100):
        for query in QUERIES[:5]:
            con.sql(query, scale=1e3)
        con.ingest(rows.slice(start, 100))
        con.stream.accounts._same = None
        con.stream.accounts.budgets[:] = 2**62
        assert con.sql(QUERIES[0], scale=1e3).value() == start + 100
