"""The service under all protocols: sign in, describe, explain, ask, read back.

    service = Service(sparseq.connect("shop.sparseq"), Tokens(None))
    who = service.signed_in(secret)
    reply = await service.ask(who, Statement("SELECT count(*) AS n FROM purchases"))

The stream thread makes every call on the store; reading for long questions is done beside it. Other
threads lower, price and describe, by the tables' public twin alone, so that looking never waits for
an answer, and never charges. All of them take askers in turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar, overload

import pyarrow as pa

from sparseq.base.cancellation import Cancellation, checked_seconds
from sparseq.base.errors import (
    ParameterError,
    QueryCancelError,
    ServerError,
    SparseqError,
    StoreError,
    Why,
)
from sparseq.ledger.notes import Asker, RequestId
from sparseq.ledger.protocol import Release
from sparseq.released.render import schema_of, shown_columns
from sparseq.series.series_outlook import SeriesOutlook
from sparseq.server.audit import AuditFilter, AuditLog, AuditPage
from sparseq.server.jobs import Jobs, JobState, SeriesJob
from sparseq.server.quota_desk import Desk
from sparseq.server.releases import LatestReleases, Repeats
from sparseq.server.saved_questions import SavedQuestions
from sparseq.server.thread import Ask, FairPool, FairQueue, StreamThread, Turn
from sparseq.server.tokens import Door, Principal, Quota, Role, Tokens
from sparseq.sql.catalog import Catalog
from sparseq.sql.parameters import bound
from sparseq.sql.plan import Options, Query
from sparseq.sql.query_templates import Lowering
from sparseq.store.answer import Answer
from sparseq.store.ask import Params
from sparseq.store.explain import Explanation, dearest, explained
from sparseq.store.store import Store
from sparseq.stream.step import Outcome
from sparseq.stream.stream_progress import planned_price

T = TypeVar("T")
LOG = logging.getLogger("sparseq.server")
MOST_TEXT = 1 << 20
"""Bytes of a query that a server looks at."""
MOST_LOOKS = 64
"""Explanations and descriptions of one asker that may wait or be made at once; and look-ups."""
LOOKERS, LOOKS_EACH = 2, 1
"""Threads that lower, explain and describe, and how many of them do it for one asker."""
LOOKUPS, LOOKUPS_EACH = 4, 1
"""Threads that look up what is about nobody, and how many of them do it for one asker."""
GRACE = 5.0
"""Seconds that questions may go on once the server is to stop; then they are cancelled."""
MOST_ID = 200
"""Letters of a request id."""
_OPERATOR = Principal("", Role.CURATOR, Quota(), 0)  # no token has this name


@dataclass(frozen=True)
class Statement:
    """A question of somebody.

    Attributes:
        sql: One SELECT that aggregates.
        params: Values of its `?`, or by name of its `$name`.
        options: Noise and confidence.
        request_id: In the asker's own namespace: asked again under it, the recorded answer is
            returned, free. "": none.
        fresh: Ask anew, and pay, also what was asked before.
    """

    sql: str
    params: Params | None = None
    options: Options = field(default_factory=Options)
    request_id: str = ""
    fresh: bool = False

    def bound(self) -> str:
        """Return the SQL with its parameters written out."""
        if len(self.sql) > MOST_TEXT:
            raise ServerError(Why.SIZE, f"a query has {MOST_TEXT:,} letters at most")
        return self.sql if self.params is None else bound(self.sql, self.params)


@dataclass(frozen=True)
class Reply:
    """An answer; `repeat`: it was recorded already, and nothing was charged."""

    answer: Answer
    repeat: bool


@dataclass(frozen=True)
class QuestionStanding:
    """The standing of a question: public.

    Attributes:
        known: What it is answered with, free; None: to ask is charged.
        price: What asking anew costs a person at most, pilots and all.
    """

    known: Answer | None
    price: float


class Service:
    """One process serves one store to many. Use it from one event loop.

    Args:
        store: Open; it belongs to the service from now on.
        tokens: Who may ask.
        name: Of the database, as clients see it; by default the store's file's stem.
        audit: Where it is written who asked what; by default nowhere that stays.
        saved: Questions that people save; by default kept nowhere that stays.
        backups: A folder for copies of the store; None: none are made.
        most, each: What may wait at once, in all and of one asker.
        timeout: The most seconds that a question may take until it is committed; None: no limit.

    Attributes:
        catalog: The tables: public, and the same for as long as the store is served.
        public_rows: Rows of the tables that are about nobody, by name.
        latest: Releases, in their order, without their answers: public.
        door: Counts wrong tokens.
        jobs: How the server's own jobs are: for the curator.
        counts: What became of questions, by outcome, since the start: public.
        timeout: As given: public.
        lookups: Does what is about nobody, for parts of the server.
        stopping: Set when no new question is taken any more.
    """

    def __init__(
        self,
        store: Store,
        tokens: Tokens,
        name: str = "",
        *,
        audit: AuditLog | None = None,
        saved: SavedQuestions | None = None,
        backups: Path | None = None,
        most: int = 1024,
        each: int = 256,
        timeout: float | None = None,
    ) -> None:
        self.name = name or (store.path.stem if store.path else "memory")
        self.catalog: Catalog = store.catalog
        self.guarantee = store.guarantee
        self.tokens, self.backups = tokens, backups
        self.saved = saved or SavedQuestions(None)
        self.timeout = checked_seconds(timeout)
        self.stopping = asyncio.Event()
        twin, weighted = store.backend.public_twin(), store.stream.course is not None
        self.public_rows: Mapping[str, pa.Table] = twin[1]
        self.latest = LatestReleases()
        self.jobs: list[JobState] = []
        self._runner: Jobs | None = None
        self.counts: Counter[str] = Counter()
        self._cancellable: dict[tuple[str, str], Cancellation] = {}
        self._loop = asyncio.get_running_loop()
        self._grown = asyncio.Event()
        self.latest.catch_up(store)
        self.desk = Desk(audit or AuditLog(None), _planned_price(store))
        self.desk.begin(store)
        self.door = Door(self.desk.audit)
        self._repeats = Repeats()
        queue: FairQueue[Turn] = FairQueue(most, each)
        self._thread = StreamThread(store, queue, self.desk, self._repeats, self._written)
        self._writer = ThreadPoolExecutor(1, "audit")
        self.lookups = FairPool("lookup", LOOKUPS, LOOKUPS_EACH, each=MOST_LOOKS, behind=True)
        self._looking: Counter[str] = Counter()
        self._looks = FairPool("look", LOOKERS, LOOKS_EACH, 2 * most, each + MOST_LOOKS)
        self._lowerings: SimpleQueue[Lowering] = SimpleQueue()
        for _ in range(LOOKERS):
            self._lowerings.put(
                Lowering(
                    self.catalog,
                    *twin,
                    store.most,
                    weighted,
                    store.promise.least_people,
                    store.found_bounds,
                )
            )

    # -- who -------------------------------------------------------------------------------------

    def signed_in(self, secret: str, name: str = "", source: str = "") -> Principal:
        """Return whose token it is; of the name, if one is given.

        `source` says for the audit log where they are: a protocol and an address.

        Raises:
            ServerError: It is nobody's, or not any more.
        """
        who = self.tokens.signed_in(secret)
        if who is None or (name and who.name != name):
            raise _not_known()
        self._note_use(who)
        return replace(who, source=source)

    def named(self, name: str, source: str = "") -> Principal:
        """Return who has the name, once SCRAM has shown that they know the token.

        Raises:
            ServerError: Nobody has it, or not any more.
        """
        who = self.tokens.principal(name)
        if who is None:
            raise _not_known()
        self._note_use(who)
        return replace(who, source=source)

    def check(self, who: Principal) -> None:
        """Raise `ServerError` if the token was revoked since, or has expired."""
        if not self.tokens.holds(who):
            raise _not_known()
        self._note_use(who)

    def _note_use(self, who: Principal) -> None:
        """Take note that a token is used; now and then that is written down."""
        if self.tokens.use(who) and not self.stopping.is_set():
            self._loop.run_in_executor(self._writer, self._note_uses)

    def _note_uses(self) -> None:
        try:
            self.tokens.note_uses()
        except StoreError:
            LOG.exception("when tokens were used could not be written")

    # -- looking: never charged ------------------------------------------------------------------

    async def describe(self, who: Principal, statement: Statement) -> pa.Schema:
        """Return the columns that the answer will have (`Reply` has them so, or can be cast).

        Raises:
            QueryRefused: It can't be answered privately.
        """
        self.check(who)

        def look() -> pa.Schema:
            query = self._lower(statement.bound())
            whole = schema_of(query, self._thread.store.stream.weighs(query))
            return shown_columns(whole.empty_table(), statement.options.columns).schema

        return await self._look(who, look)

    async def explain(self, who: Principal, statement: Statement) -> Explanation:
        """Return what the question would be, in words and as `.facts`; and what is known of it.

        Raises:
            QueryRefused: It can't be answered privately.
        """
        self.check(who)

        def look() -> Explanation:
            stream = self._thread.store.stream
            query, options = self._lower(statement.bound()), statement.options
            with stream.held():
                known = stream.known(query, options, anyhow=True)
                return explained(stream, query, options, known)

        return await self._look(who, look)

    async def standing(self, who: Principal, statement: Statement) -> QuestionStanding:
        """Return what a question is known to be answered with, and what asking it anew costs.

        Raises:
            QueryRefused: It can't be answered privately.
        """
        self.check(who)

        def look() -> QuestionStanding:
            stream = self._thread.store.stream
            query, options = self._lower(statement.bound()), statement.options
            with stream.held():
                return QuestionStanding(
                    stream.known(query, options), dearest(stream, query, options)
                )

        return await self._look(who, look)

    # -- asking ----------------------------------------------------------------------------------

    async def ask(self, who: Principal, statement: Statement) -> Reply:
        """Answer a question, and charge for it; the answer is durable.

        Whoever cancels it (`Cancellation`, or the task that waits) before it is committed has not
        asked it: nothing was charged. From then on it is answered, and can be read back.

        Raises:
            QueryCancelError: It was, or took longer than it was given; nothing was charged.
            QueryRefused: It can't be answered privately.
            ServerError: Not this token, not now; nothing was charged (but see `Why.FAILED`).
        """
        self.check(who)
        who.needs(Role.ANALYST, Role.CURATOR)
        if len(statement.request_id) > MOST_ID:
            raise ServerError(Why.SIZE, f"a request id has {MOST_ID} letters at most")
        request = (
            RequestId.of(Asker.CLIENT, who.name, statement.request_id)
            if statement.request_id
            else None
        )
        sql, options = statement.bound(), replace(statement.options, columns=None)
        columns = statement.options.columns
        known = None if statement.fresh or request else self._known(sql, options)
        if known is not None:
            await self.write(self.desk.repeat, who, sql, known)
            return Reply(known.showing(columns), repeat=True)
        try:
            self.desk.check_refused(who)
            with Cancellation(self.timeout) as work:
                lower = partial(self._lower, sql, refused=True)
                query = await done_in(self._looks, who, lower)
                ask = Ask(sql, query, options, request, statement.fresh)
                outcome: Outcome = await self._wait(Turn(who, ask, cancellation=work))
        except SparseqError as error:
            self.counts[_word(error)] += 1
            raise
        assert outcome.answer is not None
        self.counts["repeat" if outcome.recorded else "answered"] += 1
        return Reply(outcome.answer.showing(columns), outcome.recorded)

    def _known(self, sql: str, options: Options) -> Answer | None:
        """Return what a question is known to be answered with: it takes no turn."""
        self._still_open()
        store = self._thread.store
        answer = None if store.backend.behind else self._repeats.get(store.stream, sql, options)
        if answer is not None:
            self.counts["repeat"] += 1
        return answer

    # -- series that a curator begins ------------------------------------------------------------

    def runs(self, jobs: Jobs) -> None:
        """Say who runs this server's jobs: series are begun and ended there."""
        self.jobs, self._runner = jobs.states, jobs

    async def expected(self, who: Principal, series: SeriesJob) -> SeriesOutlook:
        """Return what a series is going to be like; raises as `SeriesJob.expected`."""
        return await self.call(who, series.expected)

    async def begin_series(self, who: Principal, series: SeriesJob) -> None:
        """Begin a series: it goes on, also after the server has stopped and begun again.

        Raises:
            ParameterError: There is one of its name, or it can't be asked so.
            QueryRefused: It can't be answered, or would end badly.
        """
        who.needs(Role.CURATOR)
        jobs = self._running()
        await self.expected(who, series)
        await jobs.begin(series)
        await self.note(who, "series begun", series=series.name, query=series.sql)

    async def end_series(self, who: Principal, name: str) -> None:
        """Ask no further tick of a series; its answers stay.

        Raises:
            ServerError: None of this name was begun so.
        """
        who.needs(Role.CURATOR)
        if not await self._running().end(name):
            raise ServerError(Why.ABSENT, f"there is no series {name!r} to end")
        await self.note(who, "series ended", series=name)

    def _running(self) -> Jobs:
        if self._runner is None:
            raise ParameterError("this server runs no series", "begin it with `sparseq serve`")
        return self._runner

    # -- reading back: free ----------------------------------------------------------------------

    async def history(self, who: Principal, last: int | None = None) -> list[Release]:
        """Return what was answered, oldest first."""
        self.check(who)
        return await self.call(who, lambda store: store.releases(last))

    async def listed(self, who: Principal, before: int, last: int) -> list[Release]:
        """Return releases before one, without their answers, oldest first."""
        self.check(who)
        held = self.latest.before(before, last)
        if held is not None:
            return held
        releases = await self.call(who, lambda store: store.releases(last, before))
        return [replace(release, answer=b"") for release in releases]

    async def release(self, who: Principal, number: int) -> Answer:
        """Return a recorded answer.

        Raises:
            ServerError: There is none of this number.
        """
        self.check(who)

        def read(store: Store) -> Answer:
            if not 1 <= number <= store.released:
                raise ServerError(Why.ABSENT, f"there is no release {number}")
            return store.release(number)

        return await self.call(who, read)

    @property
    def waiting(self) -> int:
        """Number of questions that wait for their turn."""
        return len(self._thread.queue)

    @property
    def alive(self) -> bool:
        """The store is open, and answers are made."""
        return self._thread.alive

    async def well(self) -> bool:
        """Tell whether answers can be made durable, without waiting for any: public (`Health`)."""
        if not self.alive or not self._thread.health.well:
            return False
        try:
            return await asyncio.wait_for(asyncio.to_thread(self._thread.health.roomy), 1.0)
        except TimeoutError:
            return False

    @property
    def differences(self) -> int:
        """Times that somebody's rows gave another answer alone: private (see `Stream`)."""
        return self._thread.store.stream.differences

    @property
    def released(self) -> int:
        """Number of answers: public."""
        return self._thread.store.released

    async def grown(self, releases: int) -> None:
        """Wait until there are more answers than so many, or the server stops."""
        while len(self.latest) <= releases and not self.stopping.is_set():
            await self._grown.wait()

    def stop(self) -> None:
        """Take no new question; what is not committed after `GRACE` seconds is cancelled."""
        if not self.stopping.is_set():
            self._loop.call_later(GRACE, self._thread.cancel)
        self.stopping.set()
        self._grown.set()

    async def call(self, who: Principal, call: Callable[[Store], T]) -> T:
        """Return what a call on the store does, in its turn; for parts of the server."""
        self.check(who)
        result: T = await self._wait(Turn(who, call))
        return result

    async def operate(self, call: Callable[[Store], T]) -> T:
        """Return what a call on the store does, for who runs the server, in its turn."""
        result: T = await self._wait(Turn(_OPERATOR, call))
        return result

    @contextmanager
    def cancellable(self, who: Principal, request: str) -> Iterator[None]:
        """Have what is done within cancelled by `cancel`, by the name that its asker gave it."""
        with Cancellation() as work:
            self._cancellable[who.name, request] = work
            try:
                yield
            finally:
                self._cancellable.pop((who.name, request), None)

    def cancel(self, who: Principal, request: str) -> None:
        """Cancel somebody's own request, if it is under way."""
        if (work := self._cancellable.get((who.name, request))) is not None:
            work.cancel()

    async def note(self, who: Principal, what: str, **facts: Any) -> None:
        """Write a line to the audit log."""
        await self.write(partial(self.desk.tell, what, who.name, source=who.source, **facts))

    async def audited(self, last: int) -> list[dict[str, Any]]:
        """Return so many of the last lines of the audit log, newest first: for the curator."""
        return await asyncio.to_thread(self.desk.audit.latest, last)

    async def audit_page(self, wanted: AuditFilter, before: int | None, last: int) -> AuditPage:
        """Return some lines of the audit log, newest first: for the curator."""
        return await asyncio.to_thread(self.desk.audit.page, wanted, before, last)

    async def write(self, call: Callable[..., T], *given: Any) -> T:
        """Return what a call does that writes files, in a thread of its own: the loop goes on."""
        return await self._loop.run_in_executor(self._writer, call, *given)

    # -- the end ---------------------------------------------------------------------------------

    async def close(self) -> None:
        """Take no new question; what waits is answered, as `stop` says, and the store closed."""
        self.stop()
        await asyncio.to_thread(self._thread.close)
        await self.write(self.desk.tell, "stopped", "")
        await self.write(self._note_uses)
        await self.write(self.saved.close)
        await asyncio.to_thread(self._writer.shutdown)
        for pool in (self._looks, self.lookups):
            await asyncio.to_thread(pool.close)
        while not self._lowerings.empty():
            self._lowerings.get().close()

    def _still_open(self) -> None:
        if self.stopping.is_set():
            raise ServerError(Why.CLOSING, "the server is stopping", "try again in a minute")

    def _written(self, store: Store) -> None:
        """Note what is durable; called in the stream thread."""
        self.latest.catch_up(store)
        self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()

    async def _wait(self, turn: Turn) -> Any:
        self._still_open()
        with turn.cancellation.interrupts(turn.done.cancel):
            self._thread.queue.put(turn.who.name, turn)
            return await ended(turn.done, turn.cancellation)

    async def _look(self, who: Principal, look: Callable[[], T]) -> T:
        self._still_open()
        if self._looking[who.name] >= MOST_LOOKS:
            raise ServerError(Why.BUSY, f"{MOST_LOOKS} looks of yours are waiting already")
        self._looking[who.name] += 1
        try:
            return await done_in(self._looks, who, look)
        finally:
            self._looking[who.name] -= 1

    @overload
    def _lower(self, sql: str) -> Query: ...

    @overload
    def _lower(self, sql: str, refused: bool) -> Query | SparseqError: ...

    def _lower(self, sql: str, refused: bool = False) -> Query | SparseqError:
        """Lower SQL in a looking thread; `refused`: return why it can't be."""
        lowering = self._lowerings.get()
        try:
            return lowering.lower(sql)
        except QueryCancelError:
            raise
        except SparseqError as error:
            if not refused:
                raise
            return error
        finally:
            self._lowerings.put(lowering)


async def ended(done: Future[T], work: Cancellation) -> T:
    """Return what comes of work; whoever stops waiting has cancelled it.

    Raises:
        QueryCancelError: It was, by another.
    """
    try:
        return await asyncio.wrap_future(done)
    except asyncio.CancelledError:
        work.check()
        work.cancel()
        raise


async def done_in(pool: FairPool, who: Principal, run: Callable[[], T]) -> T:
    """Have something done for somebody in their turn; it can be cancelled."""
    with Cancellation() as work:
        result: T = await ended(pool.submit(who.name, run), work)
        return result


def _word(error: SparseqError) -> str:
    """Return what an outcome is counted as: public."""
    if isinstance(error, ServerError):
        return str(error.why)
    return "cancelled" if isinstance(error, QueryCancelError) else "refused"


def _planned_price(store: Store) -> float:
    """Return what the answers that a store is planned for may cost a person together: public."""
    whole = store.guarantee.norm_budget
    return whole if store.stream.course is None else planned_price(whole)


def no_token() -> ServerError:
    """Return what is said to who came without a token: nothing was wrong."""
    return ServerError(
        Why.SIGN_IN, "no token came with this", "send it as Authorization: Bearer sq_…"
    )


def _not_known() -> ServerError:
    return ServerError(
        Why.SIGN_IN, "there is no such token, or not any more", "`sparseq token create` makes one"
    )
