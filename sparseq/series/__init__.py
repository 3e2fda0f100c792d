"""Continual monitoring: the same questions, tick after tick, while data arrive."""

from typing import TYPE_CHECKING

from sparseq.base.import_names import lazy

if TYPE_CHECKING:
    from sparseq.series.companions import series_of
    from sparseq.series.folder import Arrival, Inbox
    from sparseq.series.loop import Monitor, TickResult
    from sparseq.series.query_series import QuerySeries
    from sparseq.series.series_file import Row
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
        "Arrival": "sparseq.series.folder",
        "WatchEstimate": "sparseq.series.watch",
        "Inbox": "sparseq.series.folder",
        "Monitor": "sparseq.series.loop",
        "series_of": "sparseq.series.companions",
        "QuerySeries": "sparseq.series.query_series",
        "QueryText": "sparseq.sql.parameters",
        "Row": "sparseq.series.series_file",
        "Tick": "sparseq.series.ticks",
        "TickResult": "sparseq.series.loop",
        "Ticks": "sparseq.series.ticks",
    },
)
