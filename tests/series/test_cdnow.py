"""CDNOW, 546 days, three queries a day, day files, killed ten times: the series of one run."""

from __future__ import annotations

import datetime as dt
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from shop_days import spends

import sparseq
from checks.stores import made_store

ROOT = Path(__file__).parent.parent.parent
FIRST, LAST = dt.date(1997, 1, 1), dt.date(1998, 6, 30)
DAYS = [FIRST + dt.timedelta(days=k) for k in range((LAST - FIRST).days + 1)]
KILLS = 10


@pytest.mark.deep
@pytest.mark.parametrize(
    "accounts",
    [
        {},
        {"time": "date", "window": "month"},
        {"time": "date", "window": "month", "lifetime_kappa": 2.0},
    ],
    ids=["for life", "by month", "by month, and capped for life"],
)
def test_killed_ten_times_at_random(tmp_path: Path, accounts: dict[str, Any]) -> None:
    """With an account for life, with one for each month of a person, and with both."""
    purchases = pq.read_table(ROOT / "data" / "cdnow.parquet")
    (tmp_path / "in").mkdir()
    for day in DAYS:
        path = tmp_path / "in" / f"{day}.parquet"
        pq.write_table(purchases.filter(pc.equal(purchases["date"], day)), path)
        os.utime(path, (1e9, 1e9))
    results, draw = {}, random.Random(1)
    for run in ("whole", "killed"):
        store, out = tmp_path / f"{run}.sparseq", tmp_path / f"{run}.parquet"
        nobody = purchases.slice(0, 0)
        made_store(
            store,
            nobody,
            table="purchases",
            user="customer_id",
            norm_budget=40,
            seed=1,
            in_or_out=True,
            **accounts,
        ).close()
        names = ("daily_buyers", "daily_orders", "daily_revenue")
        queries = (ROOT / "queries" / f"{name}.sql" for name in names)
        line = [
            sys.executable,
            "-m",
            "sparseq",
            "monitor",
            store,
            *queries,
            "--over",
            "date",
            "--from",
            str(FIRST),
            "--to",
            str(LAST),
            "--follow",
            tmp_path / "in",
            "--output",
            out,
        ]
        for _ in range(KILLS if run == "killed" else 0):
            process = subprocess.Popen(line, cwd=ROOT, stderr=subprocess.DEVNULL)
            try:
                process.wait(draw.uniform(1.5, 3.5))
            except subprocess.TimeoutExpired:
                process.kill()
            assert process.wait() == -9
        subprocess.run(line, cwd=ROOT, check=True)
        with sparseq.connect(store) as con:
            ids = [release.request_id for release in con.releases()]
            assert len(set(ids)) == len(ids) == 3 * len(DAYS)
            ((rows,),) = con.backend.database.execute(
                "SELECT count(*) FROM by_user.purchases"
            ).fetchall()
            assert rows == purchases.num_rows
            lifetimes = con.stream.ledger.lifetimes
            lived = lifetimes.spent.tolist() if lifetimes is not None else []
            results[run] = (pq.read_table(out), (spends(con), lived))
    assert results["whole"][0].num_rows == 5 * len(DAYS)
    assert results["killed"][0].equals(results["whole"][0])
    assert results["killed"][1] == results["whole"][1]
