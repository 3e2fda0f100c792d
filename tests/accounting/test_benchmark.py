"""The benchmark of filters runs, and its figures have the form that `make bench` prints."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import __main__ as bench
from benchmarks import filters


def test_the_figures_of_the_filters_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, small in {"USERS": 1000, "STEPS": 20, "GROUP": 5, "REPETITIONS": 1}.items():
        monkeypatch.setattr(filters, name, small)
    found = list(bench.figures(("filters",)))
    assert all(one.keys() == {"name", "figure", "unit", "limit", "ok"} for one in found)
    gates = [one["name"] for one in found if one["limit"]]
    assert gates == [
        "filters.zcdp_passes",
        "filters.gdp_passes",
        "filters.individual_odometer_passes",
        "filters.lecuyer_odometer_growth",
    ]
    assert "filters" in bench.NAMES


def test_the_yardstick_is_a_filter() -> None:
    """It reads what was spent and is charged, and writes both the mask and the totals."""
    admit = filters.one_pass(np.array([0.4, 0.6]))  # has run once
    assert [list(admit()), list(admit())] == [[True, False], [False, False]]
