"""What `sparseq plan --for` says about strategies: the table and what is recommended, or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sparseq.escape import shown
from sparseq.monitor.plan_strategies import StrategyCandidate, StrategyPlan
from sparseq.pictures.numbers import format_number
from sparseq.pictures.tables import format_table

_ROOM = ", with room\nin every ± for 1.4 times what those who are left out lack in these data"


def strategies_text(planned: StrategyPlan, name: str, forecasts: float | None) -> str:
    """Return the table, and what to do.

    Args:
        planned: Of one series.
        name: Its name.
        forecasts: Error of single ticks of what is recommended without strategies, if that is
            comparable: ticks are all that is planned for.
    """
    names = [target.name for target in planned.targets]
    head = f"{shown(name)}, strategies for {', '.join(names)}: root mean squares"
    columns = ["strategy", "norm_budget", "left out", *names, "against independent", ""]
    rows = [_row(c, planned) for c in planned.tried]
    align = ["l", *"r" * (len(columns) - 2), "l"]
    return "\n\n".join([head, format_table(columns, rows, align), _advice(planned, forecasts)])


def strategies_plain(planned: StrategyPlan) -> dict[str, Any]:
    """Return the same as plain data."""
    return {
        "targets": [asdict(target) for target in planned.targets],
        "recommended": asdict(planned.recommended),
        "lacking": planned.lacking,
        "judged": None if planned.judged is None else asdict(planned.judged),
        "rows": [asdict(c) for c in planned.tried],
    }


def _row(c: StrategyCandidate, planned: StrategyPlan) -> list[str]:
    return [
        c.strategy,
        format_number(c.norm_budget, 2),
        f"{c.left_out:.1%}",
        *(f"{error:,.4g}" for error in c.total),
        f"{c.relative:.2f}",
        "recommended" if c == planned.recommended else "",
    ]


def _advice(planned: StrategyPlan, forecasts: float | None) -> str:
    best, judged = planned.recommended, planned.judged
    said = []
    if judged is not None:
        said.append(
            "Chosen on the first half of these data and run on the second, "
            f"{judged.strategy} has {judged.relative:.2f} times\nthe error of independent noise."
        )
    if forecasts is not None and forecasts < min(best.total):
        said.append(
            "What is recommended above, without a strategy, has less error: "
            f"{forecasts:,.4g} a tick."
        )
    elif best == planned.independent:
        said.append("Recommended: no strategy; none is sure to be better here.")
    else:
        said.append(
            f"Recommended, {best.relative:.2f} times the error of independent noise"
            f"{_ROOM if planned.lacking else ''}:\n"
            f"  sparseq create … --in-or-out --norm-budget {best.norm_budget:g}\n"
            f"  sparseq monitor … --strategy {best.strategy}"
            + (f" --left-out {100 * planned.lacking:.2g}%" if planned.lacking else "")
        )
    return "\n".join(said)


def comparable(planned: StrategyPlan, totals: Sequence[float]) -> float | None:
    """Return the error of single ticks of a plan without strategies, where these are the target."""
    return totals[0] if [t.ticks for t in planned.targets] == [1] else None
