"""The type of values that were computed from private rows.

Lowering, pricing, explaining and the choice of a path read only public values: declarations, the
curator's settings, public tables, released answers. A `Private[int]` is no `int`, so mypy refuses
it in a `Column`, a setting, a text or an argument there. At run time it cannot be tested, compared,
ordered, hashed, printed, formatted, copied or written as JSON. Two methods return the value; a
search finds their uses, and `tests/repository/test_public_facts.py` limits them to a list of
modules.
"""

from __future__ import annotations

from typing import Generic, NoReturn, TypeVar

T = TypeVar("T")


class Private(Generic[T]):
    """A value that was computed from private rows.

    Args:
        value: The value.

    Example:
        >>> rows = Private(3)
        >>> rows.inside() + 1
        4
        >>> f"{rows} rows"
        Traceback (most recent call last):
        TypeError: a value computed from private rows has no text: only the curator may see it
        >>> rows > 2
        Traceback (most recent call last):
        TypeError: '>' not supported between instances of 'Private' and 'int'
    """

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    def inside(self) -> T:
        """Return the value, for code that computes sums, charges and stored rows."""
        return self._value

    def for_curator(self) -> T:
        """Return the value, for the curator's log and tools: no analyst sees it."""
        return self._value

    def __bool__(self) -> NoReturn:
        raise _refused("no truth value")

    def __eq__(self, other: object) -> NoReturn:
        raise _refused("no comparison")

    def __ne__(self, other: object) -> NoReturn:
        raise _refused("no comparison")

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> NoReturn:
        raise _refused("no text")

    def __str__(self) -> NoReturn:
        raise _refused("no text")

    def __format__(self, spec: str) -> NoReturn:
        raise _refused("no text")

    def __reduce__(self) -> NoReturn:
        raise _refused("no copy")


def _refused(what: str) -> TypeError:
    return TypeError(f"a value computed from private rows has {what}: only the curator may see it")
