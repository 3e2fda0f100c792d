"""Settings of questions, said when a store is made: every budget, or its rest, is for them.

Series have parts beside it (`sparseq.ledger.purposes`). What is said here is public.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from sparseq.accounting._checks import count, in_range
from sparseq.base.errors import ParameterError
from sparseq.ledger.purposes import QUESTIONS, Purpose

_WHOLE = 1e-9  # by how much shares may miss 1: they are typed as percents


@dataclass(frozen=True)
class Questions:
    """How questions are answered that no series has a part for.

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
            `sparseq.store.text_keys`): all that is promised is then keys_delta-approximate. With
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
    (said,) = questions or [Questions()]
    if said.share is not None:
        whole = sum((Fraction(p.share) for p in series), Fraction(said.share))
        if abs(whole - 1) > _WHOLE:
            raise ParameterError(
                f"the shares add up to {float(whole):.4g}, and have to make 1 (100%) where "
                f"{QUESTIONS} have one",
                f"leave it out, and {QUESTIONS} have the rest",
            )
    return said, series
