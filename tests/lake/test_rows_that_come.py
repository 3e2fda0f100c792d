"""Rows and people that come to a lake count as they do on one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lake.twins import Twins

import sparseq
from checks.stores import made_store

pytest.importorskip("deltalake", reason="pip install 'sparseq[lake]'")
ASKED = (
    "SELECT count(*) AS n FROM visits",
    "SELECT kind, sum(x) AS s, count(DISTINCT who) AS u FROM visits GROUP BY kind",
    "SELECT count(DISTINCT who) AS n FROM visits WHERE day = 3",
)


def rows(seed: int, people: range, count: int) -> pa.Table:
    """Rows of some people, about one of five days each, with budgets of their own."""
    draw = np.random.default_rng(seed)
    who = draw.integers(people.start, people.stop, count)
    return pa.table(
        {
            "who": who.astype(str),
            "day": draw.integers(0, 5, count),
            "kind": draw.choice(["a", "b", "c"], count),
            "x": draw.uniform(0, 9, count),
            "own": 3.0 + who % 4,
        }
    )


def twins(folder: Path, **more: Any) -> Twins:
    """A store in memory and a lake of five buckets, of the same rows."""
    told = {
        "table": "visits",
        "user": "who",
        "seed": 4,
        "budget_column": "own",
        "norm_budget": 6.0,
        "keys": {"kind": ["a", "b"]},
        "bounds": {"x": (0, 9)},
        **more,
    }
    first = rows(1, range(40), 150)
    lake = made_store(f"lake://{folder / 'lake'}", first, buckets=5, **told)
    return Twins(made_store(None, first, **told), lake)


@pytest.mark.parametrize(
    "more",
    [
        {"row_key": ["day"]},
        pytest.param({}, marks=pytest.mark.deep),
        pytest.param({"in_or_out": True}, marks=pytest.mark.deep),
    ],
    ids=str,
)
def test_new_rows_and_people_count(tmp_path: Path, more: dict[str, Any]) -> None:
    both = twins(tmp_path, **more)
    for k in range(2):
        for sql in ASKED:
            both.ask(sql)
        new = rows(10 + k, range(30, 60 + 10 * k), 60)
        assert both.lake.ingest(new, again=True) == both.one.ingest(new)
        both.lake.close()
        both.lake = sparseq.connect(tmp_path / "lake")
        both.same_accounts()
    for sql in ASKED:
        both.ask(sql)
    both.same_accounts()
    assert both.answered == 9


def test_a_key_stands_for_rows(tmp_path: Path) -> None:
    lake, new = twins(tmp_path).lake, rows(3, range(5), 10)
    assert lake.ingest(new, once="monday", note="10 rows") == 10
    assert lake.ingest(new, once="monday") == 0
    with pytest.raises(sparseq.ParameterError, match="recognise repeated files"):
        lake.ingest(new)
    lake.close()
    lake = sparseq.connect(tmp_path / "lake")
    assert lake.taken() == {"monday": "10 rows"}
    lake.close()


def test_a_driver_that_was_overtaken_brings_no_rows(tmp_path: Path) -> None:
    both = twins(tmp_path)
    sleeper = sparseq.connect(tmp_path / "lake")
    both.lake.sql(ASKED[0])
    with pytest.raises(sparseq.StoreInUse):
        sleeper.ingest(rows(3, range(5), 10), again=True)
    both.one.sql(ASKED[0])
    both.ask(ASKED[1])


def test_a_lake_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(sparseq.DataError, match="has no column"):
        sparseq.create(f"lake://{tmp_path / 'lake'}", rows(1, range(3), 9), user="whom", buckets=2)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(sparseq.ParameterError, match="number of buckets"):
        sparseq.create(tmp_path / "file", rows(1, range(3), 9), user="who", buckets=2)
    twins(tmp_path)
    with pytest.raises(sparseq.StoreError, match="exists already"):
        twins(tmp_path)
