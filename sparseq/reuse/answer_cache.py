"""Answers that are known: the same question on the same data has one, free for everybody.

Nothing here looks at a person: it is post-processing of releases, found by what a question means,
its options and the epoch of the data. An ingest starts an epoch, of which earlier answers say
something as far as they stand. An erasure does not, else the next answer would tell of it: what was
released stays what it is, also of whoever was erased since, and is no new look at any row.

Answers that are joined from several releases, and what is left to ask for one.

Groups of a question that follow from different releases stand side by side: each keeps its
interval, and the answer's beta is the sum of the releases' (the union of what can go wrong). So few
ordinary releases can be joined; but what is left of a question whose other groups are known is
asked for with a small beta of its own, and its noise that of the known groups. A series that is
looked at each morning is paid for one day at a time.

Staleness of answers when rows have come: those about times of none of the rows stand.

Whoever brings rows may say since when they are (`Store.ingest`): rows that are not are left out,
one by one, so what was measured of earlier times is still so. That is told from what was said and
from the regions of questions alone, and no row is looked at for it.

The fingerprint of a question, whatever its spelling: of the bound query, not of its text.

Two questions mean the same if they measure the same: rows of the same origin, in equal regions, for
the same keys, added up in the same way. What is computed from the noised measures afterwards
(names, arithmetic, HAVING, ORDER BY, LIMIT) is no part of it. Where this can't tell, two spellings
of one question are two questions, and never the other way round.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from sparseq.accounting import Budget, Price
from sparseq.accounting.pilots.pilot_interval import IntervalKind
from sparseq.base.defaults import CONFIDENCE, PRICE, beta_at
from sparseq.base.errors import ParameterError
from sparseq.engine.protocol import quote
from sparseq.language.expression_tree import day_of
from sparseq.language.interval_arithmetic import Floats
from sparseq.language.types import Family
from sparseq.ledger.notes import Note, NoteTable
from sparseq.ledger.protocol import Ledger
from sparseq.released.outputs import Intervals, Measurements, Outputs
from sparseq.released.render import key_columns, render
from sparseq.reuse.answer_views import (
    EXTRA,
    LOOKED_THROUGH,
    MOST_GROUPS,
    Coverage,
    DerivedAnswer,
    Grid,
    GridMeasure,
    GridOf,
    Grids,
    RecordedCells,
    Region,
    additive,
    bare,
    derive_answer,
    find_covered,
    grid_key,
    last_place,
    region_of,
)
from sparseq.sql.catalog import Table
from sparseq.sql.plan import Cell, Domain, Kind, Measure, Noise, Options, Plan, Query
from sparseq.store.answer import Answer
from sparseq.store.answer_facts import Facts

# -- the fingerprint of a question -----------------------------------------------------------------


@dataclass(frozen=True)
class MeasureMeaning:
    """The values that one measure adds up.

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
    """The meaning of a question.

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
        times = [m.region.values.get(column) for m in self.measures]
        return max(map(last_place, times), default=math.inf)

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
    plain = tuple(key for key in keys if key is not None)
    if len(plain) < len(keys):
        return None
    both = zip(query.measures, measures, strict=True)
    return Grid(origin, plain, tuple(GridMeasure(m.adds, m.region, additive(q)) for q, m in both))


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


# -- answers that are joined from several releases, and what is left to ask for one ----------------

MOST_BETA = 1.2
"""Of a question's beta: what that of an answer that is joined may be."""
MOST_WIDTH = 1.25
"""Of the width that asking is expected to give: what the known groups may have of one that is."""
_KINDS = ("", *(str(kind) for kind in IntervalKind), "capped", "active")


@dataclass(frozen=True)
class Piece:
    """Some groups of a question, from one release."""

    release: int
    groups: tuple[int, ...]
    found: DerivedAnswer
    facts: Facts


Derive = Callable[[int, Coverage], Piece | None]
"""A release, and what it covers of a question: the piece, if it can be told with enough beta."""


def pieces_of(
    groups: int, candidates: Iterable[tuple[int, Coverage]], derive: Derive, beta: float
) -> list[Piece]:
    """Return pieces that cover as many groups as they can: the largest first, then the latest.

    Args:
        groups: Of the question.
        candidates: Releases, the latest first, and what they cover of it.
        derive: Makes a piece.
        beta: The most that all pieces may have together.
    """
    left, pieces = set(range(groups)), list[Piece]()
    waiting = [(release, covered) for release, covered in candidates if covered.groups]
    while left and waiting:
        sizes = [len(left.intersection(covered.groups)) for _, covered in waiting]
        best = int(np.argmax(sizes))
        if not sizes[best]:
            break
        release, covered = waiting.pop(best)
        piece = derive(release, covered.only(left))
        if piece is not None and piece.found.beta <= beta * (1 + 1e-9):
            beta -= piece.found.beta
            pieces.append(piece)
            left.difference_update(piece.groups)
    return pieces


def joined(query: Query, pieces: Sequence[Piece]) -> DerivedAnswer:
    """Return the answer to a question whose groups are all in one of the pieces.

    The pieces' own are of the same measures, in their order.
    """
    of = [piece.found.noised for piece in pieces]
    groups = [piece.groups for piece in pieces]

    def scattered(parts: Sequence[Sequence[Floats]]) -> list[Floats]:
        return [_scatter(query.groups, groups, some) for some in zip(*parts, strict=True)]

    bounds = [max(some) for some in zip(*(noised.bounds for noised in of), strict=True)]
    weighted = [noised.weighted for noised in of if noised.weighted is not None]
    intervals = None
    if len(weighted) == len(of):
        intervals = Intervals(
            scattered([k.lows for k in weighted]),
            scattered([k.highs for k in weighted]),
            scattered([k.noised for k in weighted]),
            [max(some) for some in zip(*(k.sigmas for k in weighted), strict=True)],
            scattered([k.missing for k in weighted]),
            [max(some) for some in zip(*(k.z for k in weighted), strict=True)],
        )
    noised = Measurements(
        scattered([n.measures for n in of]),
        bounds,
        key_columns(query.domains),
        query.groups,
        intervals,
    )
    ends = [noised.ends(i) for i in range(len(query.measures))]
    return DerivedAnswer(
        noised,
        sum(piece.found.beta for piece in pieces),
        tuple(map(float, bounds)),
        tuple(max(some) for some in zip(*(p.found.sigmas for p in pieces), strict=True)),
        tuple(float((high - low).mean()) / 2 for low, high in ends),
    )


def _scatter(groups: int, at: Sequence[Sequence[int]], parts: Sequence[Floats]) -> Floats:
    whole = np.zeros((groups, parts[0].shape[1]))
    for places, part in zip(at, parts, strict=True):
        whole[list(places)] = part
    return whole


def facts_of(pieces: Sequence[Piece]) -> Facts:
    """Return facts of the latest release, with the least sure interval of all pieces."""
    latest = max(pieces, key=lambda piece: piece.release).facts
    kinds = [piece.facts.interval for piece in pieces]
    parts = tuple(sorted({piece.release for piece in pieces}))
    return replace(latest, interval=max(kinds, key=_KINDS.index), parts=parts)


@dataclass(frozen=True)
class Rest:
    """The rest that is to be asked for a question, and how."""

    query: Query
    options: Options


def rest_of(query: Query, pieces: Sequence[Piece], beta: float) -> Rest | None:
    """Return what is left to ask where the pieces have most groups of a question; None: all of it.

    Left are all groups of some values of one key. They are asked with the noise of the others.
    """
    from sparseq.sql.aggregates import narrow

    if len(query.measures) != 1 or not isinstance(query.outputs, Outputs) or not pieces:
        return None
    spent = sum(piece.found.beta for piece in pieces)
    if spent + beta * EXTRA > MOST_BETA * beta:
        return None
    have = np.zeros(query.groups, np.bool_)
    for piece in pieces:
        have[list(piece.groups)] = True
    if have.all():  # wider than asking is: all of it is asked anew
        return None
    whole = have.reshape([len(domain.values) for domain in query.domains])
    for axis, domain in enumerate(query.domains):
        others = tuple(i for i in range(whole.ndim) if i != axis)
        answered: list[bool] = np.all(whole, axis=others).tolist()
        if 2 * sum(answered) < len(answered):
            continue
        values = [v for v, there in zip(domain.values, answered, strict=True) if not there]
        less = narrow(domain, values)
        if less is None or query.outputs.histogram is not None:
            continue
        domains = (*query.domains[:axis], less, *query.domains[axis + 1 :])
        listed = ", ".join(map(str, values))
        text = f"{query.text.rstrip().rstrip(';')} /* of {domain.name} only {listed} */"
        sigma = min(piece.found.sigmas[0] for piece in pieces)
        options = Options(sigma=sigma, confidence=1 - beta * EXTRA)
        asked = replace(query, text=text, domains=domains, options=Options())
        return Rest(asked, options)
    return None


# -- staleness of answers when rows have come: those about times of none of the rows stand ---------

_KEPT = 1024
_MICROSECONDS = 86_400_000_000


@dataclass(frozen=True)
class RowsCame:
    """Rows that came: public.

    Attributes:
        epoch: That began with them.
        table: To which.
        column: Its column of time, as regions spell it; "": they may be of any time.
        since: The first place of it that they can have: days or microseconds since 1970.
    """

    epoch: int
    table: str
    column: str = ""
    since: int = 0

    @classmethod
    def of(cls, epoch: int, table: Table, since: dt.date | None) -> RowsCame:
        """Return what is known of rows that come.

        Raises:
            ParameterError: Nothing follows from `since` in this table.
        """
        if since is None:
            return cls(epoch, table.name.lower())
        kind = table.column(table.time).type if table.time else ""
        if kind not in ("DATE", "TIMESTAMP"):
            raise ParameterError(
                f"{table.name} has no column of dates or times by which rows are laid out",
                "say time=… (--time) when the store is made, or leave out since",
            )
        if table.row_key:
            raise ParameterError(
                f"rows that come to {table.name} may replace earlier ones, so since says nothing",
                "leave out since",
            )
        place = day_of(since) * (1 if kind == "DATE" else _MICROSECONDS)
        return cls(epoch, table.name.lower(), bare(f'"t".{quote(table.time)}'), place)


class Standing:
    """The rows that came, of which the latest are kept.

    Args:
        arrivals: As `kept` gave them.
        epoch: Today's.
    """

    def __init__(self, arrivals: Any, epoch: int) -> None:
        self._arrivals = [RowsCame(**one) for one in arrivals or ()]
        self._first = epoch - len(self._arrivals)

    def after(self, arrival: RowsCame) -> Standing:
        """Return them with another."""
        kept = [*self.kept(), asdict(arrival)] if arrival.column else []
        return Standing(kept[-_KEPT:], arrival.epoch)

    def kept(self) -> list[dict[str, Any]]:
        """Return them as plain data."""
        return [asdict(one) for one in self._arrivals]

    @property
    def oldest(self) -> int:
        """The first epoch of which an answer may stand."""
        return self._first

    def open(self, epoch: int, table: str) -> dict[str, float] | None:
        """Return the first places, by column of time, that rows of a table came to after an epoch.

        What was measured then of rows before them is still so. None: nothing is.
        """
        if epoch < self._first:
            return None
        first_places: dict[str, float] = {}
        for one in self._arrivals:
            if one.epoch <= epoch or (table and table != one.table):
                continue
            if not (table and one.column):
                return None
            first_places[one.column] = min(one.since, first_places.get(one.column, math.inf))
        return first_places

    def holds(self, epoch: int, question: Meaning) -> bool:
        """Tell whether what was measured for a question in an epoch is still so."""
        places = self.open(epoch, question.table)
        return places is not None and all(question.last(c) < at for c, at in places.items())

    def groups(self, epoch: int, question: Meaning) -> list[int]:
        """Return the groups of a question for which that is so."""
        places = self.open(epoch, question.table)
        if places is None or question.grid is None:
            return []
        return [
            group
            for group, cells in enumerate(question.grid.cells())
            if all(last_place(cell.get(c)) < at for cell in cells for c, at in places.items())
        ]


# -- answers that are known: the same question on the same data has one, free for everybody --------

_REMEMBERED, _SMALL = 256, 1000  # answers that were asked for again lately, of so many rows
EPOCH = "epoch"
"""The fact that a ledger keeps of how often rows have arrived."""
ARRIVALS = "arrivals"
"""The fact that it keeps of which rows, as far as that is known (`Standing.kept`)."""
_INDEX = {"epoch": "BIGINT", "release": "BIGINT", "digest": "VARCHAR"}
_QUESTIONS = 1 << 10
"""That are held in memory; more than are staged at once. Older ones are looked up."""
MEANINGS = NoteTable("meanings", _INDEX)
"""Questions of each epoch, and the release that answered each: public."""
MEASURED = NoteTable("meanings", _INDEX | {"measured": "BLOB"})
"""The same, with what was measured: public."""


_JOINED = b""  # in place of what was measured: the release is the last part of the answer


@dataclass(frozen=True)
class Inquiry:
    """A question and what stands for it, with its options, among all of an epoch.

    Attributes:
        query, options, meaning, digest: The question, and what stands for it.
        whole: The question of which it is the rest: joined with what is known it answers that one.
    """

    query: Query
    options: Options
    meaning: Meaning
    digest: str
    whole: Inquiry | None = None

    @classmethod
    def of(
        cls, query: Query, options: Options | None, whole: Inquiry | None = None
    ) -> Inquiry | None:
        """Return a question by its meaning; None: what it asks is not in the query."""
        meaning = meaning_of(query)
        if meaning is None:
            return None
        options = (options or Options()).over(query.options)
        return cls(query, options, meaning, meaning.digest(options), whole)

    @property
    def names(self) -> tuple[str, ...]:
        """The name that stands for each of its measures."""
        return tuple(
            hashlib.sha256(m.key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
            for m in self.meaning.measures
        )


class Recall:
    """The answers of today's epoch, by what they are the answers to.

    Args:
        ledger: Has them.
        budget: The store's.
        losses: How often it has been opened although a part was missing: every answer says so.
    """

    def __init__(self, ledger: Ledger, budget: Budget, losses: int = 0) -> None:
        self._ledger, self._budget, self._losses = ledger, budget, losses
        self.epoch = int(ledger.fact(EPOCH) or 0)
        self.standing = Standing(ledger.fact(ARRIVALS), self.epoch)
        self._releases: OrderedDict[str, tuple[int, int]] | None = None
        self._all = True  # all releases that may stand are there, and not the latest alone
        self._latest: OrderedDict[tuple[str, str, int], Answer] = OrderedDict()
        self._grids: Grids | None = None
        self._covering: tuple[str, list[tuple[int, Coverage]]] | None = None

    def begin_epoch(self, arrival: RowsCame) -> None:
        """Know of the rows from now on what stands after others have come."""
        self._covering = None
        self.epoch, self.standing = arrival.epoch, self.standing.after(arrival)
        if self.standing.oldest == self.epoch:
            self._releases, self._all = OrderedDict(), True
            self._grids = Grids()

    def forget_latest(self) -> None:
        """Make answers anew of what was measured: what is shown of it has changed."""
        self._latest.clear()

    def release(self, question: Inquiry) -> int | None:
        """Return the release that answers a question, if there is one."""
        epoch, release = self._found().get(question.digest, (-1, None))
        if release is None and not self._all:
            rows = self._ledger.notes(MEANINGS, digest=question.digest).to_pylist()
            epoch, release = max(((r["epoch"], r["release"]) for r in rows), default=(-1, None))
        return release if self.standing.holds(epoch, question.meaning) else None

    def stands(self, question: Inquiry, release: int) -> bool:
        """Tell whether a release is still known to be the answer to a question; from any thread.

        Nothing is looked up in the ledger: False says nothing.
        """
        releases = self._releases
        epoch, latest = (-1, None) if not releases else releases.get(question.digest, (-1, None))
        return latest == release and self.standing.holds(epoch, question.meaning)

    def answer(self, question: Inquiry, release: int) -> Answer | None:
        """Return the recorded answer of a release to a question that means the same."""
        key = question.digest, question.query.text, release
        answer = self._latest.pop(key, None) or self._read(question, release)
        if answer is not None and len(answer) <= _SMALL:
            self._latest[key] = answer
            if len(self._latest) > _REMEMBERED:
                self._latest.popitem(last=False)
        return answer

    def _read(self, question: Inquiry, release: int) -> Answer | None:
        if self._ledger.notes(MEASURED, release=release, digest=question.digest)[
            "measured"
        ].to_pylist() == [_JOINED]:
            return self._joined_before(question, release)
        measured, query = self._cells(release), question.query
        places = measured.places(question.names)
        if places is None:
            return None
        facts = Answer.from_bytes(self._ledger.read(release).answer).facts
        noised = measured.of(places, query.domains)
        facts = replace(
            facts,
            query=query.text,
            request_id=None,
            repeated=True,
            losses=self._losses,
            labels=tuple(m.label for m in query.measures),
            kinds=tuple(m.kind.value for m in query.measures),
            sigma=tuple(facts.sigma[i] for i in places),
            granularity=tuple(facts.granularity[i] for i in places),
            scale=tuple(facts.scale[i] for i in places),
            notes=query.left_out,
        )
        return Answer(render(self._plan(query, facts), noised), facts)

    def _joined_before(self, question: Inquiry, release: int) -> Answer | None:
        """Return the answer that a release, as the last of several, was joined to."""
        earlier = [one for one in self._candidates(question) if one[0] <= release]
        pieces = self._pieces(question, earlier, lambda: None)
        answer = self.joined(question, pieces, lambda _: True)
        if answer is None:
            return None
        return Answer(answer.arrow(), replace(answer.facts, follows=False, repeated=True))

    def notes(self, question: Inquiry, release: int, noised: Measurements) -> tuple[Note, ...]:
        """Return what is to be written with a release that answers a question."""
        cells = RecordedCells(question.names, noised, question.meaning.grid).to_bytes()
        written = [(question.digest, cells)]
        if question.whole is not None:
            written.append((question.whole.digest, _JOINED))
        return tuple(
            MEASURED.rows(epoch=self.epoch, release=release, digest=digest, measured=measured)
            for digest, measured in written
        )

    def remember(self, question: Inquiry, release: int) -> None:
        """Know a release, from now on, as the answer to a question."""
        self._covering = None
        self._remember(question.digest, release)
        if question.meaning.grid is not None:
            self._gridded().add(GridOf(self.epoch, release, question.meaning.grid))
        if question.whole is not None:
            self._remember(question.whole.digest, release)

    def following(
        self, question: Inquiry, fits: Callable[[DerivedAnswer], bool], flush: Callable[[], None]
    ) -> Answer | None:
        """Return the narrowest answer that follows from the latest releases, if one fits.

        From one release, if it follows from one; else from several.

        Args:
            question: Nothing follows for it where a scale, price, sigma or accuracy is given.
            fits: Tells whether such an answer will do.
            flush: Makes what is staged durable; called before such a release is read.
        """
        candidates, groups = self._candidates(question), question.query.groups
        whole = [(r, c) for r, c in candidates if len(c.groups) == groups]
        pieces_of_one = [self._piece(question, r, c, flush) for r, c in whole]
        derivable = [piece for piece in pieces_of_one if piece is not None]
        best = min(derivable, key=lambda piece: sum(piece.found.widths), default=None)
        if best is not None:
            return (
                self._follows(question.query, best.found, best.facts) if fits(best.found) else None
            )
        pieces = self._pieces(question, candidates, flush)
        return self.joined(question, pieces, fits)

    def rest(
        self, question: Inquiry, fits: Callable[[DerivedAnswer], bool], flush: Callable[[], None]
    ) -> tuple[list[Piece], Inquiry] | None:
        """Return what is known of a question, and what is left to ask; None: ask all of it.

        What is left, once answered, is known to cover all groups that are not: so it is never
        asked in vain. (A group that no row can be in follows from nothing.)
        """
        pieces = self._pieces(question, self._candidates(question), flush)
        left = rest_of(question.query, pieces, beta_at(question.options.confidence))
        if left is None or not all(fits(piece.found) for piece in pieces):
            return None
        rest = Inquiry.of(left.query, left.options, question)
        missing = set(range(question.query.groups)).difference(*(p.groups for p in pieces))
        if rest is None or not missing.issubset(_cover(question, rest).groups):
            return None
        return pieces, rest

    def completed(
        self,
        question: Inquiry,
        pieces: Sequence[Piece],
        rest: Inquiry,
        facts: Facts,
        noised: Measurements,
    ) -> Answer:
        """Return the answer to a question from its pieces and the answer to the rest of it.

        Args:
            question: The whole question.
            pieces, rest: From `rest`.
            facts, noised: Of the answer to the rest, which need not be charged yet.
        """
        parts = _cover(question, rest)
        cells = RecordedCells(rest.names, noised, rest.meaning.grid)
        last = self._derive(question, parts, facts, cells)
        whole = self.joined(question, [*pieces, last], lambda _: True)
        assert whole is not None  # `rest` has made sure
        return Answer(whole.arrow(), replace(whole.facts, follows=False))

    def joined(
        self, question: Inquiry, pieces: Sequence[Piece], fits: Callable[[DerivedAnswer], bool]
    ) -> Answer | None:
        """Return the answer that pieces make up, if they are all of it and it fits."""
        query = question.query
        if not pieces or sum(len(piece.groups) for piece in pieces) < query.groups:
            return None
        answer = joined(query, pieces)
        return self._follows(query, answer, facts_of(pieces)) if fits(answer) else None

    def _candidates(self, question: Inquiry) -> list[tuple[int, Coverage]]:
        """Return the latest releases that cover something of a question, the latest first."""
        asked = f"{question.digest} {question.query.text}"
        if self._covering is None or self._covering[0] != asked:
            self._covering = asked, self._covering_now(question)
        return self._covering[1]

    def _covering_now(self, question: Inquiry) -> list[tuple[int, Coverage]]:
        grid, options = question.meaning.grid, question.options
        own = options.scale, options.sigma, options.accuracy
        if grid is None or own != (None,) * 3 or options.price not in (None, 1.0):
            return []
        stand: dict[int, list[int]] = {}
        covering = []
        for earlier in self._gridded().like(grid):
            if earlier.epoch not in stand:
                stand[earlier.epoch] = self.standing.groups(earlier.epoch, question.meaning)
            if stand[earlier.epoch]:
                parts = find_covered(grid, earlier.grid).only(stand[earlier.epoch])
                covering.append((earlier.release, parts))
        return [(release, parts) for release, parts in covering if parts.groups]

    def _pieces(
        self,
        question: Inquiry,
        candidates: Sequence[tuple[int, Coverage]],
        flush: Callable[[], None],
    ) -> list[Piece]:
        most = MOST_BETA * beta_at(question.options.confidence)

        def derive(release: int, parts: Coverage) -> Piece | None:
            return self._piece(question, release, parts, flush)

        return pieces_of(question.query.groups, candidates, derive, most)

    def _piece(
        self, question: Inquiry, release: int, parts: Coverage, flush: Callable[[], None]
    ) -> Piece | None:
        """Return what follows from a release; None: it is less sure than the question is to be."""
        if release >= self._ledger.next_id:
            flush()
        facts = Answer.from_bytes(self._ledger.read(release).answer).facts
        if 1 - facts.confidence > beta_at(question.options.confidence) * (1 + 1e-9):
            return None
        return self._derive(question, parts, facts, self._cells(release))

    def _derive(
        self, question: Inquiry, parts: Coverage, facts: Facts, cells: RecordedCells
    ) -> Piece:
        beta = 1 - facts.confidence
        answer = derive_answer(question.query, cells, parts.sums, beta, self._noise(facts))
        facts = replace(
            facts,
            granularity=tuple(facts.granularity[one.measure] for one in parts.sums),
            scale=tuple(facts.scale[one.measure] for one in parts.sums),
        )
        return Piece(facts.release, parts.groups, answer, facts)

    def _follows(self, query: Query, answer: DerivedAnswer, facts: Facts) -> Answer:
        facts = replace(
            facts,
            query=query.text,
            request_id=None,
            follows=True,
            losses=self._losses,
            labels=tuple(m.label for m in query.measures),
            kinds=tuple(m.kind.value for m in query.measures),
            sigma=answer.sigmas,
            coordinates=query.coordinates,
            confidence=1 - answer.beta,
            notes=query.left_out,
        )
        return Answer(render(self._plan(query, facts), answer.noised), facts)

    def _cells(self, release: int) -> RecordedCells:
        rows = self._ledger.notes(MEASURED, release=release)["measured"].to_pylist()
        (data,) = (row for row in rows if row != _JOINED)
        return RecordedCells.from_bytes(data)

    def _gridded(self) -> Grids:
        """Return the grids of the latest releases that may stand."""
        if self._grids is None:
            self._grids = Grids()
            for row in self._latest_notes(LOOKED_THROUGH, MEASURED):
                joined = row["measured"] == _JOINED
                grid = None if joined else RecordedCells.from_bytes(row["measured"]).grid
                if grid is not None:
                    self._grids.add(GridOf(row["epoch"], row["release"], grid))
        return self._grids

    def _found(self) -> OrderedDict[str, tuple[int, int]]:
        """Return epochs and releases of the latest by their questions."""
        if self._releases is None:
            rows = self._latest_notes(_QUESTIONS + 1)
            self._all = len(rows) <= _QUESTIONS
            latest = rows[-_QUESTIONS:]
            self._releases = OrderedDict((r["digest"], (r["epoch"], r["release"])) for r in latest)
        return self._releases

    def _latest_notes(self, many: int, table: NoteTable = MEANINGS) -> list[dict[str, Any]]:
        """Return the latest of the notes that may stand, oldest first."""
        notes: list[dict[str, Any]] = []
        for epoch in range(self.epoch, self.standing.oldest - 1, -1):
            rows = self._ledger.notes(table, latest=many - len(notes), epoch=epoch)
            notes = rows.to_pylist() + notes
            if len(notes) >= many:
                break
        return notes

    def _remember(self, digest: str, release: int) -> None:
        releases = self._found()
        releases.pop(digest, None)
        releases[digest] = self.epoch, release
        if len(releases) > _QUESTIONS:
            releases.popitem(last=False)
            self._all = False

    def _plan(self, query: Query, facts: Facts) -> Plan:
        return Plan(query, self._noise(facts), 1 - facts.confidence)

    def _noise(self, facts: Facts) -> tuple[Noise, ...]:
        parts = zip(facts.sigma, facts.granularity, facts.scale, strict=True)
        return tuple(Noise(s, g, c, g, Price.of(s, g, self._budget)) for s, g, c in parts)


def _cover(question: Inquiry, rest: Inquiry) -> Coverage:
    """Return the groups of a question that follow from the answer to the rest of it."""
    if question.meaning.grid is None or rest.meaning.grid is None:
        return Coverage((), ())
    return find_covered(question.meaning.grid, rest.meaning.grid)
