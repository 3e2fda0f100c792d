"""A log may be of any length: memory holds a block of it, whatever came before.

What Python and Arrow hold is measured where blocks end, and what DuckDB says it holds, so nothing
here hangs on the clock or on when memory goes back to the machine. Every line has an id of its own
and every third is answered.
"""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sparseq
from sparseq.base._duckdb.connection import SETTINGS
from sparseq.ledger._duckdb import segments
from sparseq.replay import AnswerFile, Log, Summary, answer_file, price_list, replay
from sparseq.replay import compare as comparing
from sparseq.replay import log as replay_log
from sparseq.replay.compare import ReplayComparison, compare
from sparseq.reuse import latest_grids
from sparseq.store._duckdb import file_backend as memory
from sparseq.stream import batches
from sparseq.stream.batches import Request

BLOCK, LINES = 32, 24 * 32
SHOWN = 8
A_LINE = 48.0
"""Bytes: a request id kept in a dict takes three times as many, a row of a comparison fifteen.

Some lie on free lists, which Python fills slowly and which end."""


@pytest.fixture
def store() -> sparseq.Store:
    rows = pa.table({"who": [1, 2, 2, 3], "day": [1, 2, 3, 3]})
    return sparseq.create(
        None,
        {"t": rows},
        user="who",
        seed=1,
        purposes=[sparseq.Questions(counts=LINES)],
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    texts = [
        "SELECT count(*) AS n FROM t WHERE day = {}",
        "",
        "DROP TABLE t",
    ]
    lines = [
        {"id": f"a line of a long log: {n}", "sql": texts[n % 3].format(n % 8)}
        for n in range(LINES)
    ]
    path = tmp_path / "long.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def growth(run: Callable[[Callable[[int], None]], object]) -> float:
    """Return by how many bytes a line memory grows over the second half of a log."""
    held: list[int] = []

    def advance(lines: int) -> None:
        if lines % BLOCK == 0:
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes())

    gc.collect()
    gc.freeze()  # what was there before is not looked at again and again
    tracemalloc.start()
    try:
        run(advance)
    finally:
        tracemalloc.stop()
        gc.unfreeze()
    assert len(held) == LINES // BLOCK
    half = len(held) // 2
    return (min(held[-half // 2 :]) - min(held[half : half + half // 2])) / (LINES / 4)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (batches, replay_log):
        monkeypatch.setattr(module, "BLOCK", BLOCK)
    monkeypatch.setattr(answer_file, "PART_ROWS", BLOCK)
    monkeypatch.setattr(comparing, "MOST_SHOWN", SHOWN)
    monkeypatch.setattr(latest_grids, "LOOKED_THROUGH", BLOCK)


@pytest.mark.deep
def test_memory_does_not_grow_with_the_log(store: sparseq.Store, log: Path, tmp_path: Path) -> None:
    """First asked, then read back from the journal; comparing, which always runs, reads alike."""
    summaries: list[Summary] = []

    def ask(advance: Callable[[int], None]) -> None:
        to = AnswerFile(tmp_path / "a.parquet", {}, False)
        summaries.append(replay(store, Log(log), to, advance=advance))

    for _ in range(2):
        assert growth(ask) < A_LINE
    assert [s.from_journal for s in summaries] == [0, summaries[0].answered]
    assert growth(lambda advance: price_list(store, Log(log), advance)) < A_LINE


def test_memory_of_a_comparison_does_not_grow_with_the_log(store: sparseq.Store, log: Path) -> None:
    written: list[int] = []

    def run(advance: Callable[[int], None]) -> None:
        modes = ["worst-case", "individual"]
        done.append(compare(store, Log(log), modes, lambda t: written.append(t.num_rows), advance))

    done: list[ReplayComparison] = []
    grown = growth(run)
    if grown >= A_LINE:  # what is kept once for all is not kept again
        written.clear()
        done.clear()
        grown = growth(run)
    assert grown < A_LINE
    (comparison,) = done
    assert sum(written) == 2 * comparison.fared[0].lines > LINES // 2
    shown = comparison.shown["line"].to_pylist()[::2]
    assert SHOWN // 2 <= len(shown) <= SHOWN
    assert shown[-1] > LINES - 3, "the last line that can be answered"
    assert len({b - a for a, b in pairwise(shown[:-1])}) == 1, "evenly spread"


@pytest.mark.deep
def test_duckdb_lets_go_of_releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a store in a file: its log is taken in, and pages that were written give way."""
    most = 8 << 20
    monkeypatch.setattr(memory, "_LEAST_MB", most >> 20)
    monkeypatch.setattr(memory, "_MB_A_CORE", 0)
    monkeypatch.setitem(SETTINGS, "wal_autocheckpoint", "2MB")
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 1 << 21)
    people = 2000
    rows = pa.table({"who": np.arange(people), "x": np.linspace(0, 1, people)})
    path = tmp_path / "s"
    sparseq.create(path, {"t": rows}, user="who", bounds={"x": (0, 1)}, seed=1).close()
    held = []
    with sparseq.connect(path) as con:
        asked = [Request(con.lower("SELECT sum(x) AS s FROM t"), fresh=True)] * 250
        for _ in range(10):
            assert all(outcome.answer for outcome in con.ask_many(asked))
            ((bytes_now,),) = con.backend.database.execute(
                "SELECT sum(memory_usage_bytes)::BIGINT FROM duckdb_memory()"
            ).fetchall()
            held.append(bytes_now)
    assert path.stat().st_size > 1.25 * most
    assert max(held) <= most
