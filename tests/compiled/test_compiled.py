"""The compiled loops are loaded by a process for which that pays."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sparseq.compiled import COLD, WARM, compiled

pytestmark = pytest.mark.skipif(compiled() is None, reason="Numba is not installed")
SCRIPT = """
import sys
from sparseq.compiled import worthwhile
for given in sys.argv[1:]:
    length, loads = given.split(",")
    print(int(worthwhile(int(length), loads == "loads")), int("numba" in sys.modules))
"""


def told(*given: str) -> list[str]:
    """Return, of each length in turn, whether loops are used, and whether they are loaded."""
    command = [sys.executable, "-c", SCRIPT, *given]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.split("\n")[:-1]


def test_a_large_input_loads_them() -> None:
    large, small = f"{COLD},loads", f"{WARM},loads"
    assert told(small, large, small, f"{WARM},", f"{WARM - 1},loads") == [
        "0 0",
        "1 1",
        "1 1",
        "1 1",
        "0 1",
    ]


def test_several_inputs_together_load_them() -> None:
    half = f"{COLD // 2},loads"
    assert told(*[half] * 5, f"{WARM - 1},loads", half) == [*["0 0"] * 6, "1 1"]


def test_work_that_is_never_worth_it_does_not_count() -> None:
    assert told(*[f"{10 * COLD},"] * 3, f"{WARM},loads") == ["0 0"] * 4
