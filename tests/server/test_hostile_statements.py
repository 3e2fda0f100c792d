"""Statements that cost much, to a server: ended or refused, and nobody else fails meanwhile.

Others' times are measured by `python -m benchmarks.hostile`; here they are told of only if they
fail, since tests run beside each other.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed")
pytest.importorskip("uvicorn")

from benchmarks.hostile import (
    MOST_RATIO,
    MOST_SECONDS,
    Result,
    Shop,
    Statement,
    run,
    short,
    statements,
)


def results(
    folder: Path, sent: list[Statement], alone: float, timeout: float
) -> tuple[list[Result], dict[str, tuple[float, float]]]:
    shop = Shop(folder, timeout)
    try:
        found, medians, failed = run(shop, sent, alone, lambda _: None)
    finally:
        stopped = shop.stop()
    assert failed == []
    assert stopped < MOST_SECONDS
    return found, medians


@pytest.mark.parametrize(
    ("which", "number"),
    [(slice(1, 2), 1), pytest.param(slice(None), 10, marks=pytest.mark.deep)],
    ids=["one", "ten"],
)
def test_some_are_ended_or_refused(tmp_path: Path, which: slice, number: int) -> None:
    """Ten of them; in the quick one a single one."""
    found, _ = results(tmp_path, short()[which], 0.5, 2.0)
    assert len(found) == number
    assert [one for one in found if not one.good] == []


@pytest.mark.deep
def test_all_are_ended_or_refused_and_others_hardly_feel_it(tmp_path: Path) -> None:
    """The whole list, by all roads, with the time-out that the benchmark has; and others' times."""
    found, medians = results(tmp_path, statements(), 10.0, 8.0)
    assert len(found) >= 60
    assert [one for one in found if not one.good] == []
    assert {name: b / a for name, (a, b) in medians.items() if b > MOST_RATIO * a} == {}
