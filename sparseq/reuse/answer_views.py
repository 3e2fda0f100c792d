"""Answers that follow from cells that were measured before: sums of them, exactly.

A question follows from a release if every one of its cells is a disjoint union of the release's
cells: a roll-up, a slice, the total over complete groups, some of the measures. That is told from
regions alone (`sparseq.reuse.regions`), whatever the rows are; else nothing follows. People are not
additive: of counts of people only the very same cells follow.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from sparseq.language.monotone import inverse, steps_of
from sparseq.language.value_sets import Spans, Texts, Values, place_of, union
from sparseq.reuse.regions import Region, letters
from sparseq.sql.plan import Domain, Kind, Measure

MOST_GROUPS = 4096
"""Of a question that is looked for among known cells, and of a release that is looked through."""


@dataclass(frozen=True)
class GridKey:
    """A group key: the expression, and its values in each group, disjoint."""

    name: str
    pieces: tuple[Values, ...]

    @cached_property
    def places(self) -> dict[Values, int]:
        """The group of each piece."""
        return {piece: k for k, piece in enumerate(self.pieces)}


@dataclass(frozen=True)
class GridMeasure:
    """What one measure adds up (`MeasureMeaning.adds`), and over which rows in all groups."""

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
        """How many groups there are."""
        return math.prod(len(key.pieces) for key in self.keys)

    def cells(self) -> Iterator[list[dict[str, Values]]]:
        """Yield of each group the values that expressions have there, one a measure."""
        for pieces in product(*(key.pieces for key in self.keys)):
            yield [self.cell(measure, pieces) for measure in self.measures]

    def cell(self, measure: GridMeasure, pieces: Sequence[Values]) -> dict[str, Values]:
        """Return the values that expressions have where keys have some."""
        cell = dict(measure.region.values)
        for key, piece in zip(self.keys, pieces, strict=True):
            cell[key.name] = cell[key.name].both(piece) if key.name in cell else piece
        return cell


@dataclass(frozen=True)
class Sums:
    """Of one measure of a question: which measure of a release, and which of its groups, by group.

    The groups of a question's groups are disjoint.
    """

    measure: int
    groups: tuple[tuple[int, ...], ...]


def grid_key(domain: Domain) -> GridKey | None:
    """Return a key by the values that its groups stand for; None: that is not known."""
    term = domain.key
    if term is None or domain.rest:
        return None
    steps = steps_of(term)
    points = [place_of(term.type, value) for value in domain.values]
    known = tuple(p for p in points if p is not None)
    pieces = [inverse(steps, p) for p in known]
    inside = tuple(p for p in pieces if p is not None)
    if len(known) < len(points):
        return None
    if len(inside) < len(known):
        return GridKey(letters(term), known)
    return GridKey(letters(steps[-1].of if steps else term), inside)


def additive(measure: Measure) -> bool:
    """Tell whether a measure of two disjoint regions together is the sum of both."""
    return measure.kind in (Kind.ROWS, Kind.SUM)


@dataclass(frozen=True)
class Coverage:
    """Groups of a question, and what each of its measures is made of in them, from one release."""

    groups: tuple[int, ...]
    sums: tuple[Sums, ...]

    def only(self, groups: Container[int]) -> Coverage:
        """Return what is covered of some groups."""
        kept = [k for k, group in enumerate(self.groups) if group in groups]
        sums = (Sums(one.measure, tuple(one.groups[k] for k in kept)) for one in self.sums)
        return Coverage(tuple(self.groups[k] for k in kept), tuple(sums))


def covered(question: Grid, known: Grid) -> Coverage:
    """Return the groups of a question that follow from a release's cells, maybe none.

    Example:
        >>> from sparseq.language.value_sets import Spans, Values
        >>> days = GridKey("day", tuple(Values(Spans(((i, i),))) for i in range(4)))
        >>> counts = GridMeasure("rows", Region(), True)
        >>> some = GridMeasure("rows", Region({"day": Values(Spans(((1, 2),)))}), True)
        >>> covered(Grid("t", (), (some,)), Grid("t", (days,), (counts,)))
        Coverage(groups=(0,), sums=(Sums(measure=0, groups=((1, 2),)),))
    """
    nothing = Coverage((), ())
    if question.origin != known.origin or max(question.groups, known.groups) > MOST_GROUPS:
        return nothing
    names = {key.name for key in known.keys}
    if len(names) < len(known.keys):
        return nothing
    groups = set(range(question.groups))
    found = []
    for measure in question.measures:
        parts = ((i, _parts(question, measure, known, i)) for i in range(len(known.measures)))
        i, places = max(parts, key=lambda part: len(part[1]), default=(0, {}))
        found.append((i, places))
        groups &= places.keys()
        if not groups:
            return nothing
    inside = tuple(sorted(groups))
    sums = (Sums(i, tuple(places[group] for group in inside)) for i, places in found)
    return Coverage(inside, tuple(sums))


def _parts(question: Grid, measure: GridMeasure, known: Grid, i: int) -> dict[int, tuple[int, ...]]:
    """Return the groups of a release that groups of a question are made of, by these."""
    source = known.measures[i]
    region = measure.region
    if source.adds != measure.adds or source.region.conditions != region.conditions:
        return {}
    free = {key.name for key in (*question.keys, *known.keys)}
    if _besides(region.values, free) != _besides(source.region.values, free):
        return {}
    chosen: dict[tuple[int, Values], tuple[int, ...]] = {}
    found = {}
    for group, pieces in enumerate(product(*(key.pieces for key in question.keys))):
        cell = question.cell(measure, pieces)
        places = _places(cell, source.region.values, known.keys, chosen)
        if places is not None and (len(places) == 1 or source.additive):
            found[group] = places
    return found


def _besides(values: Mapping[str, Values], names: set[str]) -> dict[str, Values]:
    return {name: some for name, some in values.items() if name not in names}


def _places(
    cell: Mapping[str, Values],
    within: Mapping[str, Values],
    keys: Sequence[GridKey],
    chosen: dict[tuple[int, Values], tuple[int, ...]],
) -> tuple[int, ...] | None:
    """Return the groups of a release that a cell is made of, () never; None: of none."""
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
    """Return the pieces that make up the values that are wanted, or nothing."""
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


# -- as plain data ---------------------------------------------------------------------------------


def to_data(grid: Grid) -> Any:
    """Return a grid as what JSON can hold."""
    return [
        grid.origin,
        [[key.name, [_values_data(p) for p in key.pieces]] for key in grid.keys],
        [
            [
                m.adds,
                {name: _values_data(v) for name, v in m.region.values.items()},
                sorted(m.region.conditions),
                m.additive,
            ]
            for m in grid.measures
        ],
    ]


def from_data(data: Any) -> Grid:
    """Return what `to_data` made."""
    origin, keys, measures = data
    return Grid(
        origin,
        tuple(GridKey(name, tuple(map(_values, pieces))) for name, pieces in keys),
        tuple(
            GridMeasure(
                adds,
                Region({name: _values(v) for name, v in values.items()}, frozenset(conditions)),
                adds_up,
            )
            for adds, values, conditions, adds_up in measures
        ),
    )


def _values_data(values: Values) -> Any:
    if isinstance(values.known, Texts):
        return ["texts", sorted(values.known.listed), values.known.but, values.null]
    spans = [[None if math.isinf(end) else end for end in span] for span in values.known.spans]
    return ["spans", spans, values.null]


def _values(data: Any) -> Values:
    if data[0] == "texts":
        return Values(Texts(frozenset(data[1]), data[2]), data[3])
    spans = tuple(
        (-math.inf if low is None else low, math.inf if high is None else high)
        for low, high in data[1]
    )
    return Values(Spans(spans), data[2])
