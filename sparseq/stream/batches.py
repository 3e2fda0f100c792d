"""Batches of independent queries, answered in groups.

A batch of independent queries takes the same steps strictly in order, so that answers, charges and
dropped users equal those of asking one by one. The batch shares two things: one scan reads the rows
of queries that differ only in their times (`Engine.read_ahead`), and one transaction makes the
releases of a group durable. No answer leaves before that transaction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice

from sparseq.answers.answer import Answer
from sparseq.base.cancellation import Cancellation
from sparseq.base.errors import (
    ParameterError,
    QueryCancelError,
    QueryRefused,
    SparseqError,
    StoreError,
)
from sparseq.compiled import compiled
from sparseq.ledger.request_id import RequestId, requested
from sparseq.question.plan import Options, Plan, Query, calibrate
from sparseq.stream.side_reads import Readings, Unread
from sparseq.stream.step import Stream

BLOCK = 4096  # queries whose rows are read ahead together
LOADING_PAYS = 500  # fewest queries for which the compiled loops are loaded first
GROUP = 256  # most queries in one transaction
GROUP_BYTES = 1 << 25  # approximate limit of the bytes of one transaction


@dataclass(frozen=True)
class Request:
    """One query of a batch; see `Store.ask`.

    Attributes:
        cancellation: Lets its holder cancel the query; None: it cannot be cancelled.
        readings: The contributions from reads outside the stream; None: the stream reads.
        lacks: The reason for which bounds that the query needs were not found, and whether the
            search was charged; None: it lacks none.
    """

    query: Query
    options: Options = field(default_factory=Options)
    request_id: RequestId | str | None = None
    fresh: bool = False
    cancellation: Cancellation | None = None
    readings: Readings | None = None
    lacks: tuple[SparseqError, bool] | None = None

    @property
    def request(self) -> RequestId | None:
        """The request's name; a plain text is an analyst's name."""
        return requested(self.request_id)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one query: an answer, or the reason for its absence.

    Attributes:
        recorded: The answer comes from the journal.
        unread: The plan to read outside the stream before a repeat of the query.
        charged: The query has no answer, but a question that precedes it was answered and charged.
    """

    answer: Answer | None = None
    refused: SparseqError | None = None
    recorded: bool = False
    unread: Plan | None = None
    charged: bool = False


def ask_many(stream: Stream, asked: Iterable[Request]) -> Iterator[Outcome]:
    """Yield the outcome of each query, in order (see `Store.ask_many`)."""
    queries = iter(asked)
    while block := list(islice(queries, BLOCK)):
        if len(block) >= LOADING_PAYS:
            compiled()
        with stream.held():
            stream.ledger.numbers(_requests(block))
            stream.engine.read_ahead(_plans(stream, block))
        while block:
            with stream.held():
                outcomes = _group(stream, block[:GROUP])
            del block[: len(outcomes)]
            yield from outcomes


def _requests(block: Sequence[Request]) -> list[RequestId]:
    return [request for request in (one.request for one in block) if request is not None]


def _plans(stream: Stream, block: Sequence[Request]) -> Iterator[Plan]:
    """Yield the plans of the queries that have no recorded release."""
    for one in block:
        request = one.request
        if one.query.asks_nobody:
            continue
        if request is None or stream.ledger.number(request) is None:
            try:
                plan = calibrate(one.query, stream.terms.budget, one.options)
            except (QueryRefused, ParameterError):
                continue  # its own step raises it
            if one.readings is None or not stream.engine.reads_long(one.query):
                yield plan


def _group(stream: Stream, block: Sequence[Request]) -> list[Outcome]:
    """Answer queries until a transaction is full; write it even if an error ends the loop."""
    outcomes: list[Outcome] = []
    stream.flush()  # entries that an interrupt left
    pending: set[RequestId | None] = set()
    stream.ledger.read_ahead(_requests(block))
    try:
        for one in block:
            outcomes.append(_outcome(stream, one, pending))
            pending.add(one.request)
            if stream.staged_bytes >= GROUP_BYTES:
                break
    except BaseException:
        with contextlib.suppress(StoreError):  # the store is closed: the first error is raised
            stream.flush()
        raise
    stream.flush()
    return outcomes


def _outcome(stream: Stream, one: Request, pending: set[RequestId | None]) -> Outcome:
    request = one.request
    if request is not None and request in pending:
        stream.flush()  # asked again in the same group
    work, before = one.cancellation, stream.next_release
    try:
        with stream.reading_from(one.readings), work.ambient() if work else nullcontext():
            recorded = stream.recorded(one.query, one.options, request, one.fresh)
            if recorded is not None:
                return Outcome(recorded, recorded=True)
            if one.lacks is not None:
                refused, charged = one.lacks
                return Outcome(refused=refused, charged=charged)
            return Outcome(stream.asked(one.query, one.options, request, one.fresh))
    except (QueryRefused, ParameterError) as error:
        return Outcome(refused=error, charged=stream.next_release > before)
    except Unread as needed:
        return Outcome(unread=needed.plan, charged=stream.next_release > before)
    except QueryCancelError as error:
        stream.engine.take_failures()  # of the question that has no answer
        return Outcome(refused=error, charged=stream.next_release > before)
