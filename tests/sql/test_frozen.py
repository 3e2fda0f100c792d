"""Every question of the list is lowered to what golden/frozen.txt has of it.

A change is meant, or it is a mistake: `python tests/sql/frozen.py --show REF` prints what changed.
"""

from __future__ import annotations

import pytest
from frozen import digests, golden, readings
from frozen_questions import QUESTIONS, questions

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
