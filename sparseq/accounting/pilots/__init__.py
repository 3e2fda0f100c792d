"""The mass that a scale cuts off, from released numbers alone: the choice of C, the interval.

A pilot is a noised histogram of people over a geometric ladder of norms. It gives, with public
facts, the scale of an answer (`choice`) and an interval about everybody (`interval`), not only
about fully counted users. No data, no randomness: everything here is post-processing. Theorem and
sources: docs/theorems/pilots.md.

This module exports the parts that the course of a stream needs; `choice` and `interval` take longer
to import.
"""

from __future__ import annotations

from sparseq.accounting.pilots.ladder import CELLS, Ladder, ladder
from sparseq.accounting.pilots.noised_pilot import PILOTS, Reading, visible_top
from sparseq.accounting.pilots.parent import NO_PARENT, Parent, few_people, parent_of

__all__ = [
    "CELLS",
    "NO_PARENT",
    "PILOTS",
    "Ladder",
    "Parent",
    "Reading",
    "few_people",
    "ladder",
    "parent_of",
    "visible_top",
]
