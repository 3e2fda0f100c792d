"""One overload of a function of SQL, and the list that a module of such functions makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparseq.language.interval_arithmetic import ArrayRule
from sparseq.language.types import Family, Type

Types = Sequence[Type]


@dataclass(frozen=True)
class Function:
    """One overload of a function.

    Attributes:
        name: The name for lookups.
        form: Its form in a query, with {0}, {1} … for the arguments.
        takes: The families of its arguments.
        gives: Returns the result type for the argument types; None if they are not accepted.
        sql: Returns its SQL for the argument types.
        meaning: Its value for every argument, for the docs page.
        fixed: Arguments that must be constants.
        samples: Constants for these arguments in tests; by default numbers of decimals.
        rule: Its values and intervals on arrays, shared by all overloads with the same number of
            arguments; None if it has no interval.
        short: Its result is a FLOAT for FLOATs, or for FLOATs and exact numbers.
        wide: It takes integers beyond 64 bits unchanged; other functions refuse types that exceed
            64 bits.
        values: All of its values but NULL, in order; None if they are many, or numbers, whose type
            has their range.
    """

    name: str
    form: str
    takes: tuple[Family, ...]
    gives: Callable[[Types], Type | None]
    sql: Callable[[Types], str]
    meaning: str
    fixed: tuple[int, ...] = ()
    samples: tuple[tuple[str, ...], ...] = (("0",), ("2",), ("-2",), ("400",), ("-400",))
    rule: ArrayRule | None = None
    short: bool = False
    wide: bool = False
    values: tuple[str, ...] | None = None


class FunctionTable(list[Function]):
    """Overloads, in the order in which they are tried."""

    def add(
        self,
        name: str,
        form: str,
        takes: Sequence[Family],
        gives: Type | Callable[[Types], Type | None],
        sql: str | Callable[[Types], str],
        meaning: str,
        **more: object,
    ) -> None:
        """Add an overload; a type or SQL that does not depend on the arguments may be a constant.

        Args:
            name, form, takes, gives, sql, meaning: See `Function`.
            **more: Its further attributes.
        """

        def constantly(value: object) -> Callable[[Types], object]:
            return lambda _: value

        self.append(
            Function(
                name,
                form,
                tuple(takes),
                gives if callable(gives) else constantly(gives),  # type: ignore[arg-type]
                sql if callable(sql) else constantly(sql),  # type: ignore[arg-type]
                meaning,
                **more,  # type: ignore[arg-type]
            )
        )
