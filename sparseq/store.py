"""A store: one data set about people with its ledger, in one file, and the stream of queries.

What is asked goes into the stream (`sparseq.stream`); here is lowering, loading and reading back.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseq.accounting import UNITS_PER_NORM, Budget, budget_units
from sparseq.answer import Answer
from sparseq.backend import Backend
from sparseq.engine.contributions import Contributions
from sparseq.engine.files.schema import Schema
from sparseq.engine.handed import as_arrow, contributions_of, handed_query
from sparseq.errors import ParameterError, StoreError
from sparseq.ledger.entry import Loss, Release
from sparseq.ledger.notes import Note
from sparseq.ledger.pots import Pot, Pots
from sparseq.ledger.request_id import RequestId, requested
from sparseq.query.catalog import Catalog
from sparseq.query.limits import check_most
from sparseq.query.plan import Options, Plan, Query, calibrate
from sparseq.stream.groups import Outcome, Request, ask_many
from sparseq.stream.step import Mechanism, Participation, Stream, Terms

if TYPE_CHECKING:
    import polars

    from sparseq.query.frame import Aggregation, Events
    from sparseq.query.lowering import Lowering

_OPEN_AGAIN = "open it with sparseq.connect(path)"
_open_stores: weakref.WeakSet[Store] = weakref.WeakSet()


def _close_all() -> None:
    """Close what is open when the process ends, so that nothing lies beside the files."""
    for store in list(_open_stores):
        with contextlib.suppress(Exception):
            store.close()


atexit.register(_close_all)


class Store:
    """An open store. Use `sparseq.create` or `sparseq.connect`; a context manager.

    Threads may share it; queries are answered one after the other. One process at a time can have
    it open.

    Attributes:
        losses: When it was opened although a part of it was missing: public. Each is a hole in the
            guarantee, since what the missing answers cost is not in the accounts.
        stream: Accounts, engine and ledger: private, for the curator and for parts of sparseq.
        backend: Where the store lives: private as well.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        _open_stores.add(self)
        self._pid = os.getpid()
        settings = backend.settings
        self.reserves = {Pot[k.upper()]: float(v) for k, v in settings["reserves"].items()}
        self.budget = Budget(
            settings["kappa"], settings["norm_budget"], gaussian=Pot.WATCH not in self.reserves
        )
        self.halt: bool = settings["halt"]
        self.seed: int | None = settings["seed"]
        self.losses: tuple[Loss, ...] = backend.losses
        self.catalog: Catalog = backend.catalog
        self.stream = Stream(
            backend.engine,
            backend.ledger,
            Terms(self.budget, self.seed, len(self.losses)),
            _weakly(self._check_open),
            _weakly(self._abandon),
        )
        self.most = check_most(settings.get("most"))
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
    ) -> Answer:
        """Answer one lowered query (Algorithm 2, one step).

        Args:
            query: From `lower`, or a front end's.
            options: Noise and confidence.
            request_id: Asking again with the same id returns the recorded answer: no new noise,
                no charge. Any text; it is an analyst's, and never that of a monitor's tick or of
                anything else that the system asks (see `sparseq.ledger.request_id`).

        Raises:
            QueryRefused: The query has no public scale, or the id belongs to another query.
        """
        return self.step(query, self.stream.contributions, options, request_id)

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

        Raises:
            QueryRefused: See `ask`.
            ParameterError: The store has set nothing aside for the pot.
        """
        return self.stream.step(
            query, contributions, options, request_id,
            pot=pot, gated=gated, mechanism=mechanism,
        )  # fmt: skip

    def ask_many(self, asked: Iterable[Request]) -> Iterator[Outcome]:
        """Answer many queries, none of which depends on another's answer: `ask`, many times faster.

        Answers, charges and who is left out are those of asking one by one, in this order. A query
        that is refused is told so, and the others go on. Queries that differ in their dates only
        share a scan, and some hundreds of them a transaction.

        Example:
            >>> import sparseq, pyarrow as pa
            >>> con = sparseq.create(None, pa.table({"who": [1, 2]}), table="t", user="who", seed=1)
            >>> query = con.lower("SELECT count(*) AS n FROM t")
            >>> [outcome.answer.facts.release for outcome in con.ask_many([Request(query)] * 3)]
            [1, 2, 3]
        """
        return ask_many(self.stream, asked)

    # -- asking ----------------------------------------------------------------------------------

    def lower(self, sql: str) -> Query:
        """Lower SQL to a query: public facts only, no data touched, nothing charged.

        Raises:
            QueryRefused: The SQL is not understood, or can't be answered privately.
        """
        with self.stream.held():
            return self.lowering.lower(sql)

    @property
    def lowering(self) -> Lowering:
        """What lowers this store's queries, with all that is public about its tables."""
        if self._lowering is None:
            from sparseq.query.lowering import Lowering

            twin = self.backend.public_twin()
            self._lowering = Lowering(self.catalog, *twin, self.most)
        return self._lowering

    def sql(
        self,
        sql: str,
        *,
        sigma: float | None = None,
        accuracy: float | None = None,
        scale: float | None = None,
        confidence: float | None = None,
        request_id: str | None = None,
    ) -> Answer:
        """Answer an SQL query.

        Args:
            sql: One SELECT that aggregates; docs/sql.md says what it may hold.
            sigma, accuracy, scale: Standard deviation of the noise, or the ± wanted, or C; one at
                most. By default the scale that is public.
            confidence: Of every ±, for all values at once; 0.95.
            request_id: See `ask`.

        Raises:
            QueryRefused: It can't be answered privately; the message says what to write instead.

        Example:
            >>> import sparseq, pyarrow as pa
            >>> events = pa.table({"who": ["a", "b"], "amount": [3.0, 4.0]})
            >>> con = sparseq.create(None, events, table="t", user="who", seed=1)
            >>> con.sql("SELECT count(DISTINCT who) AS people FROM t").arrow().num_rows
            1
        """
        return self.ask(self.lower(sql), Options(sigma, accuracy, scale, confidence), request_id)

    def table(self, name: str) -> Events:
        """Return a private table to ask about in Python (see `sparseq.query.frame`)."""
        from sparseq.query.frame import Events

        return Events(self, name)

    def count(self, condition: polars.Expr | None = None) -> Aggregation:
        """Count rows of the private table; `.by(…)`, `.where(…)`, then `.ask()`."""
        return self._only_table().count(condition)

    def users(self, condition: polars.Expr | None = None) -> Aggregation:
        """Count users of the private table; `.by(…)`, `.where(…)`, then `.ask()`."""
        return self._only_table().users(condition)

    def sum(self, value: polars.Expr | str) -> Aggregation:
        """Add up a number of the private table; `.by(…)`, `.where(…)`, then `.ask()`."""
        return self._only_table().sum(value)

    def mean(self, value: polars.Expr | str) -> Aggregation:
        """Average a number of the private table; `.by(…)`, `.where(…)`, then `.ask()`."""
        return self._only_table().mean(value)

    def _only_table(self) -> Events:
        return self.table(self.catalog.only_private().name)

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
            >>> con = sparseq.create(None, pa.table({"who": [7, 8]}), table="t", user="who", seed=1)
            >>> rows = pa.table({"user": [7, 8, 8], "coordinate": [0, 0, 1], "value": [1., .5, 2.]})
            >>> con.contribute(rows, coordinates=2, label="demo").arrow().column_names
            ['coordinate', 'value', 'value_error']
        """
        return self.step(
            handed_query(coordinates, label, scale),
            lambda plan: contributions_of(
                plan, *self.backend.triplets(as_arrow(contributions), coordinates)
            ),
            Options(sigma, accuracy, None, confidence),
            request_id,
        )

    def explain(self, query: Query, options: Options | None = None) -> Plan:
        """Return the plan of a query: its noise, bounds and worst case. Nothing is charged."""
        return calibrate(query, self.budget, options or Options())

    # -- reading back ----------------------------------------------------------------------------

    def recorded(self, request_id: RequestId | str) -> Answer | None:
        """Return the answer that was given under a request id, if there is one; free."""
        with self.stream.held():
            request = requested(request_id)
            assert request is not None
            release = self.stream.ledger.under(request)
            return None if release is None else Answer.from_bytes(release.answer)

    def history(self, last: int | None = None) -> list[Release]:
        """Return the releases, oldest first. Public."""
        with self.stream.held():
            return self.stream.ledger.releases(last)

    def release(self, number: int) -> Answer:
        """Return a recorded answer; free.

        Raises:
            StoreError: There is no such release.
        """
        with self.stream.held():
            return Answer.from_bytes(self.stream.ledger.read(number).answer)

    @property
    def releases(self) -> int:
        """How many answers have been released. Public."""
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

    def ingest(
        self,
        source: Any,
        table: str | None = None,
        *,
        once: str | None = None,
        note: str = "",
        late: bool = True,
    ) -> int:
        """Add rows, and the users that are new; all of them or none. Return how many came in.

        Each row is read by itself, by the table's types and formats. Rows without a user are left
        out, values that don't fit are NULL, and the curator's log says how many. Accounts of known
        users stay as they are. Where the table
        has a row key, a row replaces the one of the same user and key; what was charged for the
        earlier one stands. Nobody else is touched, so the guarantee holds while data change (see
        `sparseq.engine._duckdb.storage`).

        Args:
            source: Paths, or an Arrow table.
            table: Which private table; needed if there are several.
            once: A key that stands for these rows, such as the file's name. It is written in the
                transaction of the rows; under a key that was taken in already nothing is loaded.
            note: Kept beside the key (see `taken`).
            late: The rows may be about moments that were asked about before; forecasts then count
                these anew. To be told by public facts, such as a file's name.

        Raises:
            DataError: A file can't be read, or lacks a column; nothing was loaded.
        """
        with self.stream.lock:
            self.stream.flush()  # what an interrupt left
            target = self.catalog.table(table) if table else self.catalog.only_private()
            if not target.private:
                raise ParameterError(f"{target.name} is a public table; it is set at creation")
            return self.backend.ingest(target, source, once, note, late)

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
            return self.backend.curator_notes("ingest")

    def schema(self, table: str) -> Schema:
        """Return how the rows of a private table are read: public."""
        with self.stream.held():
            return self.backend.schema(self.catalog.table(table))

    def taken(self) -> dict[str, str]:
        """Return the keys under which rows were taken in (see `ingest`), each with its note."""
        with self.stream.held():
            return self.backend.taken()

    @property
    def parts(self) -> dict[Pot, float]:
        """What each pot has of norm_budget: public."""
        whole = Pots(np.array([budget_units(self.budget.norm_budget)]), self.reserves)
        return {pot: int(part.budgets[0]) / UNITS_PER_NORM for pot, part in whole.items()}

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
