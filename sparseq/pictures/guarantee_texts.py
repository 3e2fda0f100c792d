"""Sentences about a guarantee, for pictures and commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparseq.base.defaults import DELTA, DELTA_TEXT
from sparseq.pictures.bounded_numbers import percent, upper

if TYPE_CHECKING:
    from sparseq.accounting import Budget


NOT_PRIVATE = "NOT PRIVATE: the noise comes from a seed, so anyone can take it off again."
HOLE = "A HOLE IN THE GUARANTEE: the store was opened without a part of it."
LOUD = (NOT_PRIVATE, HOLE)
"""Warnings that must be shown."""
CURATOR = (
    "For the curator of this data only: it is not a release, and must not be shown to an analyst."
)


def guarantee(budget: Budget, unit: str = "") -> str:
    """Return the guarantee of a store for a chart; `unit`: the privacy unit, if not a person."""
    return (
        f"{budget.promise} (epsilon {upper(budget.epsilon(DELTA))} at delta "
        f"{DELTA_TEXT}){f' for {unit}' if unit else ''}"
    )


def course_text(facts: dict[str, Any]) -> str:
    """Return the progress of the stream of questions, and its effect on intervals."""
    if facts["least_weight"] >= 1:
        more = facts["full_answers"]
        if not more:
            return (
                "nobody is left out. After the next question in which the\nsame person is fully "
                "counted, intervals widen"
            )
        what = "question" if more == 1 else "questions"
        return (
            f"nobody is left out. Good for about {more:,} more {what}\nin which the same person is "
            "fully counted; after that, intervals widen"
        )
    if facts["least_weight"] > 0:
        share, usual = percent(round(facts["least_weight"], 2)), facts["usual_weight"]
        text = (
            "nobody is left out. A person who was in every question so\nfar now counts for "
            f"{share}, and intervals widen with each question"
        )
        if usual is None:
            return text
        return f"{text}\n(on average a person counts for {percent(round(usual, 2))})"
    return (
        "people whose budget series have used up are not in later\nanswers, and no interval is "
        "about them"
    )
