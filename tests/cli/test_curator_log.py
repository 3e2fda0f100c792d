"""`sparseq curator log`: what only the curator is told, in every format, and loudly."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from command_runs import output, run

import sparseq
from sparseq.ledger._duckdb.curator_log import CuratorLog

NOTES = [
    ("ingest", "3 values of u7 did not fit"),
    ("engine", 'a "quoted", one\nof u\x1b]0;own\x07'),
]


@pytest.fixture
def noted(store: Path) -> Path:
    with sparseq.connect(store) as con:
        for kind, message in NOTES:
            CuratorLog(con.backend.database).add(kind, message)
    return store


@pytest.mark.parametrize("order", ["log first", "store first"])
def test_it_shows_the_lines_oldest_first_and_loudly(noted: Path, order: str) -> None:
    words = ["log", str(noted)] if order == "log first" else [str(noted), "log"]
    result = run("curator", *words)
    assert result.exit_code == 0
    assert "PRIVATE" in result.stderr
    head, _, *lines = result.stdout.splitlines()
    assert head.split() == ["time", "(UTC)", "kind", "message"]
    assert [line.split()[2] for line in lines] == ["ingest", "engine"]
    assert lines[0].endswith("3 values of u7 did not fit")
    assert lines[1].endswith('a "quoted", one\\nof u\\x1b]0;own\\x07')


def test_machine_formats_keep_the_texts_as_they_are(noted: Path, tmp_path: Path) -> None:
    found = json.loads(output("curator", noted, "log", "--format", "json"))
    assert [(note["kind"], note["message"]) for note in found] == NOTES
    assert all(note["at"].endswith("Z") for note in found)
    text = output("curator", noted, "log", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["kind"], row["message"]) for row in rows] == NOTES
    output("curator", noted, "log", "-o", tmp_path / "log.csv")
    assert (tmp_path / "log.csv").read_text() == text
    assert (tmp_path / "log.csv").stat().st_mode & 0o077 == 0, "nobody else may read it"


def test_the_last_ones_are_the_newest(noted: Path) -> None:
    found = json.loads(output("curator", noted, "log", "--last", "1", "--format", "json"))
    assert [note["kind"] for note in found] == ["engine"]
    assert run("curator", noted, "log", "--last", "0").exit_code == 2
    assert run("curator", noted, "log", "-o", "log.parquet").exit_code == 2


def test_a_store_where_nothing_was_noted_says_so(store: Path) -> None:
    assert output("curator", store, "log") == "nothing has been noted\n"
    assert output("curator", store, "log", "--format", "json") == "[]\n"
    assert output("curator", store, "log", "--format", "csv") == "at,kind,message\n"


def test_no_analyst_is_told(noted: Path) -> None:
    for line in (
        ["history", noted, "--format", "json"],
        ["budget", noted],
        ["sql", noted, "SELECT count(*) FROM visits"],
    ):
        assert "u7" not in output(*line)
    for table in ("curator_log", "main.curator_log"):
        result = run("sql", noted, f"SELECT count(*) FROM {table}")
        assert result.exit_code == 3
        assert "u7" not in result.stderr
