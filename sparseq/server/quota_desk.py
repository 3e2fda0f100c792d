"""The desk that each question passes in the stream thread: quota before, audit log after.

Both use public facts only: the price of a question is the maximum charge to a user, which follows
from its text and the releases so far. A refusal for a quota reveals nothing about any row.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from sparseq.answers.answer import Answer
from sparseq.base.errors import QueryCancelError, ServerError, SparseqError, StoreError, Why
from sparseq.ledger.releases import Release
from sparseq.ledger.request_id import Asker
from sparseq.server.audit import AuditLog
from sparseq.server.quota_totals import QuotaTotals, Usage, tell_losses
from sparseq.server.tokens import Principal
from sparseq.store.store import Store
from sparseq.stream.batches import Outcome

LOG = logging.getLogger("sparseq.server")
MOST_REFUSED = 10_000
"""The limit of refused questions of a name within 24 hours, which bounds the log."""
_AT_ONCE = 256  # answers per read, when the log is compared with the store


def _utc() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dataclass
class Desk:
    """Quotas and audit of one store, for its stream thread.

    It writes files: an event loop may only call `used` and `check_refused`.

    Attributes:
        audit: The log. Its earlier answers count for quotas.
        planned: The total price of all answers that the store is planned for; a quota's share
            refers to it.
        wall: The machine's clock; it may jump.
        seconds: A monotonic clock.
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
        """Read the used quotas, and add answers that the log lacks: the server was killed before it
        wrote them.
        """
        self._totals = QuotaTotals.of(self.audit)
        self._begun = self._totals.begin(self.wall()) - self.seconds()
        self._find(store)
        tell_losses(self.audit, store.losses, self._totals)

    def catch_up(self, store: Store) -> None:
        """Read the used quotas again: another server of the same lake answered, and has recorded
        it.
        """
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
            paid = {"price": Answer.from_bytes(one.answer).facts.charge}
        facts = {"asked_by": one.asker.value, "query": one.query}
        self.note("found", who, release=one.id, **paid, **facts)

    def note(self, what: str, who: str, **facts: Any) -> None:
        """Add an entry for the log; `write` writes it."""
        self._lines.append({"what": what, "who": who} | facts)

    def write(self) -> None:
        """Write the added entries."""
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
        """Reserve a question's price in its asker's quota, until it is settled.

        Raises:
            ServerError: The rest of the quota is too small.
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
                "look at the cost first: that is free"
                + _again(refused.wait(self.clock, MOST_REFUSED)),
            )

    def settle(
        self, who: Principal, sql: str, price: float | None, outcome: Outcome | None
    ) -> None:
        """Record the outcome of a question; only new answers, or possible ones, count.

        Args:
            who, sql: The asker and the question.
            price: The reserved price; None: nothing, it is a repeat.
            outcome: None: unknown, so it counts.
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
                # it took time, which depends on rows: it counts as an answer of the quota
                counts = {"price": 0.0}
            if price is not None and outcome and outcome.charged:
                counts = {"price": price}
            self.note("refused", who.name, source=who.source, why=why, **counts, query=sql)
            return
        paid = 0.0
        if price is not None and new:
            paid = price
        repeat = {} if new else {"repeat": True}
        facts = {"release": answer.facts.release, "price": paid}
        self.note("asked", who.name, source=who.source, **facts, **repeat, query=sql)

    def repeat(self, who: Principal, sql: str, answer: Answer) -> None:
        """Record, from any thread, a question that took no turn: it is a repeat."""
        facts = {"release": answer.facts.release, "price": 0.0, "repeat": True}
        self.tell("asked", who.name, source=who.source, **facts, query=sql)

    def refuse(self, who: Principal, sql: str, error: BaseException) -> None:
        """Record a question that was not admitted."""
        why = str(error.why) if isinstance(error, ServerError) else type(error).__name__
        reason = why if isinstance(error, SparseqError) else "failed"
        self.note("refused", who.name, source=who.source, why=reason, query=sql)

    def used(self, name: str) -> tuple[int, float]:
        """Return a name's new answers within 24 hours, and the prices of all its answers."""
        usage = self._totals.used.get(name, Usage())
        return usage.answers.total(self.clock), usage.price

    def recent(self, name: str) -> tuple[int, ...]:
        """Return a name's latest answers, the latest first."""
        return self._totals.used.get(name, Usage()).recent[::-1]


def _again(seconds: float) -> str:
    """Return the time until a quota is free again, as text.

    >>> _again(0.0), _again(5430.0)
    ('', '; the next is in 1 h 31 min')
    """
    minutes = int(-(-seconds // 60))
    if not minutes:
        return ""
    return f"; the next is in {minutes // 60} h {minutes % 60} min"
