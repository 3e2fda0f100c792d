"""The public facts of one answer."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sparseq.base.defaults import PRICE


@dataclass(frozen=True)
class Facts:
    """The public facts of one answer; sigma, granularity, scale, labels, kinds: one per measure.

    Attributes:
        release: Its number in the store's history; 0: it uses public tables only and is no release.
        request_id: The caller's id, if any.
        query: The text of the question.
        labels: The measures in words.
        kinds: The kind of each measure: "rows", "users" or "sum".
        sigma: Standard deviation of the noise, in the query's unit; for a sparse vector, the scale
            of its Laplace noise, which costs as much as a Gaussian of that sigma.
        granularity: Lattice step, in the query's unit.
        scale: The scale C.
        coordinates: The dimension d.
        confidence: The confidence of every ±, for all values together.
        kappa, norm_budget: The budget of the store.
        seeded: The noise came from a seed: the answer is not private.
        gaussian: Every mechanism of the store is a Gaussian (see `Budget`).
        comparisons: The most comparisons in the run of a sparse vector, which every ± covers
            together. 0: the answer does not come from a sparse vector.
        losses: Number of times that the store was opened with charges missing (see `Store.losses`);
            the guarantee covers only answers since the last time.
        interval: The basis of x_low and x_high in a weighted answer: "exact", "bounded", "measured"
            or "assumed" (see `sparseq.accounting.pilots`); "active": they cover only users with
            budget left, as no public fact ensures that every user has some; "capped": they cover
            only users within the limit on combinations of rows in a join; "public": the answer uses
            public tables only. "": an in-or-out answer; every ± covers the users who were in.
        unit: The protected owner of an account, if it is not a person: "one customer_id in one
            month".
        price: p of the question: with its pilots it costs a user at most p + 5/16.
        charge: The most that the release with its pilots charged one account, in squared norm; it
            equals the price shown before. 0: the release is older than this fact.
        repeated: The same question was asked before of the same data: this is that answer, without
            new noise or a charge.
        follows: It is computed from the cells of a release for another question, without new noise
            or a charge.
        parts: The releases from which its groups were joined, if there are several; if `follows` is
            False, the last release was charged.
        keys_delta: The store's delta for found keys (see `Budget`).
        notes: Notes about rows in no listed group, and about the preceding questions, in words.
        series: The series whose part of the budget paid; "": the part of questions or a reserve.
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
    price: float = PRICE
    repeated: bool = False
    unit: str = ""
    follows: bool = False
    parts: tuple[int, ...] = ()
    keys_delta: float = 0.0
    notes: tuple[str, ...] = ()
    series: str = ""
    charge: float = 0.0

    @property
    def reach(self) -> tuple[float, ...]:
        """The most that a user can contribute to one value: more costs more than any budget.

        It has one number per measure, in its unit. The price of x is (x sigma_0 / sigma)², and
        sigma_0² is norm_budget / (2 kappa), so x is at most mu · sigma (Feldman & Zrnic 2021,
        Corollary 4.7).
        """
        return tuple(math.sqrt(2 * self.kappa) * sigma for sigma in self.sigma)
