"""Continual monitoring: the same questions, tick after tick, while data arrive."""

from typing import TYPE_CHECKING

from sparseq.facade import lazy

if TYPE_CHECKING:
    from sparseq.monitor.arrivals import Arrival, Inbox
    from sparseq.monitor.beside import series_of
    from sparseq.monitor.loop import Monitor, TickResult
    from sparseq.monitor.rows import Row
    from sparseq.monitor.series import QuerySeries
    from sparseq.monitor.ticks import Tick, Ticks
    from sparseq.monitor.watch import ActiveWatch, WatchEstimate
    from sparseq.query.parameters import QueryText

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
        "ActiveWatch": "sparseq.monitor.watch",
        "Arrival": "sparseq.monitor.arrivals",
        "WatchEstimate": "sparseq.monitor.watch",
        "Inbox": "sparseq.monitor.arrivals",
        "Monitor": "sparseq.monitor.loop",
        "series_of": "sparseq.monitor.beside",
        "QuerySeries": "sparseq.monitor.series",
        "QueryText": "sparseq.query.parameters",
        "Row": "sparseq.monitor.rows",
        "Tick": "sparseq.monitor.ticks",
        "TickResult": "sparseq.monitor.loop",
        "Ticks": "sparseq.monitor.ticks",
    },
)
