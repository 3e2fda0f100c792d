"""Whoever fails alone counts for nothing; everybody else is worked on as if they were not there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparseq
from checks.stores import IN_OR_OUT
from sparseq.ledger._duckdb.curator_log import CuratorLog
from sparseq.training import ClosedForm, PrivateGD, family
from sparseq.training.failures import Rows, despite_failures
from sparseq.training.protocol import Floats, Pull

PLACES = 16


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    st.integers(1, PLACES),
    st.sets(st.integers(0, PLACES - 1)),
    st.integers(1, PLACES + 1),
)
def test_those_who_fail_alone_are_found_and_all_others_counted_once(
    places: int, bad: set[int], most: int
) -> None:
    """The work fails on the bad, and on more than `most` at once, which is nobody's fault."""
    bad &= set(range(places))
    rows = np.arange(places)[:, None].copy()
    before = rows.copy()

    def work(some: Rows) -> set[int]:
        assert some.shape == rows.shape, "the shape stays"
        present = set(some[some >= 0].tolist())
        assert all(some[k, 0] in (-1, k) for k in range(places)), "everybody at the same place"
        if present & bad or len(present) > most:
            raise [RuntimeError, IndexError, ValueError, AssertionError][len(present) % 4]("7531")
        return present

    done = despite_failures(work, rows)
    assert set(done.failed.tolist()) == bad
    counted = [who for part in done.parts for who in part]
    assert sorted(counted) == sorted(set(range(places)) - bad)
    if places - len(bad) <= most and len(bad) < places:
        assert len(done.parts) == 1, "the rest is one piece of work, as if the bad were not there"
    assert np.array_equal(rows, before)


def test_an_interrupt_is_no_failure() -> None:
    def work(_: Rows) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        despite_failures(work, np.zeros((2, 1), np.int64))


class Failing(ClosedForm):
    """An engine that finds out in its second step whom it can't work on."""

    asked, failed_users = 0, frozenset[int]()

    def query(self, params: Floats, batch: object) -> tuple[Floats, Pull]:
        self.asked += 1
        if self.asked == 2:
            self.failed_users = frozenset([3, 5])
        return super().query(params, batch)  # type: ignore[arg-type]

    clipped = None  # type: ignore[assignment]


def test_the_curator_is_told_once_with_the_release_and_nobody_else() -> None:
    people = pa.table({"who": range(20)})
    con = sparseq.create(None, {"t": people}, user="who", seed=1, purposes=IN_OR_OUT)
    x = np.linspace(-1, 1, 20)[:, None]
    engine = Failing(family("logistic"), range(20), x, x[:, 0] > 0, bound=1.0)
    PrivateGD(steps=3, people=20).fit(con, engine, run="a")
    (note,) = CuratorLog(con.backend.database).entries()
    assert note.kind == "training"
    assert note.message.startswith("train a (a model; settings ")
    assert note.message.endswith(
        ": the model fails on records of 2 people, who count for nothing: 3, 5"
    )
    assert not any("3, 5" in release.query for release in con.releases())
