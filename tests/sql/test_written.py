"""Questions as people write them: what becomes of each is in golden/written.txt.

Each answer is plain DuckDB's, but for noise. UPDATE_GOLDEN=1 writes the file anew: a question that
was answered and is not any more shows there, as does every message.
"""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import numpy as np
import pytest
from test_mending import own_names

import sparseq
from benchmarks.written import Question, questions
from benchmarks.written.check import outcome, sums
from benchmarks.written.town import plain, store
from sparseq.base.errors import QueryRefused, without_query

GOLDEN = Path(__file__).parent / "golden" / "written.txt"
QUESTIONS = questions()


@pytest.fixture(scope="module")
def con() -> sparseq.Store:
    return store(found=True)


@pytest.fixture(scope="module")
def truth() -> duckdb.DuckDBPyConnection:
    return plain()


def _recorded(step: int) -> str:
    """Return what the file has of the first question and of each so-manieth after it."""
    entries: list[list[str]] = []
    for line in GOLDEN.read_text().splitlines():
        if line.startswith("    "):
            entries[-1].append(line)
        elif line and not line.startswith("# "):
            entries.append([line])
    lines: list[str] = []
    for question, said in list(zip(QUESTIONS, entries, strict=True))[::step]:
        assert said[0].startswith(f"{question.title}: ")
        lines += _heading(question, lines) + said
    return _text(lines)


def _heading(question: Question, before: list[str]) -> list[str]:
    heading = f"# {question.category}"
    return [] if heading in before else ["", heading]


def _text(lines: list[str]) -> str:
    return "\n".join(lines).strip() + "\n"


def _line(
    con: sparseq.Store, truth: duckdb.DuckDBPyConnection, question: Question
) -> tuple[str, str]:
    found = outcome(con, truth, question)
    _, offered, same = without_query(found.hint)
    if offered and same:
        assert outcome(con, truth, question, offered).kind == "answered", offered
    elif offered:
        assert own_names(con, question.sql, offered), offered
    said = f"{found.said} ({found.hint})" if found.hint else found.said
    if question.never:
        return f"{question.title}: never, as {question.never}", f"    {found.kind}: {said}"
    if found.kind == "answered":
        return f"{question.title}: answered", ""
    return f"{question.title}: not yet", f"    {found.kind}: {said}"


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.deep)])
def test_what_becomes_of_each_question(
    con: sparseq.Store, truth: duckdb.DuckDBPyConnection, step: int
) -> None:
    """Of all questions, or of each fourth one against what the file has of it."""
    if update := bool(os.environ.get("UPDATE_GOLDEN")):
        step = 1
    lines: list[str] = []
    for question in QUESTIONS[::step]:
        lines += _heading(question, lines)
        lines += filter(None, _line(con, truth, question))
    text = _text(lines)
    if update:
        GOLDEN.write_text(text)
    assert text == _recorded(step)
    assert "differs" not in text, "an answer is not plain DuckDB's"


@pytest.mark.parametrize(
    "step", [48, pytest.param(24, marks=pytest.mark.deep), pytest.param(1, marks=pytest.mark.deep)]
)
def test_what_people_add_adds_up(step: int) -> None:
    """Nobody's rows change what another's add: the sums of two halves are those of the whole."""
    con = store()  # keys that are found are not those of the halves
    halves = [store(lives_here=lambda person, i=i: person % 2 == i) for i in (0, 1)]
    compared = 0
    for question in QUESTIONS[::step]:
        try:
            whole = sums(con, question.sql)
        except QueryRefused:
            continue
        parts = [sums(half, question.sql) for half in halves]
        for all_of_them, *some in zip(whole, *parts, strict=True):
            assert np.array_equal(all_of_them, some[0] + some[1]), question.title
        compared += 1
    assert compared >= 250 // step


def test_the_file_has_each_question_once_and_no_other() -> None:
    assert _recorded(1) == GOLDEN.read_text()


def test_there_are_enough_of_each_kind() -> None:
    kinds = {q.category for q in QUESTIONS}
    assert len(QUESTIONS) >= 300
    assert len(kinds) == 12
    assert all(sum(q.category == kind for q in QUESTIONS) >= 20 for kind in kinds)
    assert len({(q.category, q.title) for q in QUESTIONS}) == len(QUESTIONS)
