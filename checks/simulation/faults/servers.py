"""Faults of servers."""

from __future__ import annotations

from typing import Any

from checks.simulation.faults.registry import SERVERS, Place, plant
from sparseq.server import thread
from sparseq.server.quota_totals import QuotaTotals
from sparseq.stream.step import Stream


@plant(*SERVERS)
def answers_mixed_up() -> list[Place]:
    """An asker gets the answer of the asker before."""
    last: dict[str, Any] = {}

    def mixed(turn: Any, outcome: Any) -> None:
        if outcome.refused is not None:
            turn.done.set_exception(outcome.refused)
        else:
            turn.done.set_result(last.get("outcome", outcome))
            last["outcome"] = outcome

    return [(thread, "_end", mixed)]


@plant(*SERVERS)
def quota_begins_with_the_server() -> list[Place]:
    """The used quota of a name is counted from 0 by each new server."""
    return [(QuotaTotals, "of", classmethod(lambda cls, _: cls(release=2**40, summed=2**40)))]


@plant(*SERVERS)
def reply_before_the_commit() -> list[Place]:
    """Answers leave while they wait for the commit of the next."""
    flush = Stream.flush

    def late(self: Stream) -> None:
        if not 0 < len(self._staged) < 4:
            flush(self)

    return [(Stream, "flush", late)]
