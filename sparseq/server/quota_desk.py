"""The desk that each question passes in the stream thread: quota before, audit log after.

Both know public facts alone: the price of a question is what it may cost a person at most, told
from its text and the releases so far. Being refused for a quota tells nothing of any row.

Quotas used by each name, told from the lines of the audit log.

One function reads a line, whether it was written long ago or just now, so a server that begins
knows what it knew when it stopped. What is counted by the day is counted by a clock of its own,
`clock`: seconds in which a server ran, by a clock that nobody sets, and between two runs what the
machine's clock says has passed. So a clock that jumps forwards or back while a server runs changes
no quota, and one that was set back between two runs gives nothing.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sparseq.base.errors import QueryCancelError, ServerError, SparseqError, StoreError, Why
from sparseq.ledger.notes import Asker
from sparseq.ledger.protocol import Loss, Release
from sparseq.server.audit import SUM, AuditLog
from sparseq.server.tokens import Principal
from sparseq.store.answer import Answer
from sparseq.store.store import Store
from sparseq.stream.step import Outcome

# -- quotas used by each name, told from the lines of the audit log --------------------------------

DAY = 86400.0
MOST_RECENT = 20
"""Answers of a name that are remembered as its latest."""
_STEP = 600  # seconds that are counted together
_LOSS = "loss accepted"


@dataclass
class DayCount:
    """A count of what happened within 24 hours: never less, and of up to ten minutes more.

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
    """The answers that a name has had.

    Attributes:
        answers: New answers, by the day.
        refused: Questions that were refused, by the day.
        price: What all its answers may have cost a person together.
        asking, asking_price: Answers that were admitted and are not made yet, and their prices.
        recent: Numbers of the answers that it was given last, the latest last.
    """

    answers: DayCount = field(default_factory=DayCount)
    refused: DayCount = field(default_factory=DayCount)
    price: float = 0.0
    asking: int = 0
    asking_price: float = 0.0
    recent: tuple[int, ...] = ()

    def given(self, release: int) -> None:
        """Take note of an answer that it was given, new or not."""
        others = [number for number in self.recent if number != release]
        self.recent = (*others[1 - MOST_RECENT :], release)


@dataclass
class QuotaTotals:
    """The sums of the lines of an audit log.

    Attributes:
        clock: When the last line was, in seconds that nobody sets; see above.
        at: When it was by the machine's clock.
        known: Lines have `clock`: those without are of other processes, and set nothing.
        release: The last answer that the log knows of.
        summed: The last one that its last sum knew of; that has all before, too.
        told: Answers that it has lines of since then.
        used: What each name has had.
        losses: Times that are in the log when a store was opened with charges missing.
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
        """Read what a log adds up to."""
        totals = cls()
        for line in log.since_sum():
            totals.take(line)
        return totals

    def begin(self, now: dt.datetime) -> float:
        """Return what `clock` is now, by the machine's clock."""
        passed = 0.0 if self.at is None else (now - self.at).total_seconds()
        return self.clock + max(passed, 0.0)

    def take(self, line: Mapping[str, Any]) -> None:
        """Add a line. One that nobody can have written counts for nothing."""
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
                if event != "refused" or "price" in line:  # nobody can tell whether it was answered
                    usage.answers.add(self.clock)
                    usage.price += float(line.get("price") or 0.0)
            elif event == _LOSS:
                self.losses.add((str(line["since"]), int(line["after"])))
        except (KeyError, TypeError, ValueError, AttributeError):
            return  # `verify` tells that it was changed

    def sum_up(self) -> None:
        """Take note of a sum: all that came before is in it."""
        self.summed, self.told = self.release, set()

    def untold(self, released: int) -> list[int]:
        """Return the answers that the log has no line of, and whoever they were given to.

        Whoever asked may have no line, though who was given the answer again has one; and a loss
        of power may have taken lines out of the midst of others.
        """
        return [n for n in range(self.summed + 1, released + 1) if n not in self.told]

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


def tell_losses(log: AuditLog, losses: Iterable[Loss], totals: QuotaTotals | None = None) -> None:
    """Write down where a store was opened although charges were missing, unless that is known."""
    told = (totals or QuotaTotals.of(log)).losses
    log.add(
        {"what": _LOSS, "who": "", "since": loss.at, "after": loss.after, "missing": loss.missing}
        for loss in losses
        if (loss.at, loss.after) not in told
    )


# -- the desk that each question passes in the stream thread: quota before, audit log after --------

LOG = logging.getLogger("sparseq.server")
MOST_REFUSED = 10_000
"""Questions of a name that may be refused within 24 hours: so long is the log that they make."""
_AT_ONCE = 256  # answers that are read, to find out what the log lacks


def _utc() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dataclass
class Desk:
    """Quotas and audit of one store, for its stream thread.

    It writes files: nothing of it is called in an event loop but `used` and `check_refused`.

    Attributes:
        audit: The log. What it says of earlier answers counts for quotas.
        planned: What all answers that the store is planned for may cost a person: a quota's share
            is of it.
        wall: The machine's clock; it may jump.
        seconds: A clock that nobody sets.
    """

    audit: AuditLog
    planned: float
    wall: Callable[[], dt.datetime] = _utc
    seconds: Callable[[], float] = time.monotonic
    _totals: QuotaTotals = field(default_factory=QuotaTotals)
    _begun: float = 0.0
    _lines: list[dict[str, Any]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, store: Store) -> None:
        """Read what was used, and note answers that the log lacks: it was killed before it knew."""
        self._totals = QuotaTotals.of(self.audit)
        self._begun = self._totals.begin(self.wall()) - self.seconds()
        self._find(store)
        tell_losses(self.audit, store.losses, self._totals)

    def catch_up(self, store: Store) -> None:
        """Read anew what was used: another server of the same lake answered, and has noted it."""
        self.write()
        with self._lock:
            before, self._totals = self._totals, QuotaTotals.of(self.audit)
            for name, usage in before.used.items():
                now = self._totals.usage(name)
                now.asking, now.asking_price = usage.asking, usage.asking_price
        self._find(store)

    def _find(self, store: Store) -> None:
        untold = deque(self._totals.untold(store.released))
        while untold:
            first, until = untold[0], min(untold[0] + _AT_ONCE, store.released + 1)
            for one in store.releases(until - first, until):
                if untold and one.id == untold[0]:
                    self._found(one)
                    untold.popleft()
            self.write()

    @property
    def clock(self) -> float:
        """The time, in seconds in which a server ran: see `QuotaTotals`."""
        return self._begun + self.seconds()

    def _found(self, one: Release) -> None:
        request = one.request
        mine = request is not None and request.asker is Asker.CLIENT
        who, paid = "", {}
        if request is not None and mine:
            who = request.text.partition("/")[0]
            paid = {"price": Answer.from_bytes(one.answer).facts.price}
        facts = {"asked_by": one.asker.value, "query": one.query}
        self.note("found", who, release=one.id, **paid, **facts)

    def note(self, what: str, who: str, **facts: Any) -> None:
        """Note something for the log; `write` writes it."""
        self._lines.append({"what": what, "who": who} | facts)

    def write(self) -> None:
        """Write what was noted."""
        lines, self._lines = self._lines, []
        self._add(lines)

    def tell(self, what: str, who: str, **facts: Any) -> None:
        """Write a line at once, from any thread."""
        self._add([{"what": what, "who": who} | facts])

    def _add(self, lines: Iterable[dict[str, Any]]) -> None:
        with self._lock:
            now = {"at": self.wall().isoformat(timespec="milliseconds"), "clock": self.clock}
            timed = [now | line for line in lines]
            for line in timed:
                self._totals.take(line)
            try:
                self.audit.add(timed)
                if self.audit.full:
                    self.audit.turn(now | self._totals.line())
                    self._totals.sum_up()
            except StoreError:
                LOG.exception("the audit log lacks %d lines", len(timed))

    def admit(self, who: Principal, price: float) -> None:
        """Take a question out of its asker's quota, until it is settled.

        Raises:
            ServerError: There is not enough left of it.
        """
        usage, clock, quota = self._totals.usage(who.name), self.clock, who.quota
        a_day, share = quota.a_day, quota.share
        if a_day is not None and usage.answers.total(clock) + usage.asking >= a_day:
            raise ServerError(
                Why.QUOTA,
                f"the {a_day:,} new answers of {who.name} within 24 hours are used up",
                f"earlier answers are free{_again(usage.answers.wait(clock, a_day))}",
            )
        paid = usage.price + usage.asking_price
        if share is not None and paid + price > share * self.planned:
            left = max(share * self.planned - paid, 0.0)
            raise ServerError(
                Why.QUOTA,
                f"the price is {price:.4g} at most, and {left:.4g} is left of the quota of "
                f"{who.name}",
                "earlier answers are free; a question of a smaller price may fit; or ask the "
                "curator for more",
            )
        usage.asking += 1
        usage.asking_price += price

    def check_refused(self, who: Principal) -> None:
        """Raise `ServerError` if too many questions of a name were refused lately."""
        refused = self._totals.used.get(who.name, Usage()).refused
        if refused.total(self.clock) >= MOST_REFUSED:
            raise ServerError(
                Why.QUOTA,
                f"{MOST_REFUSED:,} questions of {who.name} were refused within 24 hours",
                "see the cost first: that is free" + _again(refused.wait(self.clock, MOST_REFUSED)),
            )

    def settle(
        self, who: Principal, sql: str, price: float | None, outcome: Outcome | None
    ) -> None:
        """Note what became of a question; only what was new, or may have been, is counted.

        Args:
            who, sql: Who asked what.
            price: What was admitted; None: nothing, it is a repeat.
            outcome: None: nobody can tell, so it counts.
        """
        answer = None if outcome is None else outcome.answer
        new = outcome is None or (answer is not None and not outcome.recorded)
        if price is not None:
            usage = self._totals.usage(who.name)
            usage.asking, usage.asking_price = usage.asking - 1, usage.asking_price - price
        if answer is None:
            why = "failed" if outcome is None else type(outcome.refused).__name__
            counts = {} if outcome is not None or price is None else {"price": price}
            if price is not None and outcome and isinstance(outcome.refused, QueryCancelError):
                counts = {"price": 0.0}  # it took time, which rows show in: an answer of its quota
            if price is not None and outcome and outcome.charged:
                counts = {"price": price}
            self.note("refused", who.name, source=who.source, why=why, **counts, query=sql)
            return
        paid = 0.0
        if price is not None and new:
            paid = max(price, answer.facts.price)  # more, where sigma or accuracy was asked for
        repeat = {} if new else {"repeat": True}
        facts = {"release": answer.facts.release, "price": paid}
        self.note("asked", who.name, source=who.source, **facts, **repeat, query=sql)

    def repeat(self, who: Principal, sql: str, answer: Answer) -> None:
        """Note, from any thread, a question that took no turn: it is a repeat."""
        facts = {"release": answer.facts.release, "price": 0.0, "repeat": True}
        self.tell("asked", who.name, source=who.source, **facts, query=sql)

    def refuse(self, who: Principal, sql: str, error: BaseException) -> None:
        """Note a question that was not admitted."""
        why = str(error.why) if isinstance(error, ServerError) else type(error).__name__
        reason = why if isinstance(error, SparseqError) else "failed"
        self.note("refused", who.name, source=who.source, why=reason, query=sql)

    def used(self, name: str) -> tuple[int, float]:
        """Return a name's new answers within 24 hours, and the prices of all its answers."""
        usage = self._totals.used.get(name, Usage())
        return usage.answers.total(self.clock), usage.price

    def recent(self, name: str) -> tuple[int, ...]:
        """Return the answers that a name was given last, the latest first."""
        return self._totals.used.get(name, Usage()).recent[::-1]


def _again(seconds: float) -> str:
    """Return when a quota has something again, in words.

    >>> _again(0.0), _again(5430.0)
    ('', '; the next is in 1 h 31 min')
    """
    minutes = int(-(-seconds // 60))
    if not minutes:
        return ""
    return f"; the next is in {minutes // 60} h {minutes % 60} min"
