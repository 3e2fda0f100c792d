"""Words about intervals: the users that they cover, and their basis."""

from __future__ import annotations

from dataclasses import dataclass

from sparseq.pictures.bounded_numbers import percent

WHY = {
    "public": "about public tables only: exact, and nobody is charged",
    "exact": "proved: nobody can add more than was counted, so noise is the only error",
    "bounded": "proved, from the most that one person can add",
    "measured": "people who were in many questions count for less; how many they are was measured, "
    "and bounds what is missing",
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
"""The bases of intervals, and advice if the basis does not hold."""
_IN_ONE_WORD = {
    "exact": " (proved)",
    "bounded": " (proved)",
    "measured": " (measured)",
    "assumed": " (assumed)",
}


@dataclass(frozen=True)
class AnswerInterval:
    """The meaning and the basis of an answer's intervals; `str` gives a sentence or two.

    Attributes:
        kind: "exact", "bounded", "measured", "assumed", "capped", "active" (docs/intervals.md); ""
            for an in-or-out answer, where each ± covers the users who took part.
        confidence: The probability that all intervals of the answer contain the true values.
        values: Number of noised values in the answer.

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
        """The subject of the intervals, and their confidence."""
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
        """The basis of the intervals, and advice if it does not hold."""
        return WHY[self.kind]

    @property
    def line(self) -> str:
        """The line under an answer: its basis in a word, or in a sentence if unusual."""
        if self.kind == "public":
            return self.why
        return f"{self.what}{_IN_ONE_WORD.get(self.kind) or f'; {self.why}'}"

    def __str__(self) -> str:
        return f"{self.what}; {self.why}"
