"""Functions of integers: exact, and NULL where 64 bits don't hold the result."""

from __future__ import annotations

import pytest
from language.one_value import value, whole

from sparseq.language import types as T
from sparseq.language.functions import overloads

LARGEST, SMALLEST = 2**63 - 1, -(2**63)


@pytest.mark.parametrize(
    ("name", "numbers", "expected"),
    [
        ("+", (LARGEST, 0), LARGEST),
        ("+", (LARGEST, 1), None),
        ("-", (SMALLEST, 1), None),
        ("*", (2**32, 2**31), None),
        ("*", (2**32, -(2**31)), SMALLEST),
        ("//", (-7, 2), -3),
        ("//", (7, 0), None),
        ("//", (SMALLEST, -1), None),
        ("%", (-7, 3), -1),
        ("%", (7, 0), None),
        ("abs", (SMALLEST,), None),
        ("neg", (LARGEST,), -LARGEST),
        ("sign", (-9,), -1),
        ("round", (1_250, -2), 1_300),
        ("round", (7, -19), 0),
        ("trunc", (-1_299, -2), -1_200),
        ("xor", (6, 3), 5),
        ("<<", (1, 62), 2**62),
        ("<<", (1, 63), None),
        ("<<", (-1, 1), None),
        (">>", (5, 1), 2),
        ("bit_count", (-1,), 64),
        ("gcd", (12, -18), 6),
        ("lcm", (LARGEST, 2), None),
    ],
)
def test_values(name: str, numbers: tuple[int, ...], expected: int | None) -> None:
    constants = [
        (T.integer(n, n), str(n)) if (name, i) in {("round", 1), ("trunc", 1)} else whole(n)
        for i, n in enumerate(numbers)
    ]
    if name in ("round", "trunc"):
        (found,) = [f for f in overloads(name) if len(f.takes) == 2 and f.takes[0] is f.takes[1]]
        assert found.fixed == (1,)
    assert value(name, *constants) == expected


def test_the_type_of_a_sum_holds_every_sum() -> None:
    (plus,) = [f for f in overloads("+") if f.wide]
    few = T.integer(-3, 5)
    assert plus.gives([few, few]) == T.integer(-6, 10)
    assert plus.sql([few, few]) == "(CAST({0} AS BIGINT) + CAST({1} AS BIGINT))"
    assert "TRY_CAST" in plus.sql([T.BIGINT, few])


def test_wider_integers_keep_all_their_digits() -> None:
    wide = T.whole(0, 2**64 - 1), str(2**64 - 1)
    assert value("+", wide, wide) == 2**65 - 2
