"""Questions in the styles of known collections: what becomes of each is in golden/styles.txt.

Each answer is plain DuckDB's, but for noise. UPDATE_GOLDEN=1 writes the file anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sql.outcomes import line, recorded, text_of
from sql.test_suggestions import own_names

from benchmarks.styles import questions
from benchmarks.styles.worlds import WORLDS

GOLDEN = Path(__file__).parent / "golden" / "styles.txt"
QUESTIONS = questions()
SHARE = 0.93
"""Questions that are answered, of those that anybody could answer."""


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.deep)])
def test_what_becomes_of_each_question(step: int) -> None:
    """Of all questions, or of each ninth one against what the file has of it."""
    update = bool(os.environ.get("UPDATE_GOLDEN"))
    stores = {name: (world.store(), world.plain()) for name, world in WORLDS.items()}
    asked = QUESTIONS[:: 1 if update else step]
    text = text_of([(q, line(*stores[q.category], q, own_names)) for q in asked])
    if update:
        GOLDEN.write_text(text)
    else:
        assert text == recorded(GOLDEN, QUESTIONS, step)
    assert "differs" not in text, "an answer is not plain DuckDB's"


def test_most_of_what_anybody_can_answer_is_answered() -> None:
    told = GOLDEN.read_text()
    answered, missing = told.count(": answered\n"), told.count(": not yet\n")
    assert answered >= SHARE * (answered + missing)
    assert answered + missing >= 150
