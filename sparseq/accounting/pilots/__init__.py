"""The mass that a scale cuts off, from released numbers alone: the choice of C, the interval.

A pilot is a noised histogram of people over a geometric ladder of norms. From it and from public
facts come the scale of an answer (`choice`) and an interval about everybody (`interval`), not only
about those who were counted in full. No data, no randomness: everything here is post-processing.
Theorem and sources: docs/theorems/pilots.md.

Here is what the course of a stream needs; `choice` and `interval` take longer to import.
"""

from __future__ import annotations

from sparseq.accounting.pilots.posterior import (
    CELLS,
    NO_PARENT,
    RULES,
    Ladder,
    Parent,
    Reading,
    Rules,
    few_people,
    ladder,
    parent_of,
    visible_top,
)

__all__ = [
    "CELLS",
    "NO_PARENT",
    "RULES",
    "Ladder",
    "Parent",
    "Reading",
    "Rules",
    "few_people",
    "ladder",
    "parent_of",
    "visible_top",
]
