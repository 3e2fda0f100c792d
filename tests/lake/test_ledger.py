"""A lake's ledger over many commits: what is written again, and what it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.ledgers import PEOPLE, SEEN, entry, state, take

import sparseq
from sparseq.accounting import budget_units
from sparseq.lake import lake_ledger
from sparseq.lake import ledger_rows as rows
from sparseq.lake.fenced_log import FencedLog
from sparseq.lake.lake_ledger import LakeLedger
from sparseq.ledger.notes import Fact
from sparseq.ledger.pots import Pot

pytest.importorskip("deltalake", reason="pip install 'sparseq[lake]'")


def opened(folder: Path) -> LakeLedger:
    """A ledger of three buckets."""
    budgets = np.full(PEOPLE, budget_units(10_000), np.int64)
    log = FencedLog(folder, b"key")
    return LakeLedger(log, 3, budgets, {Pot.WATCH: 0.25}, False, lambda users: {})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    FencedLog.create(tmp_path, b"key", rows.all_columns())
    return tmp_path


def commits(ledger: LakeLedger, count: int) -> Iterator[int]:
    """Commit so many releases, each with all that a release can have."""
    for _ in range(count):
        n = ledger.next_id
        note = SEEN.rows(tick=n, _user=[n % PEOPLE], value=[0.5])
        left_out = np.array([n % PEOPLE], np.int32) if n <= PEOPLE else np.zeros(0, np.int32)
        some = {k: n + k for k in range(PEOPLE) if k % 4 == n % 4}
        take(ledger, entry(n, some, departed=left_out, notes=(note, Fact("last", n))))
        yield n


def test_many_small_files_become_one_and_nothing_else_changes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_ledger, "_FILES", 4)
    ledger = opened(folder)
    for n in commits(ledger, 23):
        ledger.fold(40)
        if n % 7 == 0:
            assert state(opened(folder)) == state(ledger)
    assert [r.id for r in ledger.releases()] == list(range(1, 24))
    assert opened(folder).fact("last") == 23
    assert len(FencedLog(folder, b"key").head.files) <= 4 * 5 + 1


def test_what_no_version_refers_to_is_known(folder: Path) -> None:
    ledger = opened(folder)
    list(commits(ledger, 2))
    log = FencedLog(folder, b"key")
    assert log.orphans() == []
    left = log.put("notes", rows.table("notes", []))
    assert log.orphans() == [folder / left.path]


@pytest.mark.parametrize("what", ["releases", "charges", "spent"])
def test_a_ledger_that_contradicts_itself_does_not_open(folder: Path, what: str) -> None:
    ledger = opened(folder)
    list(commits(ledger, 3))
    log, known = FencedLog(folder, b"key"), state(ledger)["releases"]
    wrong: dict[str, Any] = {
        "releases": [rows.release_row(replace(known[1], query="q"))],  # a second one of its number
        "charges": rows.charge_rows([entry(9, {0: 1})], 3),  # of a release that there is not
        "spent": rows.spent_rows(ledger.pots, 99, 3),
    }
    log.commit([log.put(what, rows.table(what, wrong[what]))])
    with pytest.raises(sparseq.StoreError, match="the ledger"):
        opened(folder)
