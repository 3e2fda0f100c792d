"""Adversarial sets: what pilots, assumed tails and shares by group may get wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.truth.sets import EventSet

DAYS, TOP = 365, 100.0
Ints = NDArray[np.int64]


def pareto(shape: float) -> Callable[[np.random.Generator], Ints]:
    """Return what draws the rows of 5,000 people with a heavy tail."""
    return lambda g: np.minimum((1 - g.random(5000)) ** (-1 / shape), 20_000).astype(np.int64)


def crowd(heavy: int, rows: int = 1000) -> Callable[[np.random.Generator], Ints]:
    """Return what draws 10,000 people with one row, and some with many."""
    return lambda _: np.concatenate([np.ones(10_000, np.int64), np.full(heavy, rows)])


def _lognormal(g: np.random.Generator) -> Ints:
    return np.ceil(g.lognormal(1, 1, 5000)).astype(np.int64)


ROWS: dict[str, Callable[[np.random.Generator], Ints]] = {
    "pareto 1.1": pareto(1.1),
    "pareto 1.5": pareto(1.5),
    "pareto 2": pareto(2.0),
    "whales": lambda g: np.concatenate([g.poisson(5, 1990) + 1, np.full(10, 3000)]),
    "100 of 1,000": crowd(100),
    "1,000 of 1,000": crowd(1000),
    "one group": crowd(100),
    "two populations": lambda _: np.repeat([3, 60], [5000, 500]),
    "same": lambda _: np.full(5000, 7),
    "one person": lambda _: np.array([500]),
    "nobody": lambda _: np.array([1]),
    "signed": lambda g: g.poisson(8, 5000) + 1,
    "zeros": lambda g: g.poisson(8, 5000) + 1,
    "thousands": _lognormal,
    "millionths": _lognormal,
    "own budgets": _lognormal,
    "lognormal": _lognormal,
}
"""By name, what draws how many rows each person has."""
HARD = ("whales", "one person", "pareto 1.1")
"""Where nothing is declared, no limit holds for these."""


def made(name: str, seed: int = 3) -> EventSet:
    """Return an adversarial set.

    Example:
        >>> made("two populations").people
        5500
    """
    g = np.random.default_rng(seed)
    rows = ROWS[name](g)
    person = np.repeat(np.arange(len(rows)), rows)
    day = g.integers(0, DAYS, len(person))
    value = np.minimum(np.exp(2 + g.standard_normal(len(person))), TOP)
    if name == "one group":  # heavy people only on days of one weekday, in one quarter
        day = np.where(person >= 10_000, 7 * g.integers(0, 12, len(person)), day)
    if name == "signed":
        spread = np.where(person % 50 == 0, 90.0, 9.0)
        value = np.clip(g.standard_normal(len(person)) * spread, -TOP, TOP)
    if name == "zeros":
        value = np.zeros(len(person))
    unit = {"thousands": 1e3, "millionths": 1e-6}.get(name, 1.0)
    frame = pl.DataFrame(
        {"person": person, "day": (day + 19_723).astype("M8[D]"), "value": value * unit}
    )
    made = EventSet(name, frame, TOP * unit, signed=name == "signed", empty=name == "nobody")
    if name == "own budgets":
        return replace(made, budgets=np.where(np.arange(len(rows)) % 3 == 0, 0.25, 1.0))
    return made
