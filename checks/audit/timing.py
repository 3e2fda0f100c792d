"""How much running times reveal: the same question on two neighbours, timed in turn.

Time is not protected: an analyst who can measure the duration of an answer learns something about
the rows that were read. This measures how much, in the worst setting that is realistic for an
analyst (one idle machine, many repetitions), so that it is documented.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import sparseq
from sparseq.store.store import Store

PEOPLE = 2_000
ROWS = (1, 1_000, 20_000)
"""Of the one person; each of the crowd has five."""
QUESTIONS = {
    "count": "SELECT count(*) AS n FROM t",
    "one day": "SELECT count(DISTINCT who) AS n FROM t WHERE day = {}",
    "that person": "SELECT count(*) AS n FROM t WHERE who = 5000000",
    "rows that fail": "SELECT count(*) AS n FROM t WHERE TRY_CAST(w AS INTEGER) + {} > 0",
}


@dataclass(frozen=True)
class Told:
    """The information in the running time of one question.

    Attributes:
        rows: Number of the person's rows.
        without, with_: Median seconds.
        right: Share of single answers for which a guess by time is right; 0.5: no information.
    """

    name: str
    rows: int
    without: float
    with_: float
    right: float

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "name": self.name,
            "rows": self.rows,
            "without_ms": round(1e3 * self.without, 3),
            "with_ms": round(1e3 * self.with_, 3),
            "right": round(self.right, 3),
        }


def _store(rows: int) -> Store:
    rng = np.random.default_rng(1)
    who = np.concatenate([np.repeat(np.arange(PEOPLE), 5), np.full(rows, 5_000_000)])
    words = np.where(np.arange(len(who)) < 5 * PEOPLE, "1", "never a number")
    table = pa.table({"who": who, "day": rng.integers(0, 30, len(who)), "w": words})
    return sparseq.create(
        None,
        {"t": table},
        user="who",
        kappa=1024.0,
        seed=1,
        purposes=[sparseq.Questions(counts=2.0**20)],
    )


def told(repetitions: int = 60) -> Iterator[Told]:
    """Yield the information in the running time of each question, and person.

    Example:
        >>> next(told(3)).name
        'count'
    """
    for rows in ROWS:
        with _store(0) as one, _store(rows) as other:
            for name, text in QUESTIONS.items():
                times = np.array(
                    [
                        [_seconds(store, text.format(i % 30)) for store in (one, other)]
                        for i in range(repetitions)
                    ]
                )
                without, with_ = times[repetitions // 10 :].T
                yield Told(
                    name,
                    rows,
                    float(np.median(without)),
                    float(np.median(with_)),
                    _right(without, with_),
                )


def _seconds(store: Store, sql: str) -> float:
    begun = time.perf_counter()
    store.sql(sql, sigma=1000.0, fresh=True)
    return time.perf_counter() - begun


def _right(without: np.ndarray, with_: np.ndarray) -> float:
    """Return how often the best limit, chosen on every other pair, is right on the rest."""
    limits = np.quantile(np.concatenate([without[::2], with_[::2]]), np.linspace(0, 1, 41))
    share = [np.mean(with_[::2] > t) + np.mean(without[::2] <= t) for t in limits]
    best = limits[int(np.argmax(share))]
    return float((np.mean(with_[1::2] > best) + np.mean(without[1::2] <= best)) / 2)
