"""The launchers of planted faults: see `checks.judge.planted`."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sparseq.cli import main
from sparseq.engine._duckdb.engine import DuckEngine
from sparseq.lake import delta_table, fenced_log
from sparseq.ledger._duckdb.journal import Journal
from sparseq.ledger.releases import Entry
from sparseq.reuse.answer_cache import Recall
from sparseq.server.quota_totals import QuotaTotals
from sparseq.store._duckdb import open_file
from sparseq.stream import step
from sparseq.stream.step import Stream


def answers_early() -> None:
    """Make answers durable only when 15 wait for it; they leave before."""
    flush = Stream.flush

    def late(stream: Stream) -> None:
        if not 0 < len(stream._staged) < 15:
            flush(stream)

    Stream.flush = late  # type: ignore[method-assign]


def loses_charges() -> None:
    """Charge in memory, and omit the last payer of every third release from the journal."""
    commit = Journal.commit

    def less(entry: Entry) -> Entry:
        if entry.release.id % 3:
            return entry
        return replace(entry, users=entry.users[:-1], charges=entry.charges[:-1])

    def changed(journal: Journal, entries: Sequence[Entry]) -> None:
        commit(journal, [less(entry) for entry in entries])

    Journal.commit = changed  # type: ignore[method-assign]


def halves_charges() -> None:
    """Charge half, in memory and in the journal, of every third release."""
    charge = Stream.charge

    def half(stream: Stream, entry: Entry, course: Any) -> None:
        if entry.release.id % 3 == 0:
            entry = replace(entry, charges=entry.charges // 2)
        charge(stream, entry, course)

    Stream.charge = half  # type: ignore[method-assign]


def repeats_noise() -> None:
    """Draw the same noise after every start."""
    step.SYSTEM_ENTROPY = random.Random(1).randbytes  # type: ignore[attr-defined]


def halves_noise() -> None:
    """Draw half the stated noise."""
    draw = step.rounded_gaussian

    def half(sigma: Any, *given: Any) -> Any:
        return draw(sigma / 2, *given)

    step.rounded_gaussian = half


def keeps_answers() -> None:
    """Give recorded answers again although rows have come."""
    Recall.begin_epoch = lambda recall, arrival: None  # type: ignore[method-assign]


def keeps_counts() -> None:
    """Count in the rows that were read before new rows came."""
    known = dict[Any, Any]()
    contributions = DuckEngine.contributions

    def old(engine: DuckEngine, plan: Any, *given: Any, **named: Any) -> Any:
        key = repr(plan.query) if hasattr(plan, "query") else repr(plan)
        if key not in known:
            known[key] = contributions(engine, plan, *given, **named)
        return known[key]

    DuckEngine.contributions = old  # type: ignore[method-assign]


def opens_copies() -> None:
    """Open whatever is behind its mark."""
    open_file.behind = lambda *_: ""


def forgets_quotas() -> None:
    """Start counting again after a start, and ignore releases that the log lacks."""
    known = classmethod(lambda cls, log: cls(release=2**40, summed=2**40))
    QuotaTotals.of = known  # type: ignore[assignment,method-assign]


def shares_a_lake() -> None:
    """Put an entry on top of another driver's."""

    def unfenced(log: Any, new: Sequence[Any], old: Sequence[Any], _: str) -> None:
        table = delta_table.open_table(log.folder)
        parts = [[(f.path, f.kind, f.size) for f in some] for some in (new, old)]
        delta_table.extend(table, *parts, {}, retries=15)

    fenced_log.FencedLog._extend = unfenced  # type: ignore[method-assign]
    fenced_log.FencedLog._is_entry = lambda *_: True  # type: ignore[method-assign]


PLANTED: dict[str, Callable[[], None]] = {
    "answer before the commit": answers_early,
    "a lost charge": loses_charges,
    "half a charge": halves_charges,
    "a noise drawn twice": repeats_noise,
    "half the noise": halves_noise,
    "a stale repeat": keeps_answers,
    "a stale count": keeps_counts,
    "an old copy that opens": opens_copies,
    "a quota that forgets": forgets_quotas,
    "a lake without its fence": shares_a_lake,
}

if __name__ == "__main__":
    PLANTED[sys.argv.pop(1)]()
    main()
