"""Replays of logs: one outcome a line, the same answers for ever, whatever is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparseq
from checks.stores import made_store
from sparseq.ledger.request_id import Asker
from sparseq.replay import AnswerFile, Log, Summary, answer_file, replay

ROOT = Path(__file__).resolve().parents[2]
LOG = ROOT / "queries" / "cdnow_log.jsonl.gz"
WEEK = [f"1997-01-{i + 1:02}" for i in range(28)]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shop") / "shop.sparseq"
    data = ROOT / "data" / "cdnow.parquet"
    table = {"table": "purchases", "user": "customer_id", "seed": 3}
    made_store(path, data, kappa=0.5, norm_budget=20, **table, in_or_out=True).close()
    return path


@pytest.fixture
def store(shop: Path, tmp_path: Path) -> Path:
    shutil.copy(shop, tmp_path / "s.sparseq")
    return tmp_path / "s.sparseq"


def lines_of(sqls: list[str | dict[str, Any]], path: Path) -> Path:
    records = [s if isinstance(s, dict) else {"sql": s} for s in sqls]
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def buyers(day: str) -> str:
    return f"SELECT count(DISTINCT customer_id) AS n FROM purchases WHERE date = DATE '{day}'"


def run(store: Path, log: Path, out: Path, resume: bool = False) -> Summary:
    with sparseq.connect(store) as con:
        return replay(con, Log(log), AnswerFile(out, {"log": str(log)}, resume))


def rows(path: Path) -> list[dict[str, Any]]:
    return list(pq.read_table(path).to_pylist())


MIXED: list[str | dict[str, Any]] = [
    {"id": "x", "sql": buyers(WEEK[0])},
    "SELECT count(* FROM purchases",
    "SELECT * FROM purchases",
    {"sql": buyers(WEEK[0]).replace(f"DATE '{WEEK[0]}'", ":day"), "parameters": {"day": WEEK[1]}},
    {"sql": "SELECT :a", "parameters": {"b": 1}},
    {"id": "x", "sql": buyers(WEEK[0])},
    {"id": "x", "sql": buyers(WEEK[2])},
    "SELECT date, count(*) AS n, sum(least(greatest(amount, 0), 50)) AS s FROM purchases "
    "WHERE date BETWEEN DATE '1997-01-01' AND DATE '1997-01-02' GROUP BY date",
    {"sql": buyers(WEEK[3]), "options": {"sigma": 1e300}},
    {"no": 1},
]
STATUS = [
    "answered",
    "failed",
    "refused",
    "answered",
    "failed",
    "answered",
    "answered",
    "answered",
    "refused",
    "failed",
]


def test_every_line_has_an_outcome_of_its_own(store: Path, tmp_path: Path) -> None:
    log = lines_of(MIXED, tmp_path / "mixed.jsonl")
    summary = run(store, log, tmp_path / "a.parquet")
    assert (summary.lines, summary.answered, summary.refused, summary.failed) == (10, 5, 2, 3)
    assert summary.from_journal == 1, "the line that is there twice"
    found = rows(tmp_path / "a.parquet")
    assert [r["line"] for r in found] == list(range(1, 11))
    assert [r["status"] for r in found] == STATUS
    assert all((r["reason"] is None) == (r["status"] == "answered") for r in found)
    assert [r["id"] for r in found[:3]] == ["x", "line 2", "line 3"]
    assert "not SQL" in found[1]["reason"]
    assert found[0]["answer"] == found[5]["answer"]
    assert found[6]["answer"] != found[0]["answer"], "another question of the same id"
    with sparseq.connect(store) as con:
        assert [r.request_id for r in con.releases()] == [
            "replay/mixed/x",
            "replay/mixed/line 4",
            "replay/mixed/x",
            "replay/mixed/line 8",
        ]
        assert {r.asker for r in con.releases()} == {Asker.REPLAY}
        for row in found:
            if row["release"] is not None:
                table = con.release(row["release"]).arrow()
                assert row["answer"] == [
                    {"key": None, "value": None, "error": None} | c
                    for c in answer_file.cells_of(table)
                ]
        (one,) = con.release(1).rows()
        assert (found[0]["value"], found[0]["error"]) == (one["n"], one["n_error"])
    assert found[7]["value"] is None, "an answer of many numbers is in its cells"
    assert [c["key"] for c in found[7]["answer"] if c["column"] == "date"] == WEEK[:2]


def test_csv_and_json_lines_say_the_same_as_parquet(store: Path, tmp_path: Path) -> None:
    log = lines_of(MIXED, tmp_path / "mixed.jsonl")
    for kind in ("parquet", "csv", "jsonl"):
        run(store, log, tmp_path / f"a.{kind}")
    records = [json.loads(x) for x in (tmp_path / "a.jsonl").read_text().splitlines()]
    import csv

    with open(tmp_path / "a.csv", newline="") as file:
        table = list(csv.DictReader(file))
    for row, record, cells in zip(rows(tmp_path / "a.parquet"), records, table, strict=True):
        for name in ("line", "id", "status", "reason", "release", "value", "error"):
            assert row[name] == record[name]
            assert cells[name] == ("" if row[name] is None else str(row[name]))
        assert record["answer"] == (json.loads(cells["answer"]) if cells["answer"] else None)
        if row["answer"] is not None:
            numbers = {c["column"]: c["value"] for c in row["answer"] if c["key"] is None}
            assert numbers.items() <= record["answer"][-1].items()


def test_run_again_it_gives_the_same_answers_and_charges_nobody(
    store: Path, tmp_path: Path
) -> None:
    log = lines_of([buyers(day) for day in WEEK], tmp_path / "l.jsonl")
    first = run(store, log, tmp_path / "a.parquet")
    with sparseq.connect(store) as con:
        before = con.stream.accounts.spent.tolist()
    again = run(store, log, tmp_path / "b.parquet")
    assert (first.from_journal, again.from_journal, again.answered) == (0, 28, 28)
    assert rows(tmp_path / "a.parquet") == rows(tmp_path / "b.parquet")
    with sparseq.connect(store) as con:
        assert con.stream.accounts.spent.tolist() == before
        assert len(con.releases()) == 28


@pytest.mark.parametrize("resume", [True, False])
def test_stopped_it_goes_on(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resume: bool
) -> None:
    log = lines_of([*[buyers(day) for day in WEEK], *MIXED], tmp_path / "l.jsonl")
    shutil.copy(store, tmp_path / "other.sparseq")
    run(tmp_path / "other.sparseq", log, tmp_path / "whole.parquet")
    monkeypatch.setattr(answer_file, "PART_ROWS", 5)

    def stop(lines: int) -> None:
        if lines == 12:
            raise KeyboardInterrupt

    out = tmp_path / "a.parquet"
    with sparseq.connect(store) as con, pytest.raises(KeyboardInterrupt):
        replay(con, Log(log), AnswerFile(out, {"log": str(log)}, False), advance=stop)
    assert not out.exists()
    parts = sorted((tmp_path / "a.parquet.parts").glob("*.parquet"))
    assert sum(pq.read_metadata(p).num_rows for p in parts) == 12
    summary = run(store, log, out, resume)
    assert rows(out) == rows(tmp_path / "whole.parquet")
    assert summary.lines == 38
    assert summary.from_journal == summary.answered == 33, "all were asked in one transaction"
    assert not (tmp_path / "a.parquet.parts").exists()


def test_parts_of_another_log_are_not_gone_on_from(store: Path, tmp_path: Path) -> None:
    log = lines_of([buyers(WEEK[0])], tmp_path / "l.jsonl")
    AnswerFile(tmp_path / "a.parquet", {"log": "another"}, False)
    with pytest.raises(sparseq.ParameterError, match="another log"):
        run(store, log, tmp_path / "a.parquet", resume=True)
    run(store, log, tmp_path / "a.parquet")


@pytest.mark.parametrize("name", ["a.xlsx", "a", "none/a.parquet"])
def test_a_place_for_answers_that_is_none(name: str, tmp_path: Path) -> None:
    with pytest.raises(sparseq.ParameterError, match=r"--output|can't write"):
        AnswerFile(tmp_path / name, {}, False)


@pytest.mark.parametrize("kills", [1, pytest.param(2, marks=pytest.mark.deep)])
def test_killed_at_any_time_nothing_is_lost_and_nothing_redrawn(
    shop: Path, tmp_path: Path, kills: int
) -> None:
    """kill -9 in the middle, or twice over; then the whole is what an unbroken run gives."""
    log = lines_of([buyers(day) for day in WEEK * 5], tmp_path / "l.jsonl")
    for name in ("killed", "whole"):
        shutil.copy(shop, tmp_path / f"{name}.sparseq")
    command = [sys.executable, "-m", "sparseq", "replay"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    out = tmp_path / "killed.parquet"
    seen: dict[int, bytes] = {}
    for kill in range(1, kills + 1):
        running = subprocess.Popen(
            [*command, str(tmp_path / "killed.sparseq"), str(log), "-o", str(out), "--resume"],
            env=env,
            stderr=subprocess.DEVNULL,
        )
        wal = tmp_path / "killed.sparseq.wal"
        while not wal.exists() or wal.stat().st_size < 10_000 * kill:
            try:
                running.wait(0.01)
                break
            except subprocess.TimeoutExpired:
                continue
        running.send_signal(signal.SIGKILL)
        running.wait()
        with sparseq.connect(tmp_path / "killed.sparseq") as con:
            recorded = {r.id: r.answer for r in con.releases()}
        assert seen.items() <= recorded.items()
        seen = recorded
    summary = run_command(command, tmp_path / "killed.sparseq", log, out, env)
    run_command(command, tmp_path / "whole.sparseq", log, tmp_path / "whole.parquet", env)
    assert summary["lines"] == summary["answered"] == 28 * 5
    assert rows(out) == rows(tmp_path / "whole.parquet")
    with sparseq.connect(tmp_path / "killed.sparseq") as con:
        spent = con.stream.accounts.spent.tolist()
        assert len(con.releases()) == 28 * 5
    with sparseq.connect(tmp_path / "whole.sparseq") as con:
        assert con.stream.accounts.spent.tolist() == spent


def run_command(
    command: list[str], store: Path, log: Path, out: Path, env: dict[str, str]
) -> dict[str, Any]:
    done = subprocess.run(
        [*command, str(store), str(log), "-o", str(out), "--resume", "--format", "json"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


@pytest.mark.deep
def test_the_log_of_a_shop_is_replayed_as_it_would_be_asked(store: Path, tmp_path: Path) -> None:
    log = list(Log(LOG).lines())
    assert len(log) > 2000
    summary = run(store, LOG, tmp_path / "a.parquet")
    assert summary.answered > 2000
    assert summary.refused > 5
    assert summary.failed > 2
    assert isinstance(pq.read_table(tmp_path / "a.parquet"), pa.Table)
