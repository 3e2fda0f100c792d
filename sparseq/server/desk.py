"""What each question passes in the stream thread: its asker's quota before, the audit log after.

Both know public facts alone: the price of a question is what it may cost a person at most, told
from its text and the releases so far. Being refused for a quota tells nothing of any row.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sparseq.answer import Answer
from sparseq.errors import ServerError, SparseqError, StoreError, Why
from sparseq.ledger.request_id import Asker
from sparseq.server.audit import AuditLog, tell_losses
from sparseq.server.tokens import Principal
from sparseq.store import Store
from sparseq.stream.groups import Outcome

LOG = logging.getLogger("sparseq.server")


@dataclass
class Usage:
    """What a name has had of its quota.

    Attributes:
        day: The day that `answers` is of, in UTC.
        answers: New answers on that day.
        price: What all its answers may have cost a person together.
    """

    day: dt.date = dt.date.min
    answers: int = 0
    price: float = 0.0

    def add(self, day: dt.date, answers: int, price: float) -> None:
        """Count answers of a day; of an earlier one their price alone."""
        if day > self.day:
            self.day, self.answers = day, 0
        self.answers += answers * (day == self.day)
        self.price += price


def _today() -> dt.date:
    return dt.datetime.now(dt.UTC).date()


@dataclass
class Desk:
    """Quotas and audit of one store, for its stream thread.

    Attributes:
        audit: The log. What it says of earlier answers counts for quotas.
        planned: What all answers that the store is planned for may cost a person: a quota's share
            is of it.
        today: The day, in UTC.
    """

    audit: AuditLog
    planned: float
    today: Callable[[], dt.date] = _today
    _used: dict[str, Usage] = field(default_factory=dict)
    _lines: list[dict[str, Any]] = field(default_factory=list)

    def begin(self, store: Store) -> None:
        """Read what was used, and note answers that the log lacks: it was killed before it knew."""
        last = 0
        for line in self.audit.lines():
            last = max(last, line.get("release") or 0)
            if line.get("what") == "asked" and not line.get("repeat"):
                day = dt.datetime.fromisoformat(line["at"]).date()
                self._usage(line["who"]).add(day, 1, line.get("price") or 0.0)
        for one in store.releases(max(store.released - last, 0)) if store.released > last else ():
            mine = one.request is not None and one.request.asker is Asker.CLIENT
            who = one.request.text.partition("/")[0] if one.request and mine else ""
            self.note("found", who, release=one.id, asked_by=one.asker.value, query=one.query)
        self.write()
        tell_losses(self.audit, store.losses)

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

    def _add(self, lines: list[dict[str, Any]]) -> None:
        try:
            self.audit.add(lines)
        except StoreError:
            LOG.exception("the audit log lacks %d lines", len(lines))

    def admit(self, who: Principal, price: float) -> None:
        """Take a question out of its asker's quota.

        Raises:
            ServerError: There is not enough left of it.
        """
        usage, today = self._usage(who.name), self.today()
        usage.add(today, 0, 0.0)
        if who.quota.a_day is not None and usage.answers >= who.quota.a_day:
            raise ServerError(
                Why.QUOTA,
                f"today's {who.quota.a_day:,} new answers of {who.name} are used up",
                "earlier answers are free; at 00:00 UTC a new day begins",
            )
        share = who.quota.share
        if share is not None and usage.price + price > share * self.planned:
            left = max(share * self.planned - usage.price, 0.0)
            raise ServerError(
                Why.QUOTA,
                f"the price is {price:.4g} at most, and {left:.4g} is left of the quota of "
                f"{who.name}",
                "earlier answers are free; a question of a smaller price may fit; or ask the "
                "curator for more",
            )
        usage.add(today, 1, price)

    def settle(
        self, who: Principal, sql: str, price: float | None, outcome: Outcome | None
    ) -> None:
        """Note what became of a question; what was not new is given back.

        Args:
            who, sql: Who asked what.
            price: What was admitted; None: nothing, it is a repeat.
            outcome: None: nobody can tell, so it counts.
        """
        answer = None if outcome is None else outcome.answer
        new = outcome is None or (answer is not None and not outcome.recorded)
        if price is not None and not new:
            self._usage(who.name).add(self.today(), -1, -price)
        if answer is None:
            said = "failed" if outcome is None else type(outcome.refused).__name__
            self.note("refused", who.name, source=who.source, why=said, query=sql)
            return
        paid = 0.0
        if price is not None and new:
            paid = max(price, answer.facts.price)  # more, where sigma or accuracy was asked for
            self._usage(who.name).add(self.today(), 0, paid - price)
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
        said = why if isinstance(error, SparseqError) else "failed"
        self.note("refused", who.name, source=who.source, why=said, query=sql)

    def used(self, name: str) -> Usage:
        """Return what a name has had so far: today's answers, and all their prices."""
        found = self._used.get(name, Usage())
        return Usage(self.today(), found.answers * (found.day == self.today()), found.price)

    def _usage(self, name: str) -> Usage:
        return self._used.setdefault(name, Usage())
