"""One limit for what is held: the same store and the same answers under a small one."""

from __future__ import annotations

import os
import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import sparseq
from sparseq.cli.app import sparseq as command_line
from sparseq.store._duckdb import file_backend as memory

QUERY = "SELECT kind, count(*) AS n, sum(amount) AS s FROM t WHERE kind IN ('a', 'b') GROUP BY kind"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    draw, n = random.Random(1), 30_000
    table = pa.table(
        {
            "who": [draw.randrange(2_000) for _ in range(n)],
            "kind": [draw.choice("abc") for _ in range(n)],
            "amount": [draw.random() * 50 for _ in range(n)],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def contents(path: Path) -> list[object]:
    with duckdb.connect(str(path), read_only=True) as con:
        tables = ("by_user.t", "ledger.users", "ledger.snapshot")
        return [con.execute(f"FROM {name} ORDER BY ALL").fetchall() for name in tables]


def test_a_small_limit_gives_the_same_store_and_answers(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for limit in ("", "512MB"):
        monkeypatch.setenv(memory.MEMORY, limit)
        path = tmp_path / f"s{limit}.sparseq"
        with sparseq.create(path, {"t": rows}, user="who", bounds={"amount": (0, 50)}, seed=1):
            pass
        made = contents(path)
        with sparseq.connect(path) as con:
            assert con.ingest(rows, again=True) == 30_000
            answer = con.sql(QUERY)
            ((held,),) = con.backend.database.execute(
                "SELECT current_setting('memory_limit')"
            ).fetchall()
        found.append((made, contents(path), answer.arrow(), answer.facts))
    assert found[0] == found[1]
    assert held == "256.0 MiB"
    assert memory.held_bytes() == memory.LEAST // 6


def test_one_limit_is_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(memory.MEMORY, "12GB")
    whole = 12 << 30
    assert memory.machine_memory() == whole
    assert memory.loading_bytes() + 3 * memory.held_bytes() <= whole
    assert memory.loading_bytes() + whole // 4 <= whole


@pytest.mark.parametrize(
    ("size", "said"),
    [("lots", "no size"), ("1GB2", "no size"), ("100MB", "too little"), ("-1GB", "no size")],
)
def test_sizes_that_are_none(size: str, said: str) -> None:
    with pytest.raises(sparseq.ParameterError, match=said):
        memory.bytes_of(size)


def test_commands_take_it_and_let_it_go(rows: Path, tmp_path: Path) -> None:
    before = os.environ.get(memory.MEMORY)
    create = ["create", str(tmp_path / "s"), str(rows), "--user", "who"]
    refused = CliRunner().invoke(command_line, create, env={memory.MEMORY: "9MB"})
    assert (refused.exit_code, "too little" in refused.stderr) == (2, True)
    assert not (tmp_path / "s").exists()
    assert CliRunner().invoke(command_line, create, env={memory.MEMORY: "512MB"}).exit_code == 0
    asked = ["sql", str(tmp_path / "s"), "SELECT count(*) AS n FROM t", "--memory"]
    refused = CliRunner().invoke(command_line, [*asked, "9MB"])
    assert (refused.exit_code, "too little" in refused.stderr) == (2, True)
    assert CliRunner().invoke(command_line, [*asked, "1GB"]).exit_code == 0
    assert os.environ.get(memory.MEMORY) == before
