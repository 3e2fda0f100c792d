"""The service behind all protocols: sign in, describe, explain, ask, read.

    service = Service(sparseq.connect("shop.sparseq"), Tokens(None))
    who = service.signed_in(secret)
    reply = await service.ask(who, Statement("SELECT count(*) AS n FROM purchases"))

The stream thread makes every call on the store; another thread reads rows for long questions.
Further threads lower, price and describe, only with the tables' public twin, so a look-up never
waits for an answer, and never charges. All queues are fair between users.
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
from typing import Any, TypeVar

import pyarrow as pa

from sparseq.answers.answer import Answer
from sparseq.base.cancellation import Cancellation, checked_seconds
from sparseq.base.errors import (
    ParameterError,
    QueryCancelError,
    ServerError,
    SparseqError,
    StoreError,
    Why,
)
from sparseq.ledger.releases import Release
from sparseq.ledger.request_id import Asker, RequestId
from sparseq.question.catalog import Catalog
from sparseq.question.plan import Options, Query
from sparseq.released.render import schema_of
from sparseq.released.result_columns import shown_columns
from sparseq.series.series_outlook import SeriesOutlook
from sparseq.server.audit import AuditFilter, AuditLog, AuditPage
from sparseq.server.certificate import Certificate
from sparseq.server.fair_queue import FairPool, FairQueue
from sparseq.server.job import JobState
from sparseq.server.jobs import Jobs
from sparseq.server.kept_jobs import SeriesJob
from sparseq.server.open_connections import OpenConnections
from sparseq.server.quota_desk import Desk
from sparseq.server.releases import LatestReleases
from sparseq.server.repeats import Repeats
from sparseq.server.saved_questions import SavedQuestions
from sparseq.server.thread import Ask, StreamThread, Turn, unusable
from sparseq.server.tokens import Principal, Quota, Role, Tokens
from sparseq.server.wrong_tokens import Door
from sparseq.sql.lowered_queries import Lowering
from sparseq.sql.parameters import bound
from sparseq.store import public_view
from sparseq.store.ask import Params
from sparseq.store.explain import Explanation
from sparseq.store.public_view import PublicView
from sparseq.store.store import Store
from sparseq.stream.batches import Outcome
from sparseq.stream.full_weight import planned_price
from sparseq.stream.side_reads import Readings

T = TypeVar("T")
LOG = logging.getLogger("sparseq.server")
MOST_LOOKS = 64
"""The maximum number of explanations and descriptions of one user, waiting or in work; and of
look-ups.
"""
LOOKERS, LOOKS_EACH = 2, 1
"""Threads that lower, explain and describe, in all and for one user."""
LOOKUPS, LOOKUPS_EACH = 4, 1
"""Threads for look-ups without personal data, in all and for one user."""
READING_SECONDS = 120.0
"""The time that a question's rows may be read, unless the operator says otherwise."""
GRACE = 5.0
"""Seconds for running questions once the server is stopping; then they are cancelled."""
MOST_ID = 200
"""The maximum number of characters of a request id."""
_OPERATOR = Principal("", Role.CURATOR, Quota(), 0)  # no token has this name


@dataclass(frozen=True)
class Statement:
    """A question of a user.

    Attributes:
        sql: One SELECT that aggregates.
        params: Values of its `?`, or by name of its `$name`.
        options: Noise and confidence.
        request_id: A name in the user's own namespace: a repetition returns the recorded answer,
            free. "": none.
        fresh: True to ask again, and pay, even if an answer is recorded.
    """

    sql: str
    params: Params | None = None
    options: Options = field(default_factory=Options)
    request_id: str = ""
    fresh: bool = False

    def bound(self) -> str:
        """Return the SQL with its parameters as literals."""
        return self.sql if self.params is None else bound(self.sql, self.params)


@dataclass(frozen=True)
class Reply:
    """An answer; `repeat`: it was recorded already, and nothing was charged."""

    answer: Answer
    repeat: bool


@dataclass(frozen=True)
class QuestionStanding:
    """The state of a question: public.

    Attributes:
        known: Its free answer; None: asking is charged.
        price: The maximum charge of a new answer to a user, with pilots.
    """

    known: Answer | None
    price: float


class Service:
    """One process serves one store to many users. Use it from one event loop.

    Args:
        store: An open store; it belongs to the service from now on.
        tokens: The tokens.
        name: The name of the database for clients; by default the stem of the store's file.
        audit: The audit log; by default in memory.
        saved: The saved questions; by default in memory.
        backups: A folder for copies of the store; None: no backups.
        most, each: The maximum number of waiting questions, in all and of one user.
        timeout: The time-out of a question until it is committed, in seconds; None: none.
        reading: The time that a question's rows may be read, in seconds; None: any.

    Attributes:
        catalog: The tables: public, and constant while the store is served.
        public_rows: Rows of the public tables, by name.
        latest: Releases, in their order, without their answers: public.
        door: Counts wrong tokens.
        jobs: The states of the server's own jobs: for the curator.
        counts: The number of questions by outcome, since the start: public.
        timeout, reading: The time-outs: public.
        lookups: The pool for look-ups without personal data, for parts of the server.
        stopping: Set when no new question is accepted any more.
        connections: The open connections, of all protocols.
        certificate: The server's certificate; None: it has no TLS of its own.
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
        reading: float | None = READING_SECONDS,
    ) -> None:
        self.name = name or (store.path.stem if store.path else "memory")
        self.catalog: Catalog = store.catalog
        self.guarantee = store.guarantee
        self.tokens, self.backups = tokens, backups
        self.saved = saved or SavedQuestions(None)
        self.timeout, self.reading = checked_seconds(timeout), checked_seconds(reading)
        self.stopping = asyncio.Event()
        self.connections = OpenConnections()
        self.certificate: Certificate | None = None
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
        self._views: SimpleQueue[PublicView] = SimpleQueue()
        for _ in range(LOOKERS):
            lowering = Lowering(
                self.catalog,
                *twin,
                store.most,
                weighted,
                store.promise.least_people,
                store.found_bounds,
                store.guarantee.keys_delta > 0,
            )
            self._views.put(PublicView(store, lowering))

    # Users.

    def signed_in(self, secret: str, name: str = "", source: str = "") -> Principal:
        """Return the token's principal; `name` must match if given.

        `source` is a protocol and an address, for the audit log.

        Raises:
            ServerError: The token is invalid, or not valid any more.
        """
        who = self.tokens.signed_in(secret)
        if who is None or (name and who.name != name):
            raise _not_known()
        self._note_use(who)
        return replace(who, source=source)

    def named(self, name: str, source: str = "") -> Principal:
        """Return the principal with a name, after SCRAM has verified the token.

        Raises:
            ServerError: The name has no valid token.
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
        """Record that a token is used; now and then this is written to its file."""
        if self.tokens.use(who) and not self.stopping.is_set():
            self._loop.run_in_executor(self._writer, self._note_uses)

    def _note_uses(self) -> None:
        try:
            self.tokens.note_uses()
        except StoreError:
            LOG.exception("when tokens were used could not be written")

    # Look-ups: never charged.

    async def describe(self, who: Principal, statement: Statement) -> pa.Schema:
        """Return the columns of the answer (`Reply` has them in this form, or can be cast).

        Raises:
            QueryRefused: It can't be answered privately.
        """
        self.check(who)

        def look(view: PublicView) -> pa.Schema:
            query = view.lower(statement.bound())
            whole = schema_of(query, view.stream.weighs(query))
            return shown_columns(whole.empty_table(), statement.options.columns).schema

        return await self._look(who, look)

    async def explain(self, who: Principal, statement: Statement) -> Explanation:
        """Return the explanation of a question, in words and as `.facts`, and its known answer.

        Raises:
            QueryRefused: It can't be answered privately.
        """
        self.check(who)

        def look(view: PublicView) -> Explanation:
            return view.explain(view.lower(statement.bound()), statement.options)

        return await self._look(who, look)

    async def standing(self, who: Principal, statement: Statement) -> QuestionStanding:
        """Return the known answer of a question, and the price of a new one.

        Raises:
            QueryRefused: It can't be answered privately.
        """
        self.check(who)

        def look(view: PublicView) -> QuestionStanding:
            query, options = view.lower(statement.bound()), statement.options
            return QuestionStanding(view.known(query, options), view.charge(query, options))

        return await self._look(who, look)

    # Questions.

    async def ask(self, who: Principal, statement: Statement) -> Reply:
        """Answer a question, and charge for it; the answer is durable.

        If it is cancelled (`Cancellation`, or the waiting task) before its commit, it was not
        asked: nothing was charged. After the commit it is answered, and can be read.

        Raises:
            QueryCancelError: It was cancelled, or exceeded its time-out; nothing was charged.
            QueryRefused: It can't be answered privately.
            ServerError: The token or the server does not allow it now; nothing was charged (but see
                `Why.FAILED`).
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
        repeats = not statement.fresh and request is None
        self._still_open()
        store = self._thread.store
        if repeats and not store.backend.behind:
            known = self._repeats.get(store.stream, sql, options)
        else:
            known = None
        if known is not None:
            return await self._repeated(who, sql, known, columns)
        try:
            self.desk.check_refused(who)
            with Cancellation(self.timeout) as work:
                query = await done_in(self._looks, who, partial(self._lower, sql))
                if repeats and self._thread.busy and isinstance(query, Query):
                    look = partial(PublicView.repeat, query=query, options=options)
                    known = await done_in(self._looks, who, partial(self._viewing, look))
                    if known is not None:
                        return await self._repeated(who, sql, known, columns)
                ask = Ask(sql, query, options, request, statement.fresh)
                turn = Turn(who, ask, readings=Readings(self.reading), cancellation=work)
                outcome: Outcome = await self._wait(turn)
        except SparseqError as error:
            self.counts[_word(error)] += 1
            raise
        assert outcome.answer is not None
        self.counts["repeat" if outcome.recorded else "answered"] += 1
        return Reply(outcome.answer.showing(columns), outcome.recorded)

    async def _repeated(
        self, who: Principal, sql: str, known: Answer, columns: str | None
    ) -> Reply:
        """Return a recorded answer that needs no turn."""
        self.counts["repeat"] += 1
        await self.write(self.desk.repeat, who, sql, known)
        return Reply(known.showing(columns), repeat=True)

    # Series that a curator begins.

    def runs(self, jobs: Jobs) -> None:
        """Set the runner of this server's jobs: it begins and ends series."""
        self.jobs, self._runner = jobs.states, jobs

    async def expected(self, who: Principal, series: SeriesJob) -> SeriesOutlook:
        """Return the forecast of a series; raise errors as `SeriesJob.expected`."""
        return await self.call(who, series.expected)

    async def begin_series(self, who: Principal, series: SeriesJob) -> None:
        """Begin a series: it continues after a restart of the server.

        Raises:
            ParameterError: The name exists, or it can't be asked in this form.
            QueryRefused: It can't be answered, or would fail later.
        """
        who.needs(Role.CURATOR)
        jobs = self._running()
        await self.expected(who, series)
        await jobs.begin(series)
        await self.note(who, "series begun", series=series.name, query=series.sql)

    async def end_series(self, who: Principal, name: str) -> None:
        """Ask no further tick of a series; its answers stay.

        Raises:
            ServerError: No series with this name was begun in this way.
        """
        who.needs(Role.CURATOR)
        if not await self._running().end(name):
            raise ServerError(Why.ABSENT, f"there is no series {name!r} to end")
        await self.note(who, "series ended", series=name)

    def _running(self) -> Jobs:
        if self._runner is None:
            raise ParameterError(
                "this server runs no series", ("start the server with `sparseq serve`")
            )
        return self._runner

    # Reading: free.

    async def history(self, who: Principal, last: int | None = None) -> list[Release]:
        """Return the releases, oldest first."""
        return await self._read(who, lambda store: public_view.releases(store, last))

    async def listed(self, who: Principal, before: int, last: int) -> list[Release]:
        """Return releases before one, without their answers, oldest first."""
        self.check(who)
        held = self.latest.before(before, last)
        if held is not None:
            return held
        releases = await self._read(who, lambda store: public_view.releases(store, last, before))
        return [replace(release, answer=b"") for release in releases]

    async def release(self, who: Principal, number: int) -> Answer:
        """Return a recorded answer.

        Raises:
            ServerError: No release has this number.
        """

        def read(store: Store) -> Answer:
            if not 1 <= number <= store.released:
                raise ServerError(Why.ABSENT, f"there is no release {number}")
            return public_view.recorded(store, number)

        return await self._read(who, read)

    async def budget(self, who: Principal) -> dict[str, Any]:
        """Return the store's promise, and the progress of its stream."""
        return await self._read(who, public_view.budget_facts)

    async def card(self, who: Principal, notes: Mapping[str, str]) -> dict[str, Any]:
        """Return the store's deployment card: public facts, and the notes."""
        return await self._read(who, lambda store: public_view.card_facts(store, notes))

    async def _read(self, who: Principal, read: Callable[[Store], T]) -> T:
        """Return data recorded in the store, without waiting for its stream."""
        self.check(who)
        await self._opened()

        def reading() -> T:
            try:
                return read(self._thread.store)
            except StoreError as error:
                raise unusable() from error

        return await done_in(self.lookups, who, reading)

    async def _opened(self) -> None:
        """Let the stream open the store again, if it is closed."""
        self._still_open()
        if not self.alive:
            await self.operate(lambda store: None)

    @property
    def waiting(self) -> int:
        """Number of questions that wait for their turn."""
        return len(self._thread.queue)

    @property
    def ready(self) -> bool:
        """True if new questions are accepted now: public."""
        queue = self._thread.queue
        return not self.stopping.is_set() and self.alive and len(queue) < queue.most

    @property
    def alive(self) -> bool:
        """True if the store is open, and answers are made."""
        return self._thread.alive

    async def well(self) -> bool:
        """Tell whether answers can be made durable, without waiting: public (`Health`)."""
        if not self.alive or not self._thread.health.well:
            return False
        try:
            return await asyncio.wait_for(asyncio.to_thread(self._thread.health.roomy), 1.0)
        except TimeoutError:
            return False

    @property
    def differences(self) -> int:
        """Number of times that a user's rows gave another result alone: private (see `Stream`)."""
        return self._thread.store.stream.differences

    @property
    def released(self) -> int:
        """Number of answers: public."""
        return self._thread.store.released

    async def grown(self, releases: int) -> None:
        """Wait until there are more answers than `releases`, or the server stops."""
        while len(self.latest) <= releases and not self.stopping.is_set():
            await self._grown.wait()

    def stop(self) -> None:
        """Accept no new question; cancel those that are not committed after `GRACE` seconds."""
        if not self.stopping.is_set():
            self._loop.call_later(GRACE, self._thread.cancel)
        self.stopping.set()
        self._grown.set()

    async def call(self, who: Principal, call: Callable[[Store], T]) -> T:
        """Return the result of a call on the store in its turn; for parts of the server."""
        self.check(who)
        result: T = await self._wait(Turn(who, call))
        return result

    async def operate(self, call: Callable[[Store], T]) -> T:
        """Return the result of a call on the store in its turn; for the operator."""
        result: T = await self._wait(Turn(_OPERATOR, call))
        return result

    @contextmanager
    def cancellable(self, who: Principal, request: str) -> Iterator[None]:
        """Let `cancel` cancel the work in the block, by the name that its user gave it."""
        with Cancellation() as work:
            self._cancellable[who.name, request] = work
            try:
                yield
            finally:
                self._cancellable.pop((who.name, request), None)

    def cancel(self, who: Principal, request: str) -> None:
        """Cancel a user's own request, if it is running."""
        if (work := self._cancellable.get((who.name, request))) is not None:
            work.cancel()

    async def note(self, who: Principal, what: str, **facts: Any) -> None:
        """Write a line to the audit log."""
        await self.write(partial(self.desk.tell, what, who.name, source=who.source, **facts))

    async def audited(self, last: int) -> list[dict[str, Any]]:
        """Return the newest lines of the audit log, newest first: for the curator."""
        return await asyncio.to_thread(self.desk.audit.latest, last)

    async def audit_page(self, wanted: AuditFilter, before: int | None, last: int) -> AuditPage:
        """Return some lines of the audit log, newest first: for the curator."""
        return await asyncio.to_thread(self.desk.audit.page, wanted, before, last)

    async def write(self, call: Callable[..., T], *given: Any) -> T:
        """Return the result of a call that writes files, in a separate thread."""
        return await self._loop.run_in_executor(self._writer, call, *given)

    # Closing.

    async def close(self) -> None:
        """Accept no new question; answer those that wait, as for `stop`, and close the store."""
        self.stop()
        await asyncio.to_thread(self._thread.close)
        await self.write(self.desk.tell, "stopped", "")
        await self.write(self._note_uses)
        await self.write(self.saved.close)
        await asyncio.to_thread(self._writer.shutdown)
        for pool in (self._looks, self.lookups):
            await asyncio.to_thread(pool.close)
        while not self._views.empty():
            self._views.get().lowering.close()

    def _still_open(self) -> None:
        if self.stopping.is_set():
            raise ServerError(Why.CLOSING, "the server is stopping", "try again in a minute")

    def _written(self, store: Store) -> None:
        """Record a durable commit; called in the stream thread."""
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

    async def _look(self, who: Principal, look: Callable[[PublicView], T]) -> T:
        await self._opened()
        if self._looking[who.name] >= MOST_LOOKS:
            raise ServerError(Why.BUSY, f"{MOST_LOOKS} looks of yours are waiting already")
        self._looking[who.name] += 1
        try:
            return await done_in(self._looks, who, partial(self._viewing, look))
        finally:
            self._looking[who.name] -= 1

    def _lower(self, sql: str) -> Query | SparseqError:
        """Lower SQL in a look-up thread; a refusal is returned."""
        view = self._views.get()
        try:
            return view.lower(sql)
        except QueryCancelError:
            raise
        except SparseqError as error:
            return error
        finally:
            self._views.put(view)

    def _viewing(self, look: Callable[[PublicView], T]) -> T:
        """Return the current view of the store for a look-up thread."""
        view, store = self._views.get(), self._thread.store
        try:
            if view.store is not store:  # it was opened again
                view = PublicView(store, view.lowering)
            view.refresh()
            return look(view)
        except StoreError as error:
            raise unusable() from error
        finally:
            self._views.put(view)


async def ended(done: Future[T], work: Cancellation) -> T:
    """Return the result of work; a caller that stops waiting cancels it.

    Raises:
        QueryCancelError: Another caller cancelled it.
    """
    try:
        return await asyncio.wrap_future(done)
    except asyncio.CancelledError:
        work.check()
        work.cancel()
        raise


async def done_in(pool: FairPool, who: Principal, run: Callable[[], T]) -> T:
    """Run something for a user in turn; it can be cancelled."""
    with Cancellation() as work:
        result: T = await ended(pool.submit(who.name, run), work)
        return result


def _word(error: SparseqError) -> str:
    """Return the label under which an outcome is counted: public."""
    if isinstance(error, ServerError):
        return str(error.why)
    return "cancelled" if isinstance(error, QueryCancelError) else "refused"


def _planned_price(store: Store) -> float:
    """Return the total price of the answers that a store is planned for: public."""
    whole = store.guarantee.norm_budget
    return whole if store.stream.course is None else planned_price(whole)


def no_token() -> ServerError:
    """Return the error for a client without a token: nothing counts as wrong."""
    return ServerError(
        Why.SIGN_IN, "the request has no token", "send it as Authorization: Bearer sq_…"
    )


def _not_known() -> ServerError:
    return ServerError(
        Why.SIGN_IN, "there is no such token, or not any more", "`sparseq token create` makes one"
    )
