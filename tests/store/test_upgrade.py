"""A store of format 3, made by the version before, keeps every charge and answer bit by bit."""

from __future__ import annotations

import gzip
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sparseq
from sparseq.ledger._duckdb.curator_log import CuratorLog
from sparseq.ledger._duckdb.duckdb_log import log_of
from sparseq.load._duckdb.storage import Storage
from sparseq.series.watch import ActiveWatch
from sparseq.store._duckdb import upgrade as module
from sparseq.store._duckdb.file_backend import FORMAT
from sparseq.store._duckdb.open_file import open_database
from sparseq.store._duckdb.upgrade import STEPS, UpgradeStep, upgrade
from sparseq.store.curator import account

DATA = Path(__file__).parents[1] / "data"
facts = runpy.run_path(str(DATA / "make_format3.py"))["facts"]
BEFORE: dict[str, Any] = json.loads((DATA / "format3.json").read_text())


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.sparseq"
    path.write_bytes(gzip.decompress((DATA / "format3.sparseq.gz").read_bytes()))
    return path


def test_what_is_kept_is_worth_keeping() -> None:
    assert len(BEFORE["releases"]) >= 11
    assert any(BEFORE["departed"])
    assert len(BEFORE["spent"]) == 3


def test_connect_names_the_command(old: Path) -> None:
    before = old.read_bytes()
    with pytest.raises(sparseq.StoreError) as error:
        sparseq.connect(old)
    assert error.value.hint.startswith(f"`sparseq upgrade {old}`")
    assert old.read_bytes() == before


def test_charges_and_releases_survive_bit_by_bit(old: Path) -> None:
    assert upgrade(old)
    assert not upgrade(old), "once is enough"
    assert [p.name for p in old.parent.iterdir()] == ["old.sparseq"]
    for _ in range(2):
        with sparseq.connect(old) as con:
            assert facts(con) == BEFORE


def test_it_is_a_store_like_any_other_afterwards(old: Path) -> None:
    upgrade(old)
    with sparseq.connect(old) as con:
        for id, request_id, _, query, *_ in BEFORE["releases"]:
            if request_id and not request_id.startswith("watch"):
                again = con.sql(query, scale=1, request_id=request_id)
                assert again.facts.release == id, "read back, not asked anew"
        assert facts(con) == BEFORE
        assert ActiveWatch(con).tick(2, "2024-01-02").release == len(BEFORE["releases"])
        assert account(con, "p03").rows == {"t": 0}
        con.sql("SELECT count(*) AS n FROM t WHERE kind = 'violet'")
        assert con.ingest(str(_csv(old)), once="more") == 1
        assert CuratorLog(con.backend.database).entries() == []
    with sparseq.connect(old) as con:
        assert con.released == len(BEFORE["releases"]) + 1


def _csv(old: Path) -> Path:
    path = old.with_suffix(".csv")
    path.write_text("who,day,amount,kind,own\nx,2024-02-01,1.5,red,5.0\n")
    return path


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.deep)])
def test_killed_at_any_step_it_is_as_before_or_upgraded(old: Path, every: int) -> None:
    """Before and after each step, and around the commit; in a process of its own each.

    The quick one does so at every third of these moments.
    """
    original = old.read_bytes()
    script = """
import os, sys, signal
import sparseq, sparseq.store._duckdb.upgrade as module
path, moment = sys.argv[1], 0
def die():
    os.kill(os.getpid(), signal.SIGKILL)
for at in range(0, 2 * len(module.STEPS), int(sys.argv[2])):
    if os.fork() == 0:
        step, after = module.STEPS[at // 2], at % 2
        def apply(connection, step=step, after=after):
            if after: step.apply(connection)
            die()
        steps = list(module.STEPS); steps[at // 2] = module.UpgradeStep(step.name, apply)
        module.STEPS = tuple(steps)
        module.upgrade(f"{path}.{at}")
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == -9
"""
    paths = [Path(f"{old}.{at}") for at in range(0, 2 * len(STEPS), every)]
    for path in paths:
        path.write_bytes(original)
    subprocess.run(
        [sys.executable, "-c", script, str(old), str(every)],
        check=True,
        env=os.environ | {"PYTHONPATH": str(Path(sparseq.__file__).parents[1])},
    )
    for path in paths:
        with pytest.raises(sparseq.StoreError, match="not a store that this version"):
            sparseq.connect(path)
        assert upgrade(path)
        with sparseq.connect(path) as con:
            assert facts(con) == BEFORE


def test_what_another_process_has_left_in_the_log_is_durable_before_it_is_told(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an upgrade that was killed once it had committed."""
    upgrade(old)
    killed = open_database(old)
    killed.execute("CREATE TABLE something (x INTEGER)")
    killed.close()
    log, flushed, fsync = log_of(old), set(), os.fsync

    def watched(descriptor: int) -> None:
        flushed.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    assert log.stat().st_size > 0
    assert not upgrade(old)
    assert {log.stat().st_ino, old.parent.stat().st_ino} <= flushed


def test_a_step_that_fails_leaves_everything_as_it_was(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute("CREATE TABLE something (x INTEGER)")
        connection.execute("SELECT no_such_column FROM something")

    monkeypatch.setattr(module, "STEPS", (*STEPS, UpgradeStep("one that fails", fails)))
    with pytest.raises(sparseq.StoreError, match="can't be upgraded"):
        upgrade(old)
    with duckdb.connect(str(old)) as connection:
        assert '"format": 3' in str(connection.execute("FROM meta").fetchall())
        assert not connection.execute(
            "SELECT 1 FROM duckdb_tables() WHERE table_name = 'something'"
        ).fetchall()
    monkeypatch.undo()
    assert upgrade(old)


def test_what_is_no_store_or_of_another_format(old: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")
    for path in ("x", "none"):
        with pytest.raises(sparseq.StoreError):
            upgrade(tmp_path / path)
    with duckdb.connect(str(old)) as connection:
        connection.execute(
            "UPDATE meta SET value = replace(value, '\"format\": 3', '\"format\": 2')"
        )
    with pytest.raises(sparseq.StoreError, match=f"format 2, which can't be made format {FORMAT}"):
        upgrade(old)


def code_texts(path: Path) -> None:
    """Make a store one of format 4: texts of one column as codes, as they came."""
    con = duckdb.connect(str(path))
    con.execute(
        'CREATE SCHEMA dictionary; CREATE TABLE dictionary."t.kind" AS SELECT '
        "(row_number() OVER (ORDER BY min(rowid)) - 1)::UINTEGER AS code, kind AS value "
        "FROM by_user.t WHERE kind IS NOT NULL GROUP BY kind"
    )
    for schema in ("by_user", "by_time"):
        con.execute(
            f"CREATE TABLE {schema}.other AS "
            f"SELECT t.* REPLACE (code AS kind) FROM {schema}.t AS t "
            f'LEFT JOIN dictionary."t.kind" ON value = kind ORDER BY t.rowid; '
            f"DROP TABLE {schema}.t; ALTER TABLE {schema}.other RENAME TO t"
        )
    storage = Storage(con)
    catalog = storage.get("catalog")
    for column in catalog["tables"][0]["columns"]:
        column["coded"] = column["name"] == "kind"
    storage.put("catalog", catalog)
    storage.put("settings", storage.get("settings") | {"format": 4})
    con.close()


def test_texts_that_were_codes_are_texts_again(tmp_path: Path) -> None:
    rows = {"who": [3, 1, 2, 1], "day": ["2024-01-02", None, "2024-01-01", "2024-01-03"]}
    rows |= {"kind": ["z", "a", None, "m'"], "n": [1, 2, 3, 4]}
    path = tmp_path / "s.sparseq"
    with sparseq.create(path, {"t": pa.table(rows)}, user="who", time="day", kappa=1024) as con:
        before = None, con.catalog, tables_of(con)
        answer = con.sql("SELECT count(*) AS n FROM t WHERE kind = 'a'").rows()
        spent = con.stream.accounts.spent.tolist()
    code_texts(path)
    with pytest.raises(sparseq.StoreError, match="not a store that this version"):
        sparseq.connect(path)
    assert upgrade(path)
    with sparseq.connect(path) as con:
        assert (con.catalog, tables_of(con)) == before[1:]
        assert con.stream.accounts.spent.tolist() == spent
        assert con.sql("SELECT count(*) AS n FROM t WHERE kind = 'a'").rows() == answer
        schemas = con.backend.database.execute("SELECT schema_name FROM duckdb_schemas()")
        assert "dictionary" not in {name for (name,) in schemas.fetchall()}


def tables_of(con: sparseq.Store) -> list[Any]:
    """Return the rows of both orders, as they lie."""
    return [
        con.backend.database.execute(f"FROM {schema}.t").fetchall()
        for schema in ("by_user", "by_time")
    ]
