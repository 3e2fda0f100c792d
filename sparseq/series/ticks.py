"""Ticks: the days, hours or weeks of a monitored stream, one after the other."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass

from sparseq.base.errors import ParameterError
from sparseq.sql.parameters import Value

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Tick:
    """One period of time, from `start` to `end`, without `end`.

    Attributes:
        number: 0 for the first tick.
        label: Its start as ISO text; it names the tick in request ids and files.
    """

    number: int
    start: dt.datetime
    end: dt.datetime
    label: str


@dataclass(frozen=True)
class Ticks:
    """Ticks of one length, from `first` on; `last` is the last tick's start, or None for no end.

    Args:
        first: Start of the first tick.
        every: Length, such as `1d`, `1h`, `1w` or `15m`.
        last: A moment in the last tick.

    Raises:
        ParameterError: The length can't be read, or the last tick is before the first.

    Example:
        >>> days = Ticks(dt.datetime(2024, 2, 28), "1d", dt.datetime(2024, 3, 1))
        >>> [tick.label for tick in days], days[2].number, days.whole_days
        (['2024-02-28', '2024-02-29', '2024-03-01'], 2, True)
    """

    first: dt.datetime
    every: str = "1d"
    last: dt.datetime | None = None

    def __post_init__(self) -> None:
        try:
            self.first + self.length
        except OverflowError:
            raise ParameterError(
                f"a tick of {self.every} from {self.first} on would end after the year 9999"
            ) from None
        if self.last is not None and self.last < self.first:
            raise ParameterError(
                f"the last tick ({self.last}) is before the first ({self.first})", "--from D --to D"
            )

    @property
    def length(self) -> dt.timedelta:
        """The length of a tick."""
        length = length_of(self.every, "--every")
        if not length:
            raise ParameterError("--every 0: a tick must have a length", "1d, 1h, 1w")
        return length

    @property
    def whole_days(self) -> bool:
        """True if every tick starts at midnight, so that dates can name the ticks."""
        return self.length % _DAY == dt.timedelta() and self.first.time() == dt.time()

    def __getitem__(self, number: int) -> Tick:
        try:
            start = self.first + number * self.length
            end = start + self.length
        except OverflowError:
            raise IndexError(number) from None
        if self.last is not None and start > self.last:
            raise IndexError(number)
        label = start.date().isoformat() if self.whole_days else start.isoformat()
        return Tick(number, start, end, label)

    def __iter__(self) -> Iterator[Tick]:
        number = 0
        while True:
            try:
                yield self[number]
            except IndexError:
                return
            number += 1

    def ended_by(self, moment: dt.datetime) -> int:
        """Return the number of ticks that have ended at `moment`.

        >>> Ticks(dt.datetime(2024, 1, 1), "1d").ended_by(dt.datetime(2024, 1, 3, 12))
        2
        """
        ended = max((moment - self.first) // self.length, 0)
        return ended if self.last is None else min(ended, len(self))

    def __len__(self) -> int:
        """Return the number of ticks.

        Raises:
            ParameterError: The ticks have no end.
        """
        if self.last is None:
            raise ParameterError("the ticks have no end", "give a last one")
        return int((self.last - self.first) // self.length) + 1

    def __bool__(self) -> bool:
        return True


def length_of(text: str, option: str) -> dt.timedelta:
    """Return a length of time, such as `1d`, `36h`, `0d`.

    Raises:
        ParameterError: It can't be read; the message names the option.
    """
    match = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    if match is None:
        raise ParameterError(
            f"{option} {text!r} is not a length of time", "1d, 1h, 1w, 15m and the like"
        )
    return dt.timedelta(**{_UNITS[match[2]]: int(match[1])})


def moment(text: str) -> dt.datetime:
    """Return the moment of an ISO text; a date means its midnight.

    Raises:
        ParameterError: It can't be read, or has a time zone.

    >>> moment("1997-01-01")
    datetime.datetime(1997, 1, 1, 0, 0)
    """
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ParameterError(
            f"{text!r} is not a date", "write 1997-01-31, or 1997-01-31T06:00"
        ) from None
    if found.tzinfo is not None:
        raise ParameterError(f"{text!r} has a time zone", "write the time as it is in the data")
    return found


TICK_STARTS = ("tick", "day", "hour", "week")
"""Parameters for a tick's start; with the prefix `next_`, for its end."""
TICK_PARAMETERS = frozenset([*TICK_STARTS, *(f"next_{name}" for name in TICK_STARTS)])


def tick_parameters(tick: Tick, whole_days: bool) -> dict[str, Value]:
    """Return the parameters of a tick: dates if all ticks start at midnight."""
    start: Value = tick.start.date() if whole_days else tick.start
    end: Value = tick.end.date() if whole_days else tick.end
    return dict.fromkeys(TICK_STARTS, start) | {f"next_{name}": end for name in TICK_STARTS}
