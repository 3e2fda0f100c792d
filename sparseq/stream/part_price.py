"""The price of one part of a weighted question, and the largest noise that it may have."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from sparseq.accounting.pilots.choice import C_STEPS
from sparseq.stream.full_weight import QUESTION
from sparseq.stream.stream_progress import Course

_NEARLY = 1 + 1e-9  # C is a whole number of steps: rounding must not remove one


def base_price(price: float, answers: float) -> float:
    """Return the price for which the allowances of a question are computed.

    Above the price 1, the cost of all parts of a question together must fit into the users'
    remaining budgets: otherwise the first parts would leave almost nothing for the later ones.

    Args:
        price: p, the highest price of a part.
        answers: The cost of the question's answers, as a multiple of the price.

    Example:
        >>> base_price(0.25, 3.0), base_price(4.0, 1.0), base_price(4.0, 3.0)
        (0.25, 4.0, 8.6875)
    """
    return max(price, answers * (price - 1) - (QUESTION - 1))


@dataclass(frozen=True)
class PartPrice:
    """The price of a part: public, and known before any noise is drawn.

    Attributes:
        price: p: a user pays at most (p + 5/16) · a², or p · a² without pilots.
        base: The price for which allowances are computed (`base_price`).
        most_noise: The largest standard deviation allowed, in joint units; infinite: any.
        later: Returns the price once the parent pilots are known, at most `price`; None: it is
            `price`.
    """

    price: float
    base: float
    most_noise: float = math.inf
    later: Callable[[Course], PartPrice] | None = None

    def settled(self, course: Course) -> PartPrice:
        """Return the price that follows from a course with all parent pilots of the part."""
        return self if self.later is None else replace(self.later(course), base=self.base)

    @classmethod
    def of(cls, price: float, answers: float = 1.0) -> PartPrice:
        """Return the price of a part if all parts of the question have the same price.

        Args:
            price: The price p.
            answers: See `base_price`.
        """
        return cls(price, base_price(price, answers))

    def most_scale(self, answer: float, sigma_0: float) -> float:
        """Return the largest C for which the noise is allowed at the price of the answer."""
        most = self.most_noise * math.sqrt(answer) / sigma_0
        if math.isinf(most):
            return most
        return max(math.floor(most * C_STEPS * _NEARLY), 1) / C_STEPS
