"""Words about intervals: whom they are about, and what they rest on."""

from __future__ import annotations

from dataclasses import dataclass

from sparseq.pictures.numbers import percent

WHY = {
    "exact": "proved: nobody can add more than was counted, so there is noise and nothing else",
    "bounded": "proved, by the most that one person can add",
    "assumed": "if people with very much data are few, and their data are like everybody's; a few\n"
    "people with most of the rows would not show: where that can be, ask for declared maxima",
    "capped": "about those with few enough combinations of rows in the join (sparseq create\n"
    "--most work=20000000, if nothing was said): others are left out of it",
    "active": "about those who have budget left: series may have used people up, or own budgets\n"
    "have no declared least",
    "": "about the people who took part: who has used up the budget is left out, and in no ±",
}
"""What an interval rests on."""


@dataclass(frozen=True)
class AnswerInterval:
    """What all intervals of an answer are about; as a text, it says so in one line.

    Attributes:
        kind: "exact", "bounded", "assumed", "capped", "active" (docs/intervals.md); "" where people
            were in or out: then each ± is about those who took part.
        confidence: That all intervals of the answer hold the truth at once.
        values: How many noised values there are.

    Example:
        >>> print(AnswerInterval("bounded", 0.95, 1))
        the truth about everybody lies in the interval, with 95 % confidence; proved, by the most
        that one person can add
    """

    kind: str
    confidence: float
    values: int

    @property
    def what(self) -> str:
        """What lies in them, and how surely."""
        one, several = "the interval", f"all {self.values:,} intervals"
        where = one if self.values == 1 else several
        whole = "the truth about everybody lies in" if self.kind else "what was summed lies in"
        return f"{whole} {where}, with {percent(self.confidence)} confidence"

    @property
    def why(self) -> str:
        """What that rests on; it may have several lines."""
        return WHY[self.kind]

    def __str__(self) -> str:
        return f"{self.what}; {' '.join(self.why.split())}"
