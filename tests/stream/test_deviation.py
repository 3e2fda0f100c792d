"""Standard deviations: what rows and values are known to be bounds what squares may hide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sparseq

CDNOW = Path(sparseq.__file__).parent / "sample" / "cdnow.parquet"


def answers(rows: object, user: str, value: str, top: float, seeds: int) -> np.ndarray:
    """(estimate, low, high) of each seed."""
    found = []
    for seed in range(seeds):
        with sparseq.create(
            None, {"t": rows}, user=user, bounds={value: (0, top)}, seed=seed
        ) as con:
            (row,) = con.sql(f"SELECT stddev({value}) AS s FROM t").rows()
            found.append((row["s"], row["s_low"], row["s_high"]))
    return np.array(found)


def test_of_purchases_it_is_told_to_some_percent() -> None:
    """Without what is known of single values the median half-width was 19 %."""
    true = float(pl.read_parquet(CDNOW)["amount"].clip(0, 500).std())
    estimate, low, high = answers(CDNOW, "customer_id", "amount", 500.0, 5).T
    assert ((low <= true) & (true <= high)).all()
    assert np.median(high - low) / 2 / true < 0.14
    assert np.median(np.abs(estimate / true - 1)) < 0.05


@pytest.mark.deep
@pytest.mark.parametrize("heavy", [0, 60])
def test_people_whose_rows_are_all_far_off_are_allowed_for(heavy: int) -> None:
    """Rows far off may be those of a few: each has several of them.

    Where 60 of 4,000 people have all of them, 80 % of 80 stores hold the truth, as docs/coverage.md
    says: 14 of 20 is missed once in 30 times there, and always at 40 %.
    """
    rng = np.random.default_rng(4)
    who = np.repeat(np.arange(4000), 6)
    spread = np.where(who < heavy, 60.0, 6.0)
    value = np.clip(np.abs(rng.standard_normal(len(who))) * spread, 0, 100)
    rows = pl.DataFrame({"who": who, "value": value}).to_arrow()
    _, low, high = answers(rows, "who", "value", 100.0, 20).T
    true = float(np.std(value, ddof=1))
    assert np.mean((low <= true) & (true <= high)) >= (0.7 if heavy else 0.9)
