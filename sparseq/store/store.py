"""A store: one data set about people with its ledger, in one file, and its stream of queries.

Queries go into the stream (`sparseq.stream`); this module lowers, loads and reads back.
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
from sparseq.answers.answer import Answer, first_row
from sparseq.base.arguments import check_arguments
from sparseq.base.errors import (
    ParameterError,
    QueryCancelError,
    QueryRefused,
    StoreError,
)
from sparseq.engine.contribution_tables import as_arrow, contributions_of, triplet_query
from sparseq.engine.contributions import Contributions
from sparseq.ledger.notes import Note
from sparseq.ledger.pots import Pot
from sparseq.ledger.releases import Release
from sparseq.ledger.request_id import RequestId, requested
from sparseq.load.read_schema import Schema
from sparseq.question.catalog import FOUND, FOUND_BOUNDS, FOUND_VALUES, Catalog, KnownBounds
from sparseq.question.limits import PRICE_LIMIT, ROWS, check_most
from sparseq.question.plan import Options, Plan, Query
from sparseq.store.ask import Asking
from sparseq.store.backend import Backend
from sparseq.store.found_bounds import with_bounds
from sparseq.store.store_promise import StorePromise
from sparseq.stream.batches import Outcome, Request, ask_many
from sparseq.stream.participation import Participation, Terms
from sparseq.stream.step import Mechanism, Stream

if TYPE_CHECKING:
    from sparseq.sql.lowered_queries import Lowering

_OPEN_AGAIN = "open it with sparseq.connect(path)"
_open_stores: weakref.WeakSet[Store] = weakref.WeakSet()


def _close_all() -> None:
    """Close open stores when the process ends, so that no temporary files remain."""
    for store in list(_open_stores):
        with contextlib.suppress(Exception):
            store.close()


atexit.register(_close_all)


class Store(Asking):
    """An open store. Use `sparseq.create` or `sparseq.connect`; a context manager.

    Threads may share it; queries are answered one after the other. One process at a time can have
    it open.

    Attributes:
        promise: The promise to everybody in the store: public.
        losses: The times at which it was opened with a missing part: public. Each is a hole in the
            guarantee, since the charges of the missing answers are not in the accounts.
        stream: Accounts, engine and ledger: private, for the curator and for parts of sparseq.
        backend: The storage of the store: private as well.
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
        columns, values = (backend.ledger.fact(n) or {} for n in (FOUND_BOUNDS, FOUND_VALUES))
        self.found_bounds = KnownBounds.kept(columns, values, asks)
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
                self.most.get(PRICE_LIMIT),
            ),
            partial(_lowered_again, weakref.ref(self)),
            _weakly(self._check_open),
            _weakly(self._abandon),
        )
        self._lowering: Lowering | None = None  # made for the first query
        self._why_closed = ""

    @property
    def path(self) -> Path | None:
        """Path of the store's file; None: it is in memory."""
        return self.backend.path

    def ask(
        self,
        query: Query,
        options: Options | None = None,
        request_id: RequestId | str | None = None,
        fresh: bool = False,
        pot: Pot = Pot.QUERIES,
    ) -> Answer:
        """Answer one lowered query (one step of Algorithm 2), unless it has an answer already.

        The same question, however it is spelled, with the same options and about the same data,
        has one answer, which is returned again (`facts.repeated`) with no new noise and no charge.
        A new request id asks again.

        Args:
            query: A query from `lower` or a front end.
            options: Noise and confidence.
            request_id: Asking again with the same id returns the recorded answer: no new noise,
                no charge. Any text; it belongs to the analyst and never equals the id of a
                monitor's tick or another system query (see `sparseq.ledger.request_id`).
            fresh: Ask again, and pay, even for a question with an answer.
            pot: The pot that pays.

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
            query: The query; its text represents it in the history.
            contributions: Makes the contributions once the lattice is fixed. Each user's
                contribution must come from that user's data and public facts alone.
            options, request_id: See `ask`.
            pot: The pot that pays.
            gated: Called with the active users before anything is written; its result is written
                with the release or not at all. Private.
            mechanism: Makes the released integers of the exact sums, in lattice steps; by default
                it adds Gaussian noise. Another mechanism must be covered by a user's charge, and
                its docs must prove it; a store with one claims only zCDP.
            shown: Makes the answer's table from the released integers; by default the noised
                numbers.

        Raises:
            QueryRefused: See `ask`.
            ParameterError: The store has reserved nothing for the pot.
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
        """Answer many queries that do not depend on each other's answers, much faster than `ask`.

        Answers, charges and left-out users are those of asking one by one in this order. A refused
        query does not stop the others. Queries that differ only in their dates share a scan, and
        some hundreds of queries share a transaction.

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
        work, before = request.cancellation, self.released
        try:
            with work.ambient() if work else contextlib.nullcontext():
                return replace(request, query=with_bounds(self, request.query, request.options))
        except (QueryRefused, ParameterError, QueryCancelError) as error:
            return replace(request, lacks=(error, self.released > before))  # said at its turn

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
        """The lowering of this store's queries, with the public facts of its tables."""
        if self._lowering is None:
            from sparseq.sql.lowered_queries import Lowering

            twin = self.backend.public_twin()
            weighs, least = self.stream.course is not None, self.promise.least_people
            self._lowering = Lowering(
                self.catalog,
                *twin,
                self.most,
                weighs,
                least,
                self.found_bounds,
                self.guarantee.keys_delta > 0,
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
            contributions: Arrow table (or an object that makes one) of user, coordinate, value.
                Each row must be computed from its own user's data and public facts alone.
            coordinates: d, public: coordinates are 0..d-1, and each is answered.
            label: A public text that represents the query in the history.
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
        """Read facts that the ledger has learned, such as found keys, for later lowering."""
        with self.stream.held():
            self.stream.recall.forget_latest()
            self.catalog = self.catalog.with_found(self.stream.ledger.fact(FOUND) or {})
            self._let_go_of_twin()
            self._lowering = None

    def recorded(self, request_id: RequestId | str) -> Answer | None:
        """Return the answer under a request id, or None; free."""
        with self.stream.held():
            request = requested(request_id)
            assert request is not None
            release = self.stream.ledger.under(request)
            return None if release is None else Answer.from_bytes(release.answer)

    @check_arguments
    def releases(self, last: int | None = None, before: int | None = None) -> list[Release]:
        """Return releases, oldest first: all, the `last` ones, or those `before` one. Public."""
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
        """Return the releases of requests, for those that have one. Public."""
        with self.stream.held():
            return self.stream.ledger.numbers(requests)

    def requests_of(self, releases: Iterable[int]) -> dict[int, RequestId]:
        """Return the request ids of releases, for those that have one. Public."""
        with self.stream.held():
            return self.stream.ledger.names(releases)

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
        """Add rows and new users, all or none. Return the number of added rows.

        Each row is read independently, by the table's types and formats. Rows without a user are
        left out, values that don't fit are NULL, and the curator's log has their numbers. Accounts
        of known users stay as they are. If the table has a row key, a row replaces the earlier row
        of the same user and key; charges for the earlier row stand. No other user changes, so the
        guarantee holds while data change (see `sparseq.load._duckdb.storage`). If the table has a
        link, a row whose key is still missing waits; if other tables link to it, their rows that
        waited for these come in too, and count.

        Args:
            source: Files, folders, tables of databases, or a table in memory: see `create`.
            table: The private table; needed if there are several.
            once: A key for these rows, such as the file's name. It is written in the transaction of
                the rows; if the key was ingested before, nothing is loaded.
            note: Stored with the key (see `taken`).
            late: The rows may be about moments of earlier queries; forecasts then count these
                again. It must be decided from public facts, such as a file's name.
            again: A file may have the contents of a file loaded before. Else it is refused, unless
                the table has a row key or `once` identifies the rows.
            since: The rows are of this day or later, by the table's time column. Earlier rows, and
                rows without a time, are left out; so answers about earlier days stay valid and free
                (`Store.ask`). None: the rows may be of any day, and every earlier answer may be
                outdated.

        Raises:
            DataError: A file can't be read, lacks a column, or was loaded before; nothing was
                loaded.
            ParameterError: The table is public; or `since` is given for a table without a time
                column, with a row key that replaces rows, or of a lake.
        """
        with self.stream.lock:
            self.stream.flush()  # the rest of an interrupted step
            target = self.catalog.table(table) if table else self.catalog.only_private()
            if not target.private:
                raise ParameterError(f"{target.name} is a public table; it is set at creation")
            below = bool(self.catalog.children(target))
            late = late or below
            from sparseq.store.store_draws import newcomers

            with newcomers(self.stream, self.backend):
                self.stream.rows_arrive(target, since, others=below)
                came = self.backend.ingest(target, source, once, note, late, again, since)
                return came.for_curator()

    @check_arguments
    def draw(self, share: float, population: str | Path | None = None) -> None:
        """Draw from the store's population, for everybody in it; durable when it returns.

        Args:
            share: The share of the most that the store may ever draw, its kappa. Each person is
                given that amount, or the rest of that person's budget in the population.
            population: Path of the population, if it was moved.

        Raises:
            ParameterError: The store has no population, or has already drawn all.
            StoreError: There is no population at the path, or another one.
            StoreInUse: Others have kept it open for too long; the draw is done when the store is
                opened next.
        """
        from sparseq.store.store_draws import draw

        draw(self.stream, self.backend, share, population)

    @check_arguments
    def remember(self, key: str, note: str) -> None:
        """Write a note under a key of `taken`, replacing an earlier note, without rows."""
        with self.stream.lock:
            self.stream.flush()
            self.backend.remember(key, note)

    def tell_curator(self, kind: str, message: str) -> None:
        """Write a line to the curator's log: private."""
        with self.stream.lock:
            self.stream.flush()
            self.backend.tell_curator(kind, message)

    def curator_notes(self) -> list[str]:
        """Return the lines of the curator's log about ingested rows, oldest first: private."""
        with self.stream.held():
            lines = self.backend.curator_log().for_curator()
            return [one.message for one in lines if one.kind == "ingest"]

    @check_arguments
    def schema(self, table: str | None = None) -> Schema:
        """Return the schema of the rows of a private table (None: the only one): public."""
        with self.stream.held():
            found = self.catalog.table(table) if table else self.catalog.only_private()
            return self.backend.schema(found)

    def taken(self) -> dict[str, str]:
        """Return the keys under which rows were ingested (see `ingest`), each with its note."""
        with self.stream.held():
            return self.backend.taken()

    def budget(self) -> dict[str, Any]:
        """Return the promise of the store and the progress of its stream: public plain data."""
        with self.stream.held():
            return self.promise.facts()

    def course_facts(self) -> dict[str, Any] | None:
        """Return the progress of a stream of weighted answers; None: queries do not weigh users."""
        with self.stream.held():
            return self.promise.course_facts()

    @property
    def parts(self) -> dict[Pot, float]:
        """Each pot's part of norm_budget: public."""
        return self.promise.parts

    def _check_open(self) -> None:
        if self._pid != os.getpid():
            raise StoreError("the store was opened before a fork", "open it in the child process")
        if self.stream.half_done or self.backend.half_done:
            self._abandon()
        if self.backend.database is None:
            raise StoreError(f"the store is closed{self._why_closed}", _OPEN_AGAIN)

    def _abandon(self) -> None:
        """Close without another write, since memory may differ from the disk."""
        self.stream.half_done = True  # until all of this is done
        self._why_closed = ": a step was interrupted, or failed while it was written"
        self.stream.forget()
        self._let_go_of_twin()
        self.backend.abandon()
        self.stream.half_done = False

    def close(self) -> None:
        """Write pending changes and close the file; after an unfinished step, write nothing."""
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
        self.stream.flush()  # the rest of an interrupted step
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
    """Return a function that calls a store's method without keeping the store alive."""
    known = weakref.WeakMethod(method)

    def call() -> None:
        found = known()
        if found is not None:
            found()

    return call


def _lowered_again(store: weakref.ref[Store], sql: str, first: Sequence[Answer]) -> Query:
    """Lower a store's question with the answers to some of the questions before it."""
    found = store()
    if found is None:
        raise StoreError("the store is closed", _OPEN_AGAIN)
    rows = (first_row(answer.arrow(), answer.facts.release) for answer in first)
    return found.lowering.lower(sql, tuple(rows))
