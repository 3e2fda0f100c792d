"""A store: one data set about people with its ledger, in one file, and the stream of queries.

`Store.ask` is Algorithm 2 of Feldman & Zrnic (2021) with the Gaussian mechanism of Corollary 4.7:
contributions, gate, exact sums of the active, exact noise, a durable commit, and only then the
answer. Everything else here is opening, loading and reading back.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import datetime as dt
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

import duckdb
import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import UNITS_PER_NORM, Budget, budget_units
from sparseq.answer import Answer, Facts
from sparseq.batch import Asked, Outcome, ask_many
from sparseq.engine.connection import Held
from sparseq.engine.contributions import Contributions
from sparseq.engine.duck import Engine
from sparseq.engine.erasure import scrub
from sparseq.engine.handed import contributions_of, handed_query
from sparseq.engine.load import Rows, as_arrow
from sparseq.engine.reduce import Index
from sparseq.engine.schema import Schema
from sparseq.engine.storage import Storage
from sparseq.errors import ParameterError, StoreError
from sparseq.gate import gate
from sparseq.ledger import curator_log
from sparseq.ledger.accounts import Accounts, Ints
from sparseq.ledger.curator_log import CuratorLog
from sparseq.ledger.departed import Departures
from sparseq.ledger.failure import not_written
from sparseq.ledger.former_ids import FORMER
from sparseq.ledger.journal import Entry, Journal, Release, Statement
from sparseq.ledger.pots import Pot, Pots
from sparseq.ledger.request_id import RequestId, requested
from sparseq.ledger.session import LOSSES, Loss, Session
from sparseq.mechanisms import SYSTEM_ENTROPY, Entropy, rounded_gaussian
from sparseq.mechanisms.entropy import for_release
from sparseq.query.catalog import Catalog
from sparseq.query.frame import Aggregation, Events
from sparseq.query.outputs import Noised
from sparseq.query.plan import Options, Plan, Query, calibrate
from sparseq.query.public import PublicFacts
from sparseq.query.render import key_columns, render
from sparseq.query.sql import lower_sql
from sparseq.query.templates import Templates
from sparseq.query.work import check_most

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
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(store._con))
        store._session.release()  # the parent keeps its lock


def _close_all() -> None:
    """Close what is open when the process ends, so that nothing lies beside the files."""
    for store in list(_open_stores):
        with contextlib.suppress(Exception):
            store.close()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_forked)
atexit.register(_close_all)


@dataclass(frozen=True)
class Gated:
    """Who was asked and who was active in a release: private."""

    release: int
    users: Index
    active: NDArray[np.bool_]


Mechanism = Callable[[Plan, Sequence[Ints], Entropy], Sequence[Ints]]
"""Exact sums in, what is released out: integers in lattice steps, one array a measure."""


class Store:
    """An open store. Use `sparseq.create` or `sparseq.connect`; a context manager.

    Threads may share it; queries are answered one after the other. One process at a time can have
    it open.

    Attributes:
        losses: When it was opened although a part of it was missing: public. Each is a hole in the
            guarantee, since what the missing answers cost is not in the accounts.
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
        self._held, self._reopen = Held(connection), reopen
        connection = self._con = cast(duckdb.DuckDBPyConnection, self._held)
        self._session = session or Session(connection)
        self._session.goes_over(connection)
        _open_stores.add(self)
        self.path = path
        self._on_close = on_close
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._storage = Storage(connection, self._session)
        scrub(connection)  # of an erasure that was killed
        settings = self._storage.get("settings")
        self.reserves = {Pot[k.upper()]: float(v) for k, v in settings["reserves"].items()}
        self.budget = Budget(
            settings["kappa"], settings["norm_budget"], gaussian=Pot.WATCH not in self.reserves
        )
        self.halt: bool = settings["halt"]
        self.seed: int | None = settings["seed"]
        self._budget_column: str = settings["budget_column"]
        losses = self._storage.get(LOSSES) or ()
        self.losses: tuple[Loss, ...] = tuple(Loss(**loss) for loss in losses)
        self.catalog: Catalog = self._storage.catalog()
        self._engine = Engine(connection, cache_bytes, self.catalog, _opening_anew(self))
        self._journal = Journal(connection, self._storage.get(FORMER) or 0, self._session)
        self._pots = Pots(self._budgets(), self.reserves, self.halt)
        self._journal.restore(self._pots)
        self._departures = Departures()
        self._departures.add_users(len(self._pots))
        self._journal.restore_departures(self._departures)
        self.most = check_most(settings.get("most"))
        self._public = PublicFacts(self.catalog, connection, self.most)
        self._templates = Templates()
        self._staged: list[Entry] = []  # charged, not yet durable; empty when nobody holds the lock
        self._half_done = False  # memory may not be what is on disk: it must not be used again
        self._why_closed = ""
        self._staged_bytes = 0  # about what the next transaction will write
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
        return self.step(query, self._contributions, options, request_id)

    def _contributions(self, plan: Plan) -> Contributions:
        return self._engine.contributions(plan, len(self._pots))

    def step(
        self,
        query: Query,
        contributions: Callable[[Plan], Contributions],
        options: Options | None = None,
        request_id: RequestId | str | None = None,
        *,
        pot: Pot = Pot.QUERIES,
        gated: Callable[[Gated], Sequence[Statement]] = lambda _: (),
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
        with self._lock:
            self._flush()  # what an interrupt left
            request = requested(request_id)
            recorded = self._journal.recorded(request, query.text)
            if recorded is not None:
                return Answer.from_bytes(recorded.answer)
            plan = calibrate(query, self.budget, options or Options())
            made = contributions(plan)
            answer = self._answer(plan, made, request, pot, gated, mechanism)
            self._flush()
            return answer

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
        return ask_many(self, asked)

    def _answer(
        self,
        plan: Plan,
        contributions: Contributions,
        request: RequestId | None,
        pot: Pot = Pot.QUERIES,
        gated: Callable[[Gated], Sequence[Statement]] = lambda _: (),
        mechanism: Mechanism | None = None,
    ) -> Answer:
        """Gate, sum the active, add noise, charge. The answer may leave after `_flush` only."""
        passed = gate(plan, contributions, self._pots[pot])
        noised = _in_unit(plan, (mechanism or add_gaussian)(plan, passed.sums, self._entropy()))
        answer = Answer(render(plan, noised), self._facts(plan, request))
        also = [*gated(Gated(answer.facts.release, passed.users, passed.active))]
        also += self._engine_failures(answer.facts.release)
        departed = self._departures.new(passed.left_out if pot is Pot.QUERIES else _NOBODY)
        release = _release(plan, answer, pot, request)
        self._stage(Entry(release, passed.paying, passed.due, departed, tuple(also)))
        return answer

    def _engine_failures(self, release: int) -> list[Statement]:
        """Return what tells the curator whom the engine failed on: written with the release."""
        failures = self._engine.take_failures()
        names = dict(
            self._con.execute(
                "SELECT _user, id FROM ledger.users WHERE _user IN (SELECT unnest(?))",
                [list(failures)],
            ).fetchall()
            if failures
            else []
        )
        return [
            curator_log.statement(
                "engine",
                f"release {release}: the engine failed on the rows of {names.get(user)!s}, "
                f"who was left out of it and pays nothing: {error}",
            )
            for user, error in failures.items()
        ]

    def _stage(self, entry: Entry) -> None:
        """Charge; the next transaction is to make it durable, with the answer."""
        self._half_done = True
        self._pots[entry.release.pot].charge(entry.users, entry.charges)
        self._departures.add(entry.release.id, entry.departed)
        self._staged.append(entry)
        self._staged_bytes += 3 * len(entry.users) + len(entry.release.answer)
        self._half_done = False

    def _flush(self) -> None:
        """Make charges and answers durable together; only then may the answers go."""
        self._check_open()
        self._con.abort()  # a result that an interrupt left half read is in everybody's way
        if not self._staged:
            return
        self._half_done = True
        try:
            self._journal.commit(self._staged)
            self._staged, self._staged_bytes = [], 0
            self._journal.fold(self._pots, 16 * len(self._pots))
        except duckdb.Error as error:
            self._abandon()
            raise self._not_given(error) from None
        except BaseException:
            self._abandon()  # was it written? only the file knows: it must be opened anew
            raise
        self._half_done = False

    def _not_given(self, error: duckdb.Error) -> StoreError:
        """Return what is said of answers that could not be written."""
        if self._journal.committing:
            return not_written(error, "the answer was not given", "it was charged")
        return not_written(error, "the answer was not given, and nobody was charged")

    @property
    def _next_release(self) -> int:
        return self._journal.next_id + len(self._staged)

    def _facts(self, plan: Plan, request: RequestId | None) -> Facts:
        return Facts(
            release=self._next_release,
            request_id=None if request is None else str(request),
            query=plan.query.text,
            labels=tuple(m.label for m in plan.query.measures),
            kinds=tuple(m.kind.value for m in plan.query.measures),
            sigma=tuple(n.sigma for n in plan.noise),
            granularity=tuple(n.granularity for n in plan.noise),
            scale=tuple(n.scale for n in plan.noise),
            coordinates=plan.query.coordinates,
            confidence=1 - plan.beta,
            kappa=self.budget.kappa,
            norm_budget=self.budget.norm_budget,
            seeded=self.seed is not None,
            gaussian=self.budget.gaussian,
            comparisons=plan.query.comparisons,
            losses=len(self.losses),
        )

    def _entropy(self) -> Entropy:
        """The operating system's, or a stream of this seed and release."""
        if self.seed is None:
            return SYSTEM_ENTROPY
        return for_release(self.seed, self._next_release)

    # -- asking ----------------------------------------------------------------------------------

    def lower(self, sql: str) -> Query:
        """Lower SQL to a query: public facts only, no data touched, nothing charged.

        Raises:
            QueryRefused: The SQL is not understood, or can't be answered privately.
        """
        with self._lock:
            self._check_open()
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
            lambda plan: contributions_of(self._con, as_arrow(contributions), plan),
            Options(sigma, accuracy, None, confidence),
            request_id,
        )

    def explain(self, query: Query, options: Options | None = None) -> Plan:
        """Return the plan of a query: its noise, bounds and worst case. Nothing is charged."""
        return calibrate(query, self.budget, options or Options())

    # -- reading back ----------------------------------------------------------------------------

    def recorded(self, request_id: RequestId | str) -> Answer | None:
        """Return the answer that was given under a request id, if there is one; free."""
        with self._lock:
            self._check_open()
            request = requested(request_id)
            assert request is not None
            release = self._journal.under(request)
            return None if release is None else Answer.from_bytes(release.answer)

    def history(self, last: int | None = None) -> list[Release]:
        """Return the releases, oldest first. Public."""
        with self._lock:
            self._check_open()
            return self._journal.releases(last)

    def release(self, number: int) -> Answer:
        """Return a recorded answer; free.

        Raises:
            StoreError: There is no such release.
        """
        with self._lock:
            self._check_open()
            return Answer.from_bytes(self._journal.read(number).answer)

    @property
    def releases(self) -> int:
        """How many answers have been released. Public."""
        return len(self._journal)

    def releases_of(self, requests: Iterable[RequestId]) -> dict[RequestId, int]:
        """Return the releases that requests stand for, of those that have one. Public."""
        with self._lock:
            self._check_open()
            return self._journal.numbers(requests)

    def requests_of(self, releases: Iterable[int]) -> dict[int, RequestId]:
        """Return what releases were called when they were asked, where they were. Public."""
        with self._lock:
            self._check_open()
            return self._journal.names(releases)

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
        `sparseq.engine.storage`).

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
        with self._lock:
            self._flush()  # what an interrupt left
            target = self.catalog.table(table) if table else self.catalog.only_private()
            if not target.private:
                raise ParameterError(f"{target.name} is a public table; it is set at creation")
            if once is not None and self._storage.has_taken(once):
                return 0
            rows = Rows(source, self._storage.schema(target))
            units = budget_units(self.budget.norm_budget)
            column = self._budget_column
            has_column = column and rows.has(column)

            def load() -> int:
                if once is not None:
                    self._storage.take(once, note)
                if late:
                    self._storage.revise()
                own = column if has_column else ""
                return self._storage.load(target, rows, units, own, new=False)[1]

            try:
                count = self._storage.in_transaction(load, self._catch_up)
            finally:
                rows.close()
            return int(count)

    def remember(self, key: str, note: str) -> None:
        """Write a note under a key of `taken`, in place of an earlier one; it brings no rows."""
        with self._lock:
            self._flush()
            self._storage.in_transaction(lambda: self._storage.remember(key, note))

    def tell_curator(self, kind: str, message: str) -> None:
        """Write a line to the curator's log: private."""
        with self._lock:
            self._flush()
            log = CuratorLog(self._con)
            self._storage.in_transaction(lambda: log.add(kind, message), counted=False)

    def curator_notes(self) -> list[str]:
        """Return what the curator's log says about rows that came in, oldest first: private."""
        with self._lock:
            self._check_open()
            return [n.message for n in CuratorLog(self._con).entries() if n.kind == "ingest"]

    def schema(self, table: str) -> Schema:
        """Return how the rows of a private table are read: public."""
        with self._lock:
            self._check_open()
            return self._storage.schema(self.catalog.table(table))

    def _catch_up(self) -> None:
        """Take into memory what has come into the file: accounts, and that rows have changed."""
        new = self._budgets()[len(self._pots) :]
        self._pots.add_users(new)
        self._departures.add_users(len(new))
        self._engine.rows_arrived()

    def taken(self) -> dict[str, str]:
        """Return the keys under which rows were taken in (see `ingest`), each with its note."""
        with self._lock:
            self._check_open()
            return self._storage.taken()

    @property
    def parts(self) -> dict[Pot, float]:
        """What each pot has of norm_budget: public."""
        whole = Pots(np.array([budget_units(self.budget.norm_budget)]), self.reserves)
        return {pot: int(part.budgets[0]) / UNITS_PER_NORM for pot, part in whole.items()}

    @property
    def _accounts(self) -> Accounts:
        """What queries are paid from."""
        return self._pots[Pot.QUERIES]

    def _budgets(self) -> Ints:
        table = self._con.sql("SELECT budget FROM ledger.users ORDER BY _user").to_arrow_table()
        return np.asarray(table["budget"].to_numpy(), np.int64)

    @contextlib.contextmanager
    def file_at_rest(self, facts: Mapping[str, Any]) -> Iterator[Path]:
        """Hold the store still with everything in its file, and nothing in its log: for a backup.

        Args:
            facts: To be remembered in the store first.

        Raises:
            StoreError: The store is closed, or can't be written.
        """
        with self._lock:
            self._flush()  # what an interrupt left
            assert self.path is not None

            def remember() -> None:
                for key, value in facts.items():
                    self._storage.put(key, value)

            if any(self._storage.get(key) != value for key, value in facts.items()):
                self._storage.in_transaction(remember)
            self._con.execute("CHECKPOINT")
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
        if self._half_done or self._storage.half_done:
            self._abandon()
        if self._con is None:
            raise StoreError(f"the store is closed{self._why_closed}", _OPEN_AGAIN)

    def _abandon(self) -> None:
        """Close without another write, since memory may not be what is on disk.

        The store stays marked as open: with its log and record it is whole when it is opened anew.
        """
        self._half_done = True  # until all of this is done
        self._why_closed = ": a step was interrupted, or failed while it was written"
        for _, accounts in self._pots.items():
            accounts.spent = accounts.budgets.copy()  # they may be in the middle of growing
        self._staged, self._staged_bytes = [], 0
        if self._con is not None:
            self._con.close()
        self._let_go()

    def _let_go(self) -> None:
        """Forget the connection, and let others open the file."""
        self._con = None  # type: ignore[assignment]
        self._public.close()
        self._session.release()
        self._on_close()
        self._half_done = self._storage.half_done = False

    def close(self) -> None:
        """Write what is pending and let go of the file."""
        with self._lock:
            if self._con is None and not self._half_done:
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
        if self._half_done or self._storage.half_done:
            self._abandon()
            return
        self._flush()  # what an interrupt left
        self._half_done = True
        if self._session.begun:
            self._journal.fold(self._pots, len(self._pots))
        self._session.finish()
        self._con.close()

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
        return f"<Store {self.path or 'in memory'}: {len(self._journal)} releases>"


def _opening_anew(store: Store) -> Callable[[], None]:
    """Return what opens a store's file anew, and does not keep the store alive."""
    known = weakref.ref(store)

    def open_anew() -> None:
        opened = known()
        if opened is not None:
            opened._open_anew()

    return open_anew


def add_gaussian(plan: Plan, sums: Sequence[Ints], entropy: Entropy) -> list[Ints]:
    """Add floor(Z + 1/2), Z ~ N(0, (sigma/g)²), to the integer sums: Corollary 4.7's mechanism."""
    return [
        total + rounded_gaussian(n.lattice_sigma, len(total), entropy)
        for n, total in zip(plan.noise, sums, strict=True)
    ]


def _in_unit(plan: Plan, released: Sequence[Ints]) -> Noised:
    """Return released lattice integers in the query's unit."""
    measures = [
        np.reshape(total * float(n.granularity), (-1, m.bins))
        for m, n, total in zip(plan.query.measures, plan.noise, released, strict=True)
    ]
    return Noised(measures, plan.bounds, key_columns(plan), plan.query.groups)


def _release(plan: Plan, answer: Answer, pot: Pot, request: RequestId | None) -> Release:
    """Return what the journal has of an answer: public."""
    return Release(
        answer.facts.release,
        request,
        dt.datetime.now(dt.UTC).replace(tzinfo=None),
        plan.query.text,
        plan.query.coordinates,
        answer.facts.sigma,
        plan.corollary_bounds,
        1 - plan.beta,
        answer.to_bytes(),
        pot,
    )
