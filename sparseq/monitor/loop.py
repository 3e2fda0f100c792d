"""The loop: one tick after the other, every source asked once a tick.

Privacy is none of its business: a source asks the store, whose step charges and releases, and what
is asked next depends on nothing but the clock of the data and what was released.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparseq.errors import StoreError
from sparseq.monitor.output import SeriesFile
from sparseq.monitor.rows import Row, as_table, schema_of
from sparseq.monitor.series import Source
from sparseq.monitor.ticks import Tick, Ticks
from sparseq.store import Store


@dataclass(frozen=True)
class Ticked:
    """A tick that is done, and the rows of all sources; `again`: all of it was released before."""

    tick: Tick
    rows: Sequence[Row]
    again: bool


class Monitor:
    """Asks every source once a tick, and keeps the series in a file.

    Args:
        store: Whose journal is the truth about what was released.
        ticks: When.
        sources: What; asked in this order.
        out: The file, .parquet, .csv or .jsonl; None keeps none.

    Raises:
        StoreError: The file has answers that the store did not give.
    """

    def __init__(
        self, store: Store, ticks: Ticks, sources: Sequence[Source], out: Path | None = None
    ) -> None:
        self.ticks, self.sources = ticks, sources
        self.schema = schema_of([k for s in sources for k in s.group_keys()], ticks.whole_days)
        self._store = store
        self._file = SeriesFile(out, self.schema) if out is not None else None
        self._known = self._file.known() if self._file is not None else {}
        self._check_known()

    def run(self, ticks: Iterable[Tick] | None = None) -> Iterator[Ticked]:
        """Answer ticks, by default all; yield each when it is done.

        Ticks that the file has are passed over; of the others, what was released before is read
        back from the journal, free of charge, and the rest is asked.
        """
        for tick in self.ticks if ticks is None else ticks:
            missing = [s for s in self.sources if (s.name, tick.label) not in self._known]
            if not missing:
                continue
            before = self._store.releases
            rows = [row for source in missing for row in source.rows(tick)]
            if self._file is not None:
                self._file.append(as_table(rows, self.schema))
            self._known.update({(s.name, tick.label): set() for s in missing})
            yield Ticked(tick, rows, self._store.releases == before)

    def flush(self) -> None:
        """Have everything that is done in the file."""
        if self._file is not None:
            self._file.flush()

    def _check_known(self) -> None:
        for (series, label), releases in self._known.items():
            ids = {self._store.release_of(f"monitor/{series}/{label}")}
            if not releases <= ids:
                raise StoreError(
                    f"{self._file.path if self._file else ''} has an answer of {series} for "
                    f"{label} that this store did not give",
                    "it belongs to another store, or to an older copy; give another --out",
                )
