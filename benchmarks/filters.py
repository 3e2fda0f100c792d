"""The cost of filters and odometers: ten million users at once, and one long-lived account.

    python -m benchmarks filters

The yardstick for many users is the float filter that one would write by hand: one pass that reads
the spending and the charges, and writes the mask and the new totals into existing arrays. It
decides by floats; ours does not, checks its input, and changes no account if a charge is bad. A
bare addition of two arrays into a third, the minimum for any pass, is given for information.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import rdp
from sparseq.accounting.filters import GdpRule, IndividualFilter, Rule, ZcdpRule
from sparseq.accounting.odometers import IndividualOdometer, LecuyerOdometer

USERS = 10_000_000
REPETITIONS = 5
MOST_PASSES = 3.0
STEPS, GROUP = 20_000, 1_000
MOST_GROWTH = 1.5


def run() -> Iterator[dict[str, Any]]:
    """Yield the ratios to one NumPy pass and to the first steps, which are gates, and times."""
    charges = np.random.default_rng(0).exponential(0.01, USERS)
    by_hand = one_pass(charges)
    add = partial(np.add, charges, charges.copy(), out=np.zeros(USERS))
    yield figure("filters.bare_addition", ns_a_user(add), "ns a user")
    yield figure("filters.one_pass", ns_a_user(by_hand), "ns a user")
    rules: dict[str, Rule] = {"zcdp": ZcdpRule(rho=1.0), "gdp": GdpRule(mu=1.0)}
    calls: dict[str, Callable[[NDArray[np.float64]], object]] = {
        name: IndividualFilter(rule, USERS).admit for name, rule in rules.items()
    }
    calls["individual_odometer"] = IndividualOdometer(USERS, order=8.0, block=0.5).step
    for name, call in calls.items():
        pairs = [(seconds(partial(call, charges)), seconds(by_hand)) for _ in range(REPETITIONS)]
        ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
        yield figure(f"filters.{name}", ours / USERS * 1e9, "ns a user")
        yield figure(f"filters.{name}_passes", ours / theirs, "NumPy passes", MOST_PASSES)
    yield from long_account()


def one_pass(charges: NDArray[np.float64]) -> Callable[[], object]:
    """The float filter by hand: who fits into 1, and what all have spent after it."""
    spent, total = np.zeros(charges.size), np.zeros(charges.size)
    mask = np.zeros(charges.size, np.bool_)

    def admit() -> object:
        np.add(spent, charges, out=total)
        np.less_equal(total, 1.0, out=mask)
        np.copyto(spent, total, where=mask)
        return mask

    admit()  # so that no page is touched for the first time
    return admit


def long_account() -> Iterator[dict[str, Any]]:
    """Yield times of Lécuyer's odometer, read after every step: the last thousand and the first."""
    odometer = LecuyerOdometer(delta=1e-6)
    curve = rdp.subsampled_gaussian(0.01, 1.0, odometer.orders)

    def step() -> None:
        odometer.step(curve)
        odometer.epsilon()

    times = [seconds(step) for _ in range(STEPS)]
    first, last = (statistics.median(part) for part in (times[:GROUP], times[-GROUP:]))
    yield figure("filters.lecuyer_odometer", last * 1e6, "us a step, 42 orders")
    yield figure("filters.lecuyer_odometer_growth", last / first, "last to first", MOST_GROWTH)


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
        print(f"{row['name']:<36} {row['figure']:>8} {row['unit']} {row['limit'] or ''}")
