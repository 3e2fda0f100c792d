"""A question asked twice: of a store without its noise, and of plain DuckDB on the same rows.

    with Pair({"t": rows}, keys={"kind": ["a", "b"]}) as pair:
        assert pair.ask("SELECT kind, count(*) AS n FROM t GROUP BY kind").agrees

The store lowers the question, asks the questions that come before it, sums in the engine, and
renders; exact sums take the place of noised ones, so that one row more or less is seen. A group of
a public domain that holds nothing has a row in an answer and none in SQL; a sum over no rows is 0,
where SQL has NULL. Both are in docs/sql.md, and are no difference here.
"""

from __future__ import annotations

import datetime as dt
import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import TracebackType
from typing import Any, Self

import duckdb
import pyarrow as pa
import sqlglot

import sparseq
from benchmarks.written.check import lowered, unnoised
from checks.stores import made_store
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.question.plan import Options, calibrate
from sparseq.released.result_columns import columns_of, noised_of

KAPPA = 1000.0
IN_NO_GROUP = "is in no group"
"""Part of the note that rows of some keys are not counted."""
Row = tuple[Any, ...]


class Kind(enum.StrEnum):
    """What became of a question."""

    EQUAL = "equal"
    REFUSED = "refused"
    NOTED = "noted"
    UNDEFINED = "undefined"
    DIFFERENT = "different"


@dataclass(frozen=True)
class Outcome:
    """What became of a question, and why.

    Attributes:
        kind: EQUAL: the same rows, in the same order if the question has one. REFUSED: before any
            charge. NOTED: groups are missing, and a note of the answer says so. UNDEFINED: plain
            DuckDB raises an error. DIFFERENT: anything else.
        said: The refusal, the note, DuckDB's error, or the difference.
    """

    kind: Kind
    said: str = ""

    @property
    def agrees(self) -> bool:
        """The question is answered as DuckDB answers it, or is not answered."""
        return self.kind is not Kind.DIFFERENT

    def __str__(self) -> str:
        return f"{self.kind}: {self.said}" if self.said else str(self.kind)


class Pair:
    """A store in memory, and plain DuckDB with the same rows.

    Args:
        tables: Private tables by name; rows without a user are in neither.
        user: The user column of each.
        public: Public tables by name.
        options: Of `checks.stores.made_store`, for example `keys` and `bounds`. Values have to
            lie within the bounds: DuckDB does not know them.
    """

    def __init__(
        self,
        tables: Mapping[str, pa.Table],
        user: str = "who",
        public: Mapping[str, pa.Table] | None = None,
        **options: Any,
    ) -> None:
        options = {"kappa": KAPPA, "seed": 1, "in_or_out": True, **options}
        self.store: sparseq.Store = made_store(
            None, tables=dict(tables), user=user, public=public, **options
        )
        self.plain = duckdb.connect(config={"threads": 1})
        self.plain.execute("SET TimeZone = 'UTC'; SET error_on_division_by_zero = false")
        for name, rows in {**tables, **(public or {})}.items():
            self.plain.register("rows", rows)
            known = f'WHERE "{user}" IS NOT NULL' if name in tables else ""
            self.plain.execute(f'CREATE TABLE "{name}" AS SELECT * FROM rows {known}')
            self.plain.unregister("rows")

    def ask(self, sql: str, plain: str = "") -> Outcome:
        """Ask both.

        Args:
            sql: The question.
            plain: The same for DuckDB; "": in the same words.
        """
        try:
            query = lowered(self.store, sql)
            calibrate(query, self.store.guarantee, Options())
        except (QueryRefused, ParameterError) as refused:
            return self._refused(sql, refused)
        try:
            theirs = self.plain.sql(plain or sql).to_arrow_table()
        except duckdb.Error as error:
            return Outcome(Kind.UNDEFINED, str(error).splitlines()[0])
        ours = unnoised(self.store, query, Options())
        return compared(ours, theirs, is_ordered(plain or sql), (*query.notes, *query.left_out))

    def _refused(self, sql: str, refused: QueryRefused | ParameterError) -> Outcome:
        """Ask once more by the front door: it says the same, and charges nobody."""
        before = int(self.store.stream.accounts.spent.sum()), self.store.released
        try:
            self.store.sql(sql)
        except (QueryRefused, ParameterError) as error:
            after = int(self.store.stream.accounts.spent.sum()), self.store.released
            if before != after:
                return Outcome(Kind.DIFFERENT, f"refused after a charge: {error}")
            return Outcome(Kind.REFUSED, refused.message)
        return Outcome(Kind.DIFFERENT, f"answered, and refused before: {refused.message}")

    def close(self) -> None:
        """Close both."""
        self.store.close()
        self.plain.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def is_ordered(sql: str) -> bool:
    """Tell whether the rows of a query have an order."""
    return sqlglot.parse_one(sql, dialect="duckdb").args.get("order") is not None


def compared(ours: pa.Table, theirs: pa.Table, ordered: bool, notes: Sequence[str] = ()) -> Outcome:
    """Compare an answer without its noise to the answer of plain SQL.

    Args:
        ours: Noised columns have one of their errors next to them.
        theirs: The same columns, without errors, in the same order.
        ordered: The rows have an order. Ties have to be broken by the question.
        notes: Of our answer.
    """
    shown = columns_of(ours)
    if len(shown) != theirs.num_columns:
        return Outcome(Kind.DIFFERENT, f"columns {shown} for {theirs.column_names}")
    noised = [c in noised_of(ours) for c in shown]
    mine, left = _rows(ours.select(shown)), _rows(theirs)
    if ordered:
        held = [r for r in mine if not _is_nothing(r, noised) or _find(r, left, noised) is not None]
        if len(held) == len(left) and all(
            _is_same(a, b, noised) for a, b in zip(held, left, strict=True)
        ):
            return Outcome(Kind.EQUAL)
    extra = []
    for row in mine:
        place = _find(row, left, noised)
        if place is not None:
            left.pop(place)
        elif not _is_nothing(row, noised):
            extra.append(row)
    if extra or (left and not any(IN_NO_GROUP in note for note in notes)):
        return Outcome(Kind.DIFFERENT, f"ours alone {extra[:3]}, DuckDB's alone {left[:3]}")
    if left:
        return Outcome(Kind.NOTED, next(note for note in notes if IN_NO_GROUP in note))
    if ordered:
        return Outcome(Kind.DIFFERENT, f"the same rows in another order: {mine[:3]}")
    return Outcome(Kind.EQUAL)


def _rows(table: pa.Table) -> list[Row]:
    columns = [column.to_pylist() for column in table.columns]
    return [tuple(map(_value, row)) for row in zip(*columns, strict=True)]


def _value(value: Any) -> Any:
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _find(row: Row, rows: Sequence[Row], noised: Sequence[bool]) -> int | None:
    return next((i for i, other in enumerate(rows) if _is_same(row, other, noised)), None)


def _is_nothing(row: Row, noised: Sequence[bool]) -> bool:
    """Tell whether a row has noised values, and each of them is of no rows."""
    values = [value for value, one in zip(row, noised, strict=True) if one]
    return bool(values) and all(value in (0, None) for value in values)


def _is_same(mine: Row, theirs: Row, noised: Sequence[bool]) -> bool:
    return all(_is_equal(*pair) for pair in zip(mine, theirs, noised, strict=True))


def _is_equal(mine: Any, theirs: Any, noised: bool) -> bool:
    if noised and theirs is None:
        return mine in (0, None)
    if mine is None or theirs is None or isinstance(mine, bool) or isinstance(theirs, bool):
        return mine is theirs
    if isinstance(mine, int | Decimal) and isinstance(theirs, int | Decimal):
        return bool(mine == theirs)
    if isinstance(mine, int | float | Decimal) and isinstance(theirs, int | float | Decimal):
        return math.isclose(mine, theirs, rel_tol=1e-6, abs_tol=1e-3)
    return bool(mine == theirs)


def differences(pair: Pair, questions: Sequence[str] | Iterator[str]) -> list[tuple[str, Outcome]]:
    """Return the questions whose answers are not DuckDB's, each with the difference."""
    asked = ((sql, pair.ask(sql)) for sql in questions)
    return [(sql, outcome) for sql, outcome in asked if not outcome.agrees]
