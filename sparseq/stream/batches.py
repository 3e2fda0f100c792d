"""Many queries at once, none of which depends on another's answer: the stream, in groups.

Each query takes the one and only step of the stream (`Stream.answer`), strictly in order, so that
answers, charges and drops are those of asking one by one. Two things are shared: queries that
differ in their times only have their rows read by one scan (`Engine.read_ahead`), and the releases
of a group become durable in one transaction. No answer leaves before its group's transaction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice

from sparseq.base.cancellation import Cancellation
from sparseq.base.errors import (
    ParameterError,
    QueryCancelError,
    QueryRefused,
    SparseqError,
    StoreError,
)
from sparseq.compiled import compiled
from sparseq.ledger.notes import RequestId, requested
from sparseq.sql.plan import Options, Plan, Query, calibrate
from sparseq.store.answer import Answer
from sparseq.stream.side_reads import Readings, Unread
from sparseq.stream.step import Stream

BLOCK = 4096  # queries whose rows are read ahead together
LOADING_PAYS = 500  # queries from which to load the compiled loops at once
GROUP = 256  # queries in a transaction, at most
GROUP_BYTES = 1 << 25  # about so many at most are written in one


@dataclass(frozen=True)
class Request:
    """One query of many; see `Store.ask`.

    Attributes:
        cancellation: Whoever has it can cancel it; None: nobody.
        readings: What was read for it beside the stream; None: the stream reads.
    """

    query: Query
    options: Options = field(default_factory=Options)
    request_id: RequestId | str | None = None
    fresh: bool = False
    cancellation: Cancellation | None = None
    readings: Readings | None = None

    @property
    def request(self) -> RequestId | None:
        """Its name: a text is an analyst's."""
        return requested(self.request_id)


@dataclass(frozen=True)
class Outcome:
    """What became of one query: an answer, or why there is none.

    Attributes:
        recorded: The answer is an old one, read back from the journal.
        unread: What is to be read beside the stream, before it is asked again; nothing was charged.
    """

    answer: Answer | None = None
    refused: SparseqError | None = None
    recorded: bool = False
    unread: Plan | None = None


def ask_many(stream: Stream, asked: Iterable[Request]) -> Iterator[Outcome]:
    """Yield what becomes of each query, in order (see `Store.ask_many`)."""
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
    """Yield the plans of the queries that are new."""
    for one in block:
        request = one.request
        if request is None or stream.ledger.number(request) is None:
            try:
                plan = calibrate(one.query, stream.terms.budget, one.options)
            except (QueryRefused, ParameterError):
                continue  # its own turn will tell
            if one.readings is None or not stream.engine.reads_long(plan):
                yield plan


def _group(stream: Stream, block: Sequence[Request]) -> list[Outcome]:
    """Answer queries until a transaction is full; it is written whatever happens."""
    outcomes: list[Outcome] = []
    stream.flush()  # what an interrupt left
    pending: set[RequestId | None] = set()
    stream.ledger.read_ahead(_requests(block))
    try:
        for one in block:
            outcomes.append(_outcome(stream, one, pending))
            pending.add(one.request)
            if stream.staged_bytes >= GROUP_BYTES:
                break
    except BaseException:
        with contextlib.suppress(StoreError):  # the store is closed: what stopped it is told
            stream.flush()
        raise
    stream.flush()
    return outcomes


def _outcome(stream: Stream, one: Request, pending: set[RequestId | None]) -> Outcome:
    request = one.request
    if request is not None and request in pending:
        stream.flush()  # asked again in the same group
    work = one.cancellation
    try:
        with stream.reading_from(one.readings), work.ambient() if work else nullcontext():
            recorded = stream.recorded(one.query, one.options, request, one.fresh)
            if recorded is not None:
                return Outcome(recorded, recorded=True)
            return Outcome(stream.asked(one.query, one.options, request, one.fresh))
    except (QueryRefused, ParameterError) as error:
        return Outcome(refused=error)
    except Unread as needed:
        return Outcome(unread=needed.plan)
    except QueryCancelError as error:
        stream.engine.take_failures()  # of what is not answered
        return Outcome(refused=error)
