"""All ways of evaluating a question come to the same; for long: `checks.evaluators`."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from second_evaluator.interpreter import Judge, Unwritable, Writer
from second_evaluator.operations import OPERATIONS, Vector

import sparseq.compiled
from checks.audit.queries import T_COLUMNS
from checks.evaluators import WAYS, Way, World, run
from checks.language import NUMBER, TYPES, Function, functions
from checks.term_reader import TermReader
from sparseq.engine._duckdb import reader
from sparseq.language.types import Family

ORACLE = Way(
    "oracle",
    lambda case: Judge(case.store).contributions(case.plan),
    can=lambda case: Judge(case.store).program(case.plan) is not None,
)
NUMPY = (*(w for w in WAYS if (sparseq.compiled, "COLD", 1) not in w.settings), ORACLE)
"""Loops are compiled for each mix of types, which takes a minute: `test_reduce` compares them."""


@pytest.fixture(scope="module")
def words() -> list[Function]:
    """Functions that the oracle has."""
    with World(random.Random(1), functions()) as here:
        terms = TermReader(here.store, "t")
        columns = {type: T_COLUMNS.get(type, ("NULL",))[0] for type in TYPES}
        columns[NUMBER] = columns["int"]
        known = []
        for word in functions():
            term = terms.read(word.template.format(*(columns[a] for a in word.arguments)))
            try:
                known += [word] if term is not None and Writer().step(term) >= 0 else []
            except Unwritable:
                continue
    return known


@pytest.mark.parametrize("questions", [24, pytest.param(200, marks=pytest.mark.deep)])
def test_all_ways_come_to_the_same(questions: int, words: list[Function]) -> None:
    ways = [replace(w, every=min(w.every, 3 * questions // 4)) for w in NUMPY]
    report = run(questions, 5, ways=ways, words=words)
    assert report.differences == []
    assert report.ways["oracle"] > report.questions / 3
    assert {w.name for w in NUMPY} == set(report.ways)


@pytest.mark.deep
def test_all_ways_come_to_the_same_with_loops_and_for_long(words: list[Function]) -> None:
    """Compiled loops and threads among them, of 5,000 questions; the benchmark asks 50,000."""
    report = run(5_000, 7, ways=(*WAYS, ORACLE), words=words)
    assert report.differences == []
    assert {w.name for w in (*WAYS, ORACLE)} == set(report.ways)


@pytest.mark.deep
def test_a_wrong_not_is_found(monkeypatch: pytest.MonkeyPatch, words: list[Function]) -> None:
    """NOT of what is not known is true."""

    def wrong(a: Vector) -> Vector:
        return Vector(~a.values)

    monkeypatch.setitem(OPERATIONS, ("not", (Family.BOOLEAN,)), lambda _: wrong)
    assert run(200, 1, first=True, ways=NUMPY, words=words).differences


def test_a_null_that_is_read_as_a_zero_is_found(
    monkeypatch: pytest.MonkeyPatch, words: list[Function]
) -> None:
    right = reader._numbers
    monkeypatch.setattr(reader, "_numbers", lambda chunk, missing=0: right(chunk))
    assert run(300, 0, first=True, world=100, ways=NUMPY, words=words).differences
