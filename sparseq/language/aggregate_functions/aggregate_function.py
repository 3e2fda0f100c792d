"""One overload of an aggregate or window function, and the list that a module of these makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sparseq.language.expression_tree import Nulls, Term
from sparseq.language.types import Family, Type

Terms = Sequence[Term]


class Takes(StrEnum):
    """The kinds of arguments."""

    ANY = "any"
    WHOLE = "integer or truth"
    NUMBER = "number"
    TRUTH = "truth"
    CONSTANT = "constant"

    def allows(self, type: Type) -> bool:
        """Tell whether an argument may have a type."""
        match self:
            case Takes.WHOLE:
                return type.family in (Family.INTEGER, Family.BOOLEAN)
            case Takes.NUMBER:
                return type.is_number or type.family is Family.BOOLEAN
            case Takes.TRUTH:
                return type.family is Family.BOOLEAN
        return True


class Use(StrEnum):
    """The places where a function may occur."""

    AGGREGATE = "aggregate"
    BOTH = "aggregate, or over a window"
    WINDOW = "over a window"


@dataclass(frozen=True)
class AggregateFunction:
    """One overload of an aggregate or of a window function.

    Attributes:
        name: The name for lookups, as DuckDB has it.
        form: Its form in a query, with {0}, {1} for the arguments.
        takes: The allowed kinds of its arguments.
        gives: Type of the result, or a function that gives it for the arguments.
        sql: Its SQL for the prepared arguments; {order} stands for ORDER BY.
        meaning: Its description, for the docs page.
        use: The places where it may occur.
        prepare: Returns the prepared form of each argument that is not constant.
        after: Returns the final form of the result, after FILTER and OVER.
        distinct: It allows DISTINCT.
        ordered: It requires an ORDER BY.
        one_by_one: It processes its rows one by one, in an order of all rows.
        chooses: Its value is a value of its first argument, or NULL.
        counts: Its value is never negative, and over at least one row never NULL.
        over_no_rows: Its value over no rows, as an aggregate; None: NULL.
        keeps: It is never NULL over a row with a value.
    """

    name: str
    form: str
    takes: tuple[Takes, ...]
    gives: Type | Callable[[Terms], Type]
    sql: str
    meaning: str
    use: Use = Use.BOTH
    prepare: Callable[[Term], Term] = lambda term: term
    after: str = "{0}"
    distinct: bool = False
    ordered: bool = False
    one_by_one: bool = False
    chooses: bool = False
    counts: bool = False
    over_no_rows: int | None = None
    keeps: bool = False

    def apply(
        self,
        arguments: Terms,
        *,
        distinct: bool = False,
        order: Sequence[str] = (),
        condition: str = "",
        over: str = "",
    ) -> Term:
        """Return the function applied to its arguments.

        Args:
            arguments: All its arguments.
            distinct: Apply it to distinct values.
            order: SQL of the order of its rows.
            condition: SQL of its FILTER; "" if it has none.
            over: SQL of its window, in parentheses; "" for an aggregate.

        Example:
            >>> from sparseq.language.aggregate_functions import overloads
            >>> from sparseq.language.expression_tree import column
            >>> from sparseq.language.types import BIGINT
            >>> (total,) = [f for f in overloads("sum") if f.takes == (Takes.WHOLE,)]
            >>> total.apply([column("x", BIGINT)], condition="y").sql
            'TRY_CAST(sum(x) FILTER (WHERE y) AS BIGINT)'
        """
        made = [
            a if takes is Takes.CONSTANT else self.prepare(a)
            for a, takes in zip(arguments, self.takes, strict=True)
        ]
        texts = [f"DISTINCT {a.sql}" if distinct and i == 0 else a.sql for i, a in enumerate(made)]
        sql = self.sql.format(*texts, order=", ".join(order))
        sql += f" FILTER (WHERE {condition})" if condition else ""
        sql += f" OVER {over}" if over else ""
        type = self.gives if isinstance(self.gives, Type) else self.gives(made)
        size = 1 + sum(a.size for a in made)
        name = f"{self.name} distinct" if distinct else self.name
        of_all = self.keeps and not condition and not over
        nulls = Nulls.NEVER if self.counts else Nulls.STRICT if of_all else Nulls.FREE
        sql = self.after.format(sql)
        return Term(type, sql, size=size, function=name, arguments=tuple(made), nulls=nulls)


class AggregateTable(list[AggregateFunction]):
    """Overloads, in the order in which they are tried."""

    def add(
        self,
        name: str,
        form: str,
        takes: Sequence[Takes],
        gives: Type | Callable[[Terms], Type],
        sql: str,
        meaning: str,
        use: Use = Use.BOTH,
        **more: object,
    ) -> None:
        """Add an overload.

        Args:
            name, form, takes, gives, sql, meaning, use: See `AggregateFunction`.
            **more: Its further attributes.
        """
        self.append(AggregateFunction(name, form, tuple(takes), gives, sql, meaning, use, **more))  # type: ignore[arg-type]
