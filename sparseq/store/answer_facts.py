"""Public facts of one answer, beside its values."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sparseq.base.defaults import PRICE
from sparseq.pictures.tables import percent
from sparseq.sql.plan import ASKED_FIRST

# -- public facts of one answer, beside its values -------------------------------------------------


@dataclass(frozen=True)
class Facts:
    """The public facts of one answer; sigma, granularity, scale, labels, kinds: one a measure.

    Attributes:
        release: Its number in the store's history; 0: it is about public tables only, and none.
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
            more combinations of rows in a join than a person may have; "public": of public
            tables only. "": people were in or out, and every ± is about those who were in.
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
        notes: Which rows are in no group, and what was asked before it, in words.
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
    price: float = PRICE
    repeated: bool = False
    unit: str = ""
    follows: bool = False
    parts: tuple[int, ...] = ()
    keys_delta: float = 0.0
    notes: tuple[str, ...] = ()
    series: str = ""

    @property
    def asked_first(self) -> tuple[str, ...]:
        """The notes of what was asked before it, and whose answer stands in it."""
        return tuple(note for note in self.notes if ASKED_FIRST in note)

    @property
    def reach(self) -> tuple[float, ...]:
        """The most that a user can contribute to one value: more costs more than any budget.

        One a measure, in its unit. The price of x is (x sigma_0 / sigma)², and sigma_0² is
        norm_budget / (2 kappa), so x is at most mu · sigma (Feldman & Zrnic 2021, Corollary 4.7).
        """
        return tuple(math.sqrt(2 * self.kappa) * sigma for sigma in self.sigma)


# -- words about intervals: whom they are about, and what they rest on -----------------------------

WHY = {
    "public": "about public tables only: exact, and nobody is charged",
    "exact": "proved: nobody can add more than was counted, so noise is the only error",
    "bounded": "proved, from the most that one person can add",
    "assumed": "assumes that no small group of people owns most of the rows; if that may be so, "
    "set a maximum: sparseq create --most rows=N",
    "capped": "people with more combinations of rows in the join, or more values in lists, than "
    "the store allows are left out; to include them, make the store with a higher limit: "
    "sparseq create --most work=N",
    "active": "only people with budget left are counted; to count everybody, make the store "
    "without in-or-out series, and declare the least of own budgets: --budget-column COL=LEAST",
    "": "people whose budget is used up are left out; to count everybody, make the store without "
    "in-or-out",
}
"""The grounds that intervals rest on, and what to do where that is not so."""
_IN_ONE_WORD = {"exact": " (proved)", "bounded": " (proved)", "assumed": " (assumed)"}


@dataclass(frozen=True)
class AnswerInterval:
    """The subject of all intervals of an answer; as a text, it says so in a sentence or two.

    Attributes:
        kind: "exact", "bounded", "assumed", "capped", "active" (docs/intervals.md); "" where people
            were in or out: then each ± is about those who took part.
        confidence: That all intervals of the answer hold the truth at once.
        values: How many noised values it has.

    Example:
        >>> print(AnswerInterval("bounded", 0.95, 1))
        the interval contains the true value for everybody, with 95 % confidence; proved, from the
        most that one person can add
        >>> AnswerInterval("assumed", 0.95, 2).line
        'both intervals contain the true value for everybody, with 95 % confidence (assumed)'
    """

    kind: str
    confidence: float
    values: int

    @property
    def what(self) -> str:
        """The subject of the intervals, and how sure they are."""
        if self.kind == "public":
            return "no value is noised"
        several = f"all {self.values:,} intervals contain"
        few = ("every interval contains", "the interval contains", "both intervals contain")
        subject = several if self.values > 2 else few[self.values]
        everybody = " for everybody" if self.kind in _IN_ONE_WORD else ""
        held = f"{subject} the true value{everybody}"
        if not self.kind:
            held = "the ± holds" if self.values == 1 else "every ± holds"
        return f"{held}, with {percent(self.confidence)} confidence"

    @property
    def why(self) -> str:
        """The ground of it, and what to do where that is not so."""
        return WHY[self.kind]

    @property
    def line(self) -> str:
        """The line under an answer: its ground in a word, or in a sentence if unusual."""
        if self.kind == "public":
            return self.why
        return f"{self.what}{_IN_ONE_WORD.get(self.kind) or f'; {self.why}'}"

    def __str__(self) -> str:
        return f"{self.what}; {self.why}"
