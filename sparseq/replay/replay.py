"""Replaying a log: every line one outcome, nothing stops the batch.

A line's request id is made from the log's name, the line's id, its text and its options, in a
namespace that no analyst reaches. So a line that was answered once is read back ever after: no new
noise, no charge, whatever was killed in between; and a line that was changed is a new question.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sparseq.base.errors import NotSql, ParameterError, QueryRefused, SparseqError
from sparseq.ledger.notes import Asker, RequestId
from sparseq.replay.answers import ANSWERED, FAILED, REFUSED, AnswerFile, Result
from sparseq.replay.log import Line, Log, blocks
from sparseq.sql.parameters import QueryText
from sparseq.sql.plan import Options, Plan
from sparseq.store.store import Store
from sparseq.stream.batches import Outcome, Request

MOST_REASONS = 1000  # kept apart


@dataclass(frozen=True)
class Summary:
    """How a replay went.

    Attributes:
        lines, answered, refused, failed: How many lines, and what became of them.
        from_journal: Of the answered, those that an earlier run had asked already: free.
        seconds: Of this run.
    """

    lines: int
    answered: int
    refused: int
    failed: int
    from_journal: int
    seconds: float


def replay(
    store: Store,
    log: Log,
    answers: AnswerFile,
    name: str | None = None,
    advance: Callable[[int], None] = lambda lines: None,
) -> Summary:
    """Ask every line of a log that has no row yet, in order; write a row for each.

    Args:
        store: Who is asked.
        log: The lines.
        answers: Where rows go; it is left unfinished, and can be gone on from, if this raises.
        name: Of the log, in request ids; by default the file's.
        advance: Told after each row how many there are.
    """
    started = time.monotonic()
    fresh = 0
    try:
        for result in results(store, log.lines(answers.done), name or log.name):
            answers.add(result)
            fresh += result.answer is not None and not result.recorded
            advance(answers.lines)
    finally:
        answers.flush()
    answers.finish()
    count = answers.counts
    return Summary(
        answers.lines,
        count[ANSWERED],
        count[REFUSED],
        count[FAILED],
        count[ANSWERED] - fresh,
        time.monotonic() - started,
    )


def results(store: Store, lines: Iterable[Line], name: str) -> Iterator[Result]:
    """Yield what becomes of each line, in order."""
    for block in blocks(lines):
        prepared = [asked_of(store, line, name) for line in block]
        outcomes = store.ask_many(p for p in prepared if isinstance(p, Request))
        for line, one in zip(block, prepared, strict=True):
            yield one if isinstance(one, Result) else _result(line, next(outcomes))


def dry_run(store: Store, lines: Iterable[Line]) -> Iterator[tuple[Result, Plan | None]]:
    """Yield what would become of each line on public facts alone, and its plan: free."""
    for line in lines:
        one = asked_of(store, line, "")
        if isinstance(one, Request):
            try:
                plan = store.explain(one.query, one.options)
                yield Result(line.number, line.id, ANSWERED), plan
            except (QueryRefused, ParameterError) as error:
                yield _refusal(line, error), None
        else:
            yield one, None


def asked_of(store: Store, line: Line, name: str) -> Request | Result:
    """Lower a line; what can't be is told at once."""
    if line.failed:
        return Result(line.number, line.id, FAILED, line.failed)
    try:
        sql = line.sql.strip().rstrip(";")
        if line.parameters:
            sql = QueryText.of(sql).with_values(line.parameters)
        query = store.lower(sql)
        return Request(query, line.options, _request(name, line, query.text))
    except ParameterError as error:
        return Result(line.number, line.id, FAILED, error.message)
    except QueryRefused as error:
        return _refusal(line, error)


def _request(name: str, line: Line, text: str) -> RequestId:
    knobs = "" if line.options == Options() else repr(line.options)
    question = f"{text}\0{knobs}" if knobs else text
    former = f"{name}: {line.id}"
    return RequestId.of(Asker.REPLAY, name, line.id, question=question, former=former)


def _refusal(line: Line, error: SparseqError) -> Result:
    status = FAILED if isinstance(error, NotSql) else REFUSED
    hint = f" ({error.hint})" if error.hint else ""
    return Result(line.number, line.id, status, error.message + hint)


def _result(line: Line, outcome: Outcome) -> Result:
    if outcome.answer is None:
        assert outcome.refused is not None
        return _refusal(line, outcome.refused)
    return Result(line.number, line.id, ANSWERED, answer=outcome.answer, recorded=outcome.recorded)


@dataclass(frozen=True)
class Prices:
    """What a log would cost, on public facts alone.

    Attributes:
        lines, answered, refused, failed: How many lines there are, and how many could be answered.
        worst_case: What a person with a full contribution to every query would pay, in squared
            norm; only those whose queries count a person more than once can pay more.
        affordable: How many of the lines that can be answered worst-case composition would
            answer, in order, within one budget.
        reasons: Of what is refused or fails, and how many lines each, the most frequent first.
    """

    lines: int
    answered: int
    refused: int
    failed: int
    worst_case: float
    affordable: int
    reasons: dict[str, int]


def price_list(
    store: Store, log: Log, advance: Callable[[int], None] = lambda lines: None
) -> Prices:
    """Check and price every line of a log; nothing is asked, no row is looked at."""
    count = Counter[str]()
    reasons = Counter[str]()
    total, affordable = 0.0, 0
    for result, plan in dry_run(store, log.lines()):
        count[result.status] += 1
        if plan is not None:
            total += plan.worst_case_charge
            affordable += total <= store.guarantee.norm_budget * (1 + 1e-9)
        elif result.reason is not None and (
            len(reasons) < MOST_REASONS or result.reason in reasons
        ):
            reasons[result.reason] += 1
        advance(count.total())
    return Prices(
        count.total(),
        count[ANSWERED],
        count[REFUSED],
        count[FAILED],
        total,
        affordable,
        dict(reasons.most_common()),
    )
