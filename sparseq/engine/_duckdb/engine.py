"""Contributions by DuckDB: a plan's SQL over the stored rows, as squared norms and sums.

The engine's one answer to a plan is a list of `Reduction`, one a measure: exact integer norms by
user and sums by coordinate. It knows nothing of budgets or noise.
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
from sparseq.compiled import order_of
from sparseq.engine._duckdb.backstop import (
    AloneCheck,
    Backstop,
    Failure,
    Room,
    Work,
    halves,
    pass_on,
)
from sparseq.engine._duckdb.connection import BesideEngine, BesideEngines, ClosedError
from sparseq.engine._duckdb.reader import (
    PlanRows,
    Reader,
    Scans,
    TooManyRows,
    Window,
    days_of,
    span_sql,
    window,
)
from sparseq.engine._duckdb.tables import dictionary_table
from sparseq.engine.contributions import (
    Cells,
    Contributions,
    Reduction,
    RowBatch,
    Runs,
    cells_of,
    join_parts,
    losses,
    of_batch,
    pulled,
    reduce_measure,
    release_freed,
)
from sparseq.engine.protocol import USER, Difference, EngineFailure, quote
from sparseq.sql.catalog import Catalog, Table
from sparseq.sql.plan import Plan

Result = TypeVar("Result")
SLICE_ROWS = 1 << 25
"""Full scans of more rows than this go by ranges of users, so that memory stays bounded."""
JOINED_ROWS = 1 << 20
"""Joins that give more rows than this go by ranges of users, halved until they fit."""
HELD_ROWS = 1 << 23
"""Of more rows than this nothing is kept between norms and sums: they are read again."""
FEW_DAYS = 31
_BATCH_ROWS = 1 << 16


class DuckEngine:
    """Runs plans against the stored tables, on a locked-down connection.

    On whose rows DuckDB fails contributes nothing, and is written down in `failures` (see
    `engine._duckdb.backstop`).

    Args:
        connection: The store's.
        ahead_bytes: Memory for rows that are read ahead.
        catalog: Of the store's tables.
        reopen: Makes the connection good again, where an error has made DuckDB give its database
            up.

    Attributes:
        failures: What has failed since this was last taken: private.
        version: See `Engine`.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        ahead_bytes: int,
        catalog: Catalog,
        reopen: Callable[[], None],
    ) -> None:
        self._con = connection
        self._reopen = reopen
        self._reader = Reader(connection)
        self._backstop = Backstop(connection, catalog)
        self._alone = AloneCheck(self._alone_rows)
        self._room = Room(connection, catalog)  # of somebody
        self.failures: list[EngineFailure] = []
        self.version = 0
        self._besides = BesideEngines()
        self._catalog = catalog
        self._sizes: dict[str, int] = {}
        self._ahead = Scans(self._count, self._read_span, ahead_bytes)

    def read_ahead(self, plans: Iterable[Plan]) -> None:
        """Read what the coming plans of one shape need in one scan; they come out the same.

        Args:
            plans: What is likely to be asked next.
        """

        def read() -> None:
            asked = list(plans)
            for plan in asked:
                self._reader.have(plan.query.relation.caps)
            self._ahead.read(asked)

        if isinstance(self._try(read), Failure):
            self._ahead.clear()  # each for itself will tell

    def lacks(self, plan: Plan) -> str:
        """See `Engine`: what is lowered can be evaluated."""
        return ""

    def reads_long(self, plan: Plan) -> bool:
        """See `Engine`: joins and subqueries may; a scan of one table is left to the stream."""
        return not plan.query.relation.stored

    def beside(self) -> BesideEngine:
        """See `Engine`: on a connection of its own."""

        def make(back: Callable[[BesideEngine], None]) -> BesideEngine:
            connection = self._con.cursor()
            return BesideEngine(
                DuckEngine(connection, 0, self._catalog, _give_up), connection, back
            )

        return self._besides.lend(self.version, make)

    def let_go_of_besides(self) -> None:
        """End what is read beside: the file is about to be rewritten, or closed."""
        self._besides.let_go()

    def contributions(self, plan: Plan, users: int) -> Contributions:
        """Compute a plan over everybody.

        Args:
            plan: What to compute.
            users: How many users the store has.
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
        """Return somebody's rows, read where there are no others."""
        self._room.use(self._work(plan))
        return self._room.attempt(user, user)

    def _made(self, plan: Plan, users: int) -> Contributions:
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
                if sum(b.runs.rows for b in held) > min(SLICE_ROWS, HELD_ROWS):
                    held = None  # it is too much to keep: read it again

        def added(sums: Callable[[RowBatch], list[NDArray[np.int64]]]) -> list[NDArray[np.int64]]:
            again = batches() if held is None else held
            sizes = [plan.query.groups * m.bins for m in plan.query.measures]
            totals = [np.zeros(size, np.int64) for size in sizes]
            for batch in again:
                for total, some in zip(totals, sums(batch), strict=True):
                    total += some
            return totals

        return Contributions(
            [join_parts(p) if p else _empty_reduction(plan, i) for i, p in enumerate(parts)],
            lambda only: added(lambda batch: pulled(plan, batch, only)),
            weigh=lambda weights: added(lambda batch: losses(plan, batch, weights)),
            rereads=held is None,
        )

    def cells(self, plan: Plan, users: int) -> Cells:
        """See `Engine`."""
        return cells_of(plan, self._batches(plan, users))

    def _batches(self, plan: Plan, users: int) -> Iterator[RowBatch]:
        """Yield the rows of a plan in ranges of users, ascending, each as large as fits."""
        reads = self._try(lambda: self._reads(plan, users))
        if isinstance(reads, Failure):
            yield from self._parts(plan, 0, users - 1, reads)
            return
        for first, last, read in reads:
            yield from self._parts(plan, first, last, self._try(read))

    def _parts(
        self, plan: Plan, first: int, last: int, found: RowBatch | Failure
    ) -> Iterator[RowBatch]:
        """Yield the rows of a range, of which `found` is what came of reading all at once."""
        if isinstance(found, RowBatch):
            yield found
        elif isinstance(found.error, TooManyRows):
            for a, b in halves(first, last):
                yield from self._parts(plan, a, b, self._try(self._range(plan, a, b)))
        else:
            yield from self._backstop.parts(self._work(plan), first, last, self.failures)

    def _work(self, plan: Plan) -> Work[RowBatch]:
        """Return reading a plan's rows as work that can be done on some people's."""
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
        """Return what `work` makes, or the error that it ends in; private."""
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
        """Tell whether DuckDB answers nothing any more, as it does after a fatal error."""
        try:
            self._con.execute("SELECT 1").fetchall()
        except duckdb.Error as error:
            return isinstance(error, duckdb.FatalException) or "invalidated" in str(error)
        return False

    def _reads(self, plan: Plan, users: int) -> list[tuple[int, int, Callable[[], RowBatch]]]:
        """Return ranges of users, first and last, each with what reads it."""
        relation = plan.query.relation
        self._reader.have(relation.caps)
        ahead = self._ahead.rows(plan)
        if ahead is not None:
            return [(0, users - 1, lambda: batch_of(ahead))]
        rows = self._rows(relation.stored) if relation.stored and not relation.where else 0
        if rows <= SLICE_ROWS:
            return [(0, users - 1, lambda: _read_by(self._reader, plan, users > 1))]
        width = max(users * SLICE_ROWS // rows, 1)
        ranges = ((start, min(start + width, users) - 1) for start in range(0, users, width))
        return [(first, last, self._range(plan, first, last)) for first, last in ranges]

    def _range(self, plan: Plan, first: int, last: int) -> Callable[[], RowBatch]:
        user = plan.query.relation.user
        return lambda: _read_by(
            self._reader, plan, first < last, f"{user} BETWEEN {first} AND {last}"
        )

    def _rows(self, table: str) -> int:
        """Return how many rows a table has."""
        if table not in self._sizes:
            ((rows,),) = self._con.execute(
                f"SELECT count(*) FROM by_user.{quote(table)}"
            ).fetchall()
            self._sizes[table] = int(rows)
        return self._sizes[table]

    def rows_arrived(self) -> None:
        """Forget what was kept of the rows."""
        self.version += 1
        self._reader.forget_caps()
        self._sizes.clear()
        self._ahead.clear()
        self._alone.forget()
        self._room.close()

    def _read_span(self, plan: Plan, windows: list[Window]) -> tuple[NDArray[Any], PlanRows]:
        return self._reader.read(plan, span_sql(windows), windows[0])

    def _count(self, plan: Plan, windows: list[Window]) -> int:
        return self._reader.count(plan, span_sql(windows))


def _give_up() -> None:
    """Leave it to the store's own engine to open the file anew."""
    raise ClosedError


def rows_sql(table: Table, columns: Sequence[str]) -> str:
    """Return the SQL of some columns of all rows, strings decoded, in order of user."""
    select, joins = [f"t.{USER}"], []
    for i, name in enumerate(columns):
        if table.column(name).coded:
            select.append(f"d{i}.value AS {quote(name)}")
            texts = dictionary_table(table.name, name)
            joins.append(f"LEFT JOIN {texts} AS d{i} ON d{i}.code = t.{quote(name)}")
        else:
            select.append(f"t.{quote(name)}")
    return (
        f"SELECT {', '.join(select)} FROM by_user.{quote(table.name)} AS t "
        f"{' '.join(joins)} ORDER BY t.{USER}, {', '.join(f't.{quote(c)}' for c in columns)}"
    )


def _read_by(reader: Reader, plan: Plan, many: bool, also: str = "") -> RowBatch:
    """Return the rows that one SQL statement gives; of one person as many as there are.

    Only joins that are capped can multiply rows, and a limit has DuckDB scan in one thread. Rows of
    one table and of more than few days are read as they lie by person, with no need to sort them.
    """
    relation = plan.query.relation
    where = " AND ".join(f"({w})" for w in (relation.where, also) if w)
    most = min(SLICE_ROWS, JOINED_ROWS) if many and relation.caps else None
    within = window(relation.conditions)
    if relation.stored and within is not None and days_of(within) > FEW_DAYS:
        by_user = relation.sql.replace("FROM by_time.", "FROM by_user.", 1)
        relation = replace(relation, sql=by_user)
        plan = replace(plan, query=replace(plan.query, relation=relation))
    return batch_of(reader.read(plan, where, most=most)[1])


def _empty_reduction(plan: Plan, i: int) -> Reduction:
    size = plan.query.groups * plan.query.measures[i].bins
    return Reduction(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(size, np.int64))


def batch_of(rows: PlanRows) -> RowBatch:
    """Return rows in order of user."""
    order = order_of(rows.users)
    rows = rows if order is None else rows.at(order)
    return RowBatch(Runs.of(rows.users), rows.groups, rows.measures)
