"""All ways of evaluating a question come to the same; for long: `benchmarks.evaluators`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sparseq.compiled
import sparseq.engine.interpreter
from benchmarks.audit.planted import masks_of_numbers
from benchmarks.evaluators import WAYS, run
from sparseq.engine import operations
from sparseq.engine.operations import OPERATIONS, Vector
from sparseq.language.types import Family

NUMPY = tuple(w for w in WAYS if (sparseq.compiled, "COLD", 1) not in w.settings)
"""Loops are compiled for each mix of types, which takes a minute: `test_reduce` compares them."""


@pytest.mark.parametrize("questions", [40, pytest.param(200, marks=pytest.mark.deep)])
def test_all_ways_come_to_the_same(questions: int) -> None:
    ways = [replace(w, every=min(w.every, 3 * questions // 4)) for w in NUMPY]
    report = run(questions, 5, ways=ways)
    assert report.differences == []
    assert report.both > report.questions / 3
    assert {w.name for w in NUMPY} == set(report.ways)


@pytest.mark.deep
def test_all_ways_come_to_the_same_with_loops_and_for_long() -> None:
    """Compiled loops and threads among them, of 5,000 questions; the benchmark asks 50,000."""
    report = run(5_000, 7)
    assert report.differences == []
    assert {w.name for w in WAYS} == set(report.ways)


@pytest.mark.parametrize("seed", [15, pytest.param(9, marks=pytest.mark.deep)])
def test_a_mask_of_numbers_is_found(seed: int) -> None:
    """As it was: NOT of a constant beside a column with NULLs became a number."""
    with masks_of_numbers():
        report = run(600, seed, first=True, world=200, ways=NUMPY)
    assert report.differences


@pytest.mark.deep
def test_a_wrong_not_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """NOT of what is not known is true."""

    def wrong(a: Vector) -> Vector:
        return Vector(~a.values)

    monkeypatch.setitem(OPERATIONS, ("not", (Family.BOOLEAN,)), lambda _: wrong)
    assert run(200, 1, first=True, ways=NUMPY).differences


@pytest.mark.parametrize(
    "what", ["kept", *(pytest.param(w, marks=pytest.mark.deep) for w in ("known", "blocks"))]
)
def test_a_way_that_goes_wrong_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One way alone: rows that are masked, columns with NULLs, the ends of blocks."""
    if what == "kept":
        right = sparseq.engine.interpreter._placed_if

        def placed(kept: Any, places: Any) -> Any:
            return right(kept, places) if np.ndim(kept) == 0 else right(np.roll(kept, 1), places)

        monkeypatch.setattr(sparseq.engine.interpreter, "_placed_if", placed)
    elif what == "known":
        monkeypatch.setattr(operations, "coalesce", lambda a, b: a)
    else:
        cut = sparseq.engine.interpreter._blocks
        monkeypatch.setattr(
            sparseq.engine.interpreter, "_blocks", lambda runs, rows: cut(runs, rows)[:3]
        )
    assert run(400, 2, first=True, world=200, ways=NUMPY).differences
