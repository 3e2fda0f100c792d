"""A command starts soon: at most so many times what its libraries take, whatever the machine."""

from __future__ import annotations

import pytest

from benchmarks.startup import LIBRARIES, MOST_TIMES, measured


@pytest.mark.deep
def test_commands_start_soon() -> None:
    most = {}
    for repetitions in (2, 4, 8):  # the least of few is too much where others are busy
        spent = measured(repetitions)
        times = {name: spent[name] / spent[LIBRARIES] for name in MOST_TIMES}
        most = {name: part for name, part in times.items() if part > MOST_TIMES[name]}
        if not most:
            break
    assert most == {}
