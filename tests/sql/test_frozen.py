"""Every question of the list is lowered to what golden/frozen.txt has of it.

A change is meant, or it is a mistake: `python tests/sql/frozen.py --show REF` prints what changed.
A question on which the engine fails, for one person's rows, raises `EngineFailed` as it is read.
"""

from __future__ import annotations

import contextlib

import pytest
from frozen import EngineFailed, digests, golden, read, readings
from frozen_questions import QUESTIONS, STORES, questions

from sparseq.ledger.engine_failure import EngineFailure

SAMPLE = 40


def changed(family: str, step: int) -> list[str]:
    """Return the questions of a family's sample that are read in another way than the file has."""
    known = golden()
    asked = [question for question in questions(family) if question.is_one_in(step)]
    assert asked, "this sample tells nothing"
    return [q.sql for q, reading in readings(asked) if known.get(q.id) != digests(reading)]


@pytest.mark.parametrize("family", [f for f in QUESTIONS if f != "tpch"])
def test_a_sample_is_read_as_before(family: str) -> None:
    assert changed(family, SAMPLE) == []


@pytest.mark.deep
@pytest.mark.parametrize("family", QUESTIONS)
def test_every_question_is_read_as_before(family: str) -> None:
    """All of them, and TPC-H's."""
    assert changed(family, 1) == []


def test_the_file_has_each_question_and_no_other() -> None:
    asked = [question.id for family in QUESTIONS for question in questions(family)]
    assert [*golden()] == asked
    assert len(set(asked)) >= 3000


def test_a_failure_of_the_engine_is_not_read_as_an_answer() -> None:
    with contextlib.closing(STORES["pairs"]()) as con:
        asked = next(q for q in questions("pairs") if read(con, q)["kind"].startswith("d="))
        con.stream.engine.failures.append(EngineFailure(3, "planted"))
        with pytest.raises(EngineFailed, match="user 3: planted"):
            read(con, asked)
