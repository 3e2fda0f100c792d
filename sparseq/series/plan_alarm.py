"""An alarm for a series that no longer resembles the data it was planned on.

A plan takes from other data how far forecasts may be off and how much may be missing. If people
come far more often than there, or far less, the half-widths of the series may be too small. So a
part keeps the lowest and the highest mean of `window_length` ticks in the planning data (`seen`),
and the same mean of the released values is compared with them. This costs nothing: all numbers are
released already.

**False alarms.** The alarm fires if the mean is more than `FAR` times the highest, or less than the
lowest over `FAR`, by more than the mean of the half-widths. All intervals of the window hold at
once with some probability, and then the true mean is within the mean half-width, whatever the
dependence of the errors. So as long as the truth stays within `FAR` of the planning data, it fires
only if one of the window's intervals is wrong and their errors do not even out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparseq.ledger.purposes import Purpose
from sparseq.series.planning.known_stream import KnownStream
from sparseq.series.series_rows import ANSWER, Row

FAR = 1.5
"""Largest ratio to the planning data without an alarm: growth and another year's seasons."""
_WINDOW = 28
_DIGITS = 3


def window_length(ticks: int) -> int:
    """Return the number of ticks in a mean, for a series that is planned for `ticks` ticks.

    Example:
        >>> window_length(365), window_length(52), window_length(2)
        (28, 13, 1)
    """
    return max(min(_WINDOW, ticks // 4), 1)


def seen_range(stream: KnownStream) -> tuple[float, float]:
    """Return the lowest and the highest mean of a window in known data."""
    sums = np.cumsum(np.append(0.0, stream.truth.sum(axis=1)))
    window = window_length(stream.ticks)
    means = (sums[window:] - sums[:-window]) / window
    low, high = (float(f"{m:.{_DIGITS}g}") for m in (means.min(), means.max()))
    return max(low, 0.0), max(high, 0.0)


class PlanAlarm:
    """Compares a series with its plan, tick after tick.

    Args:
        purpose: The part of the series.
        known: Rows that were released before.

    Example:
        >>> import datetime as dt
        >>> part = Purpose("buyers", 0.4, 8, 3.0, strategy="window:4", seen=(10.0, 20.0))
        >>> series = PlanAlarm(part)
        >>> ticks = [[Row("buyers", day, "n", 25.0 + 3 * day, error=4.0)] for day in range(8)]
        >>> [series.check(rows) for rows in ticks][4]
        'buyers: the last 2 ticks have 35.5 on average, and the plan was made for 10 to 20'
    """

    def __init__(self, purpose: Purpose, known: pa.Table | None = None) -> None:
        self._name, self._seen = purpose.name, purpose.seen
        self._latest: deque[tuple[float, float]] = deque(maxlen=window_length(purpose.ticks))
        self._told = False
        if known is not None:
            some = known.filter(pc.equal(known["series"], self._name))
            for tick in some["tick"].unique().sort()[-_WINDOW - 1 :]:
                rows = some.filter(pc.equal(some["tick"], tick))
                self.check([_row(row) for row in rows.to_pylist()])

    def check(self, rows: Sequence[Row]) -> str:
        """Add the rows of a tick; return the alarm's message once, else ""."""
        mine = [r for r in rows if r.series == self._name and r.value is not None]
        corrected = [r for r in mine if r.estimate != ANSWER] or mine
        if not corrected or any(r.error is None for r in corrected):
            return ""
        self._latest.append(
            (sum(r.value or 0.0 for r in corrected), sum(r.error or 0.0 for r in corrected))
        )
        if len(self._latest) < (self._latest.maxlen or 0):
            return ""
        mean, error = np.mean(self._latest, axis=0).tolist()
        low, high = self._seen
        before, self._told = self._told, mean - error > FAR * high or mean + error < low / FAR
        if before or not self._told:
            return ""
        shown, lowest, highest = (
            f"{v:,.0f}" if v >= 100 else f"{v:.3g}" for v in (mean, low, high)
        )
        return (
            f"{self._name}: the last {len(self._latest)} ticks have {shown} on average, and the "
            f"plan was made for {lowest} to {highest}"
        )


def _row(row: dict[str, object]) -> Row:
    return Row(**{k: row[k] for k in ("series", "tick", "column", "value", "error", "estimate")})  # type: ignore[arg-type]
