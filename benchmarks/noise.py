"""The cost of a draw of exact noise: against OpenDP's exact discrete Gaussian, and per sigma.

    python -m benchmarks.noise

The two distributions differ slightly (a rounded and a discrete Gaussian, both exact); the purpose
is the same: integer noise that is safe from floating-point attacks.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from sparseq.mechanisms import rounded_gaussian

DRAWS = 100_000
REPETITIONS = 3
SIGMAS = {"0.5": 0.5, "5": 5.0, "1e3": 1e3, "2^20": 2.0**20, "2^30": 2.0**30, "2^40": 2.0**40}
LEAST_RATIO = 60


def run() -> list[dict[str, Any]]:
    """The ratio to OpenDP, which is a gate, and nanoseconds a draw, which are information."""
    ratio = versus_opendp()
    figures: list[dict[str, Any]] = [
        {
            "name": "noise.vs_opendp",
            "figure": round(ratio, 1),
            "unit": "times OpenDP's throughput",
            "limit": f">= {LEAST_RATIO}",
            "ok": ratio >= LEAST_RATIO,
        }
    ]
    for label, sigma in SIGMAS.items():
        figure = statistics.median(nanoseconds(ours(sigma)) for _ in range(9))
        name, unit = f"noise.sigma_{label}", "ns a draw"
        figures.append(
            {"name": name, "figure": round(figure, 1), "unit": unit, "limit": None, "ok": True}
        )
    return figures


def versus_opendp(sigma: float = 1000.0) -> float:
    """OpenDP's time per draw over ours: medians of alternating repetitions, 100,000 draws each."""
    theirs, mine = opendp(sigma), ours(sigma)
    mine()  # makes the table
    pairs = [(nanoseconds(theirs), nanoseconds(mine)) for _ in range(REPETITIONS)]
    their_times, my_times = zip(*pairs, strict=True)
    return float(statistics.median(their_times) / statistics.median(my_times))


def ours(sigma: float) -> Callable[[], object]:
    return lambda: rounded_gaussian(sigma, DRAWS)


def opendp(sigma: float) -> Callable[[], object]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=DRAWS), dp.l2_distance(T=float)
    measurement = dp.m.make_gaussian(*space, scale=sigma)
    zeros = [0] * DRAWS
    return lambda: measurement(zeros)


def nanoseconds(draw: Callable[[], object]) -> float:
    """Wall time of one call, per draw."""
    start = time.perf_counter_ns()
    draw()
    return (time.perf_counter_ns() - start) / DRAWS


if __name__ == "__main__":
    for figure in run():
        limit = figure["limit"] or ""
        print(f"{figure['name']:<18} {figure['figure']:>8} {figure['unit']} {limit}")
