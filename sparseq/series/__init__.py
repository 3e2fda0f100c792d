"""Continual monitoring: the same questions, tick after tick, while data arrive."""

from typing import TYPE_CHECKING

from sparseq.base.lazy_names import lazy

if TYPE_CHECKING:
    from sparseq.series.arrivals import Arrival, Inbox
    from sparseq.series.loop import Monitor, TickResult
    from sparseq.series.method_series import series_of
    from sparseq.series.query_series import QuerySeries
    from sparseq.series.series_rows import Row
    from sparseq.series.ticks import Tick, Ticks
    from sparseq.series.watch import ActiveWatch, WatchEstimate
    from sparseq.sql.parameters import QueryText

__all__ = [
    "ActiveWatch",
    "Arrival",
    "Inbox",
    "Monitor",
    "QuerySeries",
    "QueryText",
    "Row",
    "Tick",
    "TickResult",
    "Ticks",
    "WatchEstimate",
    "series_of",
]
__getattr__ = lazy(
    __name__,
    {
        "ActiveWatch": "sparseq.series.watch",
        "Arrival": "sparseq.series.arrivals",
        "WatchEstimate": "sparseq.series.watch",
        "Inbox": "sparseq.series.arrivals",
        "Monitor": "sparseq.series.loop",
        "series_of": "sparseq.series.method_series",
        "QuerySeries": "sparseq.series.query_series",
        "QueryText": "sparseq.sql.parameters",
        "Row": "sparseq.series.series_rows",
        "Tick": "sparseq.series.ticks",
        "TickResult": "sparseq.series.loop",
        "Ticks": "sparseq.series.ticks",
    },
)
