"""Orders of 2,000 people, as a store and as plain rows: enough of them for answers to be near."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pgwire.wired import FIRST

import sparseq
from sparseq.store.store import Store

PEOPLE, HOURS = 2_000, 24 * 90
WHOLE = (FIRST, "1997-03-31")


def rows() -> pa.Table:
    """Return ten rows of each, over 90 days."""
    at = [i * 7_919 % HOURS for i in range(10 * PEOPLE)]
    return pa.table(
        {
            "customer": [i % PEOPLE for i in range(10 * PEOPLE)],
            "day": [FIRST + dt.timedelta(hours=h) for h in at],
            "seen": [dt.datetime(1997, 1, 1) + dt.timedelta(hours=h) for h in at],
            "kind": [("gift", "own")[i % 3 > 0] for i in range(10 * PEOPLE)],
            "amount": [float(i * 31 % 50) for i in range(10 * PEOPLE)],
            "paid": [i % 2 == 0 for i in range(10 * PEOPLE)],
        }
    )


def store() -> Store:
    """Return them as a store."""
    return sparseq.create(
        None,
        {"purchases": rows()},
        user="customer",
        seed=1,
        keys={"kind": ("gift", "own")},
        bounds={"amount": (0, 50), "day": WHOLE, "seen": WHOLE},
    )


def check_near(answer: Sequence[dict[str, Any]], true: Sequence[dict[str, Any]]) -> None:
    """Check that an answer with intervals has every true row, and values near to the true ones."""
    assert true
    noised = [name for name in true[0] if f"{name}_error" in answer[0]]
    assert noised
    keys = [name for name in true[0] if name not in noised]
    found = {tuple(row[k] for k in keys): row for row in answer}
    assert len(found) == len(answer)
    for row in true:
        mine = found.pop(tuple(row[k] for k in keys))
        for n in noised:
            assert abs(mine[n] - row[n]) <= 1.5 * mine[f"{n}_error"], (n, mine, row)
    for mine in found.values():  # keys that no row has
        assert all(abs(mine[n]) <= 1.5 * mine[f"{n}_error"] for n in noised), mine
