"""Answers that follow from cells that were measured before: sums of them, exactly.

A question follows from a release if every one of its cells is a disjoint union of the release's
cells: a roll-up, a slice, the total over complete groups, some of the measures. That is told from
their regions alone, whatever the rows are; else nothing follows. People are not additive: of counts
of people only the very same cells follow.

Regions of rows that a condition holds for: the algebra on predicates, made to be compared.

A region says of some expressions over a row which values they may have, and lists the conditions of
which nothing is known but their text; a row lies in it if all of that holds. Sound or silent: two
regions are told apart, or said to be equal, only where that follows from the values alone, whatever
the rows are. Values are totally ordered as the engine orders them (NaN is the greatest number), and
NULL is a value of its own.

Measured cells, kept beside an answer: every question that follows is computed from them.

Noised numbers only: as public as the answer, of which they are all the cells, also those that
HAVING and LIMIT leave out.

Sums of cells that a release has: values, intervals and noise of an answer that follows from it.

The noise of a sum of m cells has standard deviation sqrt(m) · sigma: the cells' noise is
independent. Of a weighted answer the interval lies within the sums of the cells' ends, and within
the noise of the sum and all that it may lack: sqrt(m) times what its cells may lack, added up. For
people are cut by their norm over all cells, and who is in m of them lacks up to sqrt(m) times as
much in their sum (Cauchy and Schwarz); that of a cell is a share of the norm. The sum's own noise
is one event more than the release's, so where cells are added it takes `EXTRA` of beta, and the
answer's confidence is that much less. A cell on its own keeps its interval. In or out, the ± is
noise alone.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections import OrderedDict, defaultdict, deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import product
from typing import Any

import numpy as np

from sparseq.accounting import simultaneous_bound
from sparseq.language.conditions import read
from sparseq.language.expression_tree import Term
from sparseq.language.interval_arithmetic import Floats
from sparseq.language.value_sets import Spans, Texts, Values, inverse, place_of, steps_of, union
from sparseq.released.outputs import Intervals, Measurements
from sparseq.released.render import key_columns
from sparseq.sql.plan import Domain, Kind, Measure, Noise, Query

# -- regions of rows that a condition holds for ----------------------------------------------------

_ALIASED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")+\"\.(\"(?:[^\"]|\"\")+\")")


@dataclass(frozen=True)
class Region:
    """Rows in which expressions have some values, and conditions hold.

    Attributes:
        values: By expression, in letters that are the same for the same expression. One that is
            not there may have any value.
        conditions: Texts of conditions of which nothing else is known.
    """

    values: Mapping[str, Values] = field(default_factory=dict)
    conditions: frozenset[str] = frozenset()

    def both(self, other: Region) -> Region:
        """Return the rows in both."""
        values = dict(self.values)
        for name, some in other.values.items():
            values[name] = values[name].both(some) if name in values else some
        return Region(values, self.conditions | other.conditions)

    @property
    def empty(self) -> bool:
        """No row can lie in it."""
        return not all(self.values.values())

    @property
    def key(self) -> str:
        """A text that equal regions share."""
        listed = {name: _spell(values) for name, values in self.values.items()}
        return repr((sorted(listed.items()), sorted(self.conditions)))


def region_of(conditions: Iterable[Term]) -> Region:
    """Return the rows for which all of the conditions are true."""
    return reduce(Region.both, map(_region, conditions), Region())


def last_place(values: Values | None) -> float:
    """Return the last place that an expression can have; infinite: any, or it has no order."""
    if values is None or not isinstance(values.known, Spans):
        return math.inf
    return values.known.ends[1]


def letters(term: Term) -> str:
    """Return a text that stands for an expression, whatever its table is called in the query.

    Example:
        >>> from sparseq.language.types import BIGINT
        >>> letters(Term(BIGINT, '"e"."n"', column="n")) == letters(Term(BIGINT, '"x"."n"'))
        True
    """
    return bare(term.sql)


def bare(sql: str) -> str:
    """Return SQL over one table without the table's name before its columns."""
    return _ALIASED.sub(lambda found: f"~.{found[1]}" if found[1] else found[0], sql)


def _region(condition: Term) -> Region:
    if condition.function == "and":
        return region_of(condition.arguments)
    reading = read(condition)
    if not reading.exact:
        return Region(conditions=frozenset([letters(condition)]))
    return Region({letters(one.of): one.true for one in reading.said.values()})


def _spell(values: Values) -> str:
    places = values.known
    if isinstance(places, Texts):
        return repr((sorted(places.listed), places.but, values.null))
    return repr((places.spans, values.null))


# -- answers that follow from cells that were measured before: sums of them, exactly ---------------

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
    places = tuple(p for p in points if p is not None)
    pieces = [inverse(steps, p) for p in places]
    inside = tuple(p for p in pieces if p is not None)
    if len(places) < len(points):
        return None
    if len(inside) < len(places):
        return GridKey(letters(term), places)
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


def find_covered(question: Grid, released: Grid) -> Coverage:
    """Return the groups of a question that follow from a release's cells, maybe none.

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
    """Return the groups of a release that groups of a question are made of, by these."""
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


# -- the cells of the latest releases, found by what they add up: in bounded memory ----------------

LOOKED_THROUGH = 512
"""Releases, the latest, that an answer may follow from."""
_PIECES = 128 * MOST_GROUPS  # values of keys that are held at most
_Key = tuple[str, str, frozenset[str]]


@dataclass(frozen=True)
class GridOf:
    """The grid of a release, and the epoch in which it was measured."""

    epoch: int
    release: int
    grid: Grid

    @property
    def keys(self) -> set[_Key]:
        """The sums of its measures: of rows of which table, and under which other conditions."""
        return _keys(self.grid)

    @property
    def pieces(self) -> int:
        """Values of its keys."""
        return sum(len(key.pieces) for key in self.grid.keys)


class Grids:
    """Grids of releases; the oldest go first."""

    def __init__(self) -> None:
        self._held: OrderedDict[int, GridOf] = OrderedDict()
        self._by_key: defaultdict[_Key, deque[GridOf]] = defaultdict(deque)
        self._pieces = 0

    def add(self, one: GridOf) -> None:
        """Hold the grid of a release that is later than all others."""
        self._held[one.release] = one
        self._pieces += one.pieces
        for key in one.keys:
            self._by_key[key].append(one)
        while len(self._held) > LOOKED_THROUGH or self._pieces > _PIECES:
            _, oldest = self._held.popitem(last=False)
            self._pieces -= oldest.pieces
            for key in oldest.keys:
                self._by_key[key].popleft()
                if not self._by_key[key]:
                    del self._by_key[key]

    def of(self, release: int) -> Grid | None:
        """Return the grid of a release, if it is held."""
        held = self._held.get(release)
        return None if held is None else held.grid

    def like(self, question: Grid) -> Iterator[GridOf]:
        """Yield those with measures that add up what a question does, the latest first."""
        fewest = min((self._by_key.get(key, ()) for key in _keys(question)), key=len, default=())
        yield from reversed(fewest)


def _keys(grid: Grid) -> set[_Key]:
    return {(grid.origin, m.adds, m.region.conditions) for m in grid.measures}


# -- measured cells, kept beside an answer: every question that follows is computed from them ------


@dataclass(frozen=True)
class RecordedCells:
    """Noised measures, by what each of them means (`MeasureMeaning.key`), and their grid."""

    meanings: tuple[str, ...]
    noised: Measurements
    grid: Grid | None = None

    def to_bytes(self) -> bytes:
        """Return it as JSON, a line, and then the numbers."""
        intervals = self.noised.weighted
        arrays = [self.noised.measures]
        head = {
            "meanings": self.meanings,
            "grid": None if self.grid is None else to_data(self.grid),
            "groups": self.noised.groups,
            "bins": [array.shape[1] for array in self.noised.measures],
            "bounds": list(map(float, self.noised.bounds)),
        }
        if intervals is not None:
            arrays += [intervals.lows, intervals.highs, intervals.noised, intervals.missing]
            head |= {
                "sigmas": list(map(float, intervals.sigmas)),
                "z": list(map(float, intervals.z)),
            }
            head["statistics"] = list(intervals.statistics)
            arrays += list(intervals.statistics.values())
        numbers = [np.ascontiguousarray(a, "<f8").tobytes() for some in arrays for a in some]
        return b"\n".join([json.dumps(head).encode(), b"".join(numbers)])

    @classmethod
    def from_bytes(cls, data: bytes) -> RecordedCells:
        """Return what `to_bytes` wrote; its keys are not kept."""
        text, _, numbers = data.partition(b"\n")
        head = json.loads(text)
        groups, bins = head["groups"], head["bins"]
        flat, at = np.frombuffer(numbers, "<f8"), 0

        def taken(size: int) -> Floats:
            nonlocal at
            at += size
            return flat[at - size : at]

        def one_a_measure() -> list[Floats]:
            return [taken(groups * size).reshape(groups, -1) for size in bins]

        measures, intervals = one_a_measure(), None
        if "z" in head:
            lows, highs, summed, missing = (one_a_measure() for _ in range(4))
            statistics = {
                (role, tuple(places), level): tuple(taken(groups) for _ in range(3))
                for role, places, level in head.get("statistics", ())
            }
            intervals = Intervals(
                lows, highs, summed, head["sigmas"], missing, head["z"], statistics
            )
        grid = head.get("grid")
        return cls(
            tuple(head["meanings"]),
            Measurements(measures, head["bounds"], (), groups, intervals),
            None if grid is None else from_data(grid),
        )

    def places(self, meanings: Sequence[str]) -> list[int] | None:
        """Return which of the measures are wanted, in their order; None: one is not there."""
        by_meaning = defaultdict(list)
        for place, meaning in enumerate(self.meanings):
            by_meaning[meaning].append(place)
        try:
            return [by_meaning[meaning].pop(0) for meaning in meanings]
        except IndexError:
            return None

    def of(self, places: Sequence[int], domains: Sequence[Domain]) -> Measurements:
        """Return some of the measures, in cells of these keys."""
        noised, intervals = self.noised, self.noised.weighted
        if intervals is not None:
            intervals = Intervals(
                [intervals.lows[i] for i in places],
                [intervals.highs[i] for i in places],
                [intervals.noised[i] for i in places],
                [intervals.sigmas[i] for i in places],
                [intervals.missing[i] for i in places],
                [intervals.z[i] for i in places],
                dict(intervals.told(places)),
            )
        return Measurements(
            [noised.measures[i] for i in places],
            [noised.bounds[i] for i in places],
            key_columns(domains),
            noised.groups,
            intervals,
        )


# -- sums of cells that a release has --------------------------------------------------------------

EXTRA = 1 / 50
_NORMAL = statistics.NormalDist()


@dataclass(frozen=True)
class DerivedAnswer:
    """An answer that follows from a release: noised, with its intervals.

    Attributes:
        noised: As an answer's own.
        beta: Of its intervals, all at once.
        noise: ± of the noise of each measure.
        sigmas: Of the noise of each measure, where it is largest.
        widths: Mean half-width of each measure's intervals.
    """

    noised: Measurements
    beta: float
    noise: tuple[float, ...]
    sigmas: tuple[float, ...]
    widths: tuple[float, ...]

    def within(self, part: float) -> bool:
        """Tell whether the noise of each measure is within a part of its values' mean."""
        means = [float(np.abs(values).mean()) for values in self.noised.measures]
        return all(n <= part * mean for n, mean in zip(self.noise, means, strict=True))


def derive_answer(
    query: Query, cells: RecordedCells, sums: Sequence[Sums], beta: float, noise: Sequence[Noise]
) -> DerivedAnswer:
    """Return the answer to a question as sums of a release's cells.

    Args:
        query: The question.
        cells: Of the release.
        sums: What each measure of the question is made of.
        beta: Of the release.
        noise: Of the measures of the release.
    """
    most = [max(map(len, one.groups)) for one in sums]
    if cells.noised.weighted is None:
        noised = _in_or_out(query, cells.noised, sums, most, beta, noise)
    else:
        whole = all(m == 1 for m in most)
        extra = 0.0 if whole else beta * EXTRA
        noised = _weight(query, cells.noised, cells.noised.weighted, sums, most, extra)
        beta += extra
    ends = [noised.ends(i) for i in range(len(sums))]
    return DerivedAnswer(
        noised,
        beta,
        tuple(map(float, noised.bounds)),
        tuple(noise[one.measure].sigma * math.sqrt(m) for one, m in zip(sums, most, strict=True)),
        tuple(float((high - low).mean()) / 2 for low, high in ends),
    )


def _in_or_out(
    query: Query,
    released: Measurements,
    sums: Sequence[Sums],
    most: Sequence[int],
    beta: float,
    noise: Sequence[Noise],
) -> Measurements:
    cells = sum(len(s.groups) * m.bins for s, m in zip(sums, query.measures, strict=True))
    bounds = [
        float(
            simultaneous_bound(
                noise[one.measure].sigma * math.sqrt(m),
                cells,
                beta,
                lattice_step=noise[one.measure].granularity * m,
            )
        )
        for one, m in zip(sums, most, strict=True)
    ]
    values = [_add(released.measures[one.measure], one) for one in sums]
    return Measurements(values, bounds, key_columns(query.domains), query.groups)


def _weight(
    query: Query,
    released: Measurements,
    intervals: Intervals,
    sums: Sequence[Sums],
    most: Sequence[int],
    extra: float,
) -> Measurements:
    z_sum = -_NORMAL.inv_cdf(extra / (2 * query.coordinates)) if extra else 0.0
    values, lows, highs, noised, sigmas, missing, z = ([] for _ in range(7))
    for measure, one, m in zip(query.measures, sums, most, strict=True):
        i = one.measure
        signed = measure.kind is Kind.SUM and (measure.bounds is None or measure.bounds[0] < 0)
        summed = _add(intervals.noised[i], one)
        low, high = _add(intervals.lows[i], one), _add(intervals.highs[i], one)
        size = np.array([len(places) for places in one.groups], np.float64)[:, None]
        noise = z_sum * intervals.sigmas[i] * np.sqrt(size)
        lacks = _add(intervals.missing[i], one) * np.sqrt(size)
        several = size > 1
        low = np.where(several, np.maximum(low, summed - noise - lacks * signed), low)
        high = np.where(several, np.minimum(high, summed + noise + lacks), high)
        high = np.maximum(low, high)
        again = _add(released.measures[i], one)
        if not signed:
            again = np.where(several, summed * _added_back(released, intervals, i), again)
        values.append(np.clip(np.where(several & signed, summed, again), low, high))
        lows.append(low)
        highs.append(high)
        noised.append(summed)
        missing.append(lacks)
        sigmas.append(intervals.sigmas[i] * math.sqrt(m))
        z.append(max(z_sum, intervals.z[i]) if m == 1 else z_sum)
    return Measurements(
        values,
        [a * b for a, b in zip(z, sigmas, strict=True)],
        key_columns(query.domains),
        query.groups,
        Intervals(lows, highs, noised, sigmas, missing, z),
    )


def _added_back(released: Measurements, intervals: Intervals, i: int) -> float:
    """Return by what the cells of a release were raised for what was cut: the same for all.

    Cells that are mostly noise went towards 0, which is right for each and wrong for their sum: it
    is read off the others, where there are any.
    """
    value, noised = released.measures[i], intervals.noised[i]
    there = noised > 0
    sure = there & ((intervals.highs[i] - intervals.lows[i]) / 2 <= value)
    of = sure if sure.any() else there
    return max(float(np.median(value[of] / noised[of])), 1.0) if of.any() else 1.0


def _add(cells: Floats, one: Sums) -> Floats:
    """Return sums of a release's groups, (groups of the question, bins)."""
    added: Floats = np.stack([cells[list(places)].sum(axis=0) for places in one.groups])
    return added
