"""A store: one data set about people with its ledger, in one file, and the stream of queries.

What is asked goes into the stream (`sparseq.stream`); here is lowering, loading and reading back.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime as dt
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sparseq.accounting._numbers import count
from sparseq.base.arguments import check_arguments
from sparseq.base.errors import (
    ParameterError,
    QueryCancelError,
    QueryRefused,
    StoreError,
)
from sparseq.engine.contributions import Contributions, as_arrow, contributions_of, triplet_query
from sparseq.ledger.notes import Note, RequestId, requested
from sparseq.ledger.protocol import Release
from sparseq.ledger.purposes import Pot
from sparseq.load.read_schema import Schema
from sparseq.sql.catalog import FOUND, FOUND_BOUNDS, Catalog, KnownBounds
from sparseq.sql.plan import ROWS, Options, Plan, Query, check_most
from sparseq.store.answer import Answer, first_row
from sparseq.store.ask import Asking
from sparseq.store.backend import Backend
from sparseq.store.found_bounds import with_bounds
from sparseq.store.population import draw, newcomers
from sparseq.store.store_promise import StorePromise
from sparseq.stream.draft import Participation, Terms
from sparseq.stream.step import Mechanism, Outcome, Request, Stream, ask_many

if TYPE_CHECKING:
    from sparseq.sql.query_templates import Lowering

_OPEN_AGAIN = "open it with sparseq.connect(path)"
_open_stores: weakref.WeakSet[Store] = weakref.WeakSet()


def _close_all() -> None:
    """Close what is open when the process ends, so that nothing lies beside the files."""
    for store in list(_open_stores):
        with contextlib.suppress(Exception):
            store.close()


atexit.register(_close_all)


class Store(Asking):
    """An open store. Use `sparseq.create` or `sparseq.connect`; a context manager.

    Threads may share it; queries are answered one after the other. One process at a time can have
    it open.

    Attributes:
        promise: What it promises to everybody in it: public.
        losses: When it was opened although a part of it was missing: public. Each is a hole in the
            guarantee, since what the missing answers cost is not in the accounts.
        stream: Accounts, engine and ledger: private, for the curator and for parts of sparseq.
        backend: Where the store lives: private as well.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        _open_stores.add(self)
        self._pid = os.getpid()
        promise = self.promise = StorePromise(backend)
        self.reserves, self.guarantee = promise.reserves, promise.budget
        self.halt, self.seed, self.losses = promise.halt, promise.seed, promise.losses
        self.catalog: Catalog = backend.catalog.with_found(backend.ledger.fact(FOUND) or {})
        self.most = check_most(backend.settings.get("most"))
        asks = backend.settings.get("finds_bounds", True)
        self.found_bounds = KnownBounds.kept(backend.ledger.fact(FOUND_BOUNDS) or {}, asks)
        self.stream = Stream(
            backend.engine,
            backend.ledger,
            Terms(
                self.guarantee,
                self.seed,
                len(self.losses),
                promise.begun,
                self.most.get(ROWS),
                self.catalog.unit,
                tuple(promise.reserves.values()),
            ),
            partial(_lowered_again, weakref.ref(self)),
            _weakly(self._check_open),
            _weakly(self._abandon),
        )
        self._lowering: Lowering | None = None  # made for the first query
        self._why_closed = ""

    @property
    def path(self) -> Path | None:
        """Of the store's file; None: it is in memory."""
        return self.backend.path

    # -- the stream ------------------------------------------------------------------------------

    def ask(
        self,
        query: Query,
        options: Options | None = None,
        request_id: RequestId | str | None = None,
        fresh: bool = False,
        pot: Pot = Pot.QUERIES,
    ) -> Answer:
        """Answer one lowered query (Algorithm 2, one step), if it is not answered already.

        The same question, however it is spelled, with the same options and about the same data, has
        one answer: it is read back (`facts.repeated`), with no new noise and no charge. A new
        request id asks anew.

        Args:
            query: From `lower`, or a front end's.
            options: Noise and confidence.
            request_id: Asking again with the same id returns the recorded answer: no new noise,
                no charge. Any text; it is an analyst's, and never that of a monitor's tick or of
                anything else that the system asks (see `sparseq.ledger.notes`).
            fresh: Ask anew, and pay, also what was answered before.
            pot: What it is paid from.

        Raises:
            QueryRefused: The query has no public scale, or the id belongs to another query.
        """
        if query.unbounded is not None:
            query = with_bounds(self, query, options or Options())
        answer = self.stream.ask(query, options, request_id, fresh, pot)
        return answer if options is None else answer.showing(options.columns)

    def step(
        self,
        query: Query,
        contributions: Callable[[Plan], Contributions],
        options: Options | None = None,
        request_id: RequestId | str | None = None,
        *,
        pot: Pot = Pot.QUERIES,
        gated: Callable[[Participation], Sequence[Note]] = lambda _: (),
        mechanism: Mechanism | None = None,
        shown: Callable[[], pa.Table] | None = None,
    ) -> Answer:
        """Answer one query whose contributions the caller computes: the stream's only step.

        Args:
            query: What is asked; its text stands for it in the history.
            contributions: Makes them, once the lattice is fixed. Each user's must come from that
                user's data and from public facts alone.
            options, request_id: See `ask`.
            pot: What it is paid from.
            gated: Told who was active, before anything is written; what it returns is written
                with the release or not at all. Private.
            mechanism: Makes the released integers of the exact sums, in lattice steps; by default
                it adds Gaussian noise. Another must be worth a user's charge, and in its docs say
                why; nothing but zCDP is claimed of a store that has one.
            shown: Makes the answer's table of what was released; by default it is the noised
                numbers.

        Raises:
            QueryRefused: See `ask`.
            ParameterError: The store has set nothing aside for the pot.
        """
        return self.stream.step(
            query,
            contributions,
            options,
            request_id,
            pot=pot,
            gated=gated,
            mechanism=mechanism,
            shown=shown,
        )

    def ask_many(self, asked: Iterable[Request]) -> Iterator[Outcome]:
        """Answer many queries, none of which depends on another's answer: `ask`, many times faster.

        Answers, charges and who is left out are those of asking one by one, in this order. A query
        that is refused is told so, and the others go on. Queries that differ in their dates only
        share a scan, and some hundreds of them a transaction.

        Example:
            >>> import sparseq, pyarrow as pa
            >>> con = sparseq.create(None, {"t": pa.table({"who": [1, 2]})}, user="who", seed=1)
            >>> query = con.lower("SELECT count(*) AS n FROM t")
            >>> [outcome.answer.facts.release for outcome in con.ask_many([Request(query)] * 3)]
            [1, 1, 1]
        """
        return ask_many(self.stream, map(self._bounded, asked))

    def _bounded(self, request: Request) -> Request:
        """Return a request with the bounds that its question needs, if they can be found."""
        if request.query.unbounded is None:
            return request
        with contextlib.suppress(QueryRefused, ParameterError, QueryCancelError):
            work = request.cancellation
            with work.ambient() if work else contextlib.nullcontext():
                return replace(request, query=with_bounds(self, request.query, request.options))
        return request  # its own turn will tell

    # -- asking ----------------------------------------------------------------------------------

    @check_arguments
    def lower(self, sql: str) -> Query:
        """Lower SQL to a query: public facts only, no data touched, nothing charged.

        Raises:
            QueryRefused: The SQL is not understood, or can't be answered privately.
        """
        with self.stream.held():
            return self.lowering.lower(sql)

    @property
    def lowering(self) -> Lowering:
        """The lowering of this store's queries, with all that is public about its tables."""
        if self._lowering is None:
            from sparseq.sql.query_templates import Lowering

            twin = self.backend.public_twin()
            weighs, least = self.stream.course is not None, self.promise.least_people
            self._lowering = Lowering(
                self.catalog, *twin, self.most, weighs, least, self.found_bounds
            )
        return self._lowering

    @check_arguments
    def contribute(
        self,
        contributions: Any,
        *,
        coordinates: int,
        label: str,
        scale: float = 1.0,
        sigma: float | None = None,
        accuracy: float | None = None,
        confidence: float | None = None,
        request_id: str | None = None,
    ) -> Answer:
        """Answer a query whose contributions were computed elsewhere.

        Args:
            contributions: Arrow table (or what makes one) of user, coordinate, value. Each row
                must be computed from its own user's data and public facts alone.
            coordinates: d, public: coordinates are 0..d-1, and each is answered.
            label: What is asked, public; it stands for the query in the history.
            scale, sigma, accuracy: The noise; scale is the norm of a full contribution.
            confidence, request_id: See `sql`.

        Raises:
            DataError: The table does not fit, or a user has no account.

        Example:
            >>> import sparseq, pyarrow as pa
            >>> con = sparseq.create(None, {"t": pa.table({"who": [7, 8]})}, user="who", seed=1)
            >>> rows = pa.table({"user": [7, 8, 8], "coordinate": [0, 0, 1], "value": [1., .5, 2.]})
            >>> con.contribute(rows, coordinates=2, label="demo").arrow().column_names
            ['coordinate', 'value', 'value_error']
        """
        return self.step(
            triplet_query(coordinates, label, scale),
            lambda plan: contributions_of(
                plan, *self.backend.triplets(as_arrow(contributions), coordinates)
            ),
            Options(sigma, accuracy, confidence=confidence),
            request_id,
        )

    def relearn(self) -> None:
        """Take note of what the ledger has learned, as found keys: what is lowered is by it."""
        with self.stream.held():
            self.stream.recall.forget_latest()
            self.catalog = self.catalog.with_found(self.stream.ledger.fact(FOUND) or {})
            self._let_go_of_twin()
            self._lowering = None

    # -- reading back ----------------------------------------------------------------------------

    def recorded(self, request_id: RequestId | str) -> Answer | None:
        """Return the answer that was given under a request id, if there is one; free."""
        with self.stream.held():
            request = requested(request_id)
            assert request is not None
            release = self.stream.ledger.under(request)
            return None if release is None else Answer.from_bytes(release.answer)

    @check_arguments
    def releases(self, last: int | None = None, before: int | None = None) -> list[Release]:
        """Return the releases, oldest first: all, or the `last`, or those `before` one. Public."""
        with self.stream.held():
            first = None if before is None else count("before", before)
            return self.stream.ledger.releases(None if last is None else count("last", last), first)

    @check_arguments
    def release(self, number: int) -> Answer:
        """Return a recorded answer; free.

        Raises:
            StoreError: There is no such release.
        """
        with self.stream.held():
            number = min(number, self.released + 1)  # the journal's numbers are 64-bit
            return Answer.from_bytes(self.stream.ledger.read(max(number, 0)).answer)

    @property
    def released(self) -> int:
        """Number of answers that were released: public."""
        return len(self.stream.ledger)

    def releases_of(self, requests: Iterable[RequestId]) -> dict[RequestId, int]:
        """Return the releases that requests stand for, of those that have one. Public."""
        with self.stream.held():
            return self.stream.ledger.numbers(requests)

    def requests_of(self, releases: Iterable[int]) -> dict[int, RequestId]:
        """Return what releases were called when they were asked, where they were. Public."""
        with self.stream.held():
            return self.stream.ledger.names(releases)

    # -- data ------------------------------------------------------------------------------------

    @check_arguments
    def ingest(
        self,
        source: Any,
        table: str | None = None,
        *,
        once: str | None = None,
        note: str = "",
        late: bool = True,
        again: bool = False,
        since: dt.date | None = None,
    ) -> int:
        """Add rows, and the users that are new; all of them or none. Return how many came in.

        Each row is read by itself, by the table's types and formats. Rows without a user are left
        out, values that don't fit are NULL, and the curator's log says how many. Accounts of known
        users stay as they are. Where the table
        has a row key, a row replaces the one of the same user and key; what was charged for the
        earlier one stands. Nobody else is touched, so the guarantee holds while data change (see
        `sparseq.engine._duckdb.storage`). Where the table has a link, a row whose key nobody has
        yet waits; where others lead to it, rows that have waited come in with these, and count.

        Args:
            source: Files, folders, tables of databases, or a table in memory: see `create`.
            table: Which private table; needed if there are several.
            once: A key that stands for these rows, such as the file's name. It is written in the
                transaction of the rows; under a key that was taken in already nothing is loaded.
            note: Kept beside the key (see `taken`).
            late: The rows may be about moments that were asked about before; forecasts then count
                these anew. To be told by public facts, such as a file's name.
            again: A file may have the contents of one that was loaded before. Else it is refused,
                but where the table has a row key, or `once` says which rows these are.
            since: The rows are of this day or later, by the table's column of time. Those that are
                not, or of no time, are left out; so what is known of earlier days is still so, and
                is free (`Store.ask`). None: they may be of any day, and nothing that was asked
                before says what they change.

        Raises:
            DataError: A file can't be read, lacks a column, or was loaded before; nothing was
                loaded.
            ParameterError: The table is public; or `since` says nothing, as it has no column of
                time, or a row key by which rows replace others; or it is a lake's.
        """
        with self.stream.lock:
            self.stream.flush()  # what an interrupt left
            target = self.catalog.table(table) if table else self.catalog.only_private()
            if not target.private:
                raise ParameterError(f"{target.name} is a public table; it is set at creation")
            below = bool(self.catalog.children(target))
            late = late or below
            with newcomers(self.stream, self.backend):
                self.stream.rows_arrive(target, since, others=below)
                return self.backend.ingest(target, source, once, note, late, again, since)

    @check_arguments
    def draw(self, share: float, population: str | Path | None = None) -> None:
        """Draw from the store's population, for everybody in it; durable when it returns.

        Args:
            share: Of the most that the store may ever draw, its kappa. Each person is given it, or
                what that person has left in the population.
            population: Where it lies now, if it was moved.

        Raises:
            ParameterError: The store has no population, or has drawn the rest already.
            StoreError: There is no population, or another.
            StoreInUse: Others have it for too long; the draw is done when the store is opened next.
        """
        draw(self.stream, self.backend, share, population)

    @check_arguments
    def remember(self, key: str, note: str) -> None:
        """Write a note under a key of `taken`, in place of an earlier one; it brings no rows."""
        with self.stream.lock:
            self.stream.flush()
            self.backend.remember(key, note)

    def tell_curator(self, kind: str, message: str) -> None:
        """Write a line to the curator's log: private."""
        with self.stream.lock:
            self.stream.flush()
            self.backend.tell_curator(kind, message)

    def curator_notes(self) -> list[str]:
        """Return what the curator's log says about rows that came in, oldest first: private."""
        with self.stream.held():
            return [one.message for one in self.backend.curator_log() if one.kind == "ingest"]

    @check_arguments
    def schema(self, table: str | None = None) -> Schema:
        """Return how the rows of a private table are read: public. None: of the only one."""
        with self.stream.held():
            found = self.catalog.table(table) if table else self.catalog.only_private()
            return self.backend.schema(found)

    def taken(self) -> dict[str, str]:
        """Return the keys under which rows were taken in (see `ingest`), each with its note."""
        with self.stream.held():
            return self.backend.taken()

    def budget(self) -> dict[str, Any]:
        """Return what the store promises, and how far its stream has come: public plain data."""
        with self.stream.held():
            return self.promise.facts()

    def course_facts(self) -> dict[str, Any] | None:
        """Return how far a stream of weighted answers has come; None: people are in or out."""
        with self.stream.held():
            return self.promise.course_facts()

    @property
    def parts(self) -> dict[Pot, float]:
        """Each pot's part of norm_budget: public."""
        return self.promise.parts

    # -- the end -----------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._pid != os.getpid():
            raise StoreError("the store was opened before a fork", "open it in the child process")
        if self.stream.half_done or self.backend.half_done:
            self._abandon()
        if self.backend.database is None:
            raise StoreError(f"the store is closed{self._why_closed}", _OPEN_AGAIN)

    def _abandon(self) -> None:
        """Close without another write, since memory may not be what is on disk."""
        self.stream.half_done = True  # until all of this is done
        self._why_closed = ": a step was interrupted, or failed while it was written"
        self.stream.forget()
        self._let_go_of_twin()
        self.backend.abandon()
        self.stream.half_done = False

    def close(self) -> None:
        """Write what is pending and let go of the file; after a half-done step, write nothing."""
        with self.stream.lock:
            if self.backend.database is None and not self.stream.half_done:
                return
            try:
                if self._pid == os.getpid():
                    self._close_whole()
            finally:
                self._let_go_of_twin()
                self.backend.release()
                self.stream.half_done = False

    def _let_go_of_twin(self) -> None:
        if self._lowering is not None:
            self._lowering.close()

    def _close_whole(self) -> None:
        if self.stream.half_done or self.backend.half_done:
            self._abandon()
            return
        self.stream.flush()  # what an interrupt left
        self.stream.half_done = True
        self.backend.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.path or 'in memory'}: {len(self.stream.ledger)} releases>"


def _weakly(method: Callable[[], None]) -> Callable[[], None]:
    """Return what calls a store's method, and does not keep the store alive."""
    known = weakref.WeakMethod(method)

    def call() -> None:
        found = known()
        if found is not None:
            found()

    return call


def _lowered_again(store: weakref.ref[Store], sql: str, first: Sequence[Answer]) -> Query:
    """Lower a question of a store's, with answers to some of those before it."""
    found = store()
    if found is None:
        raise StoreError("the store is closed", _OPEN_AGAIN)
    rows = (first_row(answer.arrow(), answer.facts.release) for answer in first)
    return found.lowering.lower(sql, tuple(rows))
