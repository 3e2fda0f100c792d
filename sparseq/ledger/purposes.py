"""Purposes: what parts of everybody's budget are for beside questions; public.

A purpose has a public share of the budget and a level of its own, kappa: what is asked for it is
paid from that part alone, in units in which a full contribution of the purpose costs 1. The parts
are filters beside each other (Algorithm 2 of Feldman & Zrnic 2021, one a purpose), and their levels
add up to at most the store's: see docs/theorems/purposes.md. A purpose is made with the store, or
later: then it has a public share of what each person has left for questions at that moment, which
is a function of the person's own account, and which that person is charged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting._checks import count, in_range
from sparseq.accounting._floats import round_down
from sparseq.accounting.budget import Budget
from sparseq.accounting.charge import UNITS_PER_NORM, budget_units
from sparseq.accounting.strategies import Strategy
from sparseq.base.errors import ParameterError, did_you_mean

Ints = NDArray[np.int64]
PURPOSES = "purposes"
"""The fact that a ledger keeps them under that came later."""
QUESTIONS = "questions"
ROUNDED = 1 + 2.0**-9
"""What roundings of charges may add to a contribution, and more."""
MOST = 50
"""Purposes of a store."""
_LEAST_REST = Fraction(1, 100)
FIRST = 16
"""The pot of the first purpose's answers; that of its forecasts is the next."""
_NAME = re.compile(r"[^\W\d][\w.-]{0,99}")


@dataclass(frozen=True)
class Purpose:
    """A series that has a part of everybody's budget.

    Attributes:
        name: Of the series.
        share: Of every budget; of one that came later, of what people had left for questions.
        ticks: For how many it is planned.
        counts: In how many a person takes part wholly: the part's norm_budget. By default enough
            for all `ticks`, roundings of charges included.
        forecast: Share of the part that is for what whoever is out would still contribute.
        cap, season: Of the forecasts, see `sparseq.series.methods.forecast`.
        seen: Lowest and highest mean of a few weeks in the data that were planned on, see
            `sparseq.series.plan_alarm`; (0, 0): there were none.
        off: How far forecasts may be off, as a share of the forecast, by the planner's backtest.
        strategy, left_out: See `sparseq.series.methods.strategy_series`, `sparseq.series.left_out`.
        number: Which purpose of the store it is, from 0.
        kappa: Of all that is asked for it.
        least: What of `counts` everybody has at least.
        came: The release by which it came; 0: it was made with the store.

    Example:
        >>> weekly = Purpose("weekly", 0.25, 52)
        >>> (one,) = made([weekly], Budget(0.5, 48.0))
        >>> one.kappa, round(one.budget().sigma_0, 3)  # sqrt(52 / (2 * 0.125)) and roundings
        (0.125, 14.436)
    """

    name: str
    share: float
    ticks: int
    counts: float = 0.0
    forecast: float = 0.0
    cap: float = 1.0
    season: int = 0
    off: float = 0.5
    seen: tuple[float, float] = (0.0, 0.0)
    strategy: str = ""
    left_out: float = 0.0
    number: int = 0
    kappa: float = 0.0
    least: float = 0.0
    came: int = 0

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name in (QUESTIONS, "watch"):
            raise ParameterError(
                f"a series can't be called {self.name!r}", "a letter, then letters, digits, _ . -"
            )
        if not 0 < self.share <= 1 - _LEAST_REST:
            raise ParameterError(
                f"the share of {self.name} is {self.share:.6g}", "more than 0, and at most 99%"
            )
        count(f"ticks of {self.name}", self.ticks, 1, 2**20)
        if not self.counts:
            object.__setattr__(self, "counts", self.ticks * ROUNDED)
        in_range(f"counts of {self.name}", self.counts, 2.0**-10, 2.0**20)
        in_range("forecast", self.forecast, 0.0, 0.9)
        in_range("cap", self.cap, 0.0, 1.0, open_low=True)
        in_range("left_out", self.left_out, 0.0, 0.99)
        in_range("off", self.off, 0.0, 10.0)
        count("season", self.season, 0, 1000)
        if not 0 <= self.seen[0] <= self.seen[1] < math.inf:
            low, high = self.seen
            raise ParameterError(f"seen of {self.name} is {low:g}..{high:g}", "seen=12..31")
        if self.forecast and self.strategy:
            raise ParameterError(f"{self.name} has forecasts or a strategy", "leave out one")
        if self.strategy:
            Strategy.of(self.strategy)  # refuses what can't be read
        if self.left_out and not self.strategy:
            raise ParameterError(f"left-out of {self.name} is for a strategy", "leave it out")

    @property
    def answers(self) -> int:
        """The pot that its answers are paid from."""
        return FIRST + 2 * self.number

    @property
    def forecasts(self) -> int:
        """The pot that its forecasts are paid from."""
        return self.answers + 1

    @property
    def weighs(self) -> bool:
        """People count for less when they have little left; else they are in or out."""
        return not self.forecast and not self.strategy

    def budget(self, gaussian: bool = True, keys_delta: float = 0.0) -> Budget:
        """Return the level of all that is asked for it, and how far a person reaches in it."""
        return Budget(self.kappa, self.counts, gaussian, keys_delta)

    def units(self, store: Budget, given: Ints) -> tuple[Ints, Ints]:
        """Return what people have for answers and for forecasts, in the part's units.

        Both together are worth at most what is given: units of the part are kappa / counts each.

        Args:
            store: The store's budget.
            given: What each gives to the purpose, in units of the store.
        """
        worth = Fraction(store.kappa) / Fraction(store.norm_budget)
        rate = worth * Fraction(self.counts) / Fraction(self.kappa)
        whole, most = Fraction(self.forecast), budget_units(self.counts)
        different, which = np.unique(given, return_inverse=True)
        parts = [min(int(rate * g), most) for g in different.tolist()]
        aside = [int(whole * p) for p in parts]
        answers = [p - f for p, f in zip(parts, aside, strict=True)]
        return np.array(answers, np.int64)[which], np.array(aside, np.int64)[which]

    def given(self, whole: Ints) -> Ints:
        """Return its share of what people have, in units of the store, rounded down."""
        different, which = np.unique(whole, return_inverse=True)
        share = Fraction(self.share)
        return np.array([int(share * b) for b in different.tolist()], np.int64)[which]


def made(
    asked: Sequence[Purpose], budget: Budget, others: float = 0.0, least: float | None = None
) -> tuple[Purpose, ...]:
    """Return purposes of a new store, with their numbers and levels.

    Args:
        asked: What they are to be.
        budget: The store's.
        others: Shares of something else.
        least: What of norm_budget everybody has at least; None: all of it.

    Raises:
        ParameterError: Two have one name, or nothing is left for questions.
    """
    shares = sum((Fraction(p.share) for p in asked), Fraction(others))
    if asked and shares > 1 - _LEAST_REST:
        raise ParameterError(
            f"series and what is set aside take {float(shares):.0%} of every budget",
            "leave something for questions: shares that add up to at most 99%",
        )
    found: list[Purpose] = []
    for purpose in asked:
        found.append(_numbered(purpose, found, budget, Fraction(1), least))
    return tuple(found)


def later(
    purpose: Purpose,
    known: Sequence[Purpose],
    budget: Budget,
    left: Fraction,
    least: float,
    release: int,
) -> Purpose:
    """Return a purpose that comes later.

    Args:
        purpose: What it is to be; its share is of what people have left for questions.
        known: Those that there are.
        budget: The store's.
        left: What of a budget was for questions before.
        least: What everybody has left for questions at least, in squared norm of the store.
        release: By which it comes.
    """
    whole = float(left) * budget.norm_budget
    least = budget.norm_budget * max(min(least / whole, 1.0), 0.0)
    return replace(_numbered(purpose, known, budget, left, least), came=release)


def _numbered(
    purpose: Purpose,
    known: Sequence[Purpose],
    budget: Budget,
    left: Fraction,
    least: float | None,
) -> Purpose:
    if any(other.name == purpose.name for other in known):
        raise ParameterError(f"two series are called {purpose.name!r}", "one is enough")
    if len(known) >= MOST:
        raise ParameterError(f"a store has at most {MOST} series with parts of their own")
    units = budget_units(budget.norm_budget)
    given = int(Fraction(purpose.share) * int(left * units))
    part = Fraction(given, 1) / UNITS_PER_NORM / Fraction(budget.norm_budget)
    share = 1.0 if least is None else min(least / budget.norm_budget, 1.0)
    return replace(
        purpose,
        number=len(known),
        kappa=round_down(part * Fraction(budget.kappa)),
        least=share * purpose.counts * (1.0 if share == 1 else 1 - 2.0**-20),
    )


def named(purposes: Iterable[Purpose], name: str) -> Purpose:
    """Return the purpose of a name.

    Raises:
        ParameterError: There is none.
    """
    found = {p.name: p for p in purposes}
    if name not in found:
        raise ParameterError(
            f"no series {name!r} has a part of the budget", did_you_mean(name, list(found))
        )
    return found[name]


def kept(purposes: Iterable[Purpose]) -> list[dict[str, Any]]:
    """Return purposes as plain data."""
    return [asdict(p) for p in purposes]


def read(data: Iterable[Mapping[str, Any]] | None) -> tuple[Purpose, ...]:
    """Return what `kept` made."""
    return tuple(_read(dict(one)) for one in data or ())


def _read(one: dict[str, Any]) -> Purpose:
    """Return a purpose as it was kept; of one in part time, forecasts may be wholly off without."""
    one["seen"] = tuple(one.get("seen", (0.0, 0.0)))
    if one.pop("fade", False):
        one["off"] = max(one["off"], 1.0)
    return Purpose(**one)


def name_of(pot: int, purposes: Iterable[Purpose]) -> str:
    """Return what a pot of a purpose is called; "" for any other.

    Example:
        >>> weekly = Purpose("weekly", 0.25, 52)
        >>> name_of(weekly.forecasts, [weekly])
        'weekly (forecasts)'
    """
    for purpose in purposes:
        if pot in (purpose.answers, purpose.forecasts):
            return purpose.name + " (forecasts)" * (pot == purpose.forecasts)
    return ""


__all__ = [
    "FIRST",
    "MOST",
    "PURPOSES",
    "QUESTIONS",
    "ROUNDED",
    "Purpose",
    "kept",
    "later",
    "made",
    "name_of",
    "named",
    "read",
]  # fmt: skip
