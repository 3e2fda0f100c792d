"""Stores for questions that are written for one planted leak."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from checks.audit.neighbours import UNIT, World
from checks.audit.planting import Leak


def _row(who: int, n: int, k: int, x: float) -> dict[str, Any]:
    return {
        "who": who,
        "n": n,
        "k": k,
        "x": x,
        "a": 1.0,
        "s": "a",
        "w": "1",
        "b": True,
        "day": dt.date(2024, 1, 2),
        "at": dt.datetime(2024, 1, 2),
    }


_CROWD = [_row(i, i % 7, i % 3, 3.0 + 7.123 * i) for i in range(1, 9) for _ in range(2)]
_PERSON = [
    _row(0, 1234, 77, 9e4),
    _row(0, 3, 1, 0.1),
    _row(0, 4, 1, 2e3) | {"k": None, "at": None},
]
SMALL = World(
    {"t": _CROWD, "v": []},
    {"t": _PERSON, "v": []},
    0,
    {"kappa": 1024.0, "norm_budget": 2.0**20, "seed": 1, "in_or_out": True},
)
POOR = replace(
    SMALL,
    options=SMALL.options | {"kappa": 0.5, "norm_budget": 9.0},
    own={i: 4 - UNIT if i else 9 - UNIT for i in range(9)},
)
FADING = replace(SMALL, options=SMALL.options | {"kappa": 0.5, "norm_budget": 12.0})
"""People fade after some questions, but nobody's account is empty."""


def named(found: Sequence[Any], leak: Leak) -> bool:
    """Return True if one of the findings breaks a rule of the leak."""
    return any(finding.rule in leak.rules for finding in found)
