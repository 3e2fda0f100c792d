"""Does a series' printed interval hold the truth about everybody, tick by tick?

    python -m benchmarks series

Daily counts of people, at the settings that the planner recommends (`benchmarks.forecasts`):
CDNOW, generated events, and flights where FLIGHTS says where they are. Mean of seeded runs,
simulated, which gives a store's series bit by bit. `coverage` is the share of ticks whose interval
holds the truth over everybody; of `noise` alone, beside it. Then the same days on a store that
weights people, without forecasts, asked one by one.

Then strategies (`sparseq.monitor.plan_strategies`), planned for ticks, sums of 28 days or the
running total: the error of these with everybody counted, and how often their intervals hold the
truth, with the room that the plan gives to people who are left out; `noise_coverage` without it. In
`halves.coverage` strategy and room are planned on the first half, and the second is run with them.
`store_differs` is how far a real store's series is from the simulated one; `second_half` is
the error in the second half of the days of what was chosen on the first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sparseq
from benchmarks.forecasts import (
    FLIGHTS,
    KAPPA,
    SEED,
    cdnow,
    figure,
    flights,
    generated,
    queries,
    stream_of,
)
from sparseq.monitor.correct import PostProcessing
from sparseq.monitor.correlated import CorrelatedSeries
from sparseq.monitor.derive import NoisySeries
from sparseq.monitor.known_stream import KnownStream
from sparseq.monitor.left_out import allowance
from sparseq.monitor.plan import Candidate, plan
from sparseq.monitor.plan_strategies import PlanTarget, plan_strategies, targets_of
from sparseq.monitor.simulate import simulate
from sparseq.monitor.simulate_strategies import MeasuredStream, StrategySetting, measured, summed

RUNS = 20
LEAST = 0.95


def run() -> Iterator[dict[str, Any]]:
    """Yield errors and coverages; these have limits."""
    sources = [("cdnow", cdnow(), 5.15), ("generated", generated(), 11.7)]
    path = Path(os.environ.get("FLIGHTS", FLIGHTS))
    if path.is_file():
        sources.append(("flights", flights(path), 14.35))
    for name, events, most in sources:
        stream = stream_of(events)
        best = plan([stream], KAPPA, period=7).recommended
        error, inside, of_noise, width = followed(stream, best)
        yield figure(f"series.{name}", error, "rmse", most)
        yield _coverage(f"series.{name}.coverage", inside)
        yield figure(f"series.{name}.noise_coverage", of_noise, "of ticks")
        yield figure(f"series.{name}.half_width", width, "people")
        inside, width = weighted(events, stream)
        yield _coverage(f"series.{name}.weighted.coverage", inside)
        yield figure(f"series.{name}.weighted.half_width", width, "people")
        yield from strategies(name, events, stream)


STRATEGIES: dict[str, tuple[tuple[str, float], ...]] = {
    "flights": (("day", 11.0),),
    "cdnow": (("28d", 41.0), ("total", 125.0)),
    "generated": (("day", 11.0),),
}
SECOND_HALF = {"flights": 8.7}


def strategies(name: str, events: pa.Table, stream: KnownStream) -> Iterator[dict[str, Any]]:
    """What is planned for each target, run: simulated often, and by a store once."""
    for target, most in STRATEGIES[name]:
        (aim,), prefix = targets_of(target), f"series.{name}.strategy.{target}"
        planned = plan_strategies(stream, KAPPA, [aim])
        best, judged = planned.recommended, planned.judged
        assert judged is not None
        found = measured(stream, StrategySetting(best.strategy, best.norm_budget, KAPPA))
        width = aim.width(stream.ticks)
        runs = [_run(found, seed, width, planned.lacking) for seed in range(RUNS)]
        error, of_noise, inside, wider = np.mean(runs, axis=0).tolist()
        yield figure(f"{prefix}.norm_budget", best.norm_budget, best.strategy)
        yield figure(f"{prefix}.left_out", 100 * found.left_out, "%")
        yield figure(prefix, error, "rmse", most)
        yield figure(f"{prefix}.independent", planned.independent.total[0], "rmse")
        yield _coverage(f"{prefix}.coverage", inside)
        yield figure(f"{prefix}.noise_coverage", of_noise, "of values")
        yield figure(f"{prefix}.width", wider, "of the noise's")
        yield figure(f"{prefix}.halves.coverage", *halves(stream, aim))
        yield figure(
            f"{prefix}.second_half", judged.total[0], "rmse",
            SECOND_HALF.get(name) if target == "day" else None,
        )  # fmt: skip
        yield figure(f"{prefix}.second_half_against", judged.relative, "of independent", 1.02)
        yield figure(f"{prefix}.store_differs", strategy_store(events, found), "max", 0)


def halves(stream: KnownStream, aim: PlanTarget) -> tuple[float, str]:
    """Return how often what is planned on the first half holds the truth on the second, and how."""
    half = stream.ticks // 2
    planned = plan_strategies(stream.between(0, half), KAPPA, [aim])
    best, second = planned.recommended, stream.between(half, 2 * half)
    found = measured(second, StrategySetting(best.strategy, best.norm_budget, KAPPA))
    width = aim.width(half)
    inside = [_run(found, seed, width, planned.lacking)[2] for seed in range(RUNS)]
    return float(np.mean(inside)), f"of values, {best.strategy}, room {planned.lacking:g}"


def _run(
    found: MeasuredStream, seed: int, width: int, left_out: float
) -> tuple[float, float, float, float]:
    """Return what sums over `width` ticks are like, of one seeded run.

    Their error, how often the bound of the noise alone and the interval hold the truth, and how
    much wider the interval is.
    """
    values = found.series(seed)[:, 0]
    lacking = np.array([allowance(v, t, left_out) for t, v in enumerate(values.tolist())])
    series = NoisySeries.of(values, found.sigma, 0.95, found.strategy, lacking)
    done = series.filtered(series.values, np.ones(width))
    off = np.abs(summed(series.values[:, None] - found.stream.truth, width)[:, 0])
    noise, inside = off <= done.error - done.lacking, off <= done.error
    wider = done.error / (done.error - done.lacking)
    rmse = float(np.sqrt(np.mean(off**2)))
    return rmse, float(noise.mean()), float(inside.mean()), float(wider.mean())


def strategy_store(events: pa.Table, found: MeasuredStream) -> float:
    """Return the largest difference between a store's series and the simulated one."""
    setting = found.setting
    with sparseq.create(
        None, events, user="who", table="t", kappa=KAPPA, seed=SEED,
        norm_budget=setting.norm_budget, in_or_out=True,
    ) as store:  # fmt: skip
        series = CorrelatedSeries(store, "users", setting.strategy)
        asked = queries(store, events)
        values = np.array([series.ask(t, query).values for t, query in enumerate(asked)])
    return float(np.abs(values - found.series(SEED)).max())


def followed(stream: KnownStream, best: Candidate) -> tuple[float, float, float, float]:
    """Return error, coverage, that of the noise's bound alone, and half-width: means of runs."""
    (simulated,) = simulate([stream], KAPPA, best.setting)
    found = []
    for seed in range(RUNS):
        series = simulated.corrections(seed, PostProcessing(period=best.period))
        off = np.array([one.values for one in series]) - stream.truth
        error = np.array([one.error for one in series])
        noise = np.array([[one.noise_error] for one in series])
        inside = [np.mean(np.abs(off) <= bound) for bound in (error, noise)]
        found.append([np.sqrt(np.mean(off**2)), *inside, error.mean()])
    rmse, inside, of_noise, width = np.mean(found, axis=0).tolist()
    return rmse, inside, of_noise, width


def weighted(events: pa.Table, stream: KnownStream) -> tuple[float, float]:
    """Return coverage and median half-width on a store with default settings."""
    with sparseq.create(None, events, user="who", table="t", kappa=KAPPA, seed=SEED) as store:
        rows = [store.ask(query, fresh=True).rows()[0] for query in queries(store, events)]
    low, high, error = (np.array([row[f"n_{k}"] for row in rows]) for k in ("low", "high", "error"))
    truth = stream.truth[:, 0]
    return float(np.mean((low <= truth) & (truth <= high))), float(np.median(error))


def _coverage(name: str, share: float) -> dict[str, Any]:
    found = figure(name, share, "of ticks")
    return found | {"limit": f">= {LEAST:g}", "ok": share >= LEAST}
