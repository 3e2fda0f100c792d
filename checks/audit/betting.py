"""From answers of two neighbours to a bound on the leak: at the end, or after every pair.

**At the end.** A test that sees one answer and says "with" or "without" errs at rates alpha and
beta. Under mu-GDP every test has beta >= Phi(Phi^-1(1 - alpha) - mu) (Dong, Roth & Su 2022), so
rates that are at most a and b, with confidence by Clopper and Pearson, show mu >= Phi^-1(1 - a) -
Phi^-1(b), and epsilon >= log((1 - delta - b) / a). The test is chosen on one half of the answers,
the rates are counted on the other.

**After every pair.** For every epsilon, mu-GDP means P(with in E) - e^epsilon P(without in E) <=
delta(epsilon) for every event E. A bet that the difference is larger has an expected gain of at
most 0; if wealth that starts at 1 ever reaches 1/p, that is evidence at level p (Ville 1939).
Several bets share the wealth, so none has to be chosen beforehand. Sequential audits of this kind:
arXiv 2509.07055, and 2602.06518 for f-DP.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sparseq.accounting import gdp

Floats = NDArray[np.float64]
CONFIDENCE = 0.99
LEARNING = 200
"""Pairs that a sequential test only learns from."""


@dataclass(frozen=True)
class LowerBound:
    """A lower bound from answers alone, with 99 % confidence.

    Attributes:
        mu, epsilon: Lower bounds; `epsilon` at the requested delta.
        estimate: The most likely mu.
        runs: Number of runs on each side.
    """

    mu: float
    epsilon: float
    estimate: float
    runs: int


def direction(without: Floats, with_: Floats) -> Floats:
    """Return what to project answers (runs, values) on: the difference of means, by variance."""
    spread = (without.var(axis=0) + with_.var(axis=0)) / 2
    difference = with_.mean(axis=0) - without.mean(axis=0)
    return np.where(spread > 0, difference / np.maximum(spread, 1e-300), 0.0)


def lower_bound(without: Floats, with_: Floats, delta: float) -> LowerBound:
    """Return what two sets of answers (runs, values) show.

    Example:
        >>> rng = np.random.default_rng(1)
        >>> a, b = rng.normal(size=(20_000, 1)), rng.normal(size=(20_000, 1)) + 1
        >>> 0.9 < lower_bound(a, b, 1e-5).mu < 1
        True
    """
    half = len(without) // 2
    at = direction(without[:half], with_[:half])
    scores = [(s[:half] @ at, s[half:] @ at) for s in (without, with_)]
    (learn0, test0), (learn1, test1) = scores
    limits = np.quantile(np.concatenate([learn0, learn1]), np.linspace(0.02, 0.98, 97))
    for_mu = max(limits, key=lambda t: _mu(learn0, learn1, t))
    for_epsilon = max(limits, key=lambda t: _epsilon(learn0, learn1, t, delta))
    false, missed = np.mean(test0 > for_mu), np.mean(test1 <= for_mu)
    smallest = 0.5 / len(test0)
    likely = stats.norm.isf(max(false, smallest)) - stats.norm.ppf(max(missed, smallest))
    return LowerBound(
        max(_mu(test0, test1, for_mu), 0.0),
        max(_epsilon(test0, test1, for_epsilon, delta), 0.0),
        float(likely),
        len(without),
    )


def _rates(without: Floats, with_: Floats, limit: float) -> tuple[float, float]:
    """Return upper limits of both error rates of "with, if above the limit", at once."""
    level = 1 - (1 - CONFIDENCE) / 2
    false, missed = int(np.sum(without > limit)), int(np.sum(with_ <= limit))
    return _at_most(false, len(without), level), _at_most(missed, len(with_), level)


def _at_most(count: int, of: int, level: float) -> float:
    """Return Clopper and Pearson's upper limit."""
    return 1.0 if count == of else float(stats.beta.ppf(level, count + 1, of - count))


def _mu(without: Floats, with_: Floats, limit: float) -> float:
    false, missed = _rates(without, with_, limit)
    return float(stats.norm.isf(false) - stats.norm.ppf(missed))


def _epsilon(without: Floats, with_: Floats, limit: float, delta: float) -> float:
    false, missed = _rates(without, with_, limit)
    pairs = ((1 - delta - missed, false), (1 - delta - false, missed))
    return max(math.log(a / b) if a > 0 else 0.0 for a, b in pairs)


@dataclass(frozen=True)
class Bet:
    """The result of a sequential test.

    Attributes:
        pairs: Number of pairs after which the wealth was first 1/p; None: never.
        wealth: The largest wealth.
        of: Number of pairs in all.
    """

    pairs: int | None
    wealth: float
    of: int


def bet(without: Floats, with_: Floats, mu: float, level: float = 0.01) -> Bet:
    """Bet, pair after pair, that answers reveal more than mu.

    Args:
        without, with_: (pairs, values).
        mu: The promise for each answer.
        level: p: the largest probability that a true promise is rejected.

    Example:
        >>> rng = np.random.default_rng(1)
        >>> a, b = rng.normal(size=(5_000, 1)), rng.normal(size=(5_000, 1)) + 1
        >>> bet(a, b, 1.0).pairs is None, bet(a, b, 0.7).pairs < 5_000
        (True, True)
    """
    at = direction(without[:LEARNING], with_[:LEARNING])
    scores = [s @ at for s in (without, with_)]
    known = [s[:LEARNING] for s in scores]
    middle = (known[0].mean() + known[1].mean()) / 2
    spread = math.sqrt((known[0].var() + known[1].var()) / 2) or 1.0
    logs = []
    for epsilon in _epsilons(mu):
        limit = middle + spread * epsilon / max(mu, 1e-9)
        gains = (
            (scores[1][LEARNING:] > limit)
            - math.exp(epsilon) * (scores[0][LEARNING:] > limit)
            - float(gdp.delta(epsilon, mu))
        )
        worst = math.exp(epsilon) + float(gdp.delta(epsilon, mu))
        for share in (0.01, 0.03, 0.1, 0.3):
            logs.append(np.cumsum(np.log1p(share / worst * gains)))
    wealth = np.exp(np.minimum(np.logaddexp.reduce(logs, axis=0) - math.log(len(logs)), 700))
    first = np.flatnonzero(wealth >= 1 / level)
    return Bet(
        LEARNING + int(first[0]) + 1 if len(first) else None, float(wealth.max()), len(without)
    )


def _epsilons(mu: float) -> Sequence[float]:
    return (0.0, mu * mu / 4, mu * mu / 2, mu * mu)
