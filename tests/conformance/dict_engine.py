"""An engine over lists of dicts, in exact fractions: what the protocol says, for simple plans."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import sqlglot
from numpy.typing import NDArray
from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.engine.cells import Cells
from sparseq.engine.contributions import Contributions
from sparseq.engine.protocol import USER, Difference, SideReader
from sparseq.engine.reduction import CELL_LIMIT, NORM_LIMIT, Index, Reduction
from sparseq.engine.weighted_reduction import Weights
from sparseq.language.types import Family
from sparseq.ledger.engine_failure import EngineFailure
from sparseq.question.catalog import Table
from sparseq.question.plan import Cell, Domain, Kind, Plan, Query

Row = dict[str, Any]
# NaN is above every number
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    exp.Add: lambda a, b: a + b,
    exp.Sub: lambda a, b: a - b,
    exp.Mul: lambda a, b: a * b,
    exp.GT: lambda a, b: a > b or a != a,
    exp.GTE: lambda a, b: a >= b or a != a,
    exp.LT: lambda a, b: a < b,
    exp.LTE: lambda a, b: a <= b,
    exp.EQ: lambda a, b: a == b,
    exp.And: lambda a, b: a and b,
}


class Unsupported(Exception):
    """This engine can't evaluate it."""


def evaluated(e: exp.Expr, row: Row) -> Any:
    """The value of an expression for one row; None for NULL."""
    if isinstance(e, exp.Column):
        return row[e.name]
    if isinstance(e, exp.Literal):
        return e.this if e.is_string else Fraction(e.this)
    if isinstance(e, exp.Paren):
        return evaluated(e.this, row)
    if isinstance(e, exp.Cast):  # TRY_CAST too
        value = evaluated(e.this, row)
        if isinstance(value, str) and e.to.this is not exp.DType.VARCHAR:
            value = Fraction(value)
        return value
    if isinstance(e, exp.Case) and e.this is None:
        met = (one.args["true"] for one in e.args["ifs"] if evaluated(one.this, row) is True)
        value = next(met, e.args.get("default"))
        return None if value is None else evaluated(value, row)
    if isinstance(e, exp.Is) and isinstance(e.expression, exp.Null):
        return evaluated(e.this, row) is None
    if type(e) in _BINARY:
        a, b = evaluated(e.this, row), evaluated(e.expression, row)
        return None if a is None or b is None else _BINARY[type(e)](a, b)
    if isinstance(e, exp.Anonymous) and e.name.lower() == "isfinite":
        value = evaluated(e.expressions[0], row)
        return None if value is None else math.isfinite(value)
    raise Unsupported(f"{type(e).__name__} is not evaluated here")


def parsed(cell: Cell) -> exp.Expr:
    return sqlglot.parse_one(cell.sql, read="duckdb")


class DictEngine:
    """See `sparseq.engine.protocol.Engine`. A row has its person under "_user"."""

    version = 0

    def __init__(self, tables: dict[str, list[Row]]) -> None:
        self._tables = tables
        self._failures: list[EngineFailure] = []

    def lacks(self, plan: Plan) -> str:
        query = plan.query
        source = sqlglot.parse_one(f"SELECT 1 {query.relation.sql}", read="duckdb")
        if query.relation.caps or len(list(source.find_all(exp.Table))) != 1:
            return "joins and subqueries are not evaluated here"
        if any(m.bin is not None for m in query.measures):
            return "histograms are not evaluated here"
        try:
            for row in [r for rows in self._tables.values() for r in rows][:1]:
                self._row(plan, row)
        except Unsupported as error:
            return str(error)
        return ""

    def reads_long(self, query: Query) -> bool:
        return False

    def beside(self) -> SideReader:
        raise NotImplementedError

    def contributions(self, plan: Plan, users: int) -> Contributions:
        if reason := self.lacks(plan):
            raise QueryRefused(reason)

        def of(some: Callable[[int], bool]) -> list[Reduction]:
            return [self._reduced(plan, i, some) for i in range(len(plan.query.measures))]

        def pull(only: Index) -> list[NDArray[np.int64]]:
            people = set(only.tolist())
            return [r.totals for r in of(lambda user: user in people)]

        def weigh(weights: Weights) -> list[NDArray[np.int64]]:
            plain = [
                total << k for total, k in zip(pull(weights.users), weights.shifts, strict=True)
            ]
            return [
                total - self._weighted(plan, i, weights, shift)
                for i, (total, shift) in enumerate(zip(plain, weights.shifts, strict=True))
            ]

        return Contributions(of(lambda user: user < users), pull, weigh=weigh)

    def _row(self, plan: Plan, row: Row) -> tuple[int, list[Any]] | None:
        """The group that a row is in, and its value for each measure; None: it is in none."""
        where = plan.query.relation.where
        if where and evaluated(parsed(Cell(where)), row) is not True:
            return None
        group = 0
        for domain in plan.query.domains:
            place = self._place(domain, row)
            if not 0 <= place < len(domain.values):
                return None
            group = group * len(domain.values) + place
        cells = [m.value for m in plan.query.measures]
        return group, [1 if c is None else evaluated(parsed(c), row) for c in cells]

    @staticmethod
    def _place(domain: Domain, row: Row) -> int:
        if domain.key is not None and domain.key.type.family is Family.TEXT:
            value = evaluated(parsed(Cell.of(domain.key)), row)
            other = len(domain.values) - 1 if domain.rest else -1
            return domain.values.index(value) if value in domain.values else other
        value = evaluated(parsed(domain.position), row)
        return -1 if value is None else int(value)

    def _reduced(self, plan: Plan, i: int, some: Callable[[int], bool]) -> Reduction:
        cells = self._cells(plan, i, some)
        users = np.array(sorted(cells), np.int32)
        norms = [self._norm(cells[u].values()) for u in users.tolist()]
        totals = np.zeros(plan.query.groups * plan.query.measures[i].bins, np.int64)
        for one in cells.values():
            for group, value in one.items():
                totals[group] += value
        return Reduction(users, np.array(norms, np.int64), totals)

    def _weighted(self, plan: Plan, i: int, weights: Weights, shift: int) -> NDArray[np.int64]:
        """Sums under weights: each cell towards zero, after a person's rows have been added up."""
        totals = np.zeros(plan.query.groups * plan.query.measures[i].bins, np.int64)
        of = zip(weights.mantissa.tolist(), weights.exponent.tolist(), strict=True)
        weight = dict(zip(weights.users.tolist(), of, strict=True))
        for user, one in self._cells(plan, i, weight.__contains__).items():
            mantissa, exponent = weight[user]
            for group, value in one.items():
                totals[group] += self._weigh(value, Fraction(mantissa) / 2**exponent * 2**shift)
        return totals

    @staticmethod
    def _weigh(steps: int, weight: Fraction) -> int:
        return int(steps * weight)

    def _cells(self, plan: Plan, i: int, some: Callable[[int], bool]) -> dict[int, dict[int, int]]:
        """What each of some people has in each group."""
        measure, step = plan.query.measures[i], Fraction(plan.noise[i].granularity)
        cells: dict[int, dict[int, int]] = {}
        (table,) = sqlglot.parse_one(f"SELECT 1 {plan.query.relation.sql}", read="duckdb").find_all(
            exp.Table
        )
        for row in self._tables[table.name]:
            if not some(row["_user"]):
                continue
            found = self._row(plan, row)
            if found is None:
                continue
            group, values = found
            one = cells.setdefault(row["_user"], {})
            value = values[i]
            if measure.kind is Kind.SUM:
                finite = value is not None and math.isfinite(value)
                steps = round(Fraction(value) / step) if finite else 0
                one[group] = one.get(group, 0) + max(-CELL_LIMIT, min(steps, CELL_LIMIT))
            elif value:
                steps = int(1 / step)
                one[group] = steps if measure.kind is Kind.USERS else one.get(group, 0) + steps
        return cells

    @staticmethod
    def _norm(steps: Iterable[int]) -> int:
        """The squared norm; saturated where a cell is beyond what a lattice has."""
        values = list(steps)
        beyond = any(abs(v) > CELL_LIMIT for v in values)
        return NORM_LIMIT if beyond else min(sum(v * v for v in values), NORM_LIMIT)

    def cells(self, plan: Plan, users: int) -> Cells:
        found = [
            (user, group, min(max(value, -CELL_LIMIT - 1), CELL_LIMIT + 1))
            for user, one in sorted(self._cells(plan, 0, lambda user: user < users).items())
            for group, value in sorted(one.items())
            if value
        ]
        whose, places, values = np.array(found, np.int64).reshape(-1, 3).T
        return Cells(whose.astype(np.int32), places.astype(np.int32), values)

    def by_people(
        self, table: Table, columns: Sequence[str], make: Callable[[Any], Any], users: int
    ) -> Iterator[Any]:
        whose = [(row[USER], row) for row in self._tables[table.name]]
        for user in range(users):
            own = [row for who, row in whose if who == user]
            rows = pa.table({name: [row[name] for row in own] for name in (USER, *columns)})
            try:
                yield make(rows.to_batches())
            except Exception as error:
                self._failures.append(EngineFailure(user, str(error)))

    def read_ahead(self, plans: Iterable[Plan]) -> None:
        list(plans)

    def check_alone(self) -> list[Difference]:
        return []

    def take_failures(self) -> list[EngineFailure]:
        taken, self._failures = self._failures, []
        return taken

    def rows_arrived(self) -> None:
        pass
