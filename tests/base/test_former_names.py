"""Names that modules had work in this version, and say what they are called."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from sparseq.base.former_names import FORMER


@pytest.mark.parametrize("name", FORMER)
def test_a_former_name_is_the_module_and_says_so(name: str) -> None:
    sys.modules.pop(name, None)
    with pytest.warns(DeprecationWarning, match=f"{name} is called {FORMER[name]}"):
        found = import_module(name)
    assert found is import_module(FORMER[name])
    assert found.__name__ == FORMER[name]


def test_a_script_of_the_version_before_runs() -> None:
    script = (
        "from sparseq.monitor import Ticks\nfrom sparseq.papers import filters\n"
        "from sparseq.errors import QueryRefused\nimport sparseq.curator\n"
        "print(Ticks.__module__, filters.__name__, QueryRefused.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "sparseq.series.ticks sparseq.accounting.filters QueryRefused\n", (
        done.stderr
    )


def test_there_is_no_such_module_otherwise() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module("sparseq.nonsense")
