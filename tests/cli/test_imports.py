"""A command imports what it needs: libraries and folders are named, not seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from server.made import made

SCRIPT = """
import json, runpy, sys
place, sys.argv = sys.argv[1], ["sparseq", *sys.argv[2:]]
try:
    runpy.run_module("sparseq", run_name="__main__")
finally:
    open(place, "w").write(json.dumps(list(sys.modules)))
"""
NEVER = {
    "numba",
    "scipy",
    "pandas",
    "matplotlib",
    "torch",
    "asyncio",
    "uvicorn",
    "starlette",
    "pyarrow.compute",
    "pyarrow.dataset",
    "sparseq.server.service",
    "sparseq.server.serve",
    "sparseq.pgwire.connections",
    "sparseq.lake.lake_store",
    "sparseq.series.loop",
    "sparseq.training.descent",
    "sparseq.load.load_rows",
    "sparseq.answers.answer_figures",
    "sparseq.sql.suggestions",
    "numpy.ma",
    "tomllib",
    "concurrent.futures",
    "sparseq.accounting.strategies",
    "sparseq.pictures.figure",
    "sparseq.pictures.image",
    "sparseq.store.population",
    "sparseq.store.store_draws",
    "sparseq.stream.new_purpose",
}
"""Modules that no question at the command line needs."""
EXTENSIONS = ("server", "pgwire", "lake", "networks", "papers")
"""Folders that a command knows by what they register: a lake says which paths are lakes."""
COMMANDS = ("sql", "history", "--help")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("imports") / "s.sparseq"
    made(path).close()
    return path


def imported(folder: Path, *command: str) -> set[str]:
    place = folder / "modules"
    run = [sys.executable, "-c", SCRIPT, str(place), *command]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(json.loads(place.read_text()))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_imports_what_it_needs(name: str, store: Path, tmp_path: Path) -> None:
    given = {
        "sql": ("sql", str(store), "SELECT kind, count(*) AS n, sum(x) AS s FROM t GROUP BY kind"),
        "history": ("history", str(store)),
    }
    found = imported(tmp_path, *given.get(name, (name,)))
    assert not found & NEVER
    for folder in EXTENSIONS:
        ours = {module for module in found if module.startswith(f"sparseq.{folder}.")}
        assert ours <= {f"sparseq.{folder}.extension", "sparseq.lake.lake_kind"}


def test_help_needs_no_engine(tmp_path: Path) -> None:
    found = imported(tmp_path, "--help")
    assert not found & {"duckdb", "pyarrow", "numpy", "sqlglot", "rich"}


def test_a_program_that_opens_a_store_imports_what_it_needs(store: Path) -> None:
    """Without the command line, which hides pandas from the libraries."""
    script = "import sys, sparseq; sparseq.connect(sys.argv[1]).close(); print(*sys.modules)"
    run = [sys.executable, "-c", script, str(store)]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & NEVER
