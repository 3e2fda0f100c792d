"""Grids of cells, and the questions that follow from them as exact sums of measured cells.

A question follows from a release if every cell of the question is a disjoint union of the release's
cells: a roll-up, a slice, the total over complete groups, some of the measures. The decision
depends only on their regions and is valid for any rows. Users are not additive: from counts of
users only the same cells follow.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from sparseq.language.monotone_functions import inverse, steps_of
from sparseq.language.value_sets import Values, place_of, union
from sparseq.question.plan import Domain, Kind, Measure
from sparseq.reuse.regions import Region, letters

MOST_GROUPS = 4096
"""The maximum number of groups, of a question and of a release."""


@dataclass(frozen=True)
class GridKey:
    """A group key: the expression, and its disjoint values in each group."""

    name: str
    pieces: tuple[Values, ...]

    @cached_property
    def places(self) -> dict[Values, int]:
        """The group of each piece."""
        return {piece: k for k, piece in enumerate(self.pieces)}


@dataclass(frozen=True)
class GridMeasure:
    """The values that one measure adds up (`MeasureMeaning.adds`), and the rows in all groups."""

    adds: str
    region: Region
    additive: bool


@dataclass(frozen=True)
class Grid:
    """The cells of a question or a release: its keys, last one fastest, and its measures."""

    origin: str
    keys: tuple[GridKey, ...]
    measures: tuple[GridMeasure, ...]

    @property
    def groups(self) -> int:
        """Number of groups."""
        return math.prod(len(key.pieces) for key in self.keys)

    def cells(self) -> Iterator[list[dict[str, Values]]]:
        """Yield for each group the values of expressions there, one per measure."""
        for pieces in product(*(key.pieces for key in self.keys)):
            yield [self.cell(measure, pieces) for measure in self.measures]

    def cell(self, measure: GridMeasure, pieces: Sequence[Values]) -> dict[str, Values]:
        """Return the values of expressions where keys have given values."""
        cell = dict(measure.region.values)
        for key, piece in zip(self.keys, pieces, strict=True):
            cell[key.name] = cell[key.name].both(piece) if key.name in cell else piece
        return cell


@dataclass(frozen=True)
class Sums:
    """For one measure of a question: the measure of a release, and its groups for each group.

    The groups of a question's groups are disjoint.
    """

    measure: int
    groups: tuple[tuple[int, ...], ...]


def grid_key(domain: Domain) -> GridKey | None:
    """Return a key from the values of its groups; None: they are unknown."""
    term = domain.key
    if term is None or domain.rest:
        return None
    steps = steps_of(term)
    points = [place_of(term.type, value) for value in domain.values]
    places = tuple(p for p in points if p is not None)
    pieces = [inverse(steps, p) for p in places]
    inside = tuple(p for p in pieces if p is not None)
    if len(places) < len(points):
        return None
    if len(inside) < len(places):
        return GridKey(letters(term), places)
    return GridKey(letters(steps[-1].of if steps else term), inside)


def additive(measure: Measure) -> bool:
    """Tell whether a measure of the union of two disjoint regions is the sum of both."""
    return measure.kind in (Kind.ROWS, Kind.SUM)


@dataclass(frozen=True)
class Coverage:
    """Groups of a question, and the parts of one release that form each of its measures there."""

    groups: tuple[int, ...]
    sums: tuple[Sums, ...]

    def only(self, groups: Container[int]) -> Coverage:
        """Return the part that covers some groups."""
        kept = [k for k, group in enumerate(self.groups) if group in groups]
        sums = (Sums(one.measure, tuple(one.groups[k] for k in kept)) for one in self.sums)
        return Coverage(tuple(self.groups[k] for k in kept), tuple(sums))


def find_covered(question: Grid, released: Grid) -> Coverage:
    """Return the groups of a question that follow from a release's cells, possibly none.

    Example:
        >>> from sparseq.language.value_sets import Spans, Values
        >>> days = GridKey("day", tuple(Values(Spans(((i, i),))) for i in range(4)))
        >>> counts = GridMeasure("rows", Region(), True)
        >>> some = GridMeasure("rows", Region({"day": Values(Spans(((1, 2),)))}), True)
        >>> find_covered(Grid("t", (), (some,)), Grid("t", (days,), (counts,)))
        Coverage(groups=(0,), sums=(Sums(measure=0, groups=((1, 2),)),))
    """
    nothing = Coverage((), ())
    if question.origin != released.origin or max(question.groups, released.groups) > MOST_GROUPS:
        return nothing
    names = {key.name for key in released.keys}
    if len(names) < len(released.keys):
        return nothing
    groups = set(range(question.groups))
    sources = []
    for measure in question.measures:
        parts = ((i, _parts(question, measure, released, i)) for i in range(len(released.measures)))
        i, places = max(parts, key=lambda part: len(part[1]), default=(0, {}))
        sources.append((i, places))
        groups &= places.keys()
        if not groups:
            return nothing
    inside = tuple(sorted(groups))
    sums = (Sums(i, tuple(places[group] for group in inside)) for i, places in sources)
    return Coverage(inside, tuple(sums))


def _parts(
    question: Grid, measure: GridMeasure, released: Grid, i: int
) -> dict[int, tuple[int, ...]]:
    """Return the groups of a release that make up each group of a question."""
    source = released.measures[i]
    region = measure.region
    if source.adds != measure.adds or source.region.conditions != region.conditions:
        return {}
    free = {key.name for key in (*question.keys, *released.keys)}
    if _besides(region.values, free) != _besides(source.region.values, free):
        return {}
    chosen: dict[tuple[int, Values], tuple[int, ...]] = {}
    parts = {}
    for group, pieces in enumerate(product(*(key.pieces for key in question.keys))):
        cell = question.cell(measure, pieces)
        places = _places(cell, source.region.values, released.keys, chosen)
        if places is not None and (len(places) == 1 or source.additive):
            parts[group] = places
    return parts


def _besides(values: Mapping[str, Values], names: set[str]) -> dict[str, Values]:
    return {name: some for name, some in values.items() if name not in names}


def _places(
    cell: Mapping[str, Values],
    within: Mapping[str, Values],
    keys: Sequence[GridKey],
    chosen: dict[tuple[int, Values], tuple[int, ...]],
) -> tuple[int, ...] | None:
    """Return the groups of a release that make up a cell, () for an empty cell; None: the cell is
    not a union of groups.
    """
    names = {key.name for key in keys}
    if any(cell.get(n) != within.get(n) for n in (set(cell) | set(within)) - names):
        return None
    places = [0]
    for i, key in enumerate(keys):
        wanted = cell.get(key.name)
        if wanted is None:
            return None
        if (i, wanted) not in chosen:
            chosen[i, wanted] = _chosen(key, within.get(key.name), wanted)
        if not chosen[i, wanted]:
            return None
        places = [at * len(key.pieces) + k for at in places for k in chosen[i, wanted]]
    return tuple(places)


def _chosen(key: GridKey, within: Values | None, wanted: Values) -> tuple[int, ...]:
    """Return the pieces that make up the wanted values, or nothing."""
    own = key.places.get(wanted)
    if own is not None and wanted and (within is None or within.both(wanted) == wanted):
        return (own,)
    chosen, parts = [], []
    for k, piece in enumerate(key.pieces):
        part = piece if within is None else piece.both(within)
        common = part.both(wanted)
        if common and common != part:
            return ()
        if common:
            chosen.append(k)
            parts.append(part)
    return tuple(chosen) if parts and union(parts) == wanted else ()
