"""Code doesn't get harder to change: see `checks.structure`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from checks import walks
from checks.structure import LIMITS, counted, files_here
from sparseq.base.errors import did_you_mean

ROOT = Path(__file__).parents[2]
CODE = ("sparseq", "tests", "checks", "benchmarks", "docs")
SKIP = re.compile(r"# fmt: (skip|off)")
CLEAN = "class A:\n    def __init__(self, other):\n        self._x = other\n"


def test_nothing_is_counted_more_often_than_it_was() -> None:
    found = counted(files_here()).numbers()
    assert {kind: found[kind] for kind in LIMITS if found[kind] > LIMITS[kind]} == {}


def test_nothing_is_kept_from_the_formatter() -> None:
    files = [*ROOT.glob("*.py"), *(p for d in CODE for p in (ROOT / d).rglob("*.py"))]
    assert len(files) > 500
    kept = [p.name for p in files if SKIP.search(p.read_text("utf-8"))]
    assert kept == ["test_structure.py"]  # what it counts


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
                "def f(b: B, confidence: float = 0.95, share: float = 0.95) -> int:\n"
                "    import json\n    import torch\n"
                "    return b._x._replace()\n"
            ),
            "sparseq/b.py": "from . import a\n\n" + CLEAN + "    def g(self, a):\n"
            "        return a._x + self._y._z + super()._w\n",
            "sparseq/store/_duckdb/c.py": "import duckdb\n" * 951,
            "sparseq/pgwire/counting.py": 'x = 1  # fmt: skip\n"""How often."""\n'
            "def _f():\n    return 1\nx = _f()\n",
        }
    )
    assert found.duckdb == ["sparseq/a.py"]
    assert found.private == ["sparseq/a.py:8: b._x", "sparseq/b.py:7: self._y._z"]
    assert found.cycles == ["sparseq.a ↔ sparseq.b"]
    assert found.hidden == ["sparseq/a.py:6: json"]
    assert found.long == ["sparseq/store/_duckdb/c.py: 951 lines"]
    assert found.skips == ["sparseq/pgwire/counting.py:1"]
    assert found.named == ["sparseq.pgwire.counting"]
    assert found.clauses == ["sparseq/pgwire/counting.py:2"]
    assert found.shreds == ["sparseq/pgwire/counting.py:3: _f"]
    assert found.defaults == ["sparseq/a.py:5: confidence 0.95"]
    assert found.lines - found.core == 5


@pytest.fixture(scope="module")
def walked() -> dict[str, Any]:
    """What questions enter, in a process of its own, where nothing was asked before."""
    command = [sys.executable, "-m", "checks.walks", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def test_the_drawing_of_a_question_is_its_trace(walked: dict[str, Any]) -> None:
    """It names what is called, in that order, and leaves out no room that the question passes."""
    assert set(walks.STOPS) <= set(walked["entered"])
    assert {place.split("/")[0] for place in walked["entered"]} == {
        place.split("/")[0] for place in walks.STOPS
    }
    assert walks.drawn() == walked["drawing"], "python -m checks.walks --draw"


def test_what_the_docs_say_of_one_question_is_its_trace(walked: dict[str, Any]) -> None:
    text = (walks.CONTRIBUTING.parent / "docs/how.md").read_text("utf-8")
    named = re.findall(r"`((?:\w+/)+\w+)\.(\w+(?:\.\w+)?)`", text)
    places = [walked["entered"].index(f"{file}.py {function}") for file, function in named]
    assert len(places) > 8
    assert places == sorted(places)


def test_a_walk_is_what_is_entered() -> None:
    with walks.Tracer() as tracer, tracer.walk() as walk:
        did_you_mean("colour", ["color"])
    assert next(iter(walk)) == ("base/errors.py", "did_you_mean")
    assert walks.sizes(walk) == (1, len(walk))
