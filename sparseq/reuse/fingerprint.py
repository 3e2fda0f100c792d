"""The fingerprint of a question, whatever its spelling: of the bound query, not of its text.

Two questions mean the same if they measure the same: rows of the same origin, in equal regions, for
the same keys, added up in the same way. What is computed from the noised measures afterwards
(names, arithmetic, HAVING, ORDER BY, LIMIT) is no part of it. Where this can't tell, two spellings
of one question are two questions, and never the other way round.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from sparseq.base.defaults import CONFIDENCE, PRICE
from sparseq.language.types import Family
from sparseq.reuse.answer_views import (
    MOST_GROUPS,
    Grid,
    GridMeasure,
    Region,
    additive,
    bare,
    grid_key,
    last_place,
    region_of,
)
from sparseq.sql.plan import Cell, Domain, Kind, Measure, Options, Query


@dataclass(frozen=True)
class MeasureMeaning:
    """What one measure adds up.

    Attributes:
        adds: What a row adds, and how a person's rows add up.
        region: Of which rows.
        noise: What its noise is measured against.
    """

    adds: str
    region: Region
    noise: str

    @property
    def key(self) -> str:
        """A text that measures share which mean the same."""
        return repr((self.adds, self.region.key, self.noise))


@dataclass(frozen=True)
class Meaning:
    """What a question asks.

    Attributes:
        origin: Where rows come from, before any condition on them.
        keys: Of each group key, what it is and its public values.
        measures: Of its rows in all groups.
        grid: Its cells, where rows are those of one stored table and all keys' values are known.
        table: The stored table that all rows are of, in small letters; "": they are of several.
    """

    origin: str
    keys: tuple[tuple[str, str], ...]
    measures: tuple[MeasureMeaning, ...]
    grid: Grid | None = None
    table: str = ""

    def last(self, column: str) -> float:
        """Return the last place that a column can have in its rows; infinite: any."""
        known = [m.region.values.get(column) for m in self.measures]
        return max(map(last_place, known), default=math.inf)

    def digest(self, options: Options) -> str:
        """Return 128 bits that stand for it, asked with options (the query's own included)."""
        price = PRICE if options.price is None else options.price
        confidence = CONFIDENCE if options.confidence is None else options.confidence
        knobs = options.sigma, options.accuracy, options.precision, price
        measured = sorted(m.key for m in self.measures)
        asked = (self.origin, self.keys, measured, knobs, options.scale, confidence)
        told = repr(asked if options.interval is None else (*asked, options.interval))
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def meaning_of(query: Query) -> Meaning | None:
    """Return what a lowered question asks; None: that is not in the query."""
    if query.comparisons or any(m.kind is Kind.DENSE for m in query.measures):
        return None
    relation = query.relation
    alone = bool(relation.stored) and not relation.lookups and not relation.caps
    if alone:
        origin = repr(("rows of", relation.stored.lower()))
        region = region_of(relation.conditions)
    else:
        origin = repr((relation.sql, relation.user, [cap.sql for cap in relation.caps]))
        region = Region(conditions=frozenset([relation.where]))
    keys = tuple(_key(domain, alone) for domain in query.domains)
    measures = tuple(_measure(m, region, alone) for m in query.measures)
    if not alone:
        return Meaning(origin, keys, measures)
    if any(m.role for m in query.measures):  # a statistic is no sum of those of some groups
        return Meaning(origin, keys, measures, None, relation.stored.lower())
    return Meaning(origin, keys, measures, _grid(query, origin, measures), relation.stored.lower())


def _grid(query: Query, origin: str, measures: tuple[MeasureMeaning, ...]) -> Grid | None:
    if query.groups > MOST_GROUPS:
        return None
    keys = [grid_key(domain) for domain in query.domains]
    known = tuple(key for key in keys if key is not None)
    if len(known) < len(keys):
        return None
    both = zip(query.measures, measures, strict=True)
    return Grid(origin, known, tuple(GridMeasure(m.adds, m.region, additive(q)) for q, m in both))


def _key(domain: Domain, alone: bool) -> tuple[str, str]:
    sql = domain.position.sql if domain.key is None else domain.key.sql
    return bare(sql) if alone else sql, repr(domain.values) + " and the rest" * domain.rest


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
