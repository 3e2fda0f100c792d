"""Figures of a plan: total error against the budget, and the noise in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from sparseq.pictures.figure import Axis, Color, Figure, Mark, Series, Sheet

if TYPE_CHECKING:
    from sparseq.series.planning.plan_search import PlanSearch


_KINDS: tuple[tuple[str, bool, Color], ...] = (
    ("dropping alone", False, "orange"),
    ("with forecasts", True, "blue"),
)
_TALLEST = 2.5  # height of the chart, in errors of the worst case


def plan_sheet(searches: Mapping[str, PlanSearch], warning: str) -> Sheet:
    """Return the page of a plan: a figure for each series."""
    one = next(iter(searches.values()))
    title = f"A plan for {one.ticks:,} ticks, kappa {one.kappa:g}"
    return Sheet(title, [_figure(p, name) for name, p in searches.items()], warning)


def _figure(planned: PlanSearch, name: str) -> Figure:
    series, i = [], 0
    for label, kind, color in _KINDS:
        rows = [c for c in planned.rows[1:] if (c.setting.forecast > 0) == kind]
        if rows:
            x = np.array([c.setting.norm_budget for c in rows])
            total, noise = (
                np.array([v[i] for v in (getattr(c, which) for c in rows)])
                for which in ("total", "noise")
            )
            series.append(Series(f"{label}: total error", x, total, color=color))
            series.append(Series(f"{label}: noise alone", x, noise, look="dashes", color=color))
    worst, best = planned.worst_case, planned.recommended
    at = np.array([best.setting.norm_budget])
    series.append(Series("recommended", at, np.array([best.total[i]]), look="dots", color="ink"))
    return Figure(
        name,
        series,
        Axis("norm_budget", "log"),
        Axis("root mean square error", low=0.0, high=_TALLEST * worst.total[i]),
        [Mark(worst.total[i], "worst-case composition")],
    )
