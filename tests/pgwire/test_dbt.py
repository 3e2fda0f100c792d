"""dbt itself against a running server, with the very files that docs/clients.md has.

All are deep: dbt has to be installed, and takes ten seconds for every command.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pgwire.client_venv import programs
from pgwire.wired import Address, served, spent

pytestmark = pytest.mark.deep

PAGE = Path(__file__).resolve().parents[2] / "docs" / "clients.md"
FILE = re.compile(
    r"^```\w+\n(?:#|--|\{#) ([\w/]+\.\w+)(?: #\})?\n(.*?)^```$", re.DOTALL | re.MULTILINE
)
Dbt = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def at() -> Iterator[Address]:
    with served() as address:
        yield address


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files of the page."""
    folder = tmp_path_factory.mktemp("dbt")
    found = FILE.findall(PAGE.read_text(encoding="utf-8"))
    assert len(found) == 10
    for name, text in found:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def dbt(at: Address, project: Path) -> Dbt:
    here = programs(
        "dbt", "dbt-core<1.12", "dbt-postgres", "dbt-duckdb", "adbc-driver-postgresql", "pyarrow"
    )
    settings = {
        "SPARSEQ_TOKEN": at.token,
        "SPARSEQ_PORT": str(at.port),
        "SPARSEQ_URL": at.url,
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        "DO_NOT_TRACK": "1",
    }
    inside = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | settings

    def run(*words: str, fails: bool = False, folder: str = ".") -> Any:
        done = subprocess.run(
            [here / "dbt", "--no-use-colors", *words, "--profiles-dir", "."],
            cwd=project / folder,
            env=inside,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done

    return run


def test_looking_and_compiling_are_free(at: Address, project: Path, dbt: Dbt) -> None:
    before = spent(at.store)
    assert "All checks passed!" in dbt("debug").stdout
    dbt("compile")
    dbt("docs", "generate")
    catalog = json.loads((project / "target" / "catalog.json").read_text())
    (table,) = catalog["sources"].values()
    assert list(table["columns"])[:3] == ["customer", "day", "seen"]
    assert "about people" in table["metadata"]["comment"]
    assert (spent(at.store), at.store.released) == (before, 0)


def test_run_asks_the_models_that_are_answers_once(at: Address, dbt: Dbt) -> None:
    number = at.store.released
    told = dbt("run").stdout
    assert at.store.released == number + 1
    rows = at.store.release(number + 1).rows()
    assert [row["kind"] for row in rows] == ["gift", "own", None]
    assert all(f"{row['n']:,.0f}" in told for row in rows)
    before = spent(at.store)
    assert dbt("run").stdout.count("OK created sql answer model") == 1
    shown = dbt("show", "--select", "dear_by_kind", "--output", "json").stdout
    (first, *_) = json.loads(shown[shown.index("{") : shown.rindex("}") + 1])["show"]
    assert first == {k: pytest.approx(rows[0][k]) for k in ("kind", "n", "n_low", "n_high")} | {
        "kind": "gift"
    }
    assert (spent(at.store), at.store.released) == (before, number + 1)


def test_tests_of_rows_are_questions(at: Address, dbt: Dbt) -> None:
    number = at.store.released
    assert "PASS=1" in dbt("test").stdout
    assert at.store.released == number + 1


def test_what_would_write_is_refused(at: Address, project: Path, dbt: Dbt) -> None:
    number = at.store.released
    written = project / "models" / "kept.sql"
    written.write_text("{{ config(materialized='table') }} select 1 as x")
    try:
        said = dbt("run", "--select", "kept", fails=True).stdout
    finally:
        written.unlink()
    assert "cannot execute CREATE TABLE in a read-only transaction" in said
    assert at.store.released == number


def test_answers_are_kept_in_a_file(at: Address, project: Path, dbt: Dbt) -> None:
    assert "PASS=2" in dbt("run", folder="answers").stdout
    row = at.store.release(at.store.released).rows()[0]
    with duckdb.connect(project / "answers" / "answers.duckdb", read_only=True) as kept:
        found = kept.sql("SELECT * FROM by_kind JOIN shares USING (kind) ORDER BY kind").fetchall()
    assert found[0][:5] == tuple(row.values())
    assert sum(share for *_, share, _ in found) == pytest.approx(1)
