"""A table of few people is warned about, from a released pilot alone."""

from __future__ import annotations

import doctest

import numpy as np
import pyarrow as pa
import pytest

import sparseq
from sparseq.store import few_people
from sparseq.store.few_people import FEW, few_people_notes, people_ranges


def store(people: int, seed: int) -> sparseq.Store:
    rows = pa.table({"who": [k % people for k in range(10 * people)]})
    return sparseq.create(None, {"t": rows}, user="who", seed=seed)


def test_docstring_examples() -> None:
    assert doctest.testmod(few_people).failed == 0


@pytest.mark.parametrize(("people", "warned"), [(30, True), (2_000, False)])
def test_few_people_are_warned_about_after_a_pilot(people: int, warned: bool) -> None:
    con = store(people, 1)
    assert few_people_notes(con.promise) == []
    con.sql("SELECT count(*) AS n FROM t")
    notes = few_people_notes(con.promise)
    assert bool(notes) is warned
    assert all(note.startswith("t has 0 to ") for note in notes)
    con.ingest(pa.table({"who": [1]}))
    assert people_ranges(con.promise) == {}  # the pilot is of earlier rows


def test_the_range_holds_the_number_of_people() -> None:
    """Of 20 stores at most 3 are outside of a range of 95 %: by chance at most one run in 60."""
    held = []
    for seed in range(20):
        con = store(100, seed)
        con.sql("SELECT count(*) AS n FROM t")
        low, high = people_ranges(con.promise)["t"]
        held.append(low <= 100 <= high)
        assert high < FEW
    assert np.sum(held) >= 17
