"""Rows that arrive while a stream goes on: each arrival is loaded once, and completes ticks.

The set of complete ticks must be public, because the number of answers is. It is declared from
outside (by the name of a file, by a broker's watermark or by the clock). It is never derived from
the latest row: one person's row, dated next year, would complete every tick until then.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sparseq.base.errors import DataError, ParameterError
from sparseq.base.texts import shown
from sparseq.store.store import Store


@dataclass(frozen=True)
class Arrival:
    """Rows to load, once.

    Attributes:
        rows: An Arrow record batch or table, or paths of files.
        key: Identifies these rows for ever: a file's name, a broker's partition and offset.
        upto: With these rows, the data up to this moment are complete. Public. None: unknown.
        note: Further facts to store with the key.
        refused: Called if a file's frame is wrong; none of its rows were loaded. None: it raises.
    """

    rows: Any
    key: str
    upto: dt.datetime | None = None
    note: Mapping[str, Any] = field(default_factory=dict)
    refused: Callable[[DataError], None] | None = None


_HELD = "complete up to"
"""Key in the note of a file that was set aside: the moment up to which data are complete without
it; None: not at all."""


class Inbox:
    """The files loaded into one table: the store's own record, so that a crash cannot lose it.

    Args:
        store: Store that receives the rows.
        table: Name of the private table.
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
        """By key: the note written when the rows were loaded."""
        self._aside = f"set aside/{table}/"
        self._held: dict[str, dict[str, Any]] = {
            key.removeprefix(self._aside): json.loads(note)
            for key, note in store.taken().items()
            if key.startswith(self._aside)
        }
        moments = [n["upto"] for n in (*self.notes.values(), *self._held.values()) if n.get("upto")]
        self.upto = max(map(dt.datetime.fromisoformat, moments), default=None)
        """True if names of files declare that the data up to a moment are there."""

    @property
    def held(self) -> list[str]:
        """Keys of the files that were set aside and are neither mended nor skipped."""
        return [key for key, note in self._held.items() if _HELD in note and key not in self.notes]

    @property
    def complete(self) -> dt.datetime | None:
        """Moment up to which the data are complete: no file before it was set aside."""
        found = [self._held[key][_HELD] for key in self.held]
        if self.upto is None or None in found:
            return None
        return min([self.upto, *map(dt.datetime.fromisoformat, found)])

    def skip(self, key: str) -> None:
        """Answer ticks without the rows of a file that was set aside.

        Raises:
            ParameterError: No file with this key holds ticks back.
        """
        if key not in self.held:
            raise ParameterError(
                f"{shown(key)} holds no ticks back",
                f"those that do: {', '.join(map(shown, self.held)) or 'none'}",
            )
        self._held[key].pop(_HELD)
        self._store.remember(self._aside + key, json.dumps(self._held[key]))
        self.tell_curator(f"{shown(key)} is skipped: ticks are answered without it")

    def take(self, arrival: Arrival, late: bool = False) -> bool:
        """Load rows, all or none, unless they were loaded before; return True if they are new.

        One transaction holds the rows, the record that they were loaded, and the note that they
        may be about ticks that were answered: because they are `late`, because no moment is
        declared for them, or because in a table with a row key they may replace any other row. All
        of this is public, and is decided without reading the rows.

        A refused file is recorded as well: no tick from its first tick on is complete, unless it
        was answered before.
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
            if arrival.upto is not None and not late:
                note[_HELD] = self._held_moment(arrival.upto)
            self._held[arrival.key] = note
            self._store.remember(self._aside + arrival.key, json.dumps(note))
            arrival.refused(error)
            self._extend(arrival.upto)
            return False
        self.notes[arrival.key] = note
        self._extend(arrival.upto)
        return True

    def _held_moment(self, upto: dt.datetime) -> str | None:
        """Return the moment up to which data are complete without a file with rows up to `upto`."""
        before = self.complete
        if before is None:
            return None
        return min(before, upto - dt.timedelta(microseconds=1)).isoformat()

    def _extend(self, upto: dt.datetime | None) -> None:
        if upto is not None:
            self.upto = max(self.upto or upto, upto)

    def tell_curator(self, message: str) -> None:
        """Write a line to the curator's log: private."""
        self._store.tell_curator("arrival", f"{self._table}: {message}")
