"""The presence of groups: a decision from noised counts alone whether a group has rows.

In SQL a group exists if a row is in it. The set of groups with rows depends on users, so an answer
has a row for each public group. Some of these groups may have no rows, and their averages are
noise. A group is *present* if the low end of a noised count of its rows is above 0. This is
computed from released values: it is post-processing, costs nothing, and reads no row
(docs/presence.md). With the confidence of the answer, a group that is present has a row. A group
that is not present may have rows, though not more than the high end of its count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparseq.question.plan import Domain, Kind, Measure, values_of_keys


class NoisedCounts(Protocol):
    """The measures of a question: `sparseq.released.outputs.Measurements`."""

    @property
    def measures(self) -> Sequence[NDArray[np.float64]]:
        """One (groups, bins) array per measure."""

    @property
    def bounds(self) -> Sequence[float]:
        """± of each measure's noise."""

    @property
    def keys(self) -> Sequence[NDArray[Any]]:
        """Each key's value by group."""

    @property
    def groups(self) -> int:
        """Number of groups."""

    @property
    def weighted(self) -> Any:
        """The intervals of a weighted answer; None for other answers."""

    def ends(self, i: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the ends of a measure's intervals."""


@dataclass(frozen=True)
class Presence:
    """The counts that determine which groups of a question are present.

    Attributes:
        counts: Places of the measures that count rows or users of a group, in all their bins.
        nulls: Places of the keys whose NULL is listed only in groups that are present.
        rows: The place of the measure that counts all rows of a group; None: no measure does.
    """

    counts: tuple[int, ...]
    nulls: tuple[int, ...]
    rows: int | None = None

    @classmethod
    def of(cls, measures: Sequence[Measure], domains: Sequence[Domain]) -> Presence | None:
        """Return the presence of a question's groups, or of all its rows; None: it has no count.

        NULL is one of the values of its key, unless it represents all other rows. It is always
        listed if every count covers only rows that meet conditions, because other rows may exist.

        Example:
            >>> from sparseq.question.plan import Cell
            >>> status = Domain("status", ("open", None), Cell("i"))
            >>> Presence.of([Measure(Kind.ROWS, None, "count(*)")], [status])
            Presence(counts=(0,), nulls=(0,), rows=0)
            >>> Presence.of([Measure(Kind.SUM, Cell("x"), "sum(x)")], [status]) is None
            True
        """
        counts = tuple(i for i, m in enumerate(measures) if m.kind in (Kind.ROWS, Kind.USERS))
        if not counts:
            return None
        rows, keys = row_count(measures), values_of_keys(domains)
        nulls = [p for p, (i, _, some) in enumerate(keys) if None in some and not domains[i].rest]
        tells = all(_is_of_rows(measures[i]) for i in counts) or any(
            measures[i].value is None for i in counts
        )
        return cls(counts, tuple(nulls) if tells else (), rows)

    def absent(self, noised: NoisedCounts) -> NDArray[np.bool_]:
        """Return a mask of the groups that are not present."""
        found = np.zeros(noised.groups, np.bool_)
        for i in self.counts:
            found |= _is_above_0(noised, i)
        return ~found

    def unlisted(self, noised: NoisedCounts) -> NDArray[np.bool_]:
        """Return a mask of the groups that are not listed: those of a NULL that are not present."""
        lacking = np.zeros(noised.groups, np.bool_)
        for place in self.nulls:
            lacking |= np.array([value is None for value in noised.keys[place]], np.bool_)
        return lacking & self.absent(noised)


def _is_of_rows(m: Measure) -> bool:
    """Tell whether a count covers all rows, or all rows of an average or a quantile."""
    term = None if m.value is None else m.value.term
    while term is not None and term.function == "and":
        term = term.arguments[0]
    is_finite = term is not None and term.function == "isfinite"
    return m.value is None or bool(m.role) or bool(m.edges) or is_finite


def row_count(measures: Sequence[Measure]) -> int | None:
    """Return the place of the measure that counts all rows; None: no measure does."""
    plain = (m.kind is Kind.ROWS and m.value is None and m.bins == 1 for m in measures)
    return next((i for i, one in enumerate(plain) if one), None)


def _is_above_0(noised: NoisedCounts, i: int) -> NDArray[np.bool_]:
    """Return a mask of the groups in which the sum of a count's bins is above 0 with confidence.

    Released sums of bins are used, because their noise adds up: a sum of b bins has sqrt(b) times
    the noise of one bin. Estimates of bins do not add up, because each is kept non-negative.
    """
    low, _ = noised.ends(i)
    bins = low.shape[1]
    if bins == 1:
        return np.asarray(low[:, 0] > 0, np.bool_)
    known = noised.weighted
    if known is None:
        counted, bound = noised.measures[i], noised.bounds[i]
    else:
        counted, bound = known.noised[i], known.z[i] * known.sigmas[i]
    return np.asarray(counted.sum(axis=1) > bound * np.sqrt(bins), np.bool_)
