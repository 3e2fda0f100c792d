"""A series with forecasts: its settings, and what one tick of it gives.

Notes of forecasts in the ledger: which releases are whose, and (private) who left what.

    forecast            one row a series: how it was begun; public
    forecast_release    which releases are a series' answers and rows, tick by tick; public
    forecast_counted    which revision of the rows (`Storage.revision`) is in forecast_seen; public
    forecast_seen       private: what every user of a series has contributed, tick by tick
    forecast_left       private: what departed users have left, counter by counter, one row a
                        coordinate, and the rate that it was made from
    forecast_part_time  private: weights that users of former series have announced

Whatever changes here is written in the transaction of a release (`Ledger.commit`), there is
neither without the other; or in one of a recount, of all ticks and of which revision they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparseq.accounting._numbers import count, in_range
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.ledger.accounts import Index, Ints
from sparseq.ledger.notes import USER, NoteRows, NoteTable
from sparseq.ledger.protocol import Ledger
from sparseq.ledger.purposes import Purpose
from sparseq.mechanisms.toeplitz_counter import MAX_HORIZON
from sparseq.released.outputs import Estimate, Measurements, Outputs
from sparseq.released.render import key_columns
from sparseq.series.methods.corrector import Form
from sparseq.sql.plan import Query
from sparseq.store.answer import Answer

# -- a series with forecasts: its settings, and what one tick of it gives --------------------------

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ForecastTick:
    """One tick of a series.

    Attributes:
        number: The tick.
        active: The answer about the users who have not left the series.
        corrected: The estimate about everybody, (d,).
        forecast: What was added to the answer, (d,).
        noise_error: Bound on the noise in `corrected`, all coordinates at once, at the answer's
            confidence.
        forecast_error: Estimate, not a bound, of how far the forecast may be off, (d,); NaN where
            too little has been released to tell.
        error: How far `corrected` may be from the sums over everybody, (d,): both of these, under
            the assumption that `sparseq.series.methods.corrector` names.
    """

    number: int
    active: Answer
    corrected: Floats
    forecast: Floats
    noise_error: float
    forecast_error: Floats
    error: Floats

    def arrow(self) -> pa.Table:
        """Return the active answer with four columns more."""
        rows = len(self.corrected)
        more = {
            "corrected": pa.array(self.corrected),
            "corrected_error": pa.array(self.error),
            "noise_error": pa.array([self.noise_error] * rows),
            "forecast_error": pa.array(self.forecast_error, mask=np.isnan(self.forecast_error)),
        }
        table = self.active.arrow()
        for name, column in more.items():
            table = table.append_column(name, column)
        return table


def new_settings(
    series: str,
    given: Mapping[str, Any],
    others: Iterable[Mapping[str, Any]],
    purpose: Purpose | None = None,
) -> dict[str, Any]:
    """Return the settings of a series that is begun.

    Args:
        series: Its name.
        given: What was said, None for what was not.
        others: Settings of the other series that share its reserve.
        purpose: Whose part it has, which says some of them.

    Raises:
        ParameterError: A number is missing or out of range, or the others have the reserve.
    """
    if purpose is not None:
        given = _of_purpose(series, given, purpose)
    if given["ticks"] is None:
        raise ParameterError(f"there is no series {series!r} yet", "to begin one, give ticks")
    settings: dict[str, Any] = {
        "ticks": count("ticks", given["ticks"], 1, MAX_HORIZON),
        "form": str(Form.of(given["form"] or "mean")),
        "share": 1.0 if given["share"] is None else given["share"],
        "slices": count("slices", given["slices"] or 1, 1, 1000),
        "cap": 1.0 if given["cap"] is None else given["cap"],
    }
    in_range("share", settings["share"], 0.0, 1.0, open_low=True)
    in_range("cap", settings["cap"], 0.0, 1.0, open_low=True)
    shares = [s["share"] for s in others]
    if sum(map(Fraction, shares), Fraction(settings["share"])) > 1:
        raise ParameterError(
            f"other series have {sum(shares):g} of the reserve; a share of "
            f"{settings['share']:g} is more than is left",
            "give every series a share when it is begun",
        )
    return settings


def _of_purpose(series: str, given: Mapping[str, Any], purpose: Purpose) -> dict[str, Any]:
    """Return what is said of a series that has a part of its own: what the part says.

    Raises:
        ParameterError: It was said otherwise.
    """
    fixed = {"ticks": purpose.ticks, "cap": purpose.cap}
    asked = {name: given[name] for name in fixed if given[name] is not None}
    check_same(series, fixed, asked)
    return {**given, **fixed}


def check_same(series: str, settings: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Check what is said of a series against what it was begun with.

    Raises:
        ParameterError: It is something else.
    """
    for name, value in given.items():
        mine = str(Form.of(value)) if name == "form" else value
        if mine != settings[name]:
            raise ParameterError(
                f"{series!r} was begun with {name} {settings[name]}, not {value}",
                "leave it out, or begin another series",
            )


def column_of(query: Query) -> str:
    """Return the column of the one number a group that a series is of."""
    outputs = query.outputs
    if isinstance(outputs, Outputs) and outputs.least is not None:
        raise QueryRefused(
            "in this store people are counted beside every number, to show none about few of them; "
            "a series with forecasts or a strategy is of one number",
            "take a plain series",
        )
    simple = isinstance(outputs, Outputs) and outputs == Outputs(
        outputs.columns, histogram=outputs.histogram
    )
    if len(query.measures) == 1 and simple:
        probe = np.arange(1.0, query.coordinates + 1)
        noised = Measurements(
            [probe.reshape(query.groups, -1)], [0.0], key_columns(query.domains), query.groups
        )
        columns = [(o.name, o.node(noised)) for o in outputs.columns]
        numbers = [(name, node) for name, node in columns if isinstance(node, Estimate)]
        if len(numbers) == 1:
            name, node = numbers[0]
            expected = noised.measures[0][:, 0]
            if np.array_equal(np.broadcast_to(node.value, query.groups), expected):
                return str(name)
    raise QueryRefused(
        "a series with forecasts has one COUNT or SUM, with or without groups",
        "write SELECT key, count(*) AS n … GROUP BY key; for an average, ask for sum and count",
    )


# -- notes of forecasts in the ledger: which releases are whose, and (private) who left what -------

_STORED = {"cap": "clip"}
"""Names of settings as stores have them."""
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
"""A tick, and what users contributed to it: users, coordinates, values."""


def forget_forecasts(ledger: Ledger, users: Sequence[int]) -> None:
    """Erase what some users have contributed and left, in a transaction of the caller.

    They stay departed, with nothing left behind. The notes are written anew, so that nothing of
    them stays in the file.
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
    """The remains of departed users in one counter, a row a user and coordinate, users ascending.

    `ticks` are the counter's own, from 0; `rates` in the query's unit, `steps` on the lattice.
    """

    users: Index
    coordinates: Index
    ticks: Ints
    rates: NDArray[np.float64]
    steps: Ints

    @classmethod
    def nothing(cls) -> CounterRows:
        """Return what is left before anybody has departed."""
        none = np.zeros(0, np.int64)
        return cls(none.astype(np.int32), none.astype(np.int32), none, none.astype(float), none)

    def joined(self, other: CounterRows) -> CounterRows:
        """Return both, by user and coordinate."""
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
        """Return how the series was begun, or None."""
        return self.all_settings().get(self.series)

    def all_settings(self) -> dict[str, dict[str, Any]]:
        """Return how every series was begun."""
        rows = self._ledger.notes(BEGUN).to_pylist()
        begun = {row["series"]: json.loads(row["settings"]) for row in rows}
        return {name: _rename(told, _TODAY) for name, told in begun.items()}

    def begin(self, settings: dict[str, Any]) -> NoteRows:
        """Return what remembers how the series is begun."""
        return BEGUN.rows(series=self.series, settings=json.dumps(_rename(settings, _STORED)))

    def releases(self, rows: bool) -> dict[int, int]:
        """Return the release of every tick: the answers, or the counter's rows."""
        notes = self._ledger.notes(RELEASED, series=self.series, is_row=rows).sort_by("tick")
        return dict(zip(notes["tick"].to_pylist(), notes["release"].to_pylist(), strict=True))

    def released(self, tick: int, is_row: bool, release: int) -> NoteRows:
        """Return what remembers which release a tick's answer or row is."""
        return RELEASED.rows(series=self.series, tick=tick, is_row=is_row, release=release)

    def seen(self, users: Index) -> tuple[Index, Ints, Index, NDArray[np.float64]]:
        """Return what `users` have contributed: user, tick, coordinate, value, in that order."""
        notes = self._ledger.notes(SEEN, users, series=self.series)
        notes = notes.sort_by([(name, "ascending") for name in (USER, "coordinate", "tick")])
        user, tick, coordinate, value = (
            notes[name].to_numpy() for name in (USER, "tick", "coordinate", "value")
        )
        return user, tick, coordinate, value

    def left(self, counter: int) -> CounterRows:
        """Return what departed users have left in a counter."""
        notes = self._ledger.notes(LEFT, series=self.series, counter=counter)
        notes = notes.sort_by([(USER, "ascending"), ("coordinate", "ascending")])
        names = (USER, "coordinate", "tick", "rate", "steps")
        return CounterRows(*(notes[name].to_numpy() for name in names))

    def remember_seen(
        self, tick: int, users: Index, coordinates: Index, values: NDArray[np.float64]
    ) -> NoteRows:
        """Return what writes a tick's contributions."""
        people = {USER: np.asarray(users)}
        return SEEN.rows(
            series=self.series, tick=tick, coordinate=coordinates, value=values, **people
        )

    def remember_left(self, counter: int, left: CounterRows) -> NoteRows:
        """Return what writes what users leave."""
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
        """The revision of the rows in which the ticks were counted."""
        revisions = self._ledger.notes(COUNTED, series=self.series)["revision"].to_pylist()
        return max(revisions, default=0)

    def count_of(self, revision: int) -> NoteRows:
        """Return what remembers which revision of the rows the ticks have been counted in."""
        return COUNTED.rows(series=self.series, revision=revision)

    def recount(self, revision: int, departed: Index, ticks: Iterable[Seen]) -> None:
        """Replace what was seen, but for departed users, in one transaction.

        Args:
            revision: Of the rows.
            departed: Whom to leave as they are.
            ticks: Every tick, and what the other users contribute to it.
        """

        def write() -> None:
            self._ledger.drop(SEEN, departed, series=self.series)
            for tick in ticks:
                self._ledger.write(self.remember_seen(*tick))
            self._ledger.write(self.count_of(revision))

        self._ledger.in_transaction(write)
