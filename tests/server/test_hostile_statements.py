"""Statements that cost much, to a server: ended or refused, and nobody else fails meanwhile.

Others' times are measured by `python -m checks.hostile`; here they are told of only if they
fail, since tests run beside each other.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed")
pytest.importorskip("uvicorn")

from checks.hostile import run
from checks.hostile_statements import (
    MOST_MB,
    MOST_RATIO,
    Result,
    Shop,
    Statement,
    short,
    statements,
)


def results(
    folder: Path, sent: list[Statement], alone: float, timeout: float, eve: float | None = None
) -> tuple[list[Result], dict[str, tuple[float, float]]]:
    shop = Shop(folder, timeout, eve)
    try:
        found, medians, failed = run(shop, sent, alone, lambda _: None)
    finally:
        stopped = shop.stop()
    assert failed == []
    assert stopped < 60
    return found, medians


def test_one_is_ended_and_nobody_else_fails(tmp_path: Path) -> None:
    """Eve's time-out is 2 s; others have a minute, so that a busy machine ends none of theirs."""
    sent = [one for one in short() if one.name == "a join of three"]
    (found,), _ = results(tmp_path, sent, 0.5, 60.0, 2.0)
    assert "timeout" in found.said or found.said == "answered, 1 rows", found
    assert found.mb <= MOST_MB, found


@pytest.mark.deep
def test_ten_are_ended_or_refused(tmp_path: Path) -> None:
    found, _ = results(tmp_path, short(), 0.5, 2.0)
    assert len(found) == 10
    assert [one for one in found if not one.good] == []


@pytest.mark.deep
def test_all_are_ended_or_refused_and_others_hardly_feel_it(tmp_path: Path) -> None:
    """The whole list, by all roads, with the time-out that the benchmark has; and others' times."""
    found, medians = results(tmp_path, statements(), 10.0, 8.0)
    assert len(found) >= 60
    assert [one for one in found if not one.good] == []
    assert {name: b / a for name, (a, b) in medians.items() if b > MOST_RATIO * a} == {}
