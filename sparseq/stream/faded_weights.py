"""Pilots of a table's users by faded weight: when they are asked, and what follows from them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparseq.accounting.pilots.tails import NO_TAILS, Tails, tail_edges
from sparseq.stream.stream_progress import PARENT_PAYS, WEIGHTS, Course


def wants_tails(course: Course, key: str) -> bool:
    """Tell whether a pilot of a table's users by 1/a must be asked, for the first time or again."""
    if not course.one_for_all:
        return False
    tails = course.tails.get(key, NO_TAILS)
    if tails.due(1 / course.least_allowance(1.0)):
        return True
    paid = course.clock - tails.clock >= PARENT_PAYS
    return bool(tails.bounds) and not _holds(course, key, tails) and paid


def _holds(course: Course, key: str, tails: Tails) -> bool:
    """Tell whether tails cover all users of the table except some who were in no answer yet.

    A user with rows in another table may have faded before this table had rows of the user.
    """
    return tails.epoch == course.epoch or all(WEIGHTS + table == key for table in course.tables)


def edges_of_tails(course: Course) -> np.typing.NDArray[np.float64]:
    """Return the edges on which a pilot counts a table's users by 1/a now."""
    return tail_edges(1 / course.least_allowance(1.0), newcomer_scale(course, 1.0))


def with_tails(
    course: Course,
    key: str,
    edges: np.typing.NDArray[np.float64],
    people: np.typing.NDArray[np.float64],
    sd: float,
) -> Course:
    """Return the course with a pilot of a table's users by 1/a.

    Args:
        key, people: Its name, and its released counts.
        edges: The result of `edges_of_tails` at its release.
        sd: The standard deviation of each cell.
    """
    tails = course.tails.get(key, NO_TAILS)
    if not _holds(course, key, tails):
        tails = NO_TAILS
    found = tails.measured(edges.tolist(), people.tolist(), sd, course.clock, course.epoch)
    return replace(course, tails={**course.tails, key: found})


def known_tails(course: Course, key: str) -> Tails:
    """Return the distribution of a table's faded weights; NO_TAILS if unknown."""
    tails = course.tails.get(key, NO_TAILS)
    return tails if course.one_for_all and _holds(course, key, tails) else NO_TAILS


def newcomer_scale(course: Course, price: float) -> float:
    """Return an upper bound of 1/a for a user who was in no question yet."""
    return 1 / course.allowance_for(course.begun_with or course.least, price)


def usual_weight(course: Course) -> float | None:
    """Return the average weight of users by the latest pilot; None: there was none.

    A user with allowance a adds a to the cells around 1/a. So the cells add up to the total
    weight, and the cells times their edges to the number of users.
    """
    asked = [one for one in course.tails.values() if one.weight is not None]
    return max(asked, key=lambda one: one.clock).weight if asked else None
