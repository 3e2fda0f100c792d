"""Contributions by DuckDB: a plan's SQL over the stored rows, as squared norms and sums.

The engine's only answer to a plan is a list of `Reduction`, one per measure: exact integer norms by
user and sums by coordinate. It knows nothing about budgets or noise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.base.cancellation import interruptible
from sparseq.base.sql_text import quote
from sparseq.compiled import order_of
from sparseq.engine._duckdb.alone_check import AloneCheck
from sparseq.engine._duckdb.backstop import Backstop, Failure, Room, Work, halves, pass_on
from sparseq.engine._duckdb.kept_rows import KeptRows
from sparseq.engine._duckdb.reader import Reader, TooManyRows
from sparseq.engine._duckdb.scans import PlanRows, Scans
from sparseq.engine._duckdb.side_engines import BesideEngine, BesideEngines, ClosedError
from sparseq.engine._duckdb.time_windows import Window, days_of, span_sql, window
from sparseq.engine.cells import Cells, cells_of
from sparseq.engine.contributions import (
    Contributions,
    RowBatch,
    coordinates_of,
    losses,
    of_batch,
    pulled,
    reduce_measure,
)
from sparseq.engine.freed_memory import release_freed
from sparseq.engine.protocol import USER, Difference
from sparseq.engine.reduction import Reduction, Runs, join_parts
from sparseq.ledger.engine_failure import EngineFailure
from sparseq.question.catalog import Catalog, Table
from sparseq.question.plan import Plan, Query
from sparseq.question.work import is_slow

Result = TypeVar("Result")
SLICE_ROWS = 1 << 25
"""The most rows of one read; more rows are read in ranges of users."""
VALUE_BYTES = 16
"""The memory of one value of a row during a read: DuckDB's copy, and the array's."""
LEAST_SLICE = 1 << 13
"""The least limit of rows of one read, independent of the memory."""
JOINED_ROWS = 1 << 20
"""Joins with more rows than this are split into ranges of users, halved until they fit."""
HELD_ROWS = 1 << 23
"""For more rows than this nothing is kept between norms and sums: they are read again."""
FEW_DAYS, KEPT_DAYS = 31, 7
"""The longest windows of time, in days, that are read by time: without and with kept columns."""
MANY_ROWS = 1 << 24
"""For tables with more rows than this, `FEW_DAYS` also applies with kept columns."""
MOST_KEPT = 1 << 31
"""The maximum number of bytes of kept columns."""
_BATCH_ROWS = 1 << 16


class DuckEngine:
    """An engine that runs plans on the stored tables, with a locked-down connection.

    Users on whose rows DuckDB fails contribute nothing, and are added to `failures` (see
    `engine._duckdb.backstop`).

    Args:
        connection: The store's connection.
        held_bytes: Memory for the rows of one read, and for rows read ahead (a quarter) and kept
            columns (the rest).
        catalog: The catalog of the store's tables.
        reopen: Opens the database again after an error that made DuckDB close it.
        keeps: Columns are kept, and rows read ahead.

    Attributes:
        failures: The failures since they were last taken: private.
        version: See `Engine`.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        held_bytes: int,
        catalog: Catalog,
        reopen: Callable[[], None],
        keeps: bool = True,
    ) -> None:
        self._con = connection
        self._reopen = reopen
        self._reader = Reader(connection)
        self._backstop = Backstop(connection, catalog)
        self._alone = AloneCheck(self._alone_rows)
        self._room = Room(connection, catalog)  # for the rows of one user
        self.failures: list[EngineFailure] = []
        self.version = 0
        self._besides = BesideEngines()
        self._catalog = catalog
        self._sizes: dict[str, int] = {}
        self._held_bytes = held_bytes
        ahead, kept = (held_bytes // 4, held_bytes - held_bytes // 4) if keeps else (0, 0)
        self._ahead = Scans(self._count, self._read_span, ahead)
        self._kept = KeptRows(self._reader, min(kept, MOST_KEPT))

    def read_ahead(self, plans: Iterable[Plan]) -> None:
        """Read rows for the next plans of one shape in one scan; the results are the same.

        Args:
            plans: The plans that are likely to come next.
        """

        def read() -> None:
            asked = list(plans)
            for plan in asked:
                self._reader.have(plan.query.relation.caps)
            self._ahead.read(asked)

        if isinstance(self._try(read), Failure):
            self._ahead.clear()  # each plan reports it in its turn

    def lacks(self, plan: Plan) -> str:
        """See `Engine`: every lowered plan can be evaluated."""
        return ""

    def reads_long(self, query: Query) -> bool:
        """See `Engine`: joins and subqueries may read long, and so do slow expressions."""
        return not query.relation.stored or is_slow(query)

    def beside(self) -> BesideEngine:
        """Return a reader on a separate connection: see `Engine`."""

        def make(back: Callable[[BesideEngine], None]) -> BesideEngine:
            connection = self._con.cursor()
            return BesideEngine(
                DuckEngine(connection, self._held_bytes, self._catalog, _give_up, keeps=False),
                connection,
                back,
            )

        return self._besides.lend(self.version, make)

    def let_go_of_besides(self) -> None:
        """Close the readers outside the stream, before the file is rewritten or closed."""
        self._besides.let_go()

    def contributions(self, plan: Plan, users: int) -> Contributions:
        """Compute a plan over all users.

        Args:
            plan: The plan to compute.
            users: The number of users in the store.
        """
        begun = time.perf_counter()
        made = self._ahead.made_of(plan, lambda: self._made(plan, users))
        self._alone.consider(plan, made, users)
        self._alone.save(time.perf_counter() - begun)
        return made

    def check_alone(self) -> list[Difference]:
        """See `Engine`."""
        return self._alone.run()

    def _alone_rows(self, plan: Plan, user: int) -> RowBatch | Failure:
        """Return one user's rows, read from a database without others."""
        self._room.use(self._work(plan))
        return self._room.attempt(user, user)

    def _made(self, plan: Plan, users: int) -> Contributions:
        kept = self._try(lambda: self._kept_batch(plan))
        if isinstance(kept, RowBatch):
            return of_batch(plan, kept)
        if isinstance(kept, Failure):
            self._kept.clear()  # the reads below read all rows, and report failures
        reads = self._try(lambda: self._reads(plan, users))
        if isinstance(reads, Failure):
            failed = reads
            return self._join(plan, lambda: self._parts(plan, 0, users - 1, failed))
        if len(reads) > 1:
            return self._join(plan, lambda: self._batches(plan, users))
        first, last, read = reads[0]
        found = self._try(read)
        if isinstance(found, RowBatch):
            return of_batch(plan, found)
        return self._join(plan, lambda: self._parts(plan, first, last, found))

    def _kept_batch(self, plan: Plan) -> RowBatch | None:
        """Return a plan's rows from kept columns; None: they must be read.

        A window of a few days is read by time, and a table larger than a slice in ranges of users.
        """
        stored = plan.query.relation.stored
        if not stored or self._rows(stored) > SLICE_ROWS or self._ahead.rows(plan) is not None:
            return None
        within = window(plan.query.relation.conditions)
        few = FEW_DAYS if self._rows(stored) > MANY_ROWS else KEPT_DAYS
        if within is not None and days_of(within) <= few:
            return None
        return self._kept.batch(plan, self._rows)

    def _join(self, plan: Plan, batches: Callable[[], Iterable[RowBatch]]) -> Contributions:
        """Return the contributions of disjoint, ascending ranges of users."""
        parts: list[list[Reduction]] = [[] for _ in plan.query.measures]
        held: list[RowBatch] | None = []
        for batch in batches():
            release_freed()
            for i, part in enumerate(parts):
                part.append(reduce_measure(plan, batch, i))
            if held is not None:
                held.append(batch)
                if sum(b.runs.rows for b in held) > min(self._most_rows(plan), HELD_ROWS):
                    held = None  # too many rows to keep: read them again

        def added(sums: Callable[[RowBatch], list[NDArray[np.int64]]]) -> list[NDArray[np.int64]]:
            again = batches() if held is None else held
            sizes = [plan.query.groups * m.bins for m in plan.query.measures]
            totals = [np.zeros(size, np.int64) for size in sizes]
            for batch in again:
                for total, some in zip(totals, sums(batch), strict=True):
                    total += some
            return totals

        return Contributions(
            _joined(plan, parts),
            lambda only: added(lambda batch: pulled(plan, batch, only)),
            weigh=lambda weights: added(lambda batch: losses(plan, batch, weights)),
            rereads=held is None,
        )

    def cells(self, plan: Plan, users: int) -> Cells:
        """See `Engine`."""
        return cells_of(plan, self._batches(plan, users))

    def _batches(self, plan: Plan, users: int) -> Iterator[RowBatch]:
        """Yield the rows of a plan in ascending ranges of users, each as large as fits."""
        reads = self._try(lambda: self._reads(plan, users))
        if isinstance(reads, Failure):
            yield from self._parts(plan, 0, users - 1, reads)
            return
        for first, last, read in reads:
            yield from self._parts(plan, first, last, self._try(read))

    def _parts(
        self, plan: Plan, first: int, last: int, found: RowBatch | Failure
    ) -> Iterator[RowBatch]:
        """Yield the rows of a range; `found` is the result of reading the whole range."""
        if isinstance(found, RowBatch):
            yield found
        elif isinstance(found.error, TooManyRows):
            for a, b in halves(first, last):
                yield from self._parts(plan, a, b, self._try(self._range(plan, a, b)))
        else:
            yield from self._backstop.parts(self._work(plan), first, last, self.failures)

    def _work(self, plan: Plan) -> Work[RowBatch]:
        """Return the reading of a plan's rows as work that can run on some users' rows."""
        relation = plan.query.relation
        cells = [d.position.sql for d in plan.query.domains]
        text = " ".join([relation.sql, relation.where, *cells])
        return Work(text, lambda reader, many: _read_by(reader, plan, many), relation.caps)

    def by_people(
        self,
        table: Table,
        columns: Sequence[str],
        make: Callable[[Iterable[pa.RecordBatch]], Result],
        users: int,
    ) -> Iterator[Result]:
        """See `Engine`."""
        text = rows_sql(table, columns)

        def made(connection: duckdb.DuckDBPyConnection) -> Result:
            return make(connection.sql(text).to_arrow_reader(_BATCH_ROWS))

        found = self._try(lambda: made(self._con))
        if not isinstance(found, Failure):
            yield found
        else:
            work = Work(text, lambda reader, _: made(reader.connection))
            yield from self._backstop.parts(work, 0, users - 1, self.failures)

    def _try(self, work: Callable[[], Result]) -> Result | Failure:
        """Return the result of `work`, or the error that ends it; private."""
        try:
            with interruptible(self._con.interrupt):
                return work()
        except Exception as error:
            pass_on(error)
            if isinstance(error, duckdb.Error) and self._is_given_up():
                self._reopen()
                self._reader.reopened()
            return Failure(error)

    def take_failures(self) -> list[EngineFailure]:
        """See `Engine`."""
        taken, self.failures = self.failures, []
        return taken

    def _is_given_up(self) -> bool:
        """Tell whether DuckDB refuses all further statements, as after a fatal error."""
        try:
            self._con.execute("SELECT 1").fetchall()
        except duckdb.Error as error:
            return isinstance(error, duckdb.FatalException) or "invalidated" in str(error)
        return False

    def _reads(self, plan: Plan, users: int) -> list[tuple[int, int, Callable[[], RowBatch]]]:
        """Return ranges of users, first and last, each with its reader."""
        relation = plan.query.relation
        self._reader.have(relation.caps)
        ahead = self._ahead.rows(plan)
        if ahead is not None:
            return [(0, users - 1, lambda: batch_of(plan, ahead))]
        most, rows = self._most_rows(plan), self._rows_under(plan)
        if rows <= most or not relation.stored or _few_days(plan):
            limit = self._limit(plan)
            return [(0, users - 1, lambda: _read_by(self._reader, plan, users > 1, most=limit))]
        width = max(users * most // rows, 1)
        ranges = ((start, min(start + width, users) - 1) for start in range(0, users, width))
        return [(first, last, self._range(plan, first, last)) for first, last in ranges]

    def _range(self, plan: Plan, first: int, last: int) -> Callable[[], RowBatch]:
        those, limit = f"{plan.query.relation.user} BETWEEN {first} AND {last}", self._limit(plan)
        return lambda: _read_by(self._reader, plan, first < last, those, limit)

    def _limit(self, plan: Plan) -> int | None:
        """Return the number of rows above which one read of a plan is split; None: no limit."""
        if plan.query.relation.caps:
            return min(JOINED_ROWS, self._most_rows(plan))
        most, unknown = self._most_rows(plan), not plan.query.relation.stored or _few_days(plan)
        return most if unknown and self._rows_under(plan) > most else None

    def _rows_under(self, plan: Plan) -> int:
        """Return the number of rows of a plan's table; of a subquery, of the largest table."""
        stored = plan.query.relation.stored
        names = [stored] if stored else [table.name for table in self._catalog.private]
        return max(map(self._rows, names), default=0)

    def _most_rows(self, plan: Plan) -> int:
        """Return the most rows of one read of a plan, such that memory stays bounded."""
        query = plan.query
        columns = 1 + len(query.domains) + 2 * len(query.measures)
        return min(SLICE_ROWS, max(self._held_bytes // (VALUE_BYTES * columns), LEAST_SLICE))

    def _rows(self, table: str) -> int:
        """Return the number of rows of a table."""
        if table not in self._sizes:
            ((rows,),) = self._con.execute(
                f"SELECT count(*) FROM by_user.{quote(table)}"
            ).fetchall()
            self._sizes[table] = int(rows)
        return self._sizes[table]

    def rows_arrived(self) -> None:
        """Drop all kept rows and columns."""
        self.version += 1
        self._reader.forget_caps()
        self._sizes.clear()
        self._ahead.clear()
        self._kept.clear()
        self._alone.forget()
        self._room.close()

    def _read_span(self, plan: Plan, windows: list[Window]) -> tuple[NDArray[Any], PlanRows]:
        return self._reader.read(plan, span_sql(windows), windows[0])

    def _count(self, plan: Plan, windows: list[Window]) -> int:
        return self._reader.count(plan, span_sql(windows))


def _give_up() -> None:
    """Raise an error, so that the store's own engine opens the file again."""
    raise ClosedError


def rows_sql(table: Table, columns: Sequence[str]) -> str:
    """Return the SQL of some columns of all rows, in order of user and then of their values."""
    listed = ", ".join([USER, *map(quote, columns)])
    return f"SELECT {listed} FROM by_user.{quote(table.name)} ORDER BY {listed}"


def _read_by(
    reader: Reader, plan: Plan, many: bool, also: str = "", most: int | None = None
) -> RowBatch:
    """Return the rows of one SQL statement; for a single user without a limit.

    Rows of one table over more than a few days are read in their order by user, without a sort.

    Args:
        also: One more condition.
        most: The maximum number of rows; None: no limit. A limit makes DuckDB scan in one thread.

    Raises:
        TooManyRows: The read has more rows than `most`.
    """
    relation = plan.query.relation
    where = " AND ".join(f"({w})" for w in (relation.where, also) if w)
    if relation.caps:  # only joins multiply rows
        most = min(SLICE_ROWS, JOINED_ROWS, most or SLICE_ROWS)
    within = window(relation.conditions)
    if relation.stored and within is not None and days_of(within) > FEW_DAYS:
        by_user = relation.sql.replace("FROM by_time.", "FROM by_user.", 1)
        relation = replace(relation, sql=by_user)
        plan = replace(plan, query=replace(plan.query, relation=relation))
    return batch_of(plan, reader.read(plan, where, most=most if many else None)[1])


def _few_days(plan: Plan) -> bool:
    """Tell whether a plan covers only a few days, and so reads rows by time."""
    within = window(plan.query.relation.conditions)
    return within is not None and days_of(within) <= FEW_DAYS


def _joined(plan: Plan, parts: list[list[Reduction]]) -> list[Reduction]:
    """Return the reduction of each measure over all ranges of users; equal lists of users are one.

    Args:
        parts: The reductions of each measure, in ascending ranges of users.
    """
    joined: list[Reduction] = []
    for i, some in enumerate(parts):
        whole = join_parts(some) if some else _empty_reduction(plan, i)
        alike = all(a.users is b.users for a, b in zip(some, parts[0], strict=True))
        joined.append(replace(whole, users=joined[0].users) if i and alike else whole)
    return joined


def _empty_reduction(plan: Plan, i: int) -> Reduction:
    size = plan.query.groups * plan.query.measures[i].bins
    return Reduction(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(size, np.int64))


def batch_of(plan: Plan, rows: PlanRows) -> RowBatch:
    """Return rows in order of user."""
    order = order_of(rows.users)
    rows = rows if order is None else rows.at(order)
    measures = [
        (coordinates_of(plan, i, rows.groups, bins), values)
        for i, (bins, values) in enumerate(rows.measures)
    ]
    return RowBatch(Runs.of(rows.users), measures)
