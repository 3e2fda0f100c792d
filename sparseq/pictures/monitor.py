"""The figures of a monitored series: of released rows alone, so that anybody may see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting.strategies import Strategy
from sparseq.monitor.rows import STRATEGY
from sparseq.pictures.figure import Axis, Color, Figure, Look, Mark, Series, Sheet, spread
from sparseq.pictures.numbers import percent
from sparseq.pictures.words import NOT_PRIVATE, guarantee

if TYPE_CHECKING:
    import pyarrow as pa

    from sparseq.accounting import Budget

MOST = 24
"""More groups than these are not drawn."""
OURS, WORST, CORRECTED = (
    "sparseq, an account per person", "worst-case composition", "corrected for those left out"
)  # fmt: skip
LEFT_OUT = "People whose budget is used up are left out; no ± of the answers covers that."
OFF_BY = "What the forecast in the correction is off by is estimated apart."
_ACTIVE, _DROPPED = "People who have never been left out", "People who have ever been left out"
_LONG = 1024
_AFTER_KEYS, _NOISED = "estimate", "at each tick, with noise"
Rows = Sequence[dict[str, Any]]


def monitor_sheet(rows: pa.Table, budget: Budget, seeded: bool, alarm: float | None) -> Sheet:
    """Return the page of a monitor: a figure for each number of each series, then the watch.

    Args:
        rows: As in the series' file (see `sparseq.monitor.rows`); at least one.
        budget: Of the store.
        seeded: The noise is repeatable.
        alarm: The share of people below which the watch's alarm goes off.
    """
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows.to_pylist():
        found.setdefault((row["series"], row["column"]), []).append(row)
    names = rows.column_names
    keys = names[names.index("tick") + 1 : names.index(_AFTER_KEYS)]
    series = list(dict.fromkeys(n for (n, _), r in found.items() if r[0]["estimate"] != "watch"))
    ticks = len(set(rows["tick"].to_pylist()))
    times = budget.worst_case_sigma(max(ticks * len(series), 1)) / budget.sigma_0
    notes = [
        f"Worst-case composition has the same guarantee, {guarantee(budget)}, for {len(series)} "
        f"{'query' if len(series) == 1 else 'queries'} on {ticks:,} ticks, and no answer after "
        "them.",
    ]
    said = [NOT_PRIVATE] if seeded else []
    drawn = [
        _answers(place, of, keys, times, [*notes, *said])
        for place, of in found.items()
        if of[0]["estimate"] != "watch"
    ]
    watched = {column: of for (_, column), of in found.items() if of[0]["estimate"] == "watch"}
    if watched:
        drawn += [_active(watched["active_share"], alarm, said), _dropped(watched["dropped"], said)]
    return Sheet(", ".join(series) or "watch", drawn)


def _answers(
    place: tuple[str, str], rows: Rows, keys: Sequence[str], times: float, notes: Sequence[str]
) -> Figure:
    """The answers beside worst-case composition; groups are panels."""
    name, column = place
    groups: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        group = ", ".join(f"{key} {row[key]}" for key in keys if row[key] is not None)
        groups.setdefault(group, {}).setdefault(row["estimate"], []).append(row)
    drawn: list[Series] = []
    for group, found in list(groups.items())[:MOST]:
        ours = _series(OURS, found["answer"], panel=group)
        strategy = _strategy(found["answer"])
        alone = ours.bounds / _spread(strategy, len(ours.bounds))
        worst = replace(ours, name=WORST, bound=alone * times, look="band", color="orange")
        drawn += [ours, worst]
        if strategy is not None and together(strategy) not in notes:
            notes = [together(strategy), *notes]
        if "corrected" in found:
            drawn.append(_series(CORRECTED, found["corrected"], "green", panel=group))
    notes = [LEFT_OUT, *([OFF_BY] if any(s.name == CORRECTED for s in drawn) else []), *notes]
    if len(groups) > MOST:
        notes.append(f"{MOST} of {len(groups):,} groups are drawn.")
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


def _spread(strategy: Strategy | None, ticks: int) -> NDArray[np.float64]:
    """Return the noise of each tick against that of a measurement."""
    if strategy is None:
        return np.ones(ticks)
    return np.sqrt(np.cumsum(strategy.inverse(max(ticks, 1)) ** 2))[:ticks]


def _active(rows: Rows, alarm: float | None, notes: Sequence[str]) -> Figure:
    drawn = _series("estimate", rows, times=100.0)
    marks = [Mark(100 * alarm, f"alarm below {percent(alarm)}")] if alarm is not None else []
    y = Axis("of all people, at each tick, with noise", unit="%")
    return Figure(_ACTIVE, [drawn], Axis(), y, marks, notes)


def _dropped(rows: Rows, notes: Sequence[str]) -> Figure:
    y = Axis("number of people, at each tick, with noise")
    return Figure(_DROPPED, [_series("estimate", rows)], Axis(), y, notes=notes)


def _series(
    name: str, rows: Rows, color: Color = "blue", look: Look = "line", times: float = 1.0,
    panel: str = "",
) -> Series:  # fmt: skip
    values, bounds = (
        np.array([np.nan if r[which] is None else r[which] for r in rows], np.float64) * times
        for which in ("value", "error")
    )
    return Series(name, [r["tick"] for r in rows], values, bounds, look, color, panel)
