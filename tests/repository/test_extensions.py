"""Each extension can be deleted, and the core goes on; nothing in the core imports one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sparseq.base.extensions import COMMANDS, offers

ROOT = Path(__file__).parents[2]
EXTENSIONS = sorted(path.parent.name for path in ROOT.glob("sparseq/*/extension.py"))
DELETED = [
    *(("server", "pgwire") if one == "server" else (one,) for one in EXTENSIONS),
    tuple(EXTENSIONS),
]
TESTED = ("base", "cli", "store", "stream", "sql", "series", "training")
"""Folders of tests of the core that run without the extensions (deep)."""
WHOLE = """
import datetime as dt, pkgutil, importlib, pyarrow as pa, sparseq
for module in pkgutil.walk_packages(sparseq.__path__, "sparseq."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
rows = {"who": list(range(50)), "day": [dt.date(2024, 1, k % 9 + 1) for k in range(50)]}
with sparseq.create("s.sparseq", {"t": pa.table(rows)}, user="who", seed=1) as con:
    print(con.sql("SELECT count(*) AS n FROM t").arrow().num_rows)
"""


def without(folder: Path, deleted: tuple[str, ...], tests: bool = False) -> Path:
    """Return a copy of the project in which extensions, and their tests, are deleted."""
    gone = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "sparseq", folder / "sparseq", ignore=gone)
    if tests:
        for name in ("tests", "checks", "benchmarks", "data", "docs", "queries"):
            shutil.copytree(ROOT / name, folder / name, ignore=gone)
        for name in ("pyproject.toml", "conftest.py", "README.md"):
            shutil.copy(ROOT / name, folder)
    for name in deleted:
        shutil.rmtree(folder / "sparseq" / name)
        shutil.rmtree(folder / "tests" / name, ignore_errors=True)
    return folder


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, whose `sparseq` comes first."""
    env = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "deleted",
    [
        *(pytest.param(one, marks=pytest.mark.deep) for one in DELETED[:-1]),
        DELETED[-1],  # all of them: the core alone
    ],
    ids="+".join,
)
def test_the_core_is_whole_without(deleted: tuple[str, ...], tmp_path: Path) -> None:
    """All other modules can be imported; a store answers; `--help` has the other commands."""
    folder = without(tmp_path / "tree", deleted)
    done = run(folder, "-c", WHOLE)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    done = run(folder, "-m", "sparseq", "--help")
    assert done.returncode == 0, done.stderr
    gone = {
        name for name, offer in offers(COMMANDS).items() if offer.module.split(".")[1] in deleted
    }
    words = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")}
    assert "sql" in words
    assert not gone & words


def test_an_address_of_a_deleted_kind_is_refused(tmp_path: Path) -> None:
    folder = without(tmp_path / "tree", ("lake",))
    done = run(folder, "-c", "import sparseq; sparseq.connect('lake://x')")
    assert "ParameterError: no stores of lake:// are known here" in done.stderr


@pytest.mark.deep
@pytest.mark.parametrize("deleted", DELETED, ids="+".join)
def test_tests_of_the_core_pass_without(deleted: tuple[str, ...], tmp_path: Path) -> None:
    """The fast tests of the core that use no extension themselves pass in the remaining tree."""
    folder = without(tmp_path / "tree", deleted, tests=True)
    uses = tuple(f"sparseq.{name}" for name in deleted)
    words = (*uses, *deleted, "lake://") if "lake" in deleted else (*uses, *deleted)
    tests = [
        str(path.relative_to(folder))
        for name in TESTED
        for path in sorted((folder / "tests" / name).glob("test_*.py"))
        if not any(word in path.read_text("utf-8") for word in words)
    ]
    assert len(tests) > 20
    done = run(folder, "-m", "pytest", "-q", "-x", "-m", "not deep", *tests)
    assert done.returncode == 0, done.stdout[-3000:]
