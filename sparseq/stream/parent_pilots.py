"""Pilots of all rows of a table: when they are asked, and what is kept of their results."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache

import numpy as np

from sparseq.accounting.pilots import (
    NO_PARENT,
    PILOTS,
    Parent,
    few_people,
    ladder,
    parent_of,
)
from sparseq.accounting.pilots.chain import first_bounds, later_bounds, upper_of
from sparseq.stream.stream_progress import PARENT_PAYS, ROWS, SUM, Course, Known

CHAINED = ROWS, SUM
"""Pilots that are asked again as users fade."""


def wants_parent(course: Course, key: str) -> bool:
    """Tell whether a parent pilot must be asked, for the first time or again."""
    asked = course.parents.get(key)
    if asked is None:
        return True
    if asked.epoch != course.epoch:
        return course.latest_clock - asked.clock >= PARENT_PAYS
    chained = course.one_for_all and key.startswith(CHAINED)
    return chained and fading_factor(course, key) >= 2.0**asked.times


def fading_factor(course: Course, key: str) -> float:
    """Return the factor by which users may have faded since a parent pilot was first asked."""
    return max(course.parents[key].allowance / course.least_allowance(1.0), 1.0)


def with_parent(
    course: Course, key: str, people: np.typing.NDArray[np.float64], allowance: float = 1.0
) -> Course:
    """Return the course with a pilot of all rows that is released now.

    Args:
        key, people: Its name, and its released counts.
        allowance: a_min at its release.
    """
    asked = Known(tuple(people.tolist()), course.latest_clock, course.epoch, allowance)
    return replace(course, parents={**course.parents, key: asked})


def with_parent_again(
    course: Course, key: str, people: np.typing.NDArray[np.float64], factor: float, sigma_0: float
) -> Course:
    """Return the course with a parent pilot that is released again, on `chain_edges`.

    Args:
        key, people: Its name, and its released counts.
        factor: The result of `fading_factor` at its release.
        sigma_0: The store's sigma_0.
    """
    asked = course.parents[key]
    bounds, first = asked.bounds, parent_seen(asked.people, sigma_0).samples
    assert first is not None
    sd, many = math.sqrt(PILOTS.parent) * sigma_0, people.tolist()
    bounds = later_bounds(bounds or first_bounds(first), factor, many, sd)
    times = math.floor(math.log2(factor) + 1e-9) + 1
    asked = replace(asked, bounds=bounds, times=times)
    return replace(course, parents={**course.parents, key: asked})


def without_pilots(course: Course, keys: Collection[str]) -> Course:
    """Return the course without some pilots, whose releases are not known yet."""
    kept = {key: one for key, one in course.parents.items() if key not in keys}
    tails = {key: one for key, one in course.tails.items() if key not in keys}
    return replace(course, parents=kept, tails=tails)


def known_parent(course: Course, key: str, sigma_0: float) -> Parent:
    """Return the parent from a pilot of today's rows, or NO_PARENT."""
    asked = course.parents.get(key)
    if asked is None or asked.epoch != course.epoch:
        return NO_PARENT
    most = upper_of(asked.bounds) if asked.bounds else None
    return replace(parent_seen(asked.people, sigma_0), most=most)


@lru_cache(maxsize=64)
def parent_seen(people: tuple[float, ...], sigma_0: float) -> Parent:
    """Return the parent that a pilot of all rows yields, for many users or for few."""
    parent = _parent(people, sigma_0)
    if parent.samples is not None:
        return parent
    return few_people(np.array(people), sigma_0, ladder(math.inf, 1.0))


@lru_cache(maxsize=64)
def _parent(people: tuple[float, ...], sigma_0: float) -> Parent:
    return parent_of(np.array(people), sigma_0, ladder(math.inf, 1.0))
