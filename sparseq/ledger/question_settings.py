"""Settings of questions, which are declared when a store is made: public.

Questions have every budget, or the rest that series leave.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from sparseq.accounting._numbers import count, in_range
from sparseq.base.errors import ParameterError
from sparseq.ledger.purposes import QUESTIONS, Purpose

_WHOLE = 1e-9  # tolerance of the sum of shares: users type percents


@dataclass(frozen=True)
class Questions:
    """Questions that belong to no series, and the way they are answered.

    By default users get weights by their remaining budgets and by a scale that pilots choose, and
    every interval covers all users.

    Attributes:
        share: The share of every budget, if all shares are given: those of the series and this one
            must add up to 1. None: the rest that the series leave.
        answers: The number of mixed questions to be answered well (60 by default). A larger number
            means more noise in each answer; after that number, intervals become wider.
        counts: The number of counts in which a user takes part at full weight, over the whole
            budget: the store's norm_budget, with sigma_0² = counts / (2 kappa). The default follows
            from `answers`; for in-or-out questions it is 20.
        in_or_out: Users without the budget for the full charge of a question are left out, and
            scales are declared (Algorithm 2 of Feldman & Zrnic 2021 as it stands); an interval is
            about the users who take part.
        halt: In or out, and a user who would once have exceeded the budget stays out (Corollary
            4.7's S_t).
        keys_delta: The failure probability of privately found keys, 0: none (see
            `sparseq.store.found_keys`): the whole guarantee is then keys_delta-approximate. With
            epsilon and delta it is a part of delta, at most a tenth.
        watch: The share of every budget for estimates of the number of users left out (its alarm is
            not Gaussian, so only zCDP is then claimed).
        forecast: The share of every budget for forecasts of users who are left out, in series that
            have no part of their own.

    Raises:
        ParameterError: A number is out of range, or two parameters contradict each other.

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
            raise ParameterError("answers and counts set the same number; give one of them")
        if self.answers is not None and not self.weighs:
            raise ParameterError(
                f"answers applies to {QUESTIONS} in which users are weighted",
                "for in-or-out questions give counts=20: full contributions of a user",
            )
        if self.answers is not None:
            count("answers", self.answers, 1, 10**6)
        if self.counts is not None:
            in_range("counts", self.counts, 0.0, math.inf, open_low=True)
        for name, share in self.aside().items():
            in_range(name, share, 0.0, 1.0)
        if sum(map(Fraction, self.aside().values())) >= 1:
            raise ParameterError(
                "the shares leave nothing for queries", "they must add up to less than 1"
            )

    @property
    def weighs(self) -> bool:
        """True if users with little budget left get smaller weights; else they are in or out."""
        return not (self.in_or_out or self.halt)

    def aside(self) -> dict[str, float]:
        """Return the shares of every budget that are set aside, by use."""
        both = {"watch": self.watch, "forecast": self.forecast}
        return {name: float(share) for name, share in both.items() if share}


def told_apart(purposes: Iterable[Purpose | Questions]) -> tuple[Questions, list[Purpose]]:
    """Return the settings of questions, and the series.

    Raises:
        ParameterError: Questions are given twice, or shares that are all given don't add up to 1.
    """
    questions, series = list[Questions](), list[Purpose]()
    for purpose in purposes:
        if isinstance(purpose, Questions):
            questions.append(purpose)
        elif isinstance(purpose, Purpose):
            series.append(purpose)
        else:
            raise ParameterError(
                f"{purpose!r} is no purpose", "give a sparseq.Purpose or sparseq.Questions"
            )
    if len(questions) > 1:
        raise ParameterError(
            f"{QUESTIONS} stand there twice", ("give all of their settings together")
        )
    (questions_part,) = questions or [Questions()]
    if questions_part.share is not None:
        whole = sum((Fraction(p.share) for p in series), Fraction(questions_part.share))
        if abs(whole - 1) > _WHOLE:
            raise ParameterError(
                f"the shares add up to {float(whole):.4g}, but must add up to 1 (100%) if "
                f"{QUESTIONS} have a share",
                f"leave it out, and {QUESTIONS} get the rest",
            )
    return questions_part, series
