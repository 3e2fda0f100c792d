"""A watch that is killed again and again releases the same as one that is left alone."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import watching

import sparseq
from sparseq.ledger.pots import Pot
from sparseq.mechanisms import AboveThreshold
from sparseq.series.watch import ActiveWatch

TICKS = 6


def make(path: Path) -> None:
    rows = pa.table({"who": [i for i in range(40) for _ in range(1 + i % 4)]})
    sparseq.create(
        path,
        {"t": rows},
        user="who",
        kappa=32,
        seed=3,
        purposes=[sparseq.Questions(in_or_out=True, counts=40, watch=0.25)],
    ).close()


def state(con: sparseq.Store) -> list[Any]:
    """Everything that was released and written, but when."""
    tables = (
        "SELECT * FROM ledger.watched",
        "SELECT * FROM ledger.alarm",
        "SELECT id, departed FROM ledger.release WHERE departed IS NOT NULL",
    )
    return [
        [replace(r, released_at=None) for r in con.releases()],  # type: ignore[arg-type]
        *(con.backend.database.execute(f"{t} ORDER BY ALL").fetchall() for t in tables),
        *(accounts.spent.tolist() for _, accounts in con.stream.pots.items()),
        con.stream.departures.first.tolist(),
    ]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Any], list[Any]]:
    path = tmp_path_factory.mktemp("undisturbed") / "s.sparseq"
    make(path)
    with sparseq.connect(path) as con:
        seen = watching.watch(con, TICKS)
        return seen, state(con)


def test_the_watch_sees_something(undisturbed: tuple[list[Any], list[Any]]) -> None:
    """Or the tests below would prove little: an alarm, people left out at two times, a re-arm."""
    seen, (_, _, alarms, departed, _, spent, _) = undisturbed
    assert [s.alarm for s in seen].count(True) == 2
    assert len(departed) > 1
    assert len({noise for _, _, _, noise, _, _ in alarms}) == 2
    assert any(spent)


@pytest.mark.deep
def test_killed_before_and_after_any_commit_it_goes_on_as_if_never_killed(
    tmp_path: Path, undisturbed: tuple[list[Any], list[Any]]
) -> None:
    path = tmp_path / "s.sparseq"
    make(path)
    draw = random.Random(2)
    deaths = [f"{draw.randrange(1, 4)} {draw.choice(['before', 'after'])}" for _ in range(3)]
    deaths.insert(0, "4 before")  # between a tick's node and its comparison
    root = str(Path(sparseq.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, watching.__file__, str(path), str(TICKS), *deaths],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen, expected = undisturbed
    with sparseq.connect(path) as con:
        assert state(con) == expected
        assert watching.watch(con, TICKS) == seen
        assert state(con) == expected


def test_a_tick_that_was_cut_off_before_its_comparison_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.sparseq"
    make(path)

    def broken(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(AboveThreshold, "above", lambda self, value: False)
    with sparseq.connect(path) as con:
        watch = ActiveWatch(con, 4)
        watch.tick(1)
        with monkeypatch.context() as patch:
            patch.setattr(type(watch._alarm), "_compare", broken)
            with pytest.raises(MemoryError):
                watch.tick(2)
        for _ in range(12):
            con.sql("SELECT count(*) FROM t", fresh=True)
        between = con.stream.departures.between(0, 99).tolist()
        assert between
        watch.tick(3)
        rows = con.backend.database.execute(
            "SELECT tick, counted FROM ledger.alarm ORDER BY tick"
        ).fetchall()
        assert [tick for tick, *_ in rows] == [1, 2, 3]
        assert [counted > 0 for _, counted in rows] == [False, False, True], "each its own tick's"
        assert all(con.stream.pots[Pot.WATCH].spent[between] > 0)


def test_the_drawn_threshold_is_kept_and_not_drawn_anew(tmp_path: Path) -> None:
    path = tmp_path / "s.sparseq"
    make(path)
    noises = []
    for tick in (1, 2, 3):
        with sparseq.connect(path) as con:
            ActiveWatch(con, 4, 0.2).tick(tick)
            ((noise,),) = con.backend.database.execute(
                "SELECT DISTINCT noise FROM ledger.alarm"
            ).fetchall()
            noises.append(noise)
            assert not any(str(noise) in str(r.query) for r in con.releases() if abs(noise) > 99)
    assert len(set(noises)) == 1
