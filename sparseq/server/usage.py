"""Quotas used by each name, told from the lines of the audit log.

One function reads a line, whether it was written long ago or just now, so a server that begins
knows what it knew when it stopped. What is counted by the day is counted by a clock of its own,
`clock`: seconds in which a server ran, by a clock that nobody sets, and between two runs what the
machine's clock says has passed. So a clock that jumps forwards or back while a server runs changes
no quota, and one that was set back between two runs gives nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sparseq.ledger.protocol import Loss
from sparseq.server.audit import SUM, AuditLog

DAY = 86400.0
_STEP = 600  # seconds that are counted together
_LOSS = "loss accepted"


@dataclass
class DayCount:
    """How often something happened within 24 hours: never less, and of up to ten minutes more.

    Attributes:
        steps: How often, by the ten minutes in which it was.

    Example:
        >>> count = DayCount()
        >>> count.add(0.0), count.add(7000.0), count.total(DAY), count.total(DAY + 600)
        (None, None, 2, 1)
        >>> count.wait(DAY, 2)
        600.0
    """

    steps: dict[int, int] = field(default_factory=dict)

    def add(self, clock: float) -> None:
        """Count one at this moment."""
        steps, step = dict(self.held(clock)), int(clock // _STEP)
        self.steps = steps | {step: steps.get(step, 0) + 1}  # others may read it meanwhile

    def total(self, clock: float) -> int:
        """Return how often it was in the 24 hours before this moment."""
        return sum(number for _, number in self.held(clock))

    def held(self, clock: float) -> list[tuple[int, int]]:
        """Return what counts at this moment, oldest first."""
        return sorted((step, n) for step, n in self.steps.items() if _ends(step) > clock)

    def wait(self, clock: float, most: int) -> float:
        """Return the seconds until there are fewer than so many, of at least one."""
        left = self.total(clock)
        for step, number in self.held(clock):
            left -= number
            if left < most:
                return _ends(step) - clock
        return 0.0


def _ends(step: int) -> float:
    """Return when the last moment of these ten minutes is a day ago."""
    return (step + 1) * _STEP + DAY


@dataclass
class Usage:
    """What a name has had.

    Attributes:
        answers: New answers, by the day.
        refused: Questions that were refused, by the day.
        price: What all its answers may have cost a person together.
        asking, asking_price: Answers that were admitted and are not made yet, and their prices.
    """

    answers: DayCount = field(default_factory=DayCount)
    refused: DayCount = field(default_factory=DayCount)
    price: float = 0.0
    asking: int = 0
    asking_price: float = 0.0


@dataclass
class QuotaTotals:
    """What the lines of an audit log add up to.

    Attributes:
        clock: When the last line was, in seconds that nobody sets; see above.
        at: When it was by the machine's clock.
        known: Lines have `clock`: those without are of other processes, and set nothing.
        release: The last answer that the log knows of.
        used: What each name has had.
        losses: Times that are in the log when a store was opened with charges missing.
    """

    clock: float = 0.0
    at: dt.datetime | None = None
    known: bool = False
    release: int = 0
    used: dict[str, Usage] = field(default_factory=dict)
    losses: set[tuple[str, int]] = field(default_factory=set)

    @classmethod
    def of(cls, log: AuditLog) -> QuotaTotals:
        """Read what a log adds up to."""
        found = cls()
        for line in log.since_sum():
            found.take(line)
        return found

    def begin(self, now: dt.datetime) -> float:
        """Return what `clock` is now, by the machine's clock."""
        return self.clock if self.at is None else self.clock + _passed(self.at, now)

    def take(self, line: Mapping[str, Any]) -> None:
        """Add a line. One that nobody can have written counts for nothing."""
        try:
            self._time(line)
            what, who, release = line["what"], str(line.get("who", "")), line.get("release")
            if isinstance(release, int):
                self.release = max(self.release, release)
            if what == SUM:
                self._begin_with(line)
            elif what in ("asked", "found", "refused") and not line.get("repeat"):
                usage = self.usage(who)
                if what == "refused":
                    usage.refused.add(self.clock)
                if what != "refused" or "price" in line:  # nobody can tell whether it was answered
                    usage.answers.add(self.clock)
                    usage.price += float(line.get("price") or 0.0)
            elif what == _LOSS:
                self.losses.add((str(line["since"]), int(line["after"])))
        except (KeyError, TypeError, ValueError, AttributeError):
            return  # `verify` tells that it was changed

    def usage(self, name: str) -> Usage:
        """Return what a name has had."""
        return self.used.setdefault(name, Usage())

    def line(self) -> dict[str, Any]:
        """Return all of it as a line of the log, from which `take` knows it again."""
        return {
            "clock": self.clock,
            "release": self.release,
            "losses": sorted(self.losses),
            "used": {
                name: [one.answers.held(self.clock), one.refused.held(self.clock), one.price]
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
        self.losses = {(str(since), int(after)) for since, after in line["losses"]}
        self.used = {
            str(name): Usage(_counted(answers), _counted(refused), float(price))
            for name, (answers, refused, price) in line["used"].items()
        }


def _passed(since: dt.datetime, until: dt.datetime) -> float:
    return max((until - since).total_seconds(), 0.0)


def _counted(steps: Iterable[tuple[int, int]]) -> DayCount:
    return DayCount({int(step): int(number) for step, number in steps})


def tell_losses(log: AuditLog, losses: Iterable[Loss], known: QuotaTotals | None = None) -> None:
    """Write down where a store was opened although charges were missing, unless that is known."""
    told = (known or QuotaTotals.of(log)).losses
    log.add(
        {"what": _LOSS, "who": "", "since": loss.at, "after": loss.after, "missing": loss.missing}
        for loss in losses
        if (loss.at, loss.after) not in told
    )
