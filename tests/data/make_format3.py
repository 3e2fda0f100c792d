"""Makes format3.sparseq and format3.json: to be run with the version of commit 5e940de.

PYTHONPATH=… python make_format3.py format3.sparseq format3.json; gzip -9 format3.sparseq
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

import sparseq
from sparseq.series.watch import ActiveWatch
from sparseq.store.curator import forget

START = dt.date(2024, 1, 1)
KINDS = ["red", "green", "blue"]
QUESTIONS = [
    "SELECT count(*) AS n FROM t",
    "SELECT kind, sum(amount) AS x FROM t GROUP BY kind",
    "SELECT count(DISTINCT who) AS n FROM t WHERE day >= DATE '2024-01-03'",
]


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(
        dict(zip(("who", "day", "amount", "kind", "own"), map(list, columns), strict=True))
    )


def make(path: str) -> sparseq.Store:
    """A store with two pots aside, own budgets, a row key, an erasure and a watch."""
    rows = [
        (
            f"p{i % 23:02}",
            START + dt.timedelta(i % 9),
            float(i * 7 % 13),
            KINDS[i % 3],
            5.0 if i % 23 < 20 else 2.0,
        )
        for i in range(160)
    ]
    days = [START + dt.timedelta(k) for k in range(9)]
    con = sparseq.create(
        path,
        table(rows),
        table="t",
        user="who",
        norm_budget=5,
        bounds={"amount": (0, 13)},
        keys={"kind": KINDS},
        row_key="day",
        budget_column="own",
        reserves={"watch": 0.1, "forecast": 0.25},
        public={"days": pa.table({"day": days, "open": [True] * 9})},
        in_or_out=True,
    )
    for i in range(6):
        con.sql(QUESTIONS[i % 3], request_id=f"q{i}" if i % 2 else None, scale=1)
    late = [
        ("new1", dt.date(2024, 1, 4), 3.0, "red", 5.0),
        ("p01", dt.date(2024, 1, 2), 9.0, "violet", 5.0),
    ]
    con.ingest(table(late), once="late.csv", note="by hand")
    forget(con, "p03")
    for i in range(6, 9):
        con.sql(QUESTIONS[i % 3], request_id=f"q{i}", scale=1)
    watch = ActiveWatch(con, ticks=7)
    watch.tick(1, "2024-01-01")
    watch.tick(2, "2024-01-02")
    return con


def facts(con: sparseq.Store) -> dict[str, Any]:
    """What must survive; also read by tests/store/test_upgrade.py."""
    history = con.history() if hasattr(con, "history") else con.releases()
    now = getattr(con, "stream", None)
    ledger, pots, departures = (
        (now.ledger, now.pots, now.departures)
        if now
        else (con._journal, con._pots, con._departures)
    )
    return {
        "releases": [
            [
                r.id,
                r.request_id,
                r.released_at.isoformat(),
                r.query,
                list(r.sigma),
                r.pot.name,
                hashlib.sha256(r.answer).hexdigest(),
            ]
            for r in history
        ],
        "charges": {str(r.id): [x.tolist() for x in ledger.charges(r.id)] for r in history},
        "spent": {p.name: a.spent.tolist() for p, a in pots.items()},
        "budgets": {p.name: a.budgets.tolist() for p, a in pots.items()},
        "departed": departures.first.tolist(),
        "taken": con.taken(),
    }


if __name__ == "__main__":
    with make(sys.argv[1]) as made:
        Path(sys.argv[2]).write_text(json.dumps(facts(made)))
