"""Lists of values that a condition sets for a column."""

from __future__ import annotations

import pytest
from sqlglot import exp, parse_one

from sparseq.sql.condition_limits import listed_by, sees_only

X = exp.column("x")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x IN (1, 2)", ["1", "2"]),
        ("x = 1 OR (2 = x)", ["1", "2"]),
        ("x = 1 OR y = 2", None),
        ("x IN (SELECT y FROM t)", None),
        ("x > 1", None),
    ],
)
def test_lists(condition: str, expected: list[str] | None) -> None:
    found = listed_by(parse_one(condition), X)
    assert found == (None if expected is None else [parse_one(one) for one in expected])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT count(d.a), sum(DISTINCT d.b) FROM t", True),
        ("SELECT count(*) FROM t", False),
        ("SELECT max(d.a) FROM t", False),
        ("SELECT count(d.a) FROM t WHERE d.b > 1", False),
    ],
)
def test_rows_without_a_match_do_not_count(text: str, expected: bool) -> None:
    select = parse_one(text)
    assert isinstance(select, exp.Select)
    assert sees_only(select, "d") is expected
