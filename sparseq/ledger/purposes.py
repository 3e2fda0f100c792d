"""Purposes: public parts of every user's budget for series.

A purpose has a public share of the budget and its own privacy level, kappa: its answers are paid
from that part alone, in units in which a full contribution of the purpose costs 1. The parts are
separate filters (Algorithm 2 of Feldman & Zrnic 2021, one per purpose), and their levels add up to
at most the store's: see docs/theorems/purposes.md. A purpose is made with the store, or later: then
it has a public share of the budget that each user has left for questions at that moment. This
amount is a function of the user's own account, and the user is charged for it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sparseq.accounting._numbers import count, in_range
from sparseq.accounting._safe_floats import round_down
from sparseq.accounting.budget import Budget
from sparseq.accounting.charge import UNITS_PER_NORM, budget_units
from sparseq.base.errors import ParameterError, did_you_mean
from sparseq.ledger.accounts import Ints

PURPOSES = "purposes"
"""The fact under which a ledger stores the purposes that were added later."""
QUESTIONS = "questions"
ROUNDED = 1 + 2.0**-9
"""Room for the rounding of charges: more than rounding can add to a contribution."""
MOST = 50
"""The maximum number of purposes of a store."""
_LEAST_REST = Fraction(1, 100)
FIRST = 16
"""The pot of the first purpose's answers; the next pot is for its forecasts."""
_NAME = re.compile(r"[^\W\d][\w.-]{0,99}")


@dataclass(frozen=True)
class Purpose:
    """A series that has a part of every user's budget.

    Attributes:
        name: The name of the series.
        share: The share of every budget; for a purpose that is added later, of what users have left
            for questions.
        ticks: The planned number of ticks.
        counts: The number of ticks in which a user takes part at full weight: the part's
            norm_budget. By default it is enough for all `ticks`, with the rounding of charges.
        forecast: The share of the part that is for forecasts of users who are left out.
        cap, season: Settings of the forecasts, see `sparseq.series.methods.forecast`.
        seen: The lowest and the highest mean of a few weeks in the data that the plan used, see
            `sparseq.series.watch`; (0, 0): there were no data.
        off: The maximum error of forecasts, as a share of the forecast, by the planner's backtest.
        strategy, left_out: See `sparseq.series.methods.strategy_series`, `sparseq.series.left_out`.
        number: The index of the purpose in the store, from 0.
        kappa: The privacy level of all answers for the purpose.
        least: The part of `counts` that every user has at least.
        came: The release before which the purpose was added; 0: it was made with the store.

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
                f"the name {self.name!r} is not valid for a series",
                ("use a letter, then letters, digits, _ . -"),
            )
        if not 0 < self.share <= 1 - _LEAST_REST:
            raise ParameterError(
                f"the share of {self.name} is {self.share:.6g}", "use more than 0, and at most 99%"
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
            from sparseq.accounting.strategies import Strategy

            Strategy.of(self.strategy)  # raises an error for an unreadable strategy
        if self.left_out and not self.strategy:
            raise ParameterError(
                f"the option left-out of {self.name} needs a strategy", "leave it out"
            )

    @property
    def answers(self) -> int:
        """The pot that pays for the answers."""
        return FIRST + 2 * self.number

    @property
    def forecasts(self) -> int:
        """The pot that pays for the forecasts."""
        return self.answers + 1

    @property
    def weighs(self) -> bool:
        """True if users with little budget left get smaller weights; else they are in or out."""
        return not self.forecast and not self.strategy

    def budget(self, gaussian: bool = True, keys_delta: float = 0.0) -> Budget:
        """Return the budget of the purpose: its level, and its norm_budget."""
        return Budget(self.kappa, self.counts, gaussian, keys_delta)

    def units(self, store: Budget, given: Ints) -> tuple[Ints, Ints]:
        """Return the budgets of users for answers and for forecasts, in the part's units.

        Together they are worth at most the given amount: a unit of the part is worth kappa /
        counts.

        Args:
            store: The store's budget.
            given: What each user gives to the purpose, in units of the store.
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
        """Return the purpose's share of users' budgets, in units of the store, rounded down."""
        different, which = np.unique(whole, return_inverse=True)
        share = Fraction(self.share)
        return np.array([int(share * b) for b in different.tolist()], np.int64)[which]


def made(
    asked: Sequence[Purpose], budget: Budget, others: float = 0.0, least: float | None = None
) -> tuple[Purpose, ...]:
    """Return the purposes of a new store, with their numbers and levels.

    Args:
        asked: The purposes as the caller declared them.
        budget: The store's budget.
        others: Shares that are set aside for other uses.
        least: The part of norm_budget that every user has at least; None: the whole.

    Raises:
        ParameterError: Two purposes have one name, or nothing is left for questions.
    """
    shares = sum((Fraction(p.share) for p in asked), Fraction(others))
    if asked and shares > 1 - _LEAST_REST:
        raise ParameterError(
            f"the series and the reserves take {float(shares):.0%} of every budget",
            "leave something for questions: the shares may add up to at most 99%",
        )
    purposes: list[Purpose] = []
    for purpose in asked:
        purposes.append(_number(purpose, purposes, budget, Fraction(1), least))
    return tuple(purposes)


def later(
    purpose: Purpose,
    known: Sequence[Purpose],
    budget: Budget,
    left: Fraction,
    least: float,
    release: int,
) -> Purpose:
    """Return a purpose that is added to an existing store.

    Args:
        purpose: The declared purpose; its share is of what users have left for questions.
        known: The purposes that the store has.
        budget: The store's budget.
        left: The share of a budget that was for questions before.
        least: The amount that every user has left for questions at least, as a squared norm of the
            store.
        release: The release before which it is added.
    """
    whole = float(left) * budget.norm_budget
    least = budget.norm_budget * max(min(least / whole, 1.0), 0.0)
    return replace(_number(purpose, known, budget, left, least), came=release)


def _number(
    purpose: Purpose, known: Sequence[Purpose], budget: Budget, left: Fraction, least: float | None
) -> Purpose:
    if any(other.name == purpose.name for other in known):
        raise ParameterError(f"two series are called {purpose.name!r}", "one is enough")
    if len(known) >= MOST:
        raise ParameterError(f"a store can have at most {MOST} series with parts of their own")
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
    """Return the purpose with a name.

    Raises:
        ParameterError: No purpose has this name.
    """
    by_name = {p.name: p for p in purposes}
    if name not in by_name:
        raise ParameterError(
            f"no series {name!r} has a part of the budget", did_you_mean(name, list(by_name))
        )
    return by_name[name]


def kept(purposes: Iterable[Purpose]) -> list[dict[str, Any]]:
    """Return purposes as plain data."""
    return [asdict(p) for p in purposes]


def read(data: Iterable[Mapping[str, Any]] | None) -> tuple[Purpose, ...]:
    """Return the purposes from which `kept` made the data."""
    return tuple(_read(dict(one)) for one in data or ())


def _read(one: dict[str, Any]) -> Purpose:
    """Return one stored purpose; in stores of earlier versions, `off` may be missing."""
    one["seen"] = tuple(one.get("seen", (0.0, 0.0)))
    if one.pop("fade", False):
        one["off"] = max(one["off"], 1.0)
    return Purpose(**one)


def name_of(pot: int, purposes: Iterable[Purpose]) -> str:
    """Return the display name of a purpose's pot; "" for any other pot.

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
]
