"""Functions of a window."""

from __future__ import annotations

import pytest
from language.one_value import window

from sparseq.language.aggregate_functions import Use
from sparseq.language.aggregate_functions.window_functions import FUNCTIONS

ROWS = ["10", "20", "20", "30"]


@pytest.mark.parametrize(
    ("name", "constants", "expected"),
    [
        ("rank", [], [1, 2, 2, 4]),
        ("dense_rank", [], [1, 2, 2, 3]),
        ("row_number", [], [1, 2, 3, 4]),
        ("ntile", ["3"], [1, 1, 2, 3]),
        ("lag", ["1"], [None, 10, 20, 20]),
        ("lead", ["2"], [20, 30, None, None]),
        ("first_value", [], [10, 10, 10, 10]),
        ("nth_value", ["2"], [None, 20, 20, 20]),
    ],
)
def test_values(name: str, constants: list[str], expected: list[int | None]) -> None:
    assert window(name, ROWS, constants) == expected


def test_all_but_ranks_need_an_order_of_all_rows() -> None:
    """A rank is the same for tied rows; the others are decided by an order among them."""
    assert {f.name for f in FUNCTIONS if not f.one_by_one} == {"rank", "dense_rank"}
    assert {f.use for f in FUNCTIONS} == {Use.WINDOW}
