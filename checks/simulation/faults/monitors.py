"""Faults of monitors."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

import pyarrow as pa

from checks.simulation.faults.registry import MONITORS, Place, plant
from sparseq.ledger.request_id import RequestId
from sparseq.series import query_series
from sparseq.series.series_file import CsvFormat, SeriesFile
from sparseq.store.store import Store


@plant(*MONITORS)
def tick_asked_anew() -> list[Place]:
    """A tick has another name each time, so its earlier answer is not found."""
    named = query_series.tick_request

    def anew(series: str, tick: Any, query: Any) -> RequestId:
        return replace(named(series, tick, query), question=secrets.token_hex(4))

    return [(query_series, "tick_request", anew)]


@plant(*MONITORS)
def file_taken_twice() -> list[Place]:
    """The note that a file was loaded is written after its rows, in another transaction."""
    ingest = Store.ingest

    def late(self: Store, *given: Any, once: str, note: str, late: bool) -> int:
        rows = ingest(self, *given, once=f"{once}.{secrets.token_hex(4)}", late=late)
        self.remember(once, note)
        return rows

    return [(Store, "ingest", late)]


@plant(*MONITORS)
def series_written_in_place() -> list[Place]:
    """The file of a series is written to where it is, and not flushed."""

    def flush(self: SeriesFile) -> None:
        if self._pending or not self.path.exists():
            rows = pa.concat_tables([self._schema.empty_table(), *self._pending])
            text = CsvFormat().text(rows, head=not self.path.exists())
            with open(self.path, "a") as file:
                file.write(text)
            self._length, self._pending, self._waiting = self._length + self._waiting, [], 0

    return [(SeriesFile, "flush", flush)]
