"""Figures of a monitored series, from released rows alone, so that everybody may see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseq.accounting import Budget
from sparseq.accounting.strategies import Strategy
from sparseq.pictures.bounded_numbers import percent
from sparseq.pictures.figure import Axis, Color, Figure, Look, Mark, Series, Sheet, spread
from sparseq.pictures.guarantee_texts import NOT_PRIVATE, guarantee
from sparseq.series.series_rows import STRATEGY

if TYPE_CHECKING:
    import pyarrow as pa

    from sparseq.accounting import Budget


MOST = 24
"""Largest number of drawn groups."""
OURS, WORST = "sparseq, an account per person", "worst-case composition"
LEFT_OUT = "People whose budget is used up are left out; no ± of the answers covers that."
OFF_BY = "The ± has room for what forecasts of people who have left may be off by, as planned."
_ACTIVE, _DROPPED = "People who have never been left out", "People who have ever been left out"
_LONG = 1024
_AFTER_KEYS, _NOISED = "estimate", "at each tick, with noise"
Rows = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Rival:
    """The method that a series is compared with.

    Attributes:
        bound: Half-width of worst-case composition, on the same part of the budget, for the same
            question on `ticks` ticks: the best fixed plan. None: it is not known, for example
            because a person's rows would have to be cut.
        ticks: Number of ticks.
        everybody: The interval of the series is about everybody.
    """

    bound: float | None = None
    ticks: int = 0
    everybody: bool = True

    @property
    def text(self) -> str:
        """Description in a sentence."""
        return (
            f"Worst-case composition: the noise of one fixed plan for {self.ticks:,} ticks on the "
            "same part of every budget, and no answer after them; drawn around our values."
        )


def monitor_sheet(
    rows: pa.Table, budget: Budget, rivals: Mapping[str, Rival], seeded: bool, alarm: float | None
) -> Sheet:
    """Return the page of a monitor: a figure for each number of each series, then the watch.

    Args:
        rows: Rows of the series' file (see `sparseq.series.series_rows`); at least one.
        budget: Budget of the store.
        rivals: By series: see `Rival`.
        seeded: The noise is repeatable.
        alarm: Share of people below which the watch's alarm fires.
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
    """Return the answers with worst-case composition; groups are panels."""
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
    """Return a sentence about the correlation of the errors of neighbouring ticks.

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
