"""Functions of lists: positions count from 1, or backwards from the end."""

from __future__ import annotations

import pytest
from language.one_value import Argument, text, value, whole

from sparseq.language import types as T
from sparseq.language.functions.lists import FUNCTIONS
from sparseq.language.types import Family

TYPE = T.find_type("VARCHAR[]")


@pytest.mark.parametrize(
    ("name", "rest", "expected"),
    [
        ("contains", (text("b"),), True),
        ("contains", (text("c"),), False),
        ("length", (), 3),
        ("cardinality", (), 3),
        ("list_extract", (whole(1),), "a"),
        ("array_extract", (whole(-1),), None),
        ("list_element", (whole(0),), None),
        ("list_element", (whole(2**62),), None),
    ],
)
def test_values(name: str, rest: tuple[Argument, ...], expected: object) -> None:
    assert TYPE is not None
    assert value(name, (TYPE, "['a', 'b', NULL]"), *rest) == expected


def test_a_list_contains_only_values_of_its_own_type() -> None:
    assert TYPE is not None
    found = [f for f in FUNCTIONS if f.name == "contains"]
    allowed = {
        f.takes[1]
        for f in found
        if f.gives([TYPE, T.TEXT if f.takes[1] is Family.TEXT else T.BIGINT]) is not None
    }
    assert allowed == {Family.TEXT}
