"""The terms of all answers of a stream, and the participation in one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Budget
from sparseq.engine.reduction import Index
from sparseq.question.limits import LIMITS, PRICE_LIMIT
from sparseq.question.plan import Options
from sparseq.stream.stream_progress import Course


@dataclass(frozen=True)
class Participation:
    """The users with contributions to a release, and a mask of the active ones: private."""

    release: int
    users: Index
    active: NDArray[np.bool_]


@dataclass(frozen=True)
class Terms:
    """Facts that are true of every answer of a stream: public.

    Attributes:
        budget: The store's budget.
        seed: The seed of a simulation; None: the noise comes from the operating system.
        losses: Number of times that the store was opened with a part missing.
        course: The initial course of a new store's stream; None: users are in or out.
        rows: The declared maximum of rows per user in a table, if any.
        price: The highest price of a question that the curator allows; None: any.
        aside: Shares of every budget that are reserved for other purposes.
        unit: The owner of an account, if it is not a person.
    """

    budget: Budget
    seed: int | None = None
    losses: int = 0
    course: Course | None = None
    rows: int | None = None
    unit: str = ""
    aside: tuple[float, ...] = ()
    price: int | None = None

    def check_price(self, options: Options) -> None:
        """Refuse options with a price that is higher than the curator allows.

        Raises:
            QueryRefused: The price is higher.

        Example:
            >>> Terms(Budget(0.5, 48.0), price=4).check_price(Options(price=4.0))
            >>> Terms(Budget(0.5, 48.0), price=4).check_price(Options(price=4.5))
            Traceback (most recent call last):
            sparseq.base.errors.QueryRefused: the query has 4.5 as its price; the limit is 4
              hint: pay less (limit price: docs/limits.md)
        """
        price, most = options.price, self.price
        if price is not None and most is not None and price > most:
            raise LIMITS[PRICE_LIMIT].refusal(f"{price:g}", {PRICE_LIMIT: most})
