"""Continual monitoring: the same questions, tick after tick, while data arrive."""

from sparseq.monitor.arrivals import Arrival, Inbox
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
]
