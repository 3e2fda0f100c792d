"""What it costs to ask a filter about ten million users at once.

    python -m benchmarks.filters

The yardstick is the float filter that one would write by hand: a total, a comparison and the
charged total, in as few NumPy passes over the same arrays. It decides by floats; ours doesn't,
checks its input, and leaves everybody as they were if a charge is bad. A bare addition of the two
arrays into a third, the least that any pass can be, is given for information.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting.filters import GdpRule, IndividualFilter, Rule, ZcdpRule

USERS = 10_000_000
REPETITIONS = 5
MOST_PASSES = 3.0


def run() -> Iterator[dict[str, Any]]:
    """Yield the ratios to one NumPy pass, which are gates, and nanoseconds a user."""
    charges = np.random.default_rng(0).exponential(0.01, USERS)
    by_hand = one_pass(charges)
    add = partial(np.add, charges, charges.copy(), out=np.zeros(USERS))
    yield figure("filters.bare_addition", ns_a_user(add), "ns a user")
    rules: dict[str, Rule] = {"zcdp": ZcdpRule(rho=1.0), "gdp": GdpRule(mu=1.0)}
    for name, rule in rules.items():
        admit = partial(IndividualFilter(rule, USERS).admit, charges)
        pairs = [(seconds(admit), seconds(by_hand)) for _ in range(REPETITIONS)]
        ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
        yield figure(f"filters.{name}", ours / USERS * 1e9, "ns a user")
        yield figure(f"filters.{name}_passes", ours / theirs, "NumPy passes", MOST_PASSES)


def one_pass(charges: NDArray[np.float64]) -> Callable[[], object]:
    """The float filter by hand: who fits into 1, and what all have spent after it."""
    spent = np.zeros(charges.size)

    def admit() -> object:
        total = spent + charges
        mask = total <= 1.0
        np.copyto(spent, total, where=mask)
        return mask

    admit()  # so that no page is touched for the first time
    return admit


def ns_a_user(call: Callable[[], object]) -> float:
    return statistics.median(seconds(call) for _ in range(REPETITIONS)) / USERS * 1e9


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def figure(name: str, value: float, unit: str, most: float | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "figure": round(value, 2),
        "unit": unit,
        "limit": None if most is None else f"<= {most:g}",
        "ok": most is None or value <= most,
    }


if __name__ == "__main__":
    for row in run():
        print(f"{row['name']:<24} {row['figure']:>8} {row['unit']} {row['limit'] or ''}")
