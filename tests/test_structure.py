"""Code doesn't get harder to change: see `benchmarks.structure`."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.structure import LIMITS, counted, files_here
from benchmarks.walks import sizes, traced
from sparseq.base.errors import did_you_mean

CLEAN = "class A:\n    def __init__(self, other):\n        self._x = other\n"


def test_nothing_is_counted_more_often_than_it_was() -> None:
    found = counted(files_here()).numbers()
    assert {kind: found[kind] for kind in LIMITS if found[kind] > LIMITS[kind]} == {}


def test_what_is_clean_counts_for_nothing() -> None:
    found = counted({"sparseq/a.py": CLEAN, "sparseq/b.py": "from sparseq.a import A\n"})
    wanted = dict.fromkeys(LIMITS, 0) | {"files": 2, "lines": 4, "core": 4}
    assert found.numbers() == wanted


def test_each_thing_is_found() -> None:
    found = counted(
        {
            "sparseq/__init__.py": "",
            "sparseq/a.py": (
                "import duckdb\nfrom typing import TYPE_CHECKING\n"
                "if TYPE_CHECKING:\n    from sparseq.b import B\n"
                "def f(b: B) -> int:\n    import json\n    import torch\n"
                "    return b._x._replace()\n"
            ),
            "sparseq/b.py": "from . import a\n\n" + CLEAN + "    def g(self, a):\n"
            "        return a._x + self._y._z + super()._w\n",
            "sparseq/store/_duckdb/c.py": "import duckdb\n" * 951,
            "sparseq/pgwire/counting.py": "x = 1  # fmt: skip\n",
        }
    )
    assert found.duckdb == ["sparseq/a.py"]
    assert found.private == ["sparseq/a.py:8: b._x", "sparseq/b.py:7: self._y._z"]
    assert found.cycles == ["sparseq.a ↔ sparseq.b"]
    assert found.hidden == ["sparseq/a.py:6: json"]
    assert found.long == ["sparseq/store/_duckdb/c.py: 951 lines"]
    assert found.skips == ["sparseq/pgwire/counting.py:1"]
    assert found.named == ["sparseq.pgwire.counting"]
    assert found.lines - found.core == 1


def test_a_question_enters_no_more_files_than_it_did() -> None:
    """In a process of its own, where nothing was asked before."""
    walked = [sys.executable, "-m", "benchmarks.walks"]
    done = subprocess.run(walked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_walk_is_what_is_entered() -> None:
    with traced() as walk:
        did_you_mean("colour", ["color"])
    assert list(walk) == ["base/errors.py"]
    assert sizes(walk)[0] == 1
