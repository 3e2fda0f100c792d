"""Nothing is charged before everything that can fail is done: see `sparseq.stream.step.Draft`."""

from __future__ import annotations

import datetime as dt
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sampled import one_in

import sparseq
from checks.stores import made_store

ROOT = Path(sparseq.__file__).parent
TRACED = tuple(str(ROOT / part) for part in ("stream", "accounting/cut", "reuse"))
KEYS = ["a", "b", "c"]
Line = tuple[str, int]


def rows(seed: int, size: int = 6000) -> pa.Table:
    r = np.random.default_rng(seed)
    return pa.table(
        {
            "who": r.integers(0, size // 4, size),
            "cat": r.choice(KEYS, size),
            "v": r.gamma(2, 20, size).clip(0, 400),
            "k": r.integers(0, 6, size),
            "day": [dt.date(2024, 1, 1) + dt.timedelta(int(i)) for i in r.integers(0, 9, size)],
        }
    )


def store(seed: int, **more: Any) -> sparseq.Store:
    return made_store(
        None,
        rows(seed),
        table="t",
        user="who",
        bounds={"v": (0, 400)},
        keys={"cat": KEYS},
        seed=seed,
        **more,
    )


def state(con: sparseq.Store) -> tuple[Any, ...]:
    """What a question changes."""
    stream = con.stream
    return (
        stream.accounts.spent.tolist(),
        stream.course,
        stream.departures.first.tolist(),
        stream._staged,
        stream.half_done,
        con.released,
    )


def test_a_question_whose_groups_are_all_known_but_wide_is_asked_anew() -> None:
    """There was nothing left to ask, and that was asked: a division by no cells at all."""
    sums = "SELECT cat AS g, sum(v) AS x FROM t GROUP BY g"
    with store(12, in_or_out=True) as con:
        con.sql(sums, scale=440)
        answer = con.sql(sums)
        assert con.released == 2
        assert answer.arrow()["g"].to_pylist() == [*KEYS, None]
        assert not answer.facts.parts


EMPTY = [
    (
        "SELECT k, count(*) AS n FROM t WHERE k IN (1, 3) GROUP BY k",
        "SELECT k, count(*) AS n FROM t WHERE k IN (1, 2, 3) AND k <> 2 GROUP BY k",
    ),
    (
        "SELECT k, sum(v) AS n FROM t WHERE k IN (1, 3, 4, 5) GROUP BY k",
        "SELECT k, sum(v) AS n FROM t WHERE k IN (1, 2, 3, 4, 5) AND NOT k IN (2) GROUP BY k",
    ),
]


@pytest.mark.parametrize("in_or_out", [False, True])
@pytest.mark.parametrize(("known", "asked"), EMPTY)
def test_a_group_that_no_row_can_be_in_follows_from_nothing(
    known: str, asked: str, in_or_out: bool
) -> None:
    """It was asked for alone, and charged; then the answer could not be joined with the others."""
    with store(1, in_or_out=in_or_out) as con:
        con.sql(known)
        answer = con.sql(asked)
        assert con.released == 2 == answer.facts.release
        assert con.sql(asked).arrow().equals(answer.arrow()), "and it is read back"


class Raise:
    """Raises an error at one line of the traced files, before anything is charged."""

    def __init__(self, at: Line | None) -> None:
        self.at, self.seen = at, dict[Line, None]()

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(TRACED):
            return None
        line = (frame.f_code.co_filename, frame.f_lineno)
        if event == "line":
            self.seen[line] = None
            if line == self.at:
                sys.settrace(None)
                raise ArithmeticError("planted")
        return self

    def run(self, work: Callable[[], Any]) -> None:
        before = sys.gettrace()
        sys.settrace(self)
        try:
            work()
        finally:
            sys.settrace(before)


JOINED = (
    "SELECT cat, count(*) AS n FROM t WHERE cat IN ('a', 'b') GROUP BY cat",
    "SELECT cat, count(*) AS n FROM t GROUP BY cat",
)
SUMS = ("SELECT count(*) AS n FROM t", "SELECT cat, sum(v) AS x, count(*) AS n FROM t GROUP BY cat")


@pytest.mark.parametrize(
    ("of", "in_or_out"), one_in(3, itertools.product([JOINED, SUMS], [False, True]))
)
def test_whatever_is_raised_before_it_is_charged_nothing_has_changed(
    of: tuple[str, str], in_or_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error at any line of the step until it changes something: in each file, some of them."""
    known, asked = of

    def made_store() -> sparseq.Store:
        con = store(3, norm_budget=200.0, in_or_out=in_or_out)
        con.sql(known)
        return con

    class Done(Exception):
        pass

    lines: list[Line] = []

    def stop(*_: Any) -> None:
        lines.extend(tracer.seen)  # and not those through which it is raised
        raise Done

    with made_store() as con:
        answer = con.sql(asked)
        assert bool(answer.facts.parts) == ((known, asked) == JOINED)
    tracer = Raise(None)
    with made_store() as con, monkeypatch.context() as patch:
        patch.setattr(con.stream.recall, "notes", stop)  # called first where it is charged
        before = state(con)
        with pytest.raises(Done):
            tracer.run(lambda: con.sql(asked))
        assert state(con) == before, "nothing is charged until all that can fail is done"
    assert len(lines) > 100
    with made_store() as con:
        before = state(con)
        for line in lines[:: len(lines) // 40]:
            with pytest.raises(ArithmeticError):
                Raise(line).run(lambda: con.sql(asked))
            assert state(con) == before, line
        assert con.sql(asked).arrow().equals(answer.arrow())
