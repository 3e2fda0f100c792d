"""The time that the root of an answer takes, of the commit that it is in.

    python -m benchmarks roots

Stores of 10,000, 100,000 and a million people in a file. Everybody pays for each answer: for counts
one of a few charges, a byte each; for sums one of many, two bytes each. Each commit is timed as a
whole and what its root takes in it, so that a busy machine slows both.
"""

from __future__ import annotations

import datetime as dt
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

import sparseq
from sparseq.ledger.protocol import Ledger
from sparseq.ledger.releases import Entry, Release
from sparseq.ledger.root_chain import RootChain

SIZES, TURNS, MOST = (10_000, 100_000, 1_000_000), 60, 10
"""People; commits of each kind; what a root may add, in percent of the rest of its commit."""
KINDS = {"counts": (1, 200, 1), "sums": (1 << 10, 1 << 11, 12)}
"""By what is asked: from which number to which charges are, and how many powers of two times it."""


def run() -> Iterator[dict[str, Any]]:
    """Yield the figures."""
    for people in SIZES:
        with tempfile.TemporaryDirectory(prefix="sparseq-roots-") as folder:
            table = pa.table({"who": np.arange(people)})
            with sparseq.create(Path(folder) / "s.sparseq", {"t": table}, user="who") as con:
                for kind, of in KINDS.items():
                    yield from _measured(con.stream.ledger, f"{people}.{kind}", people, *of)


def _measured(
    ledger: Ledger, name: str, people: int, low: int, high: int, powers: int
) -> Iterator[dict[str, Any]]:
    draw = np.random.default_rng(1)
    users = np.arange(people, dtype=np.int32)
    without, of_roots = list[float](), list[float]()
    for _ in range(TURNS):
        charges = draw.integers(low, high, people) << draw.integers(0, powers, people)
        whole, root = _committed(ledger, Entry(_release(ledger.next_id), users, charges))
        without.append(1e3 * (whole - root))
        of_roots.append(1e3 * root)
    plain, root = statistics.median(without), statistics.median(of_roots)
    limits = (
        ("commit", plain, "ms without the root", None),
        ("root", root, "ms for it", None),
        ("more", 100 * root / plain, "% of the commit", MOST),
    )
    for what, value, unit, limit in limits:
        said = {"name": f"roots.{name}.{what}", "figure": value, "unit": unit, "limit": limit}
        yield said | {"ok": limit is None or value <= limit}


def _committed(ledger: Ledger, entry: Entry) -> tuple[float, float]:
    """Return the seconds of a commit, and the part of its root."""
    of_root, add = list[float](), RootChain.add

    def timed(*given: Any) -> Any:
        started = time.perf_counter()
        found = add(*given)
        of_root.append(time.perf_counter() - started)
        return found

    with mock.patch.object(RootChain, "add", timed):
        started = time.perf_counter()
        ledger.commit([entry])
        return time.perf_counter() - started, sum(of_root)


def _release(number: int) -> Release:
    at = dt.datetime(2026, 1, 1) + dt.timedelta(seconds=number)
    text = f"SELECT count(*) AS n FROM t WHERE day = {number}"
    return Release(number, None, at, text, 1, (9.0,), (18.0,), 0.95, bytes(2000))
