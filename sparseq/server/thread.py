"""The stream thread: it alone makes calls on the store.

What has queued while the last group was made durable is the next group: one transaction for all of
it (`sparseq.stream.step`). Answers, charges and drops are those of asking one by one, in the
order of the group.

A question whose rows take long to read (joins, subqueries) leaves its turn to the others: another
thread reads them (`sparseq.stream.side_reads`), and then it has the next turn of its asker's.
Groups are as large as what lately was answered in `TURN` seconds. Both change the order of answers,
never an answer or a charge in it.

The health of a server: can it make answers durable? For who watches it, without a token.

It is about the engine and its disk, never about rows or questions: a question that fails for a
reason of its own changes nothing here. It is told from what happened last, so that nobody waits for
the stream: the stream thread notes what the store said, and anybody reads it.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Generic, TypeVar

import sparseq
from sparseq.base.cancellation import Cancellation, current
from sparseq.base.errors import QueryCancelError, ServerError, SparseqError, StoreError, Why
from sparseq.engine.contributions import release_freed
from sparseq.ledger.notes import RequestId
from sparseq.server.quota_desk import Desk
from sparseq.server.releases import Repeats
from sparseq.server.tokens import Principal
from sparseq.sql.plan import Options, Plan, Query
from sparseq.store.explain import price_of
from sparseq.store.store import Store
from sparseq.stream.side_reads import Readings
from sparseq.stream.step import Outcome, Request

# -- fair queues -----------------------------------------------------------------------------------

T = TypeVar("T")


class FairQueue(Generic[T]):
    """A queue that takes from its askers in turn. Threads may share it.

    Args:
        most: What may wait in all.
        each: What may wait of one asker.
        at_once: What may be taken of one asker and not `done` yet; None: as much as there is.

    Example:
        >>> queue = FairQueue[str]()
        >>> for asker, item in [("ada", "a1"), ("ada", "a2"), ("ada", "a3"), ("bob", "b1")]:
        ...     queue.put(asker, item)
        >>> queue.take(3)
        ['a1', 'b1', 'a2']
    """

    def __init__(self, most: int = 1024, each: int = 256, at_once: int | None = None) -> None:
        self.most, self.each, self.at_once = most, each, at_once
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()
        self._size = self._lent = 0
        self._taken: Counter[str] = Counter()
        self._closed = False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return self._size

    def put(self, asker: str, item: T) -> None:
        """Let an item wait for its turn.

        Raises:
            ServerError: Too much is waiting, or the queue is closed.
        """
        with self._changed:
            if self._closed:
                raise ServerError(Why.CLOSING, "the server is stopping", "try again in a minute")
            mine = self._waiting.get(asker, ())
            if self._size >= self.most or len(mine) >= self.each:
                whose, most = (
                    ("yours", self.each) if len(mine) >= self.each else ("everybody's", self.most)
                )
                raise ServerError(
                    Why.BUSY,
                    f"{most:,} of {whose} are waiting already; nothing was charged",
                    "wait for some of the answers, then ask again",
                )
            self._waiting.setdefault(asker, deque()).append(item)
            self._size += 1
            self._changed.notify_all()

    def take(self, most: int) -> list[T]:
        """Wait for items, and return up to so many; none: the queue is closed, and empty."""
        with self._changed:
            while (ready := self._ready()) is None and not (
                self._closed and not self._size and not self._lent
            ):
                self._changed.wait()
            taken: list[T] = []
            while ready is not None and len(taken) < most:
                items = self._waiting.pop(ready)
                taken.append(items.popleft())
                self._size -= 1
                self._taken[ready] += self.at_once is not None
                if items:
                    self._waiting[ready] = items  # behind all others
                ready = self._ready()
            return taken

    def _ready(self) -> str | None:
        """Return who is next; None: nobody."""
        if self.at_once is None:
            return next(iter(self._waiting), None)
        return next((who for who in self._waiting if self._taken[who] < self.at_once), None)

    def done(self, asker: str) -> None:
        """Take note that an item that was taken is done."""
        with self._changed:
            self._taken[asker] -= 1
            if not self._taken[asker]:
                del self._taken[asker]
            self._changed.notify_all()

    def lend(self) -> None:
        """Take note that an item that was taken comes back: the queue does not end before."""
        with self._changed:
            self._lent += 1

    def give_up(self) -> None:
        """Take note that what was lent is done with."""
        with self._changed:
            self._lent -= 1
            self._changed.notify_all()

    def put_back(self, asker: str, item: T) -> None:
        """Let an item that was lent be the next of its asker, whatever waits."""
        with self._changed:
            self._waiting.setdefault(asker, deque()).appendleft(item)
            self._size += 1
            self._lent -= 1
            self._changed.notify_all()

    def close(self) -> None:
        """Let nothing more in; what waits is still taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def stand_behind() -> None:
    """Have this thread, and those it starts, stand behind others where processors are scarce."""
    if sys.platform == "linux":  # where a thread has a priority of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


@dataclass
class _Work:
    """Something to be done, for whom, and what can cancel it."""

    who: str
    run: Callable[[], Any]
    cancellation: Cancellation | None
    done: Future[Any] = field(default_factory=Future)


class FairPool:
    """Threads that do what askers want done, in turn. What is cancelled is left, or not begun.

    Args:
        name: Of the threads.
        threads: How many there are.
        at_once: How many of them work for one asker at once.
        behind: They stand behind other threads where processors are scarce.
        most, each: What may wait: see `FairQueue`.

    Example:
        >>> pool = FairPool("doctest", threads=2, at_once=1)
        >>> pool.submit("ada", lambda: 1 + 1).result(), pool.close()
        (2, None)
    """

    def __init__(
        self,
        name: str,
        threads: int,
        at_once: int,
        most: int = 1024,
        each: int = 64,
        behind: bool = False,
    ) -> None:
        self._queue: FairQueue[_Work] = FairQueue(most, each, at_once)
        self._behind = behind
        self._threads = [
            threading.Thread(target=self._run, name=name, daemon=True) for _ in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, who: str, run: Callable[[], Any]) -> Future[Any]:
        """Have something done, as a part of the work that is done now (`cancellation.current`).

        Raises:
            ServerError: Too much is waiting, or the pool is closed.
        """
        work = _Work(who, run, current())
        stack = ExitStack()
        if work.cancellation is not None:
            stack.enter_context(work.cancellation.interrupts(work.done.cancel))
        try:
            self._queue.put(who, work)
        except ServerError:
            stack.close()
            raise
        work.done.add_done_callback(lambda _: stack.close())
        return work.done

    def close(self) -> None:
        """Take nothing more, and wait for what has begun."""
        self._queue.close()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        if self._behind:
            stand_behind()
        while taken := self._queue.take(1):
            (work,) = taken
            if work.done.set_running_or_notify_cancel():
                self._do(work)
            self._queue.done(work.who)
            del work, taken
            if self._behind:
                release_freed()  # large, and more so if it was cancelled: its frames had it

    def _do(self, work: _Work) -> None:
        try:
            with ExitStack() as stack:
                if work.cancellation is not None:
                    stack.enter_context(work.cancellation.ambient())
                result = work.run()
        except BaseException as error:
            work.done.set_exception(error)
        else:
            work.done.set_result(result)


# -- the health of a server: can it make answers durable? For who watches it, without a token ------

LEAST_FREE = 16 << 20
"""Bytes that are free where the store is, or it is not well."""
SECONDS = 60.0
"""After a failure, so long; then nothing is known until somebody asks."""
_BROKEN = (StoreError, OSError)


class Health:
    """The store's last word on its engine and its disk.

    Args:
        folder: Where the store is; None: in memory.
        seconds: A clock that nobody sets.

    Example:
        >>> health = Health(None, lambda: 0.0)
        >>> health.failed(StoreError("the disk is full")), health.well
        (None, False)
        >>> health.done(), health.well
        (None, True)
    """

    def __init__(self, folder: Path | None, seconds: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._seconds = folder, seconds
        self._failure: float | None = None

    def done(self) -> None:
        """Note that an answer was made durable."""
        self._failure = None

    def failed(self, error: BaseException) -> None:
        """Note an error, if it is one of the engine or its disk."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, _BROKEN):
            cause = cause.__cause__ or cause.__context__
        if cause is not None:
            self._failure = self._seconds()

    @property
    def well(self) -> bool:
        """Nothing failed lately."""
        return self._failure is None or self._seconds() - self._failure >= SECONDS

    def roomy(self) -> bool:
        """Tell whether the disk has room; it looks, so it is not called in an event loop."""
        try:
            return self._folder is None or shutil.disk_usage(self._folder).free >= LEAST_FREE
        except OSError:
            return False


# -- the stream thread: it alone makes calls on the store ------------------------------------------

GROUP = 64  # questions in a group, at most
TURN = 0.5  # seconds that a group is to take, at most: so long can one keep somebody waiting
READERS, READS_EACH = 2, 1
"""Threads that read beside the stream, and how many of them read for one asker."""
LOG = logging.getLogger("sparseq.server")


@dataclass(frozen=True)
class Ask:
    """A question for the store: see `Store.sql`.

    Attributes:
        query: Its SQL, lowered; or why it can't be.
    """

    sql: str
    query: Query | SparseqError
    options: Options
    request_id: RequestId | None = None
    fresh: bool = False


@dataclass
class Turn:
    """One question that waits, or one call on the store.

    Attributes:
        who: Whose it is.
        what: A question, or what is called with the store.
        price: Of a question that was admitted: what it may cost a person; None: it is a repeat.
        request: Of a question that was admitted: it is not admitted again.
        charged: What is asked before it was asked, and charged.
        cancellation: Until a question is committed it can be cancelled by it.
        done: Of a question an `Outcome`; else what the call returned. Cancelled before its turn it
            is not asked.
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
    """The thread, and what waits for it.

    Args:
        store: Open; the thread closes it.
        queue: What waits.
        desk: Quotas and the audit log.
        repeats: Is given what was asked again.
        written: Called in the thread after each group that is durable, before its answers go.
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
        self._turns: list[Turn] = []  # that are under way, also beside
        self._stopped = False
        self._readers = FairPool(
            "reading", READERS, READS_EACH, queue.most, queue.each, behind=True
        )
        self._thread = threading.Thread(target=self._run, name="stream", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """The thread runs, and its store is open."""
        return self._thread.is_alive() and self.store.backend.database is not None

    def cancel(self) -> None:
        """Cancel whatever is not committed yet, and what has its turn from now on."""
        self._stopped = True
        for turn in list(self._turns):
            turn.cancellation.cancel(_stopping())

    def close(self) -> None:
        """Take nothing more, answer what waits, and close the store."""
        self.queue.close()
        self._thread.join()

    def _run(self) -> None:
        size, seconds = GROUP, 0.0  # of a group, and that a question took lately
        while turns := self.queue.take(size):
            live = [turn for turn in turns if self._begun(turn)]
            self._reopen()
            read = any(turn.readings.reads for turn in self._turns)  # then whoever commits is told
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
        self._readers.close()
        try:
            self.store.close()
        except SparseqError:
            LOG.exception("the store could not be closed well")

    def _begun(self, turn: Turn) -> bool:
        """Tell whether a turn is to be taken, and note that it is under way."""
        again = turn.done.running()  # it was read beside
        if not again and not turn.done.set_running_or_notify_cancel():
            return False
        if not again:
            self._turns.append(turn)
        if self._stopped:
            turn.cancellation.cancel(_stopping())
        return True

    def _ask(self, turns: Sequence[tuple[Turn, Ask]]) -> None:
        """Answer a group: what is refused before any row is looked at, and one transaction."""
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
        """Have a plan read by another thread; then its question is the next of its asker's.

        Returns:
            None; or why it can't be read now.
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
        """Return what is asked of the store; raises where it is refused before."""
        try:
            return self._request(turn, ask)
        except StoreError as error:
            LOG.exception("the store could not be asked")
            self.health.failed(error)
            raise _unusable() from error
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
        if query.unbounded is not None:  # some may have been found since it was lowered
            query = self.store.lower(query.text)
        with self.store.stream.held():  # columns may be read into memory meanwhile
            known = self._known(ask, query)
            price = None if known else price_of(self.store.stream, query, ask.options)
        if price is not None:
            self._desk.admit(turn.who, price)
            turn.price = price
        turn.request = Request(
            query, ask.options, ask.request_id, ask.fresh, turn.cancellation, turn.readings
        )
        return turn.request

    def _known(self, ask: Ask, query: Query) -> bool:
        """Tell whether a question is going to be a repeat."""
        if ask.request_id is not None:
            return bool(self.store.releases_of([ask.request_id]))
        return not ask.fresh and self.store.stream.repeats(query, ask.options)

    def _call(self, turn: Turn, call: Callable[[Store], Any]) -> None:
        try:
            if self.store.backend.database is None:
                raise _unusable()
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
        """Open a lake anew that another has written to, so that no answer is too old."""
        before, path = self.store, self.store.path
        assert path is not None
        try:
            self.store = sparseq.connect(path)
        except SparseqError:
            LOG.exception("what another has written to the lake can't be read")
            return
        self._desk.catch_up(self.store)
        before.close()

    def _reopen(self) -> None:
        """Open the store anew if it was abandoned: only the file knows what was written."""
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


def _unusable() -> ServerError:
    """Return what is said while the store can't be opened."""
    return ServerError(
        Why.FAILED, "the store can't be used now", "its operator finds why in the log"
    )


def _failure() -> ServerError:
    return ServerError(
        Why.FAILED,
        "the server failed, and nobody can tell whether this was answered",
        "ask again with the same request id: it is charged once at most",
    )
