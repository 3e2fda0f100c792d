"""An alarm where a series is no longer like the data that it was planned on: from released numbers.

A plan says of other data how far forecasts may be off and how much may be missing; where people
come far more often than there, or far less, the ± of the series may be too small. So a part keeps
the lowest and the highest mean of `window_of` ticks in the data that were planned on (`seen`), and
the same mean of what is released is compared with them.

**False alarms.** It goes off where the mean is more than `FAR` times the highest, or less than the
lowest over `FAR`, by more than the mean of the half-widths. All intervals of the window hold at
once with some probability, and then the true mean is within the mean half-width, however errors go
together. So as long as the truth stays within `FAR` of what was seen, it goes off only where one of
the window's intervals is wrong, and their errors don't even out. It costs nothing: all of it is
released already.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparseq.ledger.purposes import Purpose
from sparseq.series.planning.known_stream import KnownStream
from sparseq.series.series_file import ANSWER, Row

FAR = 1.5
"""How far from what was seen a series may go: growth and seasons of another year are no alarm."""
_WINDOW = 28
_DIGITS = 3


def window_of(ticks: int) -> int:
    """Return over how many ticks means are taken, of a series that is planned for so many.

    Example:
        >>> window_of(365), window_of(52), window_of(2)
        (28, 13, 1)
    """
    return max(min(_WINDOW, ticks // 4), 1)


def seen_in(stream: KnownStream) -> tuple[float, float]:
    """Return the lowest and the highest mean of a window in data that are known."""
    sums = np.cumsum(np.append(0.0, stream.truth.sum(axis=1)))
    window = window_of(stream.ticks)
    means = (sums[window:] - sums[:-window]) / window
    low, high = (float(f"{m:.{_DIGITS}g}") for m in (means.min(), means.max()))
    return max(low, 0.0), max(high, 0.0)


class UnlikeThePlan:
    """Looks at a series, tick after tick.

    Args:
        purpose: The part of the series.
        known: Rows that were released before.

    Example:
        >>> import datetime as dt
        >>> part = Purpose("buyers", 0.4, 8, 3.0, strategy="window:4", seen=(10.0, 20.0))
        >>> series = UnlikeThePlan(part)
        >>> ticks = [[Row("buyers", day, "n", 25.0 + 3 * day, error=4.0)] for day in range(8)]
        >>> [series.after(rows) for rows in ticks][4]
        'buyers: the last 2 ticks have 35.5 on average, and the plan was made for 10 to 20'
    """

    def __init__(self, purpose: Purpose, known: pa.Table | None = None) -> None:
        self._name, self._seen = purpose.name, purpose.seen
        self._latest: deque[tuple[float, float]] = deque(maxlen=window_of(purpose.ticks))
        self._told = False
        if known is not None:
            some = known.filter(pc.equal(known["series"], self._name))
            for tick in some["tick"].unique().sort()[-_WINDOW - 1 :]:
                rows = some.filter(pc.equal(some["tick"], tick))
                self.after([_row(row) for row in rows.to_pylist()])

    def after(self, rows: Sequence[Row]) -> str:
        """Take in the rows of a tick; return what is to be said, once: "" for nothing."""
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
