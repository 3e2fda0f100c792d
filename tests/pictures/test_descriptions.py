"""What each picture shows, as data; `UPDATE_GOLDEN=1 pytest …` writes the descriptions anew."""

from __future__ import annotations

import datetime as dt
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparseq.accounting import Budget
from sparseq.accounting.strategies import Strategy
from sparseq.cli.budget_curves import NamedCurve, curves_of
from sparseq.pictures.demo_figure import demo_figure
from sparseq.pictures.figure import Series, Sheet, spread
from sparseq.pictures.tables import Table
from sparseq.replay.compare import SCHEMA, ReplayComparison, Tally
from sparseq.replay.replay_figures import replay_sheet
from sparseq.series.planning.plan_figures import plan_sheet
from sparseq.series.planning.plan_search import BudgetSplit, Candidate, PlanSearch
from sparseq.series.series_figures import (
    LEFT_OUT,
    MOST,
    OFF_BY,
    OURS,
    WORST,
    Rival,
    monitor_sheet,
)
from sparseq.series.series_rows import Row, as_table, schema_of
from sparseq.training import TrainingResult, TrainingStep
from sparseq.training.report import Report
from sparseq.training.training_figures import training_sheet

GOLDEN = Path(__file__).parent / "golden"
BUDGET = Budget(kappa=0.5, norm_budget=40)
DAYS = [dt.date(2024, 1, 1) + dt.timedelta(days=k) for k in range(4)]

RIVALS = {"orders": Rival(None), "buyers": Rival(20.0, 4, everybody=False)}


def monitored(groups: tuple[str, ...] = ("cart", "pay"), times: float = 1.0) -> pa.Table:
    rows = []
    for k, day in enumerate(DAYS):
        for j, page in enumerate(groups):
            value = None if (k, j) == (2, 0) else (100.0 + 10 * k) * times**j
            error = None if value is None else 13.0
            wider = None if value is None else 15.0
            keys = {"page": page}
            rows.append(Row("orders", day, "n", value, error, keys=keys))
            rows.append(Row("orders", day, "n", value, wider, estimate="corrected", keys=keys))
        rows.append(Row("buyers", day, "buyers", 10.0 * 12**k, 1.0))
        for name, value, error in (
            ("active_share", 1 - k / 30, 0.004),
            ("dropped", 40.0 * k, 9.0),
            ("people", 1200.0, None),
            ("alarm", 0.0, None),
        ):
            rows.append(Row("watch", day, name, value, error, estimate="watch"))
    return as_table(rows, schema_of([("page", pa.string())], dates=True))


def trained() -> Sheet:
    steps = tuple(TrainingStep(t, 2.0, 0.5, 1.5, 0.8 if t == 2 else None) for t in (1, 2, 3))
    checks = ((2, 0.8), (3, 0.9))
    report = Report(np.array([3, 2, 1]), np.array([0.1, 0.5, 1.0]), 2, checks, "accuracy", 0.05)
    made = TrainingResult(np.zeros(1), 3, np.zeros(1), steps, 0.5, "", 0.05, True)
    return training_sheet(report, made, "Training run a", Table(["run"], [["a"]], ["l"]))


def replayed() -> Sheet:
    rows = [
        {
            "line": line,
            "id": str(line),
            "mode": mode,
            "answered": line < 3 or mode == "individual",
            "answered_so_far": line,
            "error": None if line == 3 and mode != "individual" else 1.5,
            "bias": None if line == 3 and mode != "individual" else 1.1,
            "noise": 4.0,
            "left_out": 0,
            "ever_left_out": line,
            "spent": line / 4,
            "most_spent": 0.5,
        }
        for line in (1, 2, 3)
        for mode in ("worst-case", "individual")
    ]
    tallies = [Tally(mode, 3, 2, 1.5, 1.1, 3, 0.75, 0.5) for mode in ("worst-case", "individual")]
    return replay_sheet(ReplayComparison(tallies, pa.Table.from_pylist(rows, SCHEMA)), "log.csv")


def planned() -> Sheet:
    def tried(budget: float, forecast: float, error: float) -> Candidate:
        setting = BudgetSplit(budget, forecast=forecast)
        return Candidate(
            setting, error == 9, (1.0,), 0.1, (error / 2,), (0.1,), (error,), error / 9, error / 9
        )

    rows = tried(400, 0, 9), tried(20, 0, 8), tried(40, 0, 7), tried(20, 0.1, 6), tried(40, 0.1, 5)
    return plan_sheet({"daily": PlanSearch(0.5, 30, rows)}, "Exact facts.")


def demo() -> Sheet:
    values, bounds = np.array([200.0, 70.0, 60.0, 80.0]), np.full(4, 13.0)
    truth = np.array([209.0, 75.0, 60.0, 20.0])
    figure = demo_figure(DAYS, values, bounds, truth, BUDGET, 30.0, True)
    return Sheet(figure.title, [figure])


def curves() -> Sheet:
    orders = np.geomspace(1.5, 64, 5)
    return Sheet(
        "curves",
        [
            curves_of(
                [NamedCurve("a", "●", orders, orders / 2), NamedCurve("b", "○", orders, np.ones(5))]
            )
        ],
    )


PICTURES = {
    "monitor": lambda: monitor_sheet(monitored(), BUDGET, RIVALS, True, 0.9),
    "training": trained,
    "replay": replayed,
    "plan": planned,
    "demo": demo,
    "curves": curves,
}


@pytest.mark.parametrize("name", PICTURES)
def test_golden_descriptions(name: str) -> None:
    sheet = PICTURES[name]()
    text = json.dumps(plain(asdict(sheet)), indent=1, ensure_ascii=False) + "\n"
    file = GOLDEN / f"{name}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def described(rows: pa.Table, **changes: Any) -> Sheet:
    return monitor_sheet(rows, BUDGET, {}, False, 0.9)


def plain(value: Any) -> Any:
    """For JSON: nine digits of a number, null for what is not finite."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return plain((value.astype(str) if value.dtype.kind == "M" else value).tolist())
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.9g}") if np.isfinite(value) else None
    return value


def test_a_monitors_figures() -> None:
    orders, buyers, active, dropped = described(monitored()).figures
    assert {s.panel for s in orders.series} == {"page cart", "page pay"}
    assert buyers.y.scale == "log"  # 10 to 17,280, well above the noise
    assert active.y.unit == "%"
    assert [m.at for m in active.marks] == [90]
    assert active.series[0].values[1] == pytest.approx(100 * (1 - 1 / 30))
    assert dropped.series[0].values.tolist() == [0, 40, 80, 120]
    gap = orders.series[0]
    assert np.isnan(gap.values[2])
    assert np.isnan(gap.bounds[2])  # nothing was measured, so there is no band


def test_no_more_groups_are_drawn_than_can_be_seen() -> None:
    figure = described(monitored(tuple(f"p{k}" for k in range(30)))).figures[0]
    assert len(figure.panels()) == MOST
    assert "24 of 30 groups are drawn." in figure.notes


def test_groups_of_different_size_have_scales_of_their_own() -> None:
    assert described(monitored()).figures[0].is_shared()
    assert not described(monitored(times=20.0)).figures[0].is_shared()


@pytest.mark.parametrize(
    ("values", "bound", "scale"),
    [
        (np.geomspace(100, 1e5, 40), 13.0, "log"),
        (np.geomspace(100, 1e5, 40), 130.0, "linear"),  # the lowest may be nothing
        (np.append(np.full(60, 1e4), 50.0), 13.0, "linear"),  # one day far from the others
        (np.linspace(50, 500, 40), 13.0, "linear"),
        (np.array([np.nan]), 13.0, "linear"),
    ],
)
def test_axes_are_logarithmic_where_decades_are_spanned(
    values: np.ndarray, bound: float, scale: str
) -> None:
    assert spread([Series("a", np.arange(float(len(values))), values, bound)]) == scale


def test_a_series_with_a_strategy_stands_beside_worst_case_composition() -> None:
    """Its own band widens or narrows with its taps; the other is of independent noise."""
    spread = np.sqrt(np.cumsum(Strategy.of("1,-0.5").inverse(4) ** 2))
    rows = [
        Row("orders", day, "n", 100.0, 13.0 * float(wider), strategy="1,-0.5")
        for day, wider in zip(DAYS, spread, strict=True)
    ]
    table = as_table(rows, schema_of([], dates=True, strategies=True))
    (figure,) = monitor_sheet(table, BUDGET, {"orders": Rival(4.1, 4)}, False, None).figures
    ours, worst = figure.series
    assert ours.bounds == pytest.approx(13.0 * spread)
    assert worst.bounds == pytest.approx([4.1] * 4)
    assert worst.values.tolist() == ours.values.tolist()
    assert "Neighbouring ticks are off together (correlation 0.50)" in figure.notes[0]
    assert "one fixed plan for 4 ticks on the same part of every budget" in figure.notes[-1]


def test_only_where_worst_case_composition_is_known_is_it_drawn() -> None:
    orders, buyers, *_ = monitor_sheet(monitored(), BUDGET, RIVALS, False, None).figures
    assert {s.name for s in orders.series} == {OURS}
    assert not any("Worst-case" in note for note in orders.notes)
    assert [s.name for s in buyers.series] == [OURS, WORST]
    assert buyers.series[1].bounds.tolist() == [20.0] * 4


def test_whom_an_interval_is_about_is_said_where_it_is_not_everybody() -> None:
    orders, buyers, *_ = monitor_sheet(monitored(), BUDGET, RIVALS, False, None).figures
    assert LEFT_OUT in buyers.notes
    assert LEFT_OUT not in orders.notes
    assert OFF_BY in orders.notes, "it has forecasts"
    assert OFF_BY not in buyers.notes
    assert not any(LEFT_OUT in f.notes for f in described(monitored()).figures)
