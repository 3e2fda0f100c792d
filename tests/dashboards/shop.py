"""A small shop and its dashboard."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa

import sparseq
from sparseq.dashboards.dashboard_file import Dashboard

FIRST = dt.date(2024, 3, 5)
PANELS = {
    "yesterday": "SELECT count(*) AS n FROM sales WHERE day = :yesterday",
    "kinds": "SELECT kind, count(*) AS n, sum(v) AS s FROM sales WHERE day >= :today - 14 "
    "AND day < :today AND kind IN ('a', 'b') GROUP BY kind",
    "days": "SELECT day, count(*) AS n FROM sales WHERE day >= :today - 14 AND day < :today "
    "GROUP BY day",
    "all": "SELECT count(*) AS n, sum(v) / count(*) AS mean, "
    "count(*) FILTER (WHERE kind = 'a') / count(*) AS share FROM sales "
    "WHERE day >= :today - 14 AND day < :today",
    "weeks": "SELECT date_trunc('week', day) AS week, count(*) AS n FROM sales "
    "WHERE day >= :week - 28 AND day < :week GROUP BY week",
}


def sales(rows: int = 20_000, seed: int = 0) -> pa.Table:
    """Rows of 60 days up to mid March."""
    g = np.random.default_rng(seed)
    days = [dt.date(2024, 1, 20) + dt.timedelta(days=int(d)) for d in g.integers(0, 60, rows)]
    return pa.table(
        {
            "who": g.integers(0, 2000, rows),
            "day": pa.array(days),
            "kind": g.choice(["a", "b", "other"], rows),
            "v": g.uniform(0, 9, rows),
        }
    )


def shop(table: pa.Table | None = None, **more: Any) -> sparseq.Store:
    """A store with a part for the dashboard."""
    said: dict[str, Any] = {"purposes": [sparseq.Purpose("shop", 0.5, 30, 20.0)], "seed": 1}
    said |= {"keys": {"kind": ["a", "b"]}} | more
    return sparseq.create(
        None,
        {"sales": sales() if table is None else table},
        user="who",
        time="day",
        bounds={"v": (0, 10)},
        **said,
    )


def board(**panels: str) -> Dashboard:
    """A dashboard of some panels, by default of all."""
    chosen = panels or PANELS
    return Dashboard.of("shop", {"panel": [{"title": t, "sql": s} for t, s in chosen.items()]})
