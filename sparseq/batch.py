"""Many queries at once, none of which depends on another's answer: the stream, in groups.

Each query takes the one and only step of the stream (`Store._answer`), strictly in order, so that
answers, charges and drops are those of asking one by one. Two things are shared: queries that
differ in their times only have their rows read by one scan (`engine.scans`), and the releases of a
group become durable in one transaction. No answer leaves before its group's transaction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from sparseq.answer import Answer
from sparseq.compiled import compiled
from sparseq.errors import ParameterError, QueryRefused, StoreError
from sparseq.ledger.request_id import RequestId, requested
from sparseq.query.plan import Options, Plan, Query, calibrate

if TYPE_CHECKING:
    from sparseq.store import Store

BLOCK = 4096  # queries whose rows are read ahead together
LOADING_PAYS = 500  # queries from which to load the compiled loops at once
GROUP = 256  # queries in a transaction, at most
GROUP_BYTES = 1 << 25  # about so many at most are written in one


@dataclass(frozen=True)
class Asked:
    """One query of many; see `Store.ask`."""

    query: Query
    options: Options = field(default_factory=Options)
    request_id: RequestId | str | None = None

    @property
    def request(self) -> RequestId | None:
        """Its name: a text is an analyst's."""
        return requested(self.request_id)


@dataclass(frozen=True)
class Outcome:
    """What became of one query: an answer, or why there is none.

    `recorded`: the answer is an old one, read back from the journal.
    """

    answer: Answer | None = None
    refused: QueryRefused | ParameterError | None = None
    recorded: bool = False


def ask_many(store: Store, asked: Iterable[Asked]) -> Iterator[Outcome]:
    """Yield what becomes of each query, in order (see `Store.ask_many`)."""
    queries = iter(asked)
    while block := list(islice(queries, BLOCK)):
        if len(block) >= LOADING_PAYS:
            compiled()
        with store._lock:
            store._check_open()
            store._journal.numbers(_requests(block))
            store._engine.read_ahead(_plans(store, block))
        while block:
            with store._lock:
                store._check_open()
                outcomes = _group(store, block[:GROUP])
            del block[: len(outcomes)]
            yield from outcomes


def _requests(block: Sequence[Asked]) -> list[RequestId]:
    return [request for request in (one.request for one in block) if request is not None]


def _plans(store: Store, block: Sequence[Asked]) -> Iterator[Plan]:
    """Yield the plans of the queries that are new."""
    for one in block:
        request = one.request
        if request is None or store._journal.requests.get(request.stored) is None:
            try:
                yield calibrate(one.query, store.budget, one.options)
            except (QueryRefused, ParameterError):
                continue  # its own turn will tell


def _group(store: Store, block: Sequence[Asked]) -> list[Outcome]:
    """Answer queries until a transaction is full; it is written whatever happens."""
    outcomes: list[Outcome] = []
    store._flush()  # what an interrupt left
    pending: set[RequestId | None] = set()
    store._journal.read_ahead(_requests(block))
    try:
        for one in block:
            outcomes.append(_outcome(store, one, pending))
            pending.add(one.request)
            if store._staged_bytes >= GROUP_BYTES:
                break
    except BaseException:
        with contextlib.suppress(StoreError):  # the store is closed: what stopped it is told
            store._flush()
        raise
    store._flush()
    return outcomes


def _outcome(store: Store, one: Asked, pending: set[RequestId | None]) -> Outcome:
    request = one.request
    if request is not None and request in pending:
        store._flush()  # asked again in the same group
    try:
        recorded = store._journal.recorded(request, one.query.text)
        if recorded is not None:
            return Outcome(Answer.from_bytes(recorded.answer), recorded=True)
        plan = calibrate(one.query, store.budget, one.options)
        return Outcome(store._answer(plan, store._contributions(plan), request))
    except (QueryRefused, ParameterError) as error:
        return Outcome(refused=error)
