"""Notes of forecasts in the ledger: the releases of a series and (private) what users left.

    forecast            one row per series: its settings; public
    forecast_release    the releases that are a series' answers and rows, tick by tick; public
    forecast_counted    revision of the rows (`Storage.revision`) for forecast_seen; public
    forecast_seen       private: what every user of a series has contributed, tick by tick
    forecast_left       private: what departed users have left, counter by counter, one row per
                        coordinate, and the rate that it was made from
    forecast_part_time  private: weights that users of former series have announced

Every change is written in the transaction of a release (`Ledger.commit`), so that neither exists
without the other; or in the transaction of a recount, of all ticks together with the revision.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparseq.ledger.accounts import Index, Ints
from sparseq.ledger.notes import USER, NoteRows, NoteTable
from sparseq.ledger.protocol import Ledger

_STORED = {"cap": "clip"}
"""Names under which stores keep settings that were renamed."""
_TODAY = {stored: name for name, stored in _STORED.items()}
BEGUN = NoteTable("forecast", {"series": "VARCHAR", "settings": "VARCHAR"})
RELEASED = NoteTable(
    "forecast_release",
    {"series": "VARCHAR", "tick": "BIGINT", "is_row": "BOOLEAN", "release": "BIGINT"},
)
COUNTED = NoteTable("forecast_counted", {"series": "VARCHAR", "revision": "BIGINT"})
SEEN = NoteTable(
    "forecast_seen",
    {
        "series": "VARCHAR",
        "tick": "BIGINT",
        USER: "INTEGER",
        "coordinate": "INTEGER",
        "value": "DOUBLE",
    },
)
LEFT = NoteTable(
    "forecast_left",
    {
        "series": "VARCHAR",
        "counter": "BIGINT",
        "tick": "BIGINT",
        USER: "INTEGER",
        "coordinate": "INTEGER",
        "rate": "DOUBLE",
        "steps": "BIGINT",
    },
)
PART_TIME = NoteTable(
    "forecast_part_time",
    {"series": "VARCHAR", "tick": "BIGINT", USER: "INTEGER", "weight": "BIGINT"},
)
Seen = tuple[int, Index, Index, NDArray[np.float64]]
"""A tick and its contributions: users, coordinates, values."""


def forget_forecasts(ledger: Ledger, users: Sequence[int]) -> None:
    """Erase the contributions and forecasts of some users, in a transaction of the caller.

    They stay departed, with a forecast of 0. The notes are written again, so that no erased value
    stays in the file.
    """
    them = pa.array(users, pa.int32())

    def without(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pc.invert(pc.is_in(batch[USER], them)))

    def with_nothing(*columns: str) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        def change(batch: pa.RecordBatch) -> pa.RecordBatch:
            theirs = pc.is_in(batch[USER], them)
            for name in columns:
                at = batch.schema.get_field_index(name)
                field = batch.schema.field(at)
                nothing = pc.if_else(theirs, pa.scalar(0, field.type), batch[name])
                batch = batch.set_column(at, field, nothing)
            return batch

        return change

    ledger.rewrite(SEEN, without)
    ledger.rewrite(PART_TIME, with_nothing("weight"))
    ledger.rewrite(LEFT, with_nothing("rate", "steps"))


@dataclass(frozen=True)
class CounterRows:
    """Forecasts of departed users in one counter: one row per user and coordinate, users ascending.

    `ticks` are the counter's own, from 0; `rates` are in the query's unit, `steps` on the lattice.
    """

    users: Index
    coordinates: Index
    ticks: Ints
    rates: NDArray[np.float64]
    steps: Ints

    @classmethod
    def nothing(cls) -> CounterRows:
        """Return the rows before any user has departed: none."""
        none = np.zeros(0, np.int64)
        return cls(none.astype(np.int32), none.astype(np.int32), none, none.astype(float), none)

    def joined(self, other: CounterRows) -> CounterRows:
        """Return the rows of both, sorted by user and coordinate."""
        pairs = zip(self.__dict__.values(), other.__dict__.values(), strict=True)
        users, coordinates, ticks, rates, steps = (np.concatenate(p) for p in pairs)
        order = np.lexsort((coordinates, users))
        return CounterRows(*(x[order] for x in (users, coordinates, ticks, rates, steps)))


def _rename(settings: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in settings.items()}


class ForecastNotes:
    """The notes of one series."""

    def __init__(self, ledger: Ledger, series: str) -> None:
        self._ledger = ledger
        self.series = series

    def settings(self) -> dict[str, Any] | None:
        """Return the settings that the series was begun with, or None."""
        return self.all_settings().get(self.series)

    def all_settings(self) -> dict[str, dict[str, Any]]:
        """Return the settings that every series was begun with."""
        rows = self._ledger.notes(BEGUN).to_pylist()
        begun = {row["series"]: json.loads(row["settings"]) for row in rows}
        return {name: _rename(told, _TODAY) for name, told in begun.items()}

    def begin(self, settings: dict[str, Any]) -> NoteRows:
        """Return the note of a new series' settings."""
        return BEGUN.rows(series=self.series, settings=json.dumps(_rename(settings, _STORED)))

    def releases(self, rows: bool) -> dict[int, int]:
        """Return the release of every tick: of the answers, or of the counter's rows."""
        notes = self._ledger.notes(RELEASED, series=self.series, is_row=rows).sort_by("tick")
        return dict(zip(notes["tick"].to_pylist(), notes["release"].to_pylist(), strict=True))

    def released(self, tick: int, is_row: bool, release: int) -> NoteRows:
        """Return the note of the release that is a tick's answer or row."""
        return RELEASED.rows(series=self.series, tick=tick, is_row=is_row, release=release)

    def seen(self, users: Index) -> tuple[Index, Ints, Index, NDArray[np.float64]]:
        """Return the contributions of `users`: user, tick, coordinate, value, in that order."""
        notes = self._ledger.notes(SEEN, users, series=self.series)
        notes = notes.sort_by([(name, "ascending") for name in (USER, "coordinate", "tick")])
        user, tick, coordinate, value = (
            notes[name].to_numpy() for name in (USER, "tick", "coordinate", "value")
        )
        return user, tick, coordinate, value

    def left(self, counter: int) -> CounterRows:
        """Return the forecasts that departed users have left in a counter."""
        notes = self._ledger.notes(LEFT, series=self.series, counter=counter)
        notes = notes.sort_by([(USER, "ascending"), ("coordinate", "ascending")])
        names = (USER, "coordinate", "tick", "rate", "steps")
        return CounterRows(*(notes[name].to_numpy() for name in names))

    def remember_seen(
        self, tick: int, users: Index, coordinates: Index, values: NDArray[np.float64]
    ) -> NoteRows:
        """Return the note of a tick's contributions."""
        people = {USER: np.asarray(users)}
        return SEEN.rows(
            series=self.series, tick=tick, coordinate=coordinates, value=values, **people
        )

    def remember_left(self, counter: int, left: CounterRows) -> NoteRows:
        """Return the note of the forecasts that users leave."""
        return LEFT.rows(
            series=self.series,
            counter=counter,
            tick=left.ticks,
            coordinate=left.coordinates,
            rate=left.rates,
            steps=left.steps,
            **{USER: left.users},
        )

    @property
    def counted(self) -> int:
        """Revision of the rows in which the ticks were counted."""
        revisions = self._ledger.notes(COUNTED, series=self.series)["revision"].to_pylist()
        return max(revisions, default=0)

    def count_of(self, revision: int) -> NoteRows:
        """Return the note of the revision in which the ticks were counted."""
        return COUNTED.rows(series=self.series, revision=revision)

    def recount(self, revision: int, departed: Index, ticks: Iterable[Seen]) -> None:
        """Replace the recorded contributions, except for departed users, in one transaction.

        Args:
            revision: Revision of the rows.
            departed: Users whose contributions stay as they are.
            ticks: Every tick with the contributions of the other users.
        """

        def write() -> None:
            self._ledger.drop(SEEN, departed, series=self.series)
            for tick in ticks:
                self._ledger.write(self.remember_seen(*tick))
            self._ledger.write(self.count_of(revision))

        self._ledger.in_transaction(write)
