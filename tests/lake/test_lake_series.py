"""Series of a lake: forecasts, the watch and strategies give what they give on one machine."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lake.twins import accounts

import sparseq
from checks.stores import made_store
from sparseq.series.methods.forecast import Forecast
from sparseq.series.methods.strategy_series import CorrelatedSeries
from sparseq.series.watch import ActiveWatch
from sparseq.store.store import Store

pytest.importorskip("deltalake", reason="pip install 'sparseq[lake]'")
COUNT = "SELECT count(DISTINCT who) AS n FROM t WHERE day = {}"
BY_KIND = "SELECT kind, sum(amount) AS s FROM t WHERE day = {} GROUP BY kind"
TICKS = 9


def events() -> pa.Table:
    """People who come on their own share of days."""
    draw = np.random.default_rng(1)
    day, who = np.nonzero(draw.random((TICKS, 40)) < draw.uniform(0.2, 1.0, 40))
    amount, kind = draw.integers(-2, 5, len(who)), draw.choice(["a", "b"], len(who))
    return pa.table({"who": who, "day": day, "kind": kind, "amount": amount.astype(float)})


def stores(folder: Path) -> tuple[Store, Store]:
    """The same on one machine and in four buckets."""
    told: dict[str, Any] = {
        "norm_budget": 8,
        "reserves": {"forecast": 0.25, "watch": 0.1},
        "seed": 5,
        "table": "t",
        "user": "who",
        "time": "day",
        "keys": {"kind": ["a", "b"]},
        "bounds": {"amount": (-2, 4)},
        "in_or_out": True,
    }
    lake = made_store(f"lake://{folder / 'lake'}", events(), buckets=4, **told)
    return made_store(None, events(), **told), lake


def series(store: Store, days: range) -> list[Any]:
    """Some ticks of three forecasts, the watch and a strategy."""
    found: list[Any] = []
    counted = Forecast(store, "counted", ticks=TICKS, share=0.4)
    summed = Forecast(store, "summed", ticks=TICKS, share=0.3)
    capped = Forecast(store, "capped", ticks=TICKS, share=0.3, cap=0.7)
    watch, news = ActiveWatch(store, TICKS, 0.9), CorrelatedSeries(store, "news", "1,-0.5,0.25")
    for day in days:
        for one, sql in ((counted, COUNT), (summed, BY_KIND), (capped, COUNT)):
            tick = one.ask(day, store.lower(sql.format(day)), request_id=f"{one.series} {day}")
            found += [tick.active.to_bytes(), tick.forecast.tolist()]
        found.append(astuple(watch.tick(day + 1, f"day {day}")))
        measured = news.ask(day, store.lower(BY_KIND.format(day)), request_id=f"news {day}")
        found += [measured.values.tolist(), measured.sigma]
    return found


@pytest.mark.deep
def test_forecasts_the_watch_and_strategies_are_those_of_one_machine(tmp_path: Path) -> None:
    """The lake is opened anew in the middle: what they keep comes back from its commits."""
    one, lake = stores(tmp_path)
    for days in (range(5), range(5, TICKS)):
        assert series(lake, days) == series(one, days)
        assert accounts(lake) == accounts(one)
        lake.close()
        lake = sparseq.connect(tmp_path / "lake")
    assert any(first for *_, first in accounts(lake).values())  # somebody has been left out
    lake.close()
