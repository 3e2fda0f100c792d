"""The meaning of a question in any spelling, computed from the bound query and not from its text.

Two questions have the same meaning if they measure the same: rows of the same origin, in equal
regions, for the same keys, added up in the same way. Computations after the noise (names,
arithmetic, HAVING, ORDER BY, LIMIT) are not part of it. Two spellings of one question may count as
two questions, but two different questions never count as one.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from sparseq.base.defaults import CONFIDENCE, PRICE
from sparseq.language.types import Family
from sparseq.question.plan import Cell, Kind, Measure, Options, Query
from sparseq.reuse.grids import MOST_GROUPS, Grid, GridMeasure, additive, grid_key
from sparseq.reuse.regions import Region, bare, last_place, region_of


@dataclass(frozen=True)
class MeasureMeaning:
    """The values that one measure adds up.

    Attributes:
        adds: The amount that a row adds, and the way a user's rows are added up.
        region: The rows that are added up.
        noise: The facts that determine the size of the noise.
    """

    adds: str
    region: Region
    noise: str

    @property
    def key(self) -> str:
        """A text that is equal for measures with equal meaning."""
        return repr((self.adds, self.region.key, self.noise))


@dataclass(frozen=True)
class Meaning:
    """The meaning of a question.

    Attributes:
        origin: The source of the rows, before any condition on them.
        keys: For each group key, its expression and its public values.
        measures: The measures over the rows of all groups.
        grid: The cells, if rows come from one stored table and all keys' values are known.
        table: The stored table of all rows, in lower case; "": there are several.
    """

    origin: str
    keys: tuple[tuple[str, str], ...]
    measures: tuple[MeasureMeaning, ...]
    grid: Grid | None = None
    table: str = ""

    def last(self, column: str) -> float:
        """Return the last value that a column can have in its rows; infinite: unlimited."""
        times = [m.region.values.get(column) for m in self.measures]
        return max(map(last_place, times), default=math.inf)

    def digest(self, options: Options) -> str:
        """Return a 128-bit digest of the meaning with options (the query's own included)."""
        price = PRICE if options.price is None else options.price
        confidence = CONFIDENCE if options.confidence is None else options.confidence
        knobs = options.sigma, options.accuracy, options.precision, price
        measured = sorted(m.key for m in self.measures)
        asked = (self.origin, self.keys, measured, knobs, options.scale, confidence)
        told = repr(asked if options.interval is None else (*asked, options.interval))
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def meaning_of(query: Query) -> Meaning | None:
    """Return the meaning of a lowered question; None: the query has no such meaning."""
    if "meaning" not in query.derived:
        query.derived["meaning"] = _read_meaning(query)
    return query.derived["meaning"]  # type: ignore[no-any-return]


def _read_meaning(query: Query) -> Meaning | None:
    if query.comparisons or any(m.kind is Kind.DENSE for m in query.measures):
        return None
    relation = query.relation
    alone = bool(relation.stored) and not relation.joined and not relation.caps
    if alone:
        origin = repr(("rows of", relation.stored.lower()))
        region = region_of(relation.conditions)
    else:
        origin = repr((relation.sql, relation.user, [cap.sql for cap in relation.caps]))
        region = Region(conditions=frozenset([relation.where]))
    texts = [(d.position if d.key is None else d.key).sql for d in query.domains]
    keys = tuple(
        (bare(text) if alone else text, repr(d.values) + " and the rest" * d.rest)
        for text, d in zip(texts, query.domains, strict=True)
    )
    measures = tuple(_measure(m, region, alone) for m in query.measures)
    if not alone:
        return Meaning(origin, keys, measures)
    if any(m.role for m in query.measures):  # statistics of groups do not add up
        return Meaning(origin, keys, measures, None, relation.stored.lower())
    return Meaning(origin, keys, measures, _grid(query, origin, measures), relation.stored.lower())


def _grid(query: Query, origin: str, measures: tuple[MeasureMeaning, ...]) -> Grid | None:
    if query.groups > MOST_GROUPS:
        return None
    keys = [grid_key(domain) for domain in query.domains]
    plain = tuple(key for key in keys if key is not None)
    if len(plain) < len(keys):
        return None
    both = zip(query.measures, measures, strict=True)
    return Grid(origin, plain, tuple(GridMeasure(m.adds, m.region, additive(q)) for q, m in both))


def _measure(measure: Measure, where: Region, alone: bool) -> MeasureMeaning:
    def spelled(cell: Cell | None) -> str:
        return "" if cell is None else bare(cell.sql) if alone else cell.sql

    noise = repr((measure.scale, measure.step, measure.bounds, measure.integral))
    bins = measure.edges, spelled(measure.bin), *filter(None, [measure.role])
    term = None if measure.value is None else measure.value.term
    counts = measure.kind is not Kind.SUM
    if alone and counts and term is not None and term.type.family is Family.BOOLEAN:
        adds = repr((measure.kind.value, "", bins))
        return MeasureMeaning(adds, where.both(region_of([term])), noise)
    return MeasureMeaning(repr((measure.kind.value, spelled(measure.value), bins)), where, noise)
