"""A command starts soon: at most so many times what its libraries take, whatever the machine."""

from __future__ import annotations

from benchmarks.startup import LIBRARIES, MOST_TIMES, measured


def test_commands_start_soon() -> None:
    spent = measured(2)
    times = {name: spent[name] / spent[LIBRARIES] for name in MOST_TIMES}
    assert {name: part for name, part in times.items() if part > MOST_TIMES[name]} == {}
