"""The used quota of each name, computed from the lines of the audit log.

One function processes both old and new lines, so a restarted server has the same totals as before.
Daily counts use a separate clock, `clock`: seconds in which a server ran, by a monotonic clock,
plus the time between two runs by the machine's clock. So a clock that jumps while a server runs
changes no quota, and setting it back between two runs gains nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparseq.ledger.releases import Loss
from sparseq.server.audit import SUM, AuditLog

DAY = 86400.0
MOST_RECENT = 20
"""The number of the latest answers that are remembered for a name."""
_STEP = 600  # seconds that are counted together
_LOSS = "loss accepted"


@dataclass
class DayCount:
    """A count of events within 24 hours: never less, and with up to ten minutes more.

    Attributes:
        steps: The number of events by ten-minute interval.

    Example:
        >>> count = DayCount()
        >>> count.add(0.0), count.add(7000.0), count.total(DAY), count.total(DAY + 600)
        (None, None, 2, 1)
        >>> count.wait(DAY, 2)
        600.0
    """

    steps: dict[int, int] = field(default_factory=dict)

    def add(self, clock: float) -> None:
        """Count one event at this moment."""
        steps, step = dict(self.held(clock)), int(clock // _STEP)
        self.steps = steps | {step: steps.get(step, 0) + 1}  # others may read it meanwhile

    def total(self, clock: float) -> int:
        """Return the number of events in the 24 hours before this moment."""
        return sum(number for _, number in self.held(clock))

    def held(self, clock: float) -> list[tuple[int, int]]:
        """Return the counts at this moment, oldest first."""
        return sorted((step, n) for step, n in self.steps.items() if _ends(step) > clock)

    def wait(self, clock: float, most: int) -> float:
        """Return the seconds until the count, of at least one, is below `most`."""
        left = self.total(clock)
        for step, number in self.held(clock):
            left -= number
            if left < most:
                return _ends(step) - clock
        return 0.0


def _ends(step: int) -> float:
    """Return the moment one day after the end of these ten minutes."""
    return (step + 1) * _STEP + DAY


@dataclass
class Usage:
    """The answers of one name.

    Attributes:
        answers: New answers, by the day.
        refused: Refused questions, by the day.
        price: The sum of the prices of all its answers.
        asking, asking_price: Admitted questions without an answer yet, and the sum of their prices.
        recent: Numbers of its latest answers, the latest last.
    """

    answers: DayCount = field(default_factory=DayCount)
    refused: DayCount = field(default_factory=DayCount)
    price: float = 0.0
    asking: int = 0
    asking_price: float = 0.0
    recent: tuple[int, ...] = ()

    def given(self, release: int) -> None:
        """Record an answer for the name, new or not."""
        others = [number for number in self.recent if number != release]
        self.recent = (*others[1 - MOST_RECENT :], release)


@dataclass
class QuotaTotals:
    """The sums of the lines of an audit log.

    Attributes:
        clock: The time of the last line, in seconds of the separate clock; see above.
        at: The same by the machine's clock.
        known: True if lines have `clock`: those without are of other processes, and set nothing.
        release: The last answer in the log.
        summed: The last answer before the last line of sums, which includes all before.
        told: Answers with lines since then.
        used: The use of each name.
        losses: Times in the log at which a store was opened with missing charges.
    """

    clock: float = 0.0
    at: dt.datetime | None = None
    known: bool = False
    release: int = 0
    summed: int = 0
    told: set[int] = field(default_factory=set)
    used: dict[str, Usage] = field(default_factory=dict)
    losses: set[tuple[str, int]] = field(default_factory=set)

    @classmethod
    def of(cls, log: AuditLog) -> QuotaTotals:
        """Read the sums of a log."""
        totals = cls()
        for line in log.since_sum():
            totals.take(line)
        return totals

    def begin(self, now: dt.datetime) -> float:
        """Return the current `clock`, by the machine's clock."""
        passed = 0.0 if self.at is None else (now - self.at).total_seconds()
        return self.clock + max(passed, 0.0)

    def take(self, line: Mapping[str, Any]) -> None:
        """Add a line. A line that no server can have written is ignored."""
        try:
            self._time(line)
            event, who, release = line["what"], str(line.get("who", "")), line.get("release")
            if isinstance(release, int):
                if event in ("asked", "found"):
                    self.usage(who).given(release)
                if not line.get("repeat"):
                    self.release = max(self.release, release)
                    self.told.add(release)
            if event == SUM:
                self._begin_with(line)
            elif event in ("asked", "found", "refused") and not line.get("repeat"):
                usage = self.usage(who)
                if event == "refused":
                    usage.refused.add(self.clock)
                if event != "refused" or "price" in line:  # it is unknown whether it was answered
                    usage.answers.add(self.clock)
                    usage.price += float(line.get("price") or 0.0)
            elif event == _LOSS:
                self.losses.add((str(line["since"]), int(line["after"])))
        except (KeyError, TypeError, ValueError, AttributeError):
            return  # `verify` detects the change

    def sum_up(self) -> None:
        """Record a line of sums: it includes everything before."""
        self.summed, self.told = self.release, set()

    def untold(self, released: int) -> list[int]:
        """Return the answers without a line in the log, and the names that got them.

        The line of the asker may be missing although another user who got the answer again has one;
        and a loss of power may have removed lines between others.
        """
        return [n for n in range(self.summed + 1, released + 1) if n not in self.told]

    def usage(self, name: str) -> Usage:
        """Return the use of a name."""
        return self.used.setdefault(name, Usage())

    def line(self) -> dict[str, Any]:
        """Return all sums as a line of the log, from which `take` restores them."""
        return {
            "clock": self.clock,
            "release": self.release,
            "losses": sorted(self.losses),
            "used": {
                name: [
                    one.answers.held(self.clock),
                    one.refused.held(self.clock),
                    one.price,
                    one.recent,
                ]
                for name, one in list(self.used.items())
            },
        }

    def _time(self, line: Mapping[str, Any]) -> None:
        at = dt.datetime.fromisoformat(line["at"])
        clock = line.get("clock")
        if clock is not None:
            self.known, self.at, self.clock = True, at, max(self.clock, float(clock))
        elif not self.known:  # a log of an earlier version
            self.at, self.clock = at, self.begin(at)

    def _begin_with(self, line: Mapping[str, Any]) -> None:
        self.sum_up()
        self.losses = {(str(since), int(after)) for since, after in line["losses"]}
        self.used = {
            str(name): Usage(
                _count(answers),
                _count(refused),
                float(price),
                recent=tuple(map(int, *recent or [()])),
            )
            # logs of earlier versions have no recent answers
            for name, (answers, refused, price, *recent) in line["used"].items()
        }


def _count(steps: Iterable[tuple[int, int]]) -> DayCount:
    return DayCount({int(step): int(number) for step, number in steps})


def tell_losses_of(store: Path, losses: Iterable[Loss]) -> None:
    """Record openings of a store with missing charges in the store's audit log."""
    tell_losses(AuditLog.beside(store), losses)


def tell_losses(log: AuditLog, losses: Iterable[Loss], totals: QuotaTotals | None = None) -> None:
    """Record openings of a store with missing charges, unless the log has them."""
    told = (totals or QuotaTotals.of(log)).losses
    log.add(
        {"what": _LOSS, "who": "", "since": loss.at, "after": loss.after, "missing": loss.missing}
        for loss in losses
        if (loss.at, loss.after) not in told
    )
