"""Randomised response: each user's own category, or another one, with rational probabilities.

See docs/theorems/randomized-response.md.

With ratio lambda = e^epsilon a rational >= 1 and K categories, a user answers with its own category
with probability t = lambda/(lambda + K - 1) and with each other one with o = 1/(lambda + K - 1). A
draw is one uniform integer below a whole number, by rejection from entropy bytes: exact.

**Price.** For any two users' data the probability of any answer differs by a factor of at most t/o
= lambda: epsilon = ln(lambda), pure, in the local model. For add/remove, an absent user answers
with a uniformly random category, probability 1/K, and o <= 1/K <= t: the same epsilon holds. So
does epsilon²/2-zCDP (Bun & Steinke 2016), and, between two users' data,
    rdp(a) = ln(t^a o^(1-a) + o^a t^(1-a) + (K-2) o) / (a-1)
(the definition of the Rényi divergence; Mironov 2017 for K = 2). By convexity in
the second argument a uniform answer is no further than that.

**Estimate.** Of n answers, c_j are j. n_j = (c_j - n o)/(t - o) is unbiased for the number of users
of category j, with variance (n_j t (1-t) + (n - n_j) o (1-o))/(t - o)². An absent user adds 1/K to
every category's estimate. Error bound: Hoeffding, and a union bound over categories.

Sources: Warner (1965); Kairouz, Bonawitz & Ramage (2016) for K categories.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting._numbers import count, in_range, whole_numbers
from sparseq.base.errors import ParameterError
from sparseq.mechanisms.entropy import SYSTEM_ENTROPY, Entropy
from sparseq.mechanisms.laplace import exp_minus

Ints = NDArray[np.int64]

MAX_EPSILON = 20.0
MAX_CATEGORIES = 2**20
_RATIO_BITS = 32


@dataclass(frozen=True, slots=True)
class RandomizedResponse:
    """Randomised response with a rational ratio.

    Args:
        ratio: lambda = e^epsilon, a Fraction or an integer, 1 to 2^29; its denominator is at most
            2^32.
        categories: K, 2 to 2^20.

    Raises:
        ParameterError: A number is out of its range.

    Example:
        >>> from sparseq.mechanisms import SeededEntropy
        >>> coin = RandomizedResponse(Fraction(3))
        >>> coin.truth, coin.lie, round(coin.epsilon, 4)
        (Fraction(3, 4), Fraction(1, 4), 1.0986)
        >>> answers = coin.respond(np.repeat([0, 1], [2000, 8000]), SeededEntropy(1))
        >>> error = abs(coin.estimate(answers) - [2000, 8000]).max()
        >>> bool(error < coin.bound(10_000, beta=0.01))
        True
    """

    ratio: Fraction
    categories: int = 2

    def __post_init__(self) -> None:
        count("categories", self.categories, 2, MAX_CATEGORIES)
        rational = isinstance(self.ratio, Fraction | int) and not isinstance(self.ratio, bool)
        if not rational or not 1 <= self.ratio <= 2**29 or self.ratio.denominator > 2**32:
            raise ParameterError(
                f"ratio is {self.ratio!r}; it must be a fraction in [1, 2^29], denominator to 2^32",
                "RandomizedResponse.of_epsilon(1.0) chooses it for an epsilon",
            )
        object.__setattr__(self, "ratio", Fraction(self.ratio))

    @classmethod
    def of_epsilon(cls, epsilon: float, categories: int = 2) -> RandomizedResponse:
        """Return the largest ratio that is a multiple of 2^-32 and no more than e^epsilon.

        (Or the multiple before it: the comparison is certain, by `exp_minus`.)

        Example:
            >>> RandomizedResponse.of_epsilon(1.0).epsilon <= 1.0
            True
        """
        exact = Fraction(in_range("epsilon", epsilon, 0.0, MAX_EPSILON))
        bits = 128
        above = exp_minus(exact, bits)[1]  # 2^bits e^-epsilon, rounded up
        steps = (1 << (bits + _RATIO_BITS)) // above
        return cls(Fraction(max(steps, 2**_RATIO_BITS), 2**_RATIO_BITS), categories)

    @property
    def truth(self) -> Fraction:
        """t, the probability of the user's own category."""
        return self.ratio / (self.ratio + self.categories - 1)

    @property
    def lie(self) -> Fraction:
        """o, the probability of each other category."""
        return 1 / (self.ratio + self.categories - 1)

    @property
    def epsilon(self) -> float:
        """ln(ratio), rounded up: pure epsilon."""
        return math.log1p(float(self.ratio - 1)) * (1 + 2**-50)

    @property
    def rho(self) -> float:
        """zCDP: epsilon²/2."""
        return self.epsilon**2 / 2 * (1 + 2**-51)

    def rdp(self, order: float) -> float:
        """Return rho(alpha), alpha > 1, between two users' data, rounded up (see the module)."""
        order = in_range("order", order, 1.0, 2.0**20, open_low=True)
        log_t = -math.log1p(float((self.categories - 1) / self.ratio))
        log_o = log_t - math.log1p(float(self.ratio - 1))
        parts = [order * log_t + (1 - order) * log_o, order * log_o + (1 - order) * log_t]
        if self.categories > 2:
            parts.append(math.log(self.categories - 2) + log_o)
        top = max(parts)
        total = top + math.log(math.fsum(math.exp(x - top) for x in parts))
        rounding = 2**-46 * (1 + abs(top) + order * abs(log_o))
        by_order = max(0.0, total + rounding) / (order - 1)
        return min(by_order, self.epsilon, order * self.rho)

    def respond(self, values: Ints, entropy: Entropy = SYSTEM_ENTROPY) -> Ints:
        """Return one answer per user.

        Args:
            values: Each user's category, 0 … K-1; -1 for an absent user, whose answer is uniform.
            entropy: Private only when unpredictable, as the default is.

        Raises:
            ParameterError: A value is not a category. (A client checks its own value.)
        """
        values = whole_numbers("a value", values, -1, self.categories - 1)
        own, unit = self.ratio.numerator, self.ratio.denominator
        drawn = uniform_below(own + (self.categories - 1) * unit, len(values), entropy)
        other = (drawn - own) // unit  # among the other K - 1, in order
        answers = np.where(drawn < own, values, other + (other >= values))
        absent = np.flatnonzero(values < 0)
        answers[absent] = uniform_below(self.categories, len(absent), entropy)
        return answers

    def estimate(self, answers: Ints) -> NDArray[np.float64]:
        """Return the unbiased estimate of the number of users with each category, shape (K,).

        Raises:
            ParameterError: An answer is not a category, or the ratio is 1.
        """
        answers = whole_numbers("an answer", answers, 0, self.categories - 1)
        counts = np.bincount(answers, minlength=self.categories)
        self._check_ratio()
        estimate = (counts - len(answers) * float(self.lie)) / float(self.truth - self.lie)
        return np.asarray(estimate, np.float64)

    def variance(self, users: int, of_category: int) -> Fraction:
        """Return the estimate's variance when `of_category` of `users` have the category, exact."""
        users = count("users", users, 0)
        mine = count("of_category", of_category, 0, users)
        self._check_ratio()
        t, o = self.truth, self.lie
        return (mine * t * (1 - t) + (users - mine) * o * (1 - o)) / (t - o) ** 2

    def bound(self, users: int, beta: float) -> float:
        """Return ±m that contains the errors of all K estimates with probability 1 - beta."""
        users = count("users", users, 1)
        beta = in_range("beta", beta, 0.0, 1.0, open_low=True)
        self._check_ratio()
        tail = math.log(2 * self.categories / beta)
        return math.sqrt(users * tail / 2) / float(self.truth - self.lie)

    def _check_ratio(self) -> None:
        if self.ratio == 1:
            raise ParameterError(
                "ratio is 1; it must be above 1 for an estimate", "all answers are pure chance"
            )


def uniform_below(limit: int, size: int, entropy: Entropy = SYSTEM_ENTROPY) -> Ints:
    """Draw `size` uniform integers in 0 … limit - 1, exactly, by rejection from 64-bit words.

    Example:
        >>> from sparseq.mechanisms import SeededEntropy
        >>> int(uniform_below(6, 1000, SeededEntropy(1)).max())
        5
    """
    limit = count("limit", limit, 1, 2**62)
    size = count("size", size, 0)
    usable = np.uint64(2**64 - 1 - 2**64 % limit)  # words up to it are a multiple of limit
    out = np.empty(size, np.int64)
    missing = np.arange(size)
    while len(missing):
        words = np.frombuffer(entropy(8 * len(missing)), "<u8", len(missing))
        good = words <= usable
        out[missing[good]] = (words[good] % np.uint64(limit)).astype(np.int64)
        missing = missing[~good]
    return out
