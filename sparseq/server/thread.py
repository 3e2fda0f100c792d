"""The stream thread: it alone makes calls on the store.

Questions that queued during a commit form the next group, which is one transaction
(`sparseq.stream.step`). Answers, charges and drops are the same as without groups, in the order of
the group.

A question whose rows may take long to read (joins, subqueries, slow expressions) gives its turn to
others: another thread reads the rows (`sparseq.stream.side_reads`), and then it takes its user's
next turn. A group has as many questions as were recently answered in `TURN` seconds. Both change
the order of answers, never an answer or a charge in it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Any

import sparseq
from sparseq.base.cancellation import Cancellation
from sparseq.base.errors import QueryCancelError, ServerError, SparseqError, StoreError, Why
from sparseq.ledger.request_id import RequestId
from sparseq.question.plan import Options, Plan, Query
from sparseq.server.fair_queue import FairPool, FairQueue
from sparseq.server.health import Health
from sparseq.server.quota_desk import Desk
from sparseq.server.repeats import Repeats
from sparseq.server.tokens import Principal
from sparseq.store.store import Store
from sparseq.store.whole_price import charge_of
from sparseq.stream.batches import Outcome, Request
from sparseq.stream.side_reads import Readings

GROUP = 64  # questions in a group, at most
TURN = 0.5  # seconds of a group, at most: one group can keep others waiting for this time
READERS, READS_EACH = 2, 1
"""Threads that read in parallel to the stream, in all and for one user."""
LOG = logging.getLogger("sparseq.server")


@dataclass(frozen=True)
class Ask:
    """A question for the store: see `Store.sql`.

    Attributes:
        query: Its lowered SQL; or the reason why it can't be lowered.
    """

    sql: str
    query: Query | SparseqError
    options: Options
    request_id: RequestId | None = None
    fresh: bool = False


@dataclass
class Turn:
    """A waiting question, or a waiting call on the store.

    Attributes:
        who: The user.
        what: A question, or a function that is called with the store.
        price: The reserved price of an admitted question; None: it is a repeat.
        request: The request of an admitted question: it is not admitted again.
        charged: Inner questions that ran first, and were charged.
        cancellation: Can cancel a question until it is committed.
        done: The `Outcome` of a question; else the result of the call. If it is cancelled before
            its turn, it is not asked.
    """

    who: Principal
    what: Ask | Callable[[Store], Any]
    price: float | None = None
    request: Request | None = None
    charged: bool = False
    readings: Readings = field(default_factory=Readings)
    cancellation: Cancellation = field(default_factory=Cancellation)
    done: Future[Any] = field(default_factory=Future)


class StreamThread:
    """The thread, and its queue.

    Args:
        store: An open store; the thread closes it.
        queue: The waiting turns.
        desk: Quotas and the audit log.
        repeats: Receives repeated answers.
        written: Called in the thread after each durable group, before its answers are returned.

    Attributes:
        busy: True while turns are in work.
        health: Whether answers can be made durable.
    """

    def __init__(
        self,
        store: Store,
        queue: FairQueue[Turn],
        desk: Desk,
        repeats: Repeats,
        written: Callable[[Store], None] = lambda store: None,
    ) -> None:
        self.store, self.queue, self._desk = store, queue, desk
        self._written, self._repeats = written, repeats
        self.health = Health(None if store.path is None else store.path.parent)
        self.busy = False
        self._turns: list[Turn] = []  # turns in work, also in parallel
        self._stopped = False
        self._readers = FairPool(
            "reading", READERS, READS_EACH, queue.most, queue.each, behind=True
        )
        self._thread = threading.Thread(target=self._run, name="stream", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """True if the thread runs, and its store is open."""
        return self._thread.is_alive() and self.store.backend.database is not None

    def cancel(self) -> None:
        """Cancel all work that is not committed yet, and all later turns."""
        self._stopped = True
        for turn in list(self._turns):
            turn.cancellation.cancel(_stopping())

    def close(self) -> None:
        """Accept nothing more, answer waiting turns, and close the store."""
        self.queue.close()
        self._thread.join()

    def _run(self) -> None:
        size, seconds = GROUP, 0.0  # of a group, and the recent time of a question
        while turns := self.queue.take(size):
            self.busy = True
            live = [turn for turn in turns if self._begun(turn)]
            self._reopen()
            read = any(turn.readings.versions for turn in self._turns)  # then the committer is told
            if not read and self.store.backend.behind:
                self._catch_up()
            if asks := [(t, t.what) for t in live if isinstance(t.what, Ask)]:
                began = monotonic()
                self._ask(asks)
                seconds = (seconds + (monotonic() - began) / len(asks)) / 2
                size = max(1, min(GROUP, int(TURN / max(seconds, 1e-6))))
            for turn in live:
                if not isinstance(turn.what, Ask):
                    self._call(turn, turn.what)
            for turn in [turn for turn in self._turns if turn.done.done()]:
                turn.readings.close()
                self._turns.remove(turn)
            self.busy = False
        self._readers.close()
        try:
            self.store.close()
        except SparseqError:
            LOG.exception("the store could not be closed well")

    def _begun(self, turn: Turn) -> bool:
        """Tell whether a turn should be taken, and record that it is in work."""
        again = turn.done.running()  # its rows were read in parallel
        if not again and not turn.done.set_running_or_notify_cancel():
            return False
        if not again:
            self._turns.append(turn)
        if self._stopped:
            turn.cancellation.cancel(_stopping())
        return True

    def _ask(self, turns: Sequence[tuple[Turn, Ask]]) -> None:
        """Answer a group: first the refusals, which read no rows, then one transaction."""
        asked: list[tuple[Turn, Ask, Request]] = []
        ends: list[Callable[[], None]] = []
        for turn, ask in turns:
            try:
                asked.append((turn, ask, self._admit(turn, ask)))
            except BaseException as error:
                self._desk.refuse(turn.who, ask.sql, error)
                ends.append(partial(turn.done.set_exception, error))
        done = 0
        try:
            outcomes = self.store.ask_many([request for _, _, request in asked])
            for (turn, ask, request), outcome in zip(asked, outcomes, strict=True):
                done += 1
                turn.charged = turn.charged or outcome.charged
                if outcome.unread is not None:
                    refused = self._read_beside(turn, outcome.unread)
                    if refused is None:
                        continue
                    outcome = Outcome(refused=refused)
                outcome = replace(outcome, charged=turn.charged)
                self._desk.settle(turn.who, ask.sql, turn.price, outcome)
                if outcome.answer is not None and not outcome.recorded:
                    self.health.done()
                if ask.request_id is None and not ask.fresh:
                    stream = self.store.stream
                    self._repeats.keep(stream, ask.sql, request.query, ask.options, outcome)
                ends.append(partial(_end, turn, outcome))
            self._written(self.store)
        except BaseException as error:
            LOG.exception("a group of questions was not answered")
            self.health.failed(error)
            self._reopen()
        for turn, ask, _ in asked[done:]:
            self._desk.settle(turn.who, ask.sql, turn.price, None)
            ends.append(partial(turn.done.set_exception, _failure()))
        self._desk.write()
        for end in ends:
            end()

    def _read_beside(self, turn: Turn, plan: Plan) -> SparseqError | None:
        """Let another thread read a plan; then its question takes its user's next turn.

        Returns:
            Return None; or the reason why it can't be read now.
        """
        stream = self.store.stream
        self.queue.lend()

        def back(_: Future[Any]) -> None:
            self.queue.put_back(turn.who.name, turn)

        try:
            read = turn.readings.reading(stream.engine, plan, stream.people)
            with turn.cancellation.ambient():
                self._readers.submit(turn.who.name, read).add_done_callback(back)
        except SparseqError as error:
            self.queue.give_up()
            return error
        return None

    def _admit(self, turn: Turn, ask: Ask) -> Request:
        """Return the request for the store; raise an error if it is refused before."""
        try:
            return self._request(turn, ask)
        except StoreError as error:
            LOG.exception("the store could not be asked")
            self.health.failed(error)
            raise unusable() from error
        except SparseqError:
            raise
        except BaseException as error:
            LOG.exception("a question could not be lowered")
            raise ServerError(
                Why.FAILED, "the server failed at this question", "nothing was charged"
            ) from error

    def _request(self, turn: Turn, ask: Ask) -> Request:
        query = ask.query
        if isinstance(query, SparseqError):
            raise query
        if turn.request is not None:
            return turn.request
        if query.unbounded is not None:  # keys may have been found since it was lowered
            query = self.store.lower(query.text)
        with self.store.stream.held():  # columns may be loaded into memory meanwhile
            known = self._known(ask, query)
            price = None if known else charge_of(self.store, query, ask.options)
        if price is not None:
            self._desk.admit(turn.who, price)
            turn.price = price
        turn.request = Request(
            query, ask.options, ask.request_id, ask.fresh, turn.cancellation, turn.readings
        )
        return turn.request

    def _known(self, ask: Ask, query: Query) -> bool:
        """Tell whether a question is a repeat."""
        if ask.request_id is not None:
            return bool(self.store.releases_of([ask.request_id]))
        return not ask.fresh and self.store.stream.repeats(query, ask.options)

    def _call(self, turn: Turn, call: Callable[[Store], Any]) -> None:
        try:
            if self.store.backend.database is None:
                raise unusable()
            with turn.cancellation.ambient():
                result = call(self.store)
            self._written(self.store)
        except BaseException as error:
            turn.done.set_exception(error)
            if not isinstance(error, SparseqError):
                self.health.failed(error)
            self._reopen()
        else:
            turn.done.set_result(result)

    def _catch_up(self) -> None:
        """Open a lake again that another driver has written to, so that no answer is outdated."""
        before, path = self.store, self.store.path
        assert path is not None
        try:
            self.store = sparseq.connect(path)
        except SparseqError:
            LOG.exception("the commits of another driver to the lake can't be read")
            return
        self._desk.catch_up(self.store)
        before.close()

    def _reopen(self) -> None:
        """Open the store again if it was abandoned: only the file shows which writes succeeded."""
        if self.store.backend.database is not None or self.store.path is None:
            return
        try:
            self.store.close()
            self.store = sparseq.connect(self.store.path)
            self._desk.catch_up(self.store)
        except StoreError:
            LOG.exception("the store can't be opened any more")


def _end(turn: Turn, outcome: Outcome) -> None:
    if outcome.refused is None:
        turn.done.set_result(outcome)
    else:
        turn.done.set_exception(outcome.refused)


def _stopping() -> QueryCancelError:
    return QueryCancelError("the server is stopping; nothing was charged", "try again in a minute")


def unusable() -> ServerError:
    """Return the error while the store can't be opened."""
    return ServerError(
        Why.FAILED, "the store can't be used now", "its operator finds the reason in the log"
    )


def _failure() -> ServerError:
    return ServerError(
        Why.FAILED,
        "the server failed, and nobody can tell whether this was answered",
        "ask again with the same request id: it is charged once at most",
    )
