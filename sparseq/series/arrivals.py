"""Rows that arrive while a stream goes on: each arrival is taken in once, and completes ticks.

Which ticks are complete must be public, because the number of answers is. So it is said from
outside (by the name of a file, by a broker's own watermark, by the clock), and never found by
looking for the latest row: one person's row, dated next year, would complete every tick until then.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sparseq.base.errors import DataError
from sparseq.store.store import Store


@dataclass(frozen=True)
class Arrival:
    """Rows to take in, once.

    Attributes:
        rows: An Arrow record batch or table, or paths of files.
        key: Stands for these rows, for ever: a file's name, a broker's partition and offset.
        upto: With these rows, the data up to this moment are complete. Public. None: says nothing.
        note: More to remember beside the key.
        refused: Told when a file's frame is wrong; nothing of it was taken in. None: it raises.
    """

    rows: Any
    key: str
    upto: dt.datetime | None = None
    note: Mapping[str, Any] = field(default_factory=dict)
    refused: Callable[[DataError], None] | None = None


class Inbox:
    """What has been taken into one table: the store's own record, so that a crash can't forget it.

    Args:
        store: Where rows go.
        table: Which private table.
    """

    def __init__(self, store: Store, table: str) -> None:
        self._store, self._table = store, table
        self._corrects = bool(store.catalog.table(table).row_key)
        self._prefix = f"monitor/{table}/"
        self.notes: dict[str, dict[str, Any]] = {
            key.removeprefix(self._prefix): json.loads(note)
            for key, note in store.taken().items()
            if key.startswith(self._prefix)
        }
        """By key: what was noted when its rows were taken in."""
        self._aside = f"set aside/{table}/"
        aside = [
            json.loads(note) for key, note in store.taken().items() if key.startswith(self._aside)
        ]
        moments = [n["upto"] for n in (*self.notes.values(), *aside) if n.get("upto")]
        self.upto = max(map(dt.datetime.fromisoformat, moments), default=None)
        """The data up to this moment are complete."""

    def take(self, arrival: Arrival, late: bool = False) -> bool:
        """Take in rows, all or none, unless they were taken in before; tell whether they were now.

        The rows and the record that they were taken in are one transaction; so is that they may be
        about ticks that were answered: because they are `late`, because nothing says up to when
        they go, or because in a table with a row key they may replace any others. All of this is
        public, and the rows are not looked at for it.

        What is refused is remembered as well, with what it completes: a name decides which ticks
        are complete, never what a file holds.
        """
        if arrival.key in self.notes:
            return False
        upto = arrival.upto.isoformat() if arrival.upto is not None else None
        note = {**arrival.note, "upto": upto}
        try:
            self._store.ingest(
                arrival.rows,
                self._table,
                once=self._prefix + arrival.key,
                note=json.dumps(note),
                late=late or upto is None or self._corrects,
            )
        except DataError as error:
            if arrival.refused is None:
                raise
            # It completes its ticks all the same: its name says so.
            self._store.remember(self._aside + arrival.key, json.dumps(note))
            arrival.refused(error)
            self._complete(arrival.upto)
            return False
        self.notes[arrival.key] = note
        self._complete(arrival.upto)
        return True

    def _complete(self, upto: dt.datetime | None) -> None:
        if upto is not None:
            self.upto = max(self.upto or upto, upto)

    def tell_curator(self, message: str) -> None:
        """Write a line to the curator's log: private."""
        self._store.tell_curator("arrival", f"{self._table}: {message}")
