"""A store: one data set about people with its ledger, in one file, and the stream of queries.

What is asked goes into the stream (`sparseq.stream`); here is lowering, loading and reading back.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import datetime as dt
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

import duckdb
import numpy as np

from sparseq.accounting import UNITS_PER_NORM, Budget, budget_units
from sparseq.answer import Answer
from sparseq.engine._duckdb.connection import ReplaceableConnection
from sparseq.engine._duckdb.engine import DuckEngine
from sparseq.engine._duckdb.erasure import scrub
from sparseq.engine._duckdb.handed import contributions_of, handed_query
from sparseq.engine._duckdb.storage import Storage
from sparseq.engine.contributions import Contributions
from sparseq.engine.files.load import Rows, as_arrow
from sparseq.engine.files.schema import Schema
from sparseq.errors import ParameterError, StoreError
from sparseq.ledger._duckdb.curator_log import CuratorLog
from sparseq.ledger._duckdb.failure import not_written
from sparseq.ledger._duckdb.former_ids import FORMER
from sparseq.ledger._duckdb.ledger import DuckLedger
from sparseq.ledger._duckdb.session import LOSSES, Loss, Session
from sparseq.ledger.entry import Release
from sparseq.ledger.notes import Note
from sparseq.ledger.pots import Pot, Pots
from sparseq.ledger.request_id import RequestId, requested
from sparseq.query.catalog import Catalog
from sparseq.query.frame import Aggregation, Events
from sparseq.query.plan import Options, Plan, Query, calibrate
from sparseq.query.public import PublicFacts
from sparseq.query.sql import lower_sql
from sparseq.query.templates import Templates
from sparseq.query.work import check_most
from sparseq.stream.groups import Asked, Outcome, ask_many
from sparseq.stream.step import Mechanism, Participation, Stream, Terms

if TYPE_CHECKING:
    import polars

FORMAT = 4
UPGRADED_FROM = (3,)
"""Formats that `sparseq upgrade` makes this one."""
_OPEN_AGAIN = "open it with sparseq.connect(path)"
_NOBODY = np.zeros(0, np.int32)
_REMEMBERED = 1024  # lowered queries
_open_stores: weakref.WeakSet[Store] = weakref.WeakSet()


def _forked() -> None:
    """Keep a forked child's copies of the databases from ever being destroyed.

    DuckDB's destructor checkpoints: it would write the copy's state over the parent's file, and
    clear the parent's log with the releases in it. A reference that nobody gives back prevents it.
    """
    for store in _open_stores:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(store.database))
        store.session.release()  # the parent keeps its lock


def _close_all() -> None:
    """Close what is open when the process ends, so that nothing lies beside the files."""
    for store in list(_open_stores):
        with contextlib.suppress(Exception):
            store.close()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_forked)
atexit.register(_close_all)


class Store:
    """An open store. Use `sparseq.create` or `sparseq.connect`; a context manager.

    Threads may share it; queries are answered one after the other. One process at a time can have
    it open.

    Attributes:
        losses: When it was opened although a part of it was missing: public. Each is a hole in the
            guarantee, since what the missing answers cost is not in the accounts.
        stream: Accounts, engine and ledger: private, for the curator and for parts of sparseq; so
            are `storage` and `database`, the tables and DuckDB's connection to them.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        path: Path | None,
        cache_bytes: int,
        on_close: Callable[[], None] = lambda: None,
        session: Session | None = None,
        reopen: Callable[[], duckdb.DuckDBPyConnection] | None = None,
    ) -> None:
        self._held, self._reopen = ReplaceableConnection(connection), reopen
        connection = self.database = cast(duckdb.DuckDBPyConnection, self._held)
        self.session = session or Session(connection)
        self.session.goes_over(connection)
        _open_stores.add(self)
        self.path = path
        self._on_close = on_close
        self._pid = os.getpid()
        self.storage = Storage(connection, self.session)
        scrub(connection)  # of an erasure that was killed
        settings = self.storage.get("settings")
        self.reserves = {Pot[k.upper()]: float(v) for k, v in settings["reserves"].items()}
        self.budget = Budget(
            settings["kappa"], settings["norm_budget"], gaussian=Pot.WATCH not in self.reserves
        )
        self.halt: bool = settings["halt"]
        self.seed: int | None = settings["seed"]
        self._budget_column: str = settings["budget_column"]
        losses = self.storage.get(LOSSES) or ()
        self.losses: tuple[Loss, ...] = tuple(Loss(**loss) for loss in losses)
        self.catalog: Catalog = self.storage.catalog()
        engine = DuckEngine(connection, cache_bytes, self.catalog, _weakly(self._open_anew))
        self._ledger = DuckLedger(
            connection, self.reserves, self.halt, self.storage.get(FORMER) or 0, self.session,
            self.storage.in_transaction,
        )  # fmt: skip
        self.stream = Stream(
            engine,
            self._ledger,
            Terms(self.budget, self.seed, len(self.losses)),
            _weakly(self._check_open),
            _weakly(self._abandon),
        )
        self.most = check_most(settings.get("most"))
        self._public = PublicFacts(self.catalog, connection, self.most)
        self._templates = Templates()
        self._why_closed = ""
        self._lowered: dict[str, Query] = {}  # by text; what lowering reads changes with the day
        self._lowered_on = dt.date.today()

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

    def ask_many(self, asked: Iterable[Asked]) -> Iterator[Outcome]:
        """Answer many queries, none of which depends on another's answer: `ask`, many times faster.

        Answers, charges and who is left out are those of asking one by one, in this order. A query
        that is refused is told so, and the others go on. Queries that differ in their dates only
        share a scan, and some hundreds of them a transaction.

        Example:
            >>> import sparseq, pyarrow as pa
            >>> con = sparseq.create(None, pa.table({"who": [1, 2]}), table="t", user="who", seed=1)
            >>> query = con.lower("SELECT count(*) AS n FROM t")
            >>> [outcome.answer.facts.release for outcome in con.ask_many([Asked(query)] * 3)]
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
            if self._lowered_on != (today := dt.date.today()):  # CURRENT_DATE, today()
                self._lowered, self._lowered_on = {}, today
            known = self._lowered.get(sql) or self._templates.lowered(sql)
            if known is not None:
                return known
            before = self._public.subqueries
            query = lower_sql(sql, self.catalog, self._public)
            if self._public.subqueries == before:  # their answers could change with the dates
                self._templates.learn(sql, query)
            if len(self._lowered) >= _REMEMBERED:
                self._lowered.pop(next(iter(self._lowered)))
            self._lowered[sql] = query
            return query

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
        return Events(self, self.catalog.only_private().name)

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
            lambda plan: contributions_of(self.database, as_arrow(contributions), plan),
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
            release = self._ledger.under(request)
            return None if release is None else Answer.from_bytes(release.answer)

    def history(self, last: int | None = None) -> list[Release]:
        """Return the releases, oldest first. Public."""
        with self.stream.held():
            return self._ledger.releases(last)

    def release(self, number: int) -> Answer:
        """Return a recorded answer; free.

        Raises:
            StoreError: There is no such release.
        """
        with self.stream.held():
            return Answer.from_bytes(self._ledger.read(number).answer)

    @property
    def releases(self) -> int:
        """How many answers have been released. Public."""
        return len(self._ledger)

    def releases_of(self, requests: Iterable[RequestId]) -> dict[RequestId, int]:
        """Return the releases that requests stand for, of those that have one. Public."""
        with self.stream.held():
            return self._ledger.numbers(requests)

    def requests_of(self, releases: Iterable[int]) -> dict[int, RequestId]:
        """Return what releases were called when they were asked, where they were. Public."""
        with self.stream.held():
            return self._ledger.names(releases)

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
            if once is not None and self.storage.has_taken(once):
                return 0
            rows = Rows(source, self.storage.schema(target))
            units = budget_units(self.budget.norm_budget)
            column = self._budget_column
            has_column = column and rows.has(column)

            def load() -> int:
                if once is not None:
                    self.storage.take(once, note)
                if late:
                    self.storage.revise()
                own = column if has_column else ""
                return self.storage.load(target, rows, units, own, new=False)[1]

            try:
                count = self.storage.in_transaction(load, self._catch_up)
            finally:
                rows.close()
            return int(count)

    def remember(self, key: str, note: str) -> None:
        """Write a note under a key of `taken`, in place of an earlier one; it brings no rows."""
        with self.stream.lock:
            self.stream.flush()
            self.storage.in_transaction(lambda: self.storage.remember(key, note))

    def tell_curator(self, kind: str, message: str) -> None:
        """Write a line to the curator's log: private."""
        with self.stream.lock:
            self.stream.flush()
            log = CuratorLog(self.database)
            self.storage.in_transaction(lambda: log.add(kind, message), counted=False)

    def curator_notes(self) -> list[str]:
        """Return what the curator's log says about rows that came in, oldest first: private."""
        with self.stream.held():
            return [n.message for n in CuratorLog(self.database).entries() if n.kind == "ingest"]

    def schema(self, table: str) -> Schema:
        """Return how the rows of a private table are read: public."""
        with self.stream.held():
            return self.storage.schema(self.catalog.table(table))

    def _catch_up(self) -> None:
        """Take into memory what has come into the file: accounts, and that rows have changed."""
        self._ledger.people_arrived()
        self.stream.engine.rows_arrived()

    def taken(self) -> dict[str, str]:
        """Return the keys under which rows were taken in (see `ingest`), each with its note."""
        with self.stream.held():
            return self.storage.taken()

    @property
    def parts(self) -> dict[Pot, float]:
        """What each pot has of norm_budget: public."""
        whole = Pots(np.array([budget_units(self.budget.norm_budget)]), self.reserves)
        return {pot: int(part.budgets[0]) / UNITS_PER_NORM for pot, part in whole.items()}

    @contextlib.contextmanager
    def file_at_rest(self, facts: Mapping[str, Any]) -> Iterator[Path]:
        """Hold the store still with everything in its file, and nothing in its log: for a backup.

        Args:
            facts: To be remembered in the store first.

        Raises:
            StoreError: The store is closed, or can't be written.
        """
        with self.stream.lock:
            self.stream.flush()  # what an interrupt left
            assert self.path is not None

            def remember() -> None:
                for key, value in facts.items():
                    self.storage.put(key, value)

            if any(self.storage.get(key) != value for key, value in facts.items()):
                self.storage.in_transaction(remember)
            self.database.execute("CHECKPOINT")
            yield self.path.resolve()

    # -- opening and closing -----------------------------------------------------------------------

    def _open_anew(self) -> None:
        """Open the file again after an error that made DuckDB give the database up.

        Raises:
            StoreError: It can't be; an in-memory store has no file. The store is closed.
        """
        try:
            if self._reopen is None:
                raise StoreError(
                    "the engine gave the store up, and it was in memory only",
                    "make it anew, in a file",
                )
            self._held.replace(self._reopen)
        except BaseException:
            self._abandon()
            raise

    def _check_open(self) -> None:
        if self._pid != os.getpid():
            raise StoreError("the store was opened before a fork", "open it in the child process")
        if self.stream.half_done or self.storage.half_done:
            self._abandon()
        if self.database is None:
            raise StoreError(f"the store is closed{self._why_closed}", _OPEN_AGAIN)

    def _abandon(self) -> None:
        """Close without another write, since memory may not be what is on disk.

        The store stays marked as open: with its log and record it is whole when it is opened anew.
        """
        self.stream.half_done = True  # until all of this is done
        self._why_closed = ": a step was interrupted, or failed while it was written"
        self.stream.forget()
        if self.database is not None:
            self.database.close()
        self._let_go()

    def _let_go(self) -> None:
        """Forget the connection, and let others open the file."""
        self.database = None  # type: ignore[assignment]
        self._public.close()
        self.session.release()
        self._on_close()
        self.stream.half_done = self.storage.half_done = False

    def close(self) -> None:
        """Write what is pending and let go of the file."""
        with self.stream.lock:
            if self.database is None and not self.stream.half_done:
                return
            try:
                if self._pid == os.getpid():
                    self._close_whole()
            except duckdb.Error as error:
                raise not_written(error, "every answer that was given is in it") from None
            finally:
                self._let_go()

    def _close_whole(self) -> None:
        """Write what is pending, and mark the file as closed; after a half-done step, neither."""
        if self.stream.half_done or self.storage.half_done:
            self._abandon()
            return
        self.stream.flush()  # what an interrupt left
        self.stream.half_done = True
        if self.session.begun:
            self._ledger.snapshot(self._ledger.pots, self.stream.people)
        self.session.finish()
        self.database.close()

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
        return f"<Store {self.path or 'in memory'}: {len(self._ledger)} releases>"


def _weakly(method: Callable[[], None]) -> Callable[[], None]:
    """Return what calls a store's method, and does not keep the store alive."""
    known = weakref.WeakMethod(method)

    def call() -> None:
        found = known()
        if found is not None:
            found()

    return call
