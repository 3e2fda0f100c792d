"""Purposes: what parts of everybody's budget are for beside questions; public.

A purpose has a public share of the budget and a level of its own, kappa: what is asked for it is
paid from that part alone, in units in which a full contribution of the purpose costs 1. The parts
are filters beside each other (Algorithm 2 of Feldman & Zrnic 2021, one a purpose), and their levels
add up to at most the store's: see docs/theorems/purposes.md. A purpose is made with the store, or
later: then it has a public share of what each person has left for questions at that moment, which
is a function of the person's own account, and which that person is charged.

Every user's budget in parts, set aside when the store is made: one account a user and part.

A release is paid from one pot, and whoever can't pay it from that pot is left out of it. A user's
spends over all pots add up to at most the user's budget, as the pots do; so the stream as a whole
is Algorithm 2 of Feldman & Zrnic (2021) with a filter that is stricter than it need be, and
Theorem 4.5 holds for it as it stands.

Settings of questions, said when a store is made: every budget, or its rest, is for them.

Series have parts beside it. What is said here is public.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from sparseq.accounting._numbers import count, in_range, round_down
from sparseq.accounting.budget import Budget
from sparseq.accounting.charge import UNITS_PER_NORM, budget_units
from sparseq.accounting.strategies import Strategy
from sparseq.base.errors import ParameterError, StoreError, did_you_mean
from sparseq.ledger.accounts import Accounts, Index, Ints, unpack, unpack_set
from sparseq.ledger.notes import NoteTable

# -- purposes: what parts of everybody's budget are for beside questions; public -------------------

PURPOSES = "purposes"
"""The fact that a ledger keeps them under that came later."""
QUESTIONS = "questions"
ROUNDED = 1 + 2.0**-9
"""Room for roundings of charges: more than they may add to a contribution."""
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
            `sparseq.series.watch`; (0, 0): there were none.
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
    return replace(_number(purpose, known, budget, left, least), came=release)


def _number(
    purpose: Purpose, known: Sequence[Purpose], budget: Budget, left: Fraction, least: float | None
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
]


# -- every user's budget in parts ------------------------------------------------------------------

DRAWS = NoteTable(
    "draws", {"number": "BIGINT", "release": "BIGINT", "users": "BLOB", "units": "BLOB"}
)
"""Draws from a population (`sparseq.store.population`), and what each gave to whom: private. A row
has the number, the release that came next, who was asked for, ascending, and the units of each."""


class Pot(IntEnum):
    """The use of a part of the budget; each purpose has two of its own."""

    QUERIES = 0
    WATCH = 1  # how many users have ever been dropped
    FORECAST = 2  # what dropped users would still have contributed

    _ignore_ = "number"
    for number in range(2 * MOST):  # answers and forecasts, of one purpose after the other
        vars()[f"PURPOSE_{number}"] = FIRST + number


class Pots:
    """The accounts of every pot; a pot without a share has none.

    Args:
        budgets: One a user, in ledger units.
        shares: Of every budget, by pot; what is left is for queries.
        halt: See `Accounts`; it is about queries.
        purposes: Series that have parts of their own.
        moves: What people gave to those that came later: who was there, and units of the store.

    Raises:
        ParameterError: A share is not in [0, 1), or nothing is left for queries.

    Example:
        >>> pots = Pots(np.array([100, 10]), {Pot.WATCH: 0.05, Pot.FORECAST: 0.25})
        >>> {pot.name: accounts.budgets.tolist() for pot, accounts in pots.items()}
        {'QUERIES': [70, 8], 'WATCH': [5, 0], 'FORECAST': [25, 2]}
    """

    def __init__(
        self,
        budgets: Ints,
        shares: Mapping[Pot, float],
        halt: bool = False,
        purposes: Sequence[Purpose] = (),
        budget: Budget | None = None,
        moves: Mapping[int, tuple[Index, Ints]] | None = None,
    ) -> None:
        for pot, share in shares.items():
            in_range(f"the share for {pot.name.lower()}", share, 0.0, 1.0)
        self._shares = {pot: Fraction(share) for pot, share in shares.items() if share > 0}
        if sum(self._shares.values()) >= 1:
            raise ParameterError(
                "the shares leave nothing for queries", "they add up to less than 1"
            )
        self.purposes, self._budget, self._moves = tuple(purposes), budget, dict(moves or {})
        none = np.zeros(0, np.int64)
        pots = sorted({Pot.QUERIES, *self._shares})
        self._accounts = {pot: Accounts(none, halt and pot is Pot.QUERIES) for pot in pots}
        self._drawn: Ints = none  # -1: nothing was asked for; shorter than it might be
        for purpose in purposes:
            self._open(purpose)
        self.add_users(budgets)

    def _open(self, purpose: Purpose) -> None:
        for pot in (Pot(purpose.answers), Pot(purpose.forecasts)):
            self._accounts[pot] = Accounts(np.zeros(0, np.int64))

    def __getitem__(self, pot: Pot) -> Accounts:
        if pot not in self._accounts:
            raise ParameterError(
                f"the store has no reserve for {pot.name.lower()}",
                "a reserve is set when a store is made",
            )
        return self._accounts[pot]

    def __contains__(self, pot: Pot) -> bool:
        return pot in self._accounts

    def __len__(self) -> int:
        """Return the number of users."""
        return len(self._accounts[Pot.QUERIES])

    def items(self) -> list[tuple[Pot, Accounts]]:
        """Return every pot with its accounts."""
        return list(self._accounts.items())

    def add_users(self, budgets: Ints) -> None:
        """Open accounts for new users, with nothing spent."""
        first = len(self)
        different, which = np.unique(budgets, return_inverse=True)
        left = different.copy()
        for pot, share in self._shares.items():
            parts = np.array([int(share * b) for b in different.tolist()], np.int64)
            self._accounts[pot].add_users(parts[which])
            left -= parts
        whole = left.copy()
        for purpose in self.purposes:
            if not purpose.came:
                given = purpose.given(different)
                self._give(purpose, given[which])
                whole -= given
        rest = whole[which]
        for purpose in self.purposes:
            if purpose.came:
                rest -= self._later(purpose, rest, first)
        self._accounts[Pot.QUERIES].add_users(rest)

    def _later(self, purpose: Purpose, rest: Ints, first: int) -> Ints:
        """Open the accounts of a purpose that came later; return what new users give to it.

        Who was there gave what the ledger says, and was charged for it; who is new gives the share
        of what the budget has for questions, and has it in no other account.
        """
        users, moved = self._moves[purpose.number]
        at = users - first
        here = (at >= 0) & (at < len(rest))
        given, new = purpose.given(rest), np.ones(len(rest), np.bool_)
        new[at[here]] = False
        taken = np.where(new, given, 0)
        given[at[here]] = moved[here]
        self._give(purpose, given)
        return taken

    def _give(self, purpose: Purpose, given: Ints) -> None:
        assert self._budget is not None
        answers, forecasts = purpose.units(self._budget, given)
        self._accounts[Pot(purpose.answers)].add_users(answers)
        self._accounts[Pot(purpose.forecasts)].add_users(forecasts)

    def move(self, purpose: Purpose, users: Index, moved: Ints) -> None:
        """Open the accounts of a purpose that comes now.

        Args:
            purpose: With its number.
            users: Everybody who is there.
            moved: What each has been charged for it, in units of the store.
        """
        assert self._budget is not None
        self._open(purpose)
        given = np.zeros(len(self), np.int64)
        given[users] = moved
        self.purposes = (*self.purposes, purpose)
        self._moves[purpose.number] = users, moved
        self._give(purpose, given)

    def draw(self, users: Index, units: Ints, release: int) -> None:
        """Add what people were given from a population to their parts.

        Args:
            users: Who was asked for, ascending.
            units: What each got, in units of the store.
            release: The one that comes next: series that came before it have their shares.

        Example:
            >>> pots = Pots(np.zeros(2, np.int64), {Pot.WATCH: 0.25})
            >>> pots.draw(np.array([1], np.int32), np.array([10]), 1)
            >>> {pot.name: accounts.budgets.tolist() for pot, accounts in pots.items()}
            {'QUERIES': [0, 8], 'WATCH': [0, 2]}
        """
        for pot, part in self.split(units, release).items():
            self._accounts[pot].grant(users, part)
        self._drawn = np.append(self._drawn, np.full(len(self) - len(self._drawn), -1))
        self._drawn[users] = np.maximum(self._drawn[users], 0) + units

    def drawn(self, users: Index) -> Ints:
        """Return what users were given from a population so far; -1: nothing was asked for them."""
        known = np.full(len(users), -1)
        there = users < len(self._drawn)
        known[there] = self._drawn[users[there]]
        return known

    def restore_draws(self, notes: pa.Table) -> None:
        """Draw what was written (`DRAWS`).

        Raises:
            StoreError: It contradicts itself.
        """
        for row in notes.to_pylist():
            users, units = unpack_set(row["users"]), unpack(row["units"])
            if len(users) != len(units) or (len(users) and users[-1] >= len(self)):
                raise StoreError(
                    "the ledger has a draw for a person who has no account", "restore a copy"
                )
            self.draw(users, units, row["release"])

    def split(self, units: Ints, release: int) -> dict[Pot, Ints]:
        """Return the parts of budgets, by pot, in units of each; see `draw`."""
        different, which = np.unique(units, return_inverse=True)
        parts, left = dict[Pot, Ints](), different.copy()
        for pot, share in self._shares.items():
            parts[pot] = np.array([int(share * b) for b in different.tolist()], np.int64)
            left -= parts[pot]
        whole = left.copy()
        for purpose in self.purposes:
            if purpose.came >= release:
                continue
            given = purpose.given(whole if purpose.came else different)
            whole -= given
            assert self._budget is not None
            both = purpose.units(self._budget, given)
            parts |= dict(zip((Pot(purpose.answers), Pot(purpose.forecasts)), both, strict=True))
        return {pot: part[which] for pot, part in (parts | {Pot.QUERIES: whole}).items()}

    def named(self) -> dict[str, Pot]:
        """Return the pots by what they are for, those that have anything."""
        by_name = {name_of(pot, self.purposes) or pot.name.lower(): pot for pot in self._accounts}
        empty = {p.forecasts for p in self.purposes if not p.forecast}
        return {name: pot for name, pot in by_name.items() if pot not in empty}

    def worth(self, pot: Pot) -> float:
        """Return what a unit of a pot is worth, in units of the store."""
        for purpose in self.purposes:
            if self._budget is not None and pot in (purpose.answers, purpose.forecasts):
                own = purpose.kappa / purpose.counts
                return own / (self._budget.kappa / self._budget.norm_budget)
        return 1.0

    def moved(self, user: int) -> int:
        """Return what somebody has given to purposes that came later, in units of the store."""
        total = 0
        for users, units in self._moves.values():
            at = int(np.searchsorted(users, user))
            total += int(units[at]) if at < len(users) and users[at] == user else 0
        return total


# -- settings of questions, said when a store is made: every budget, or its rest, is for them ------

_WHOLE = 1e-9  # by how much shares may miss 1: they are typed as percents


@dataclass(frozen=True)
class Questions:
    """Questions that no series has a part for, and the way in which they are answered.

    By default people are weighted down to what they have left and to a scale that pilots choose,
    and every interval is about everybody.

    Attributes:
        share: Of every budget, if all shares are to be said: those of series and this one then
            make 1. None: whatever series leave.
        answers: About how many mixed questions are to be answered well (60 if nothing is said).
            More of them mean more noise in each; past them intervals widen.
        counts: In how many counts a person takes part at full weight, over the whole budget: the
            store's norm_budget, with sigma_0² = counts / (2 kappa). By default what `answers`
            takes; of questions that are in or out 20.
        in_or_out: Whoever can't pay for a question wholly is left out of it, and scales are
            declared (Algorithm 2 of Feldman & Zrnic 2021 as it stands); a ± is about who takes
            part.
        halt: In or out; and once a user would have overdrawn, the user stays out (Corollary 4.7's
            S_t).
        keys_delta: What privately found keys may fail with, 0: none (see
            `sparseq.store.found_keys`): all that is promised is then keys_delta-approximate. With
            epsilon and delta it is a part of delta, at most a tenth.
        watch: Share of every budget for estimates of how many users have been left out (its alarm
            is no Gaussian, so only zCDP is then claimed).
        forecast: Share of every budget for what whoever is left out would still have contributed
            to series that have no part of their own.

    Raises:
        ParameterError: A number is out of range, or two of them say the same thing.

    Example:
        >>> import pyarrow as pa, sparseq
        >>> few = Questions(in_or_out=True, counts=5)
        >>> con = sparseq.create(None, pa.table({"who": [1]}), user="who", purposes=[few])
        >>> con.guarantee.norm_budget
        5.0
    """

    share: float | None = None
    answers: int | None = None
    counts: float | None = None
    in_or_out: bool = False
    halt: bool = False
    keys_delta: float = 0.0
    watch: float = 0.0
    forecast: float = 0.0

    def __post_init__(self) -> None:
        if self.share is not None:
            in_range(f"the share of {QUESTIONS}", self.share, 0.0, 1.0, open_low=True)
        if self.answers is not None and self.counts is not None:
            raise ParameterError("answers and counts say the same thing; give one of them")
        if self.answers is not None and not self.weighs:
            raise ParameterError(
                f"answers is about {QUESTIONS} in which people are weighted",
                "of those that are in or out say counts=20: full contributions of a person",
            )
        if self.answers is not None:
            count("answers", self.answers, 1, 10**6)
        if self.counts is not None:
            in_range("counts", self.counts, 0.0, math.inf, open_low=True)
        for name, share in self.aside().items():
            in_range(name, share, 0.0, 1.0)
        if sum(map(Fraction, self.aside().values())) >= 1:
            raise ParameterError(
                "the shares leave nothing for queries", "they add up to less than 1"
            )

    @property
    def weighs(self) -> bool:
        """People count for less when they have little left; else they are in or out."""
        return not (self.in_or_out or self.halt)

    def aside(self) -> dict[str, float]:
        """Return the shares of every budget that are set aside, by what for."""
        both = {"watch": self.watch, "forecast": self.forecast}
        return {name: float(share) for name, share in both.items() if share}


def told_apart(purposes: Iterable[Purpose | Questions]) -> tuple[Questions, list[Purpose]]:
    """Return what is said of questions, and the series.

    Raises:
        ParameterError: Questions are said twice, or shares that are all said don't make 1.
    """
    questions, series = list[Questions](), list[Purpose]()
    for purpose in purposes:
        if isinstance(purpose, Questions):
            questions.append(purpose)
        elif isinstance(purpose, Purpose):
            series.append(purpose)
        else:
            raise ParameterError(
                f"{purpose!r} is no purpose", "a sparseq.Purpose, or sparseq.Questions"
            )
    if len(questions) > 1:
        raise ParameterError(f"{QUESTIONS} stand there twice", "say all of them together")
    (questions_part,) = questions or [Questions()]
    if questions_part.share is not None:
        whole = sum((Fraction(p.share) for p in series), Fraction(questions_part.share))
        if abs(whole - 1) > _WHOLE:
            raise ParameterError(
                f"the shares add up to {float(whole):.4g}, and have to make 1 (100%) where "
                f"{QUESTIONS} have one",
                f"leave it out, and {QUESTIONS} have the rest",
            )
    return questions_part, series
