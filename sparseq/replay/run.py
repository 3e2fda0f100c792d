"""Replay of a log: every line has one outcome, and no line stops the batch.

A line's request id is computed from the log's name, the line's id, its text and its options, in a
namespace that no analyst can use. So an answered line is read back at every later replay, without
new noise or charge, even after a kill; a changed line is a new question.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sparseq.base.errors import NotSql, ParameterError, QueryRefused, SparseqError
from sparseq.ledger.request_id import Asker, RequestId
from sparseq.question.plan import Options, Plan, Query
from sparseq.replay.answer_file import ANSWERED, FAILED, REFUSED, AnswerFile, Result
from sparseq.replay.log import Line, Log, blocks
from sparseq.sql.parameters import QueryText
from sparseq.store.bound_questions import bound_questions, needs_bounds
from sparseq.store.store import Store
from sparseq.stream.batches import Outcome, Request

MOST_REASONS = 1000  # kept apart


@dataclass(frozen=True)
class Summary:
    """The outcome of a replay.

    Attributes:
        lines, answered, refused, failed: Numbers of lines, by outcome.
        from_journal: Number of answered lines that an earlier run had asked: free.
        seconds: Duration of this run.
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
        store: The store to ask.
        log: The lines.
        answers: File for the rows; after an exception it is unfinished, and can be continued.
        name: Name of the log in request ids; by default the file's.
        advance: Called after each row with the number of rows.
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
    """Yield the outcome of each line, in order."""
    for block in blocks(lines):
        prepared = [lower_line(store, line, name) for line in block]
        outcomes = store.ask_many(p for p in prepared if isinstance(p, Request))
        for line, one in zip(block, prepared, strict=True):
            yield one if isinstance(one, Result) else _result(line, next(outcomes))


def dry_run(store: Store, lines: Iterable[Line]) -> Iterator[tuple[Result, Sequence[Plan]]]:
    """Yield the outcome of each line from public facts alone, and its plans: free.

    The last plan is that of the line; the others are for questions that are asked first, once, as
    those that find bounds.
    """
    first = set[tuple[str, Options]]()
    for line in lines:
        one = lower_line(store, line, "")
        if isinstance(one, Request):
            try:
                query, before = _asked_first(store, one.query, one.options)
                new = [(q, own) for q, own in before if (q.text, own) not in first]
                plans = [store.explain(q, own) for q, own in new]
                first.update((q.text, own) for q, own in new)
                plans.append(store.explain(query, one.options))
                yield Result(line.number, line.id, ANSWERED), plans
            except (QueryRefused, ParameterError) as error:
                yield _refusal(line, error), ()
        else:
            yield one, ()


def _asked_first(
    store: Store, query: Query, options: Options
) -> tuple[Query, list[tuple[Query, Options]]]:
    """Return a question as it is asked at last, and the questions that are asked before it."""
    own = options.over(query.options).of_first
    before = list[tuple[Query, Options]]()
    if query.unbounded is not None and needs_bounds(store, query, options):
        before += bound_questions(store, query.unbounded)
        query = query.unbounded.after
    return query, [*before, *((q, own) for q in query.first)]


def lower_line(store: Store, line: Line, name: str) -> Request | Result:
    """Lower a line; return the refusal of a line that can't be lowered."""
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
    """The cost of a log, on public facts alone.

    Attributes:
        lines, answered, refused, failed: Number of lines, and of those that could be answered, or
            would be refused or fail.
        worst_case: Charge to a person with a full contribution to every query, in squared norm;
            only people whom a query counts more than once can pay more.
        affordable: Number of those lines that worst-case composition would answer, in order,
            within one budget.
        reasons: Reasons of refusals and failures, with their numbers of lines, most frequent first.
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
    """Check and price every line of a log, without asking a question or reading a row."""
    count = Counter[str]()
    reasons = Counter[str]()
    total, affordable = 0.0, 0
    for result, plans in dry_run(store, log.lines()):
        count[result.status] += 1
        if plans:
            total += sum(plan.worst_case_charge for plan in plans)
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
