"""kill -9, then a mishap with the files: refused, or nothing is lost; see `checks.kills`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import sparseq
from checks import kills
from checks.file_mishaps import LACKING, WHOLE, Files
from checks.kill_children import ENDS
from checks.kills import Report


def test_a_few_kills() -> None:
    report = kills.run(3, seed=3)
    assert report.ok, report
    assert report.opened
    assert report.refused


@pytest.mark.deep
def test_200_kills() -> None:
    report = kills.run(200, seed=2)
    assert report.ok, report
    assert set(report.mishaps) == {*WHOLE, *LACKING}


def test_a_store_that_forgets_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trials see what they are for: opened without its log, a store has lost something."""
    path = tmp_path / "s"
    kills.make(path)
    with sparseq.connect(path) as con:
        con.sql(kills.QUERIES[0])
        said = kills.state(con)
        parts = {end: Path(f"{path}{end}").read_bytes() for end in ENDS}
    for end, content in parts.items():
        Path(f"{path}{end}").write_bytes(content)
    trusting = sparseq.connect
    monkeypatch.setattr(sparseq, "connect", lambda path: trusting(path, accept_loss=True))
    report = Report()
    kills._try(Files(tmp_path, [], random.Random(1)), "log removed", said, report, "trusting")
    assert report.lost
    assert not report.ok
