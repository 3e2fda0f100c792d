"""The progress of a stream of weighted answers, in a user's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparseq.pictures.numbers import percent

if TYPE_CHECKING:
    pass


def course_text(facts: dict[str, Any]) -> str:
    """Say how far the stream has come, and what that means for intervals."""
    if facts["least_weight"] >= 1:
        left = facts["full_answers"]
        return (
            "a person pays at most 1 for an answer, and 0.31 for its\npilots; nobody is left out. "
            f"Whoever is wholly in every question counts in full for\nabout {left:,} more; then "
            "such people count for less, and intervals widen"
        )
    if facts["least_weight"] > 0:
        share, usual = percent(round(facts["least_weight"], 2)), facts["usual_weight"]
        text = (
            "nobody is left out, but whoever was wholly in every\nquestion so far counts for "
            f"{share} now, and intervals widen with each question"
        )
        if usual is None:
            return text
        return f"{text}\n(on average a person counts for {percent(round(usual, 2))})"
    return (
        "series have charged whatever people had: whoever they\nhave used up is not in later "
        "answers, and no interval is about them"
    )
