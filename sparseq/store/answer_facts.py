"""Public facts of one answer, beside its values."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Facts:
    """What is public about one answer; sigma, granularity, scale, labels, kinds: one a measure.

    Attributes:
        release: Its number in the store's history.
        request_id: The caller's id, if any.
        query: As asked.
        labels: What each measure is.
        kinds: What each adds up: "rows", "users" or "sum".
        sigma: Standard deviation of the noise, in the query's unit; of a sparse vector, the scale
            of its Laplace noise, which costs what a Gaussian of that sigma does.
        granularity: Lattice step, in the query's unit.
        scale: C.
        coordinates: d.
        confidence: Of every ±, for all values at once.
        kappa, norm_budget: Of the store.
        seeded: The noise came from a seed: the answer is not private.
        gaussian: Every mechanism of the store is a Gaussian (see `Budget`).
        comparisons: Of a sparse vector, the most that its run makes: every ± is of all of them.
            0: the answer is no sparse vector's.
        losses: How often the store has been opened although charges were missing (see
            `Store.losses`); the guarantee is for answers since the last time only.
        interval: What x_low and x_high of a weighted answer rest on: "exact", "bounded" or
            "assumed" (see `sparseq.accounting.pilots`); "active": they are about those who have
            budget left, as nothing public says that everybody has; "capped": about those with no
            more combinations of rows in a join than a person may have. "": people were in or out,
            and every ± is about those who were in.
        unit: Whose account pays and is protected, where that is not a person: "one customer_id in
            one month".
        price: p, what the answer itself costs a person at C.
        repeated: The same was asked before of the same data: this is that answer, with no new
            noise and no charge.
        follows: It is computed from the cells of the release, which were measured for another
            question: no new noise and no charge.
        parts: The releases that its groups were joined from, where there are several; if it does
            not follow, the last of them was paid for.
        keys_delta: Of the store (see `Budget`).
        notes: Which rows are in no group, in words.
        series: Whose part of the budget paid; "": that of questions, or what is set aside.
    """

    release: int
    request_id: str | None
    query: str
    labels: tuple[str, ...]
    kinds: tuple[str, ...]
    sigma: tuple[float, ...]
    granularity: tuple[float, ...]
    scale: tuple[float, ...]
    coordinates: int
    confidence: float
    kappa: float
    norm_budget: float
    seeded: bool
    gaussian: bool = True
    comparisons: int = 0
    losses: int = 0
    interval: str = ""
    price: float = 1.0
    repeated: bool = False
    unit: str = ""
    follows: bool = False
    parts: tuple[int, ...] = ()
    keys_delta: float = 0.0
    notes: tuple[str, ...] = ()
    series: str = ""

    @property
    def reach(self) -> tuple[float, ...]:
        """The most that a user can contribute to one value: more costs more than any budget.

        One a measure, in its unit. The price of x is (x sigma_0 / sigma)², and sigma_0² is
        norm_budget / (2 kappa), so x is at most mu · sigma (Feldman & Zrnic 2021, Corollary 4.7).
        """
        return tuple(math.sqrt(2 * self.kappa) * sigma for sigma in self.sigma)
