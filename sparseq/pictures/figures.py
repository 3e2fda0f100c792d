"""The figures of a monitored series: of released rows alone, so that anybody may see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseq.accounting import Budget, simultaneous_bound
from sparseq.accounting.strategies import Strategy
from sparseq.base.defaults import BETA, CONFIDENCE
from sparseq.pictures.figure import Axis, Color, Figure, Floats, Look, Mark, Series, Sheet, spread
from sparseq.pictures.tables import CURATOR, MISSING, NOT_PRIVATE, Table, guarantee, percent
from sparseq.series.series_file import STRATEGY

if TYPE_CHECKING:
    import pyarrow as pa

    from sparseq.accounting import Budget
    from sparseq.replay.compare import ReplayComparison, Tally
    from sparseq.series.planning.plan_search import PlanSearch
    from sparseq.training import TrainingResult
    from sparseq.training.report import Report

# -- the figures of a monitored series: of released rows alone, so that anybody may see them -------

MOST = 24
"""More groups than these are not drawn."""
OURS, WORST = "sparseq, an account per person", "worst-case composition"
LEFT_OUT = "People whose budget is used up are left out; no ± of the answers covers that."
OFF_BY = "The ± has room for what forecasts of people who have left may be off by, as planned."
_ACTIVE, _DROPPED = "People who have never been left out", "People who have ever been left out"
_LONG = 1024
_AFTER_KEYS, _NOISED = "estimate", "at each tick, with noise"
Rows = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Rival:
    """The rival that a series is compared with, and whom it is about.

    Attributes:
        bound: ± of worst-case composition, on the same part of the budget, for the same question on
            `ticks` ticks: the best fixed plan. None: what it would be is not known, as where a
            person's rows would have to be cut.
        ticks: For how many.
        everybody: The ± of the series is about everybody.
    """

    bound: float | None = None
    ticks: int = 0
    everybody: bool = True

    @property
    def text(self) -> str:
        """In words."""
        return (
            f"Worst-case composition: the noise of one fixed plan for {self.ticks:,} ticks on the "
            "same part of every budget, and no answer after them; drawn around our values."
        )


def monitor_sheet(
    rows: pa.Table, budget: Budget, rivals: Mapping[str, Rival], seeded: bool, alarm: float | None
) -> Sheet:
    """Return the page of a monitor: a figure for each number of each series, then the watch.

    Args:
        rows: As in the series' file (see `sparseq.series.series_file`); at least one.
        budget: Of the store.
        rivals: By series: see `Rival`.
        seeded: The noise is repeatable.
        alarm: The share of people below which the watch's alarm goes off.
    """
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows.to_pylist():
        found.setdefault((row["series"], row["column"]), []).append(row)
    names = rows.column_names
    keys = names[names.index("tick") + 1 : names.index(_AFTER_KEYS)]
    series = list(dict.fromkeys(n for (n, _), r in found.items() if r[0]["estimate"] != "watch"))
    notes = [f"{guarantee(budget)}, for all answers of the store together."]
    said = [NOT_PRIVATE] if seeded else []
    drawn = [
        _answers(place, of, keys, rivals.get(place[0], Rival()), [*notes, *said])
        for place, of in found.items()
        if of[0]["estimate"] != "watch"
    ]
    watched = {column: of for (_, column), of in found.items() if of[0]["estimate"] == "watch"}
    if watched:
        drawn += [_active(watched["active_share"], alarm, said), _drop(watched["dropped"], said)]
    return Sheet(", ".join(series) or "watch", drawn)


def _answers(
    place: tuple[str, str], rows: Rows, keys: Sequence[str], rival: Rival, notes: Sequence[str]
) -> Figure:
    """The answers beside worst-case composition; groups are panels."""
    name, column = place
    groups: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        group = ", ".join(f"{key} {row[key]}" for key in keys if row[key] is not None)
        groups.setdefault(group, {}).setdefault(row["estimate"], []).append(row)
    drawn: list[Series] = []
    for group, found in list(groups.items())[:MOST]:
        ours = _series(OURS, found.get("corrected", found["answer"]), panel=group)
        drawn.append(ours)
        if rival.bound is not None:
            drawn.append(replace(ours, name=WORST, bound=rival.bound, look="band", color="orange"))
        strategy = _strategy(found["answer"])
        if strategy is not None and together(strategy) not in notes:
            notes = [together(strategy), *notes]
        if "corrected" in found and OFF_BY not in notes:
            notes = [OFF_BY, *notes]
    if rival.bound is not None:
        notes = [*notes, rival.text]
    if not rival.everybody:
        notes = [LEFT_OUT, *notes]
    if len(groups) > MOST:
        notes = [*notes, f"{MOST} of {len(groups):,} groups are drawn."]
    y = Axis(_NOISED, spread([s for s in drawn if s.look == "line"]))
    return Figure(f"{name}: {column}" if name != column else name, drawn, Axis(), y, notes=notes)


def together(strategy: Strategy) -> str:
    """Return in a sentence whether errors of ticks that follow each other go together.

    Example:
        >>> together(Strategy.of("1,0.5"))
        'Neighbouring ticks are off against each other (correlation -0.50): sums gain by it.'
    """
    d = strategy.inverse(_LONG)
    correlation = float(d[1:] @ d[:-1] / (d @ d))
    if correlation > 0:
        how, then = "together", "sums over many ticks are less exact than ticks are"
    else:
        how, then = "against each other", "sums gain by it"
    return f"Neighbouring ticks are off {how} (correlation {correlation:.2f}): {then}."


def _strategy(rows: Rows) -> Strategy | None:
    strategy = Strategy.of(rows[0].get(STRATEGY) or "none")
    return strategy if strategy.band else None


def _active(rows: Rows, alarm: float | None, notes: Sequence[str]) -> Figure:
    drawn = _series("estimate", rows, times=100.0)
    marks = [Mark(100 * alarm, f"alarm below {percent(alarm)}")] if alarm is not None else []
    y = Axis("of all people, at each tick, with noise", unit="%")
    return Figure(_ACTIVE, [drawn], Axis(), y, marks, notes)


def _drop(rows: Rows, notes: Sequence[str]) -> Figure:
    y = Axis("number of people, at each tick, with noise")
    return Figure(_DROPPED, [_series("estimate", rows)], Axis(), y, notes=notes)


def _series(
    name: str,
    rows: Rows,
    color: Color = "blue",
    look: Look = "line",
    times: float = 1.0,
    panel: str = "",
) -> Series:
    values, bounds = (
        np.array([np.nan if r[which] is None else r[which] for r in rows], np.float64) * times
        for which in ("value", "error")
    )
    return Series(name, [r["tick"] for r in rows], values, bounds, look, color, panel)


# -- the figures of a plan: total error against the budget, and the noise in it --------------------

_KINDS: tuple[tuple[str, bool, Color], ...] = (
    ("dropping alone", False, "orange"),
    ("with forecasts", True, "blue"),
)
_TALLEST = 2.5  # times the error of the worst case


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
            series.append(Series(f"{label}: of it noise", x, noise, look="dashes", color=color))
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


# -- the figures of a log under several ways of accounting, for the curator ------------------------

REPLAY_WARNING = f"PRIVATE: computed from exact values and from who is left out. {CURATOR}"
_LOOKS: dict[str, tuple[Color, Look]] = {
    "worst-case": ("orange", "line"),
    "individual": ("blue", "line"),
    "halt": ("green", "dashes"),
}
_FIGURES = (
    ("answered_so_far", "Lines answered", "lines", "", 1.0),
    ("error", "Error of an answer", "multiples of its noise's sigma", "", 1.0),
    (
        "bias",
        "Of it bias: what is missed by leaving people out",
        "multiples of the noise's sigma",
        "",
        1.0,
    ),
    ("spent", "Budget spent", "of all people's budgets", "%", 100.0),
    ("ever_left_out", "People ever left out", "people", "", 1.0),
)
_ERROR = (
    "Error: noise and what is missed by leaving people out, together, as the root mean square over "
    "an answer's values; 1 is the noise alone. Noise is in the answer's ±, bias is not."
)


def replay_sheet(comparison: ReplayComparison, log: str) -> Sheet:
    """Return the page of a comparison (see `sparseq.replay.compare`)."""
    modes = [f.mode for f in comparison.fared]
    rows = comparison.shown.to_pylist()
    figures = []
    for column, title, label, unit, factor in _FIGURES:
        series = [_series_of(rows, mode, column, factor) for mode in modes]
        y = Axis(label, spread(series), unit)
        notes = [_ERROR] if column == "error" else []
        figures.append(Figure(title, series, Axis("line of the log"), y, notes=notes))
    return Sheet(
        f"{log} under {' and '.join(modes)} accounting",
        figures,
        REPLAY_WARNING,
        summary_table(comparison.fared),
        ("Every line", rows_table(comparison.shown)),
    )


def summary_table(summary: Sequence[Tally]) -> Table:
    """Return the summary as a table of texts."""
    columns = [
        "accounting",
        "lines",
        "answered",
        "mean error, in sigmas",
        "of it bias",
        "people ever left out",
        "spent of all budgets",
        "most of one",
    ]
    body = [
        [
            f.mode,
            f"{f.lines:,}",
            f"{f.answered:,}",
            cell(f.error),
            cell(f.bias),
            f"{f.ever_left_out:,}",
            f"{100 * f.spent:.1f} %",
            f"{100 * f.most_spent:.1f} %",
        ]
        for f in summary
    ]
    return Table(columns, body, ["l", *"rrrrrrr"])


def rows_table(rows: pa.Table) -> Table:
    """Return the rows behind the plots as texts."""
    body = [[cell(v) for v in record.values()] for record in rows.to_pylist()]
    align = ["l" if name in ("id", "mode", "answered") else "r" for name in rows.column_names]
    return Table(rows.column_names, body, align)


def cell(value: Any) -> str:
    """Return a value as text, six digits of a number."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _series_of(rows: Sequence[dict[str, Any]], mode: str, column: str, factor: float) -> Series:
    own = [r for r in rows if r["mode"] == mode]
    values = [np.nan if r[column] is None else factor * r[column] for r in own]
    color, look = _LOOKS[mode]
    lines = np.array([r["line"] for r in own], np.float64)
    return Series(mode, lines, np.array(values, np.float64), look=look, color=color)


# -- the figures of a training run, for the curator: Figure 1 of Feldman & Zrnic, and more ---------

BINS = 40
_FIGURE_1 = (
    "Feldman & Zrnic (2021), Figure 1. Whoever can still pay for a tenth of a full gradient has "
    "budget left."
)
WARNING = (
    f"PRIVATE: exact facts about people, who has budget left and who has spent how much. {CURATOR}"
)


def training_sheet(report: Report, trained: TrainingResult, title: str, facts: Table) -> Sheet:
    """Return the page of a run.

    Args:
        report: The exact facts. Private.
        trained: The public ones.
        title: What was trained.
        facts: The summary that everybody sees.
    """
    figures = [_active_of(report, trained), _spends(report)]
    if report.checks:
        figures.append(_checks(report, trained))
    log = "Every step; all but the first two columns is public, and in the file of --log"
    return Sheet(title, figures, WARNING, facts, (log, log_table(report, trained)))


def log_table(report: Report, trained: TrainingResult) -> Table:
    """Return the log, with how many people had budget left."""
    names = [
        "step",
        "people with budget left",
        "sigma",
        "norm",
        "worst_case",
        "accuracy",
        "loss",
        "active",
    ]
    rows = [
        [
            str(s.step),
            str(left),
            repr(s.sigma),
            repr(s.norm),
            repr(s.worst_case),
            *(MISSING if v is None else repr(v) for v in (s.accuracy, s.loss, s.active)),
        ]
        for s, left in zip(trained.log, report.active.tolist(), strict=True)
    ]
    return Table(names, rows, ["r"] * len(names))


def _active_of(report: Report, trained: TrainingResult) -> Figure:
    steps = np.array([s.step for s in trained.log], np.float64)
    people = len(report.spent)
    noised = np.array([np.nan if s.active is None else people * s.active for s in trained.log])
    asked = Series("noised", steps, noised, look="dots", color="orange")
    exact = Series("exact", steps, report.active.astype(np.float64), look="steps")
    return Figure(
        "People with budget left",
        [exact, asked] if np.isfinite(noised).any() else [exact],
        Axis("step", low=0.0, high=max(float(steps.max()), report.steps)),
        Axis(f"people, of {people:,}", low=0.0, high=float(people)),
        [Mark(report.steps, f"until step {report.steps} nobody can run out", "x")],
        [_FIGURE_1],
    )


def _spends(report: Report) -> Figure:
    count, edges = np.histogram(np.clip(100 * report.spent, 0, 100), BINS, (0, 100))
    return Figure(
        "Spread of spends",
        [Series("people", edges[:-1], count.astype(np.float64), look="bars")],
        Axis("share spent, at least, of what the run may spend of one person", unit="%"),
        Axis("people"),
        notes=["Whoever has spent little has had small gradients: the model is right about them."],
    )


def _checks(report: Report, trained: TrainingResult) -> Figure:
    """Return the figure of the checks: accuracy, or the loss."""
    factor, unit = (1, "") if report.checked == "loss" else (100, "%")
    x, y = (np.array([a[i] for a in report.checks], np.float64) for i in (0, 1))
    checks = Series(report.checked, x, factor * y, factor * report.check_error, "dots", "green")
    return Figure(
        f"Training {report.checked}",
        [checks],
        Axis("step", low=0.0, high=float(max(len(trained.log), x.max()))),
        Axis(f"{report.checked}, with noise", unit=unit),
        notes=[f"Parameters of step {trained.taken} were taken."],
    )


# -- the figure of the demo: answers about public data, so with the truth beside them --------------


def demo_figure(
    days: Sequence[date],
    values: Floats,
    bounds: Floats,
    truth: Floats,
    budget: Budget,
    sigma: float,
    seeded: bool,
) -> Figure:
    """Return the chart.

    Args:
        days, values, bounds: The series.
        truth: Exact values.
        budget: Of the store.
        sigma: Of worst-case composition on the same share of the budget, for so many days.
        seeded: The noise is repeatable.
    """
    worst = float(simultaneous_bound(sigma, 1, BETA, lattice_step=1.0))
    ours = Series("sparseq, an account per customer", days, values, bounds)
    sure = percent(CONFIDENCE)
    notes = [
        f"Each ± is about all customers, with {sure} confidence. Both bands: {guarantee(budget)} "
        "for all answers of the store together, these and those to questions.",
        f"Worst-case composition: where {sure} of its answers would lie, from the same share of "
        "every budget.",
        "The exact values are known because these data are public; an analyst never sees any.",
        *([NOT_PRIVATE] if seeded else []),
    ]
    return Figure(
        "Customers who bought at CDNOW",
        [
            ours,
            replace(
                ours,
                name="worst-case composition",
                values=truth,
                bound=worst,
                look="band",
                color="orange",
            ),
            Series("exact value", days, truth, look="dots", color="ink", exact=True),
        ],
        y=Axis("a day, noised"),
        notes=notes,
    )
