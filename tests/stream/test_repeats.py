"""The same people are asked again and again: how many intervals hold the truth, by thirds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from checks.stores import made_store


def missed(sql: str, true: float, questions: int, people: int, rows: int = 1) -> list[bool]:
    """Tell of each answer to one question, asked with fresh noise, whether its interval misses."""
    who = np.repeat(np.arange(people), rows)
    con = made_store(None, pa.table({"who": who}), table="t", user="who", seed=11)
    found = []
    for _ in range(questions):
        (row,) = con.sql(sql, fresh=True).rows()
        found.append(not row["n_low"] <= true <= row["n_high"])
    return found


@pytest.mark.parametrize("people", [300, 6000])
def test_the_same_count_of_people_holds_to_the_end(people: int) -> None:
    """Of 22 exact 95 % intervals, six or more miss once in 1,800 runs; all missed once."""
    found = missed("SELECT count(DISTINCT who) AS n FROM t", people, 66, people)
    assert sum(found[44:]) <= 5
    assert sum(found) <= 9  # of 66: ten or more, once in 800 runs
