"""Bars for what takes longer than a second, on a terminal alone; of loading, with the memory."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sparseq.cli.progress import late_bar, reading_bar
from sparseq.load.reading_progress import tell_rows

LOADS = """
import time
from sparseq.cli.progress import late_bar, reading_bar
from sparseq.load.reading_progress import tell_rows
with reading_bar():
    tell_rows("early.csv", 1)
    time.sleep(1.1)
    tell_rows("visits.csv", 1)
    time.sleep(0.2)
    tell_rows("visits.csv", 1_234_567)
    time.sleep(0.2)
with late_bar() as told:
    told("too early", 1, 8)
    time.sleep(1.1)
    told("reading daily", 3, 8)
    time.sleep(0.2)
"""


def on_a_terminal(code: str) -> str:
    """Run Python whose standard error is a terminal of 80 columns; return what it writes there."""
    ours, theirs = pty.openpty()
    size = {"COLUMNS": "80", "LINES": "24", "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=theirs, stderr=theirs, env={**os.environ, **size}
    ) as running:
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 65_536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            seen += part
    os.close(ours)
    assert running.returncode == 0
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())


def test_bars_appear_after_a_second_and_say_the_memory() -> None:
    seen = on_a_terminal(LOADS)
    assert "early" not in seen
    assert re.search(r"visits\.csv ━+ 1 row ", seen)
    assert "1,234,567 rows" in seen
    assert re.search(r"reading daily [━╸╺]+ 3/8", seen)
    if Path("/proc/self/statm").exists():
        sizes = re.findall(r"([\d.]+) GiB of memory", seen)
        assert all(0.01 < float(size) < 20 for size in sizes)
        assert sizes
    assert max(map(len, re.split(r"[\r\n]", seen))) <= 80


def test_nothing_is_written_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with reading_bar():
        tell_rows("a.csv", 1)
    with late_bar() as told:
        told("a", 1, 2)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
