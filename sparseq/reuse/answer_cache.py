"""Recorded answers: the same question on the same data has one answer, free for all users.

This module reads no user's data: it post-processes releases, which it finds by the meaning of a
question, its options and the epoch of the data. An ingest starts an epoch; earlier answers are kept
if they are still valid. An erasure starts no epoch, because the next answer would reveal it:
releases stay unchanged, even about users who were erased since, and reading them reads no row.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparseq.accounting import Budget, Price
from sparseq.accounting.pilots.sample_quantiles import median
from sparseq.answers.answer import Answer
from sparseq.answers.answer_facts import Facts
from sparseq.base.defaults import beta_at
from sparseq.ledger.notes import Note, NoteTable
from sparseq.ledger.protocol import ReleaseArchive
from sparseq.question.plan import Noise, Options, Plan, Query
from sparseq.released.group_notes import group_notes
from sparseq.released.outputs import Measurements
from sparseq.released.render import render
from sparseq.reuse.derived_answers import DerivedAnswer, derive_answer
from sparseq.reuse.grids import Coverage, find_covered
from sparseq.reuse.joined_answers import MOST_BETA, Piece, facts_of, joined, pieces_of, rest_of
from sparseq.reuse.latest_grids import LOOKED_THROUGH, GridOf, Grids
from sparseq.reuse.question_meanings import Meaning, meaning_of
from sparseq.reuse.recorded_cells import RecordedCells
from sparseq.reuse.staleness import RowsCame, Standing

# the number of answers kept in memory, and their maximum number of rows
_REMEMBERED, _SMALL = 256, 1000
EPOCH = "epoch"
"""The fact that counts the loads of rows."""
ARRIVALS = "arrivals"
"""The fact that holds the known loads (`Standing.kept`)."""
_INDEX = {"epoch": "BIGINT", "release": "BIGINT", "digest": "VARCHAR"}
_FEW, _NOTES_EACH = 64, 2
"""The most new releases that are read one by one, and the most notes of one release."""
_QUESTIONS = 1 << 10
"""The maximum number of questions in memory; it exceeds the number that are staged together. Older
ones are looked up in the ledger.
"""
MEANINGS = NoteTable("meanings", _INDEX)
"""Questions of each epoch, with the release that answered each: public."""
MEASURED = NoteTable("meanings", _INDEX | {"measured": "BLOB"})
"""The same, with the measured cells: public."""


_JOINED = b""  # replaces the cells: the release is the last part of a joined answer


@dataclass(frozen=True)
class MeasuredBefore:
    """Numbers of a recorded answer that predict the effect of another price: public.

    Attributes:
        scales: C of each measure, in its unit.
        values: The mean absolute value of each measure over its groups.
        half_widths: The median half-width of each measure's intervals.
        price: The price of the answer.
    """

    scales: tuple[float, ...]
    values: tuple[float, ...]
    half_widths: tuple[float, ...]
    price: float


@dataclass(frozen=True)
class Inquiry:
    """A question with its options, and its digest among all questions of an epoch.

    Attributes:
        query, options, meaning, digest: The question, and its identification.
        whole: The whole question if this one is a rest: its answer, joined with known groups,
            answers the whole question.
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
        """Return a question with its meaning; None: the query has no such meaning."""
        meaning = meaning_of(query)
        if meaning is None:
            return None
        options = (options or Options()).over(query.options)
        return cls(query, options, meaning, meaning.digest(options), whole)

    @property
    def names(self) -> tuple[str, ...]:
        """The text that identifies each measure."""
        return tuple(
            hashlib.sha256(m.key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
            for m in self.meaning.measures
        )


class Recall:
    """The answers of the current epoch, by question.

    Args:
        ledger: The ledger that keeps them.
        budget: The store's budget.
        losses: The number of openings without a part of the store: every answer reports it.

    Attributes:
        changes: The number of loads of rows, and of changes to the presentation of answers, since
            it was made.
    """

    def __init__(self, ledger: ReleaseArchive, budget: Budget, losses: int = 0) -> None:
        self._ledger, self._budget, self._losses = ledger, budget, losses
        self.changes = 0
        self._read_anew()

    def _read_anew(self) -> None:
        """Reset all state, which is loaded from the ledger when needed."""
        self._seen = self._ledger.next_id - 1
        self.epoch = int(self._ledger.fact(EPOCH) or 0)
        self.standing = Standing(self._ledger.fact(ARRIVALS), self.epoch)
        self._releases: OrderedDict[str, tuple[int, int]] | None = None
        self._all = True  # all releases that may be valid are in memory, not only the latest
        self._latest: OrderedDict[tuple[str, str, int], Answer] = OrderedDict()
        self._grids: Grids | None = None
        self._covering: tuple[str, list[tuple[int, Coverage]]] | None = None

    def catch_up(self) -> None:
        """Read the answers that another `Recall` of the same store has recorded since."""
        seen, epoch = self._seen, int(self._ledger.fact(EPOCH) or 0)
        new = self._ledger.next_id - 1 - seen
        if epoch != self.epoch or not 0 <= new <= _FEW:
            self._read_anew()
            return
        self._seen, self._covering = seen + new, None
        rows = self._ledger.notes(MEASURED, latest=_NOTES_EACH * new).to_pylist() if new else []
        for row in rows:
            if not seen < row["release"] <= self._seen:
                continue
            if self._releases is not None:
                self._remember(row["digest"], row["release"])
            if self._grids is not None:
                self._add_grid(self._grids, row)

    def begin_epoch(self, arrival: RowsCame) -> None:
        """Record a load of rows: later calls know which answers are still valid."""
        self._covering = None
        self.changes += 1
        self.epoch, self.standing = arrival.epoch, self.standing.after(arrival)
        if self.standing.oldest == self.epoch:
            self._releases, self._all = OrderedDict(), True
            self._grids = Grids()

    def forget_latest(self) -> None:
        """Rebuild answers from the measured cells: their presentation has changed."""
        self.changes += 1
        self._latest.clear()

    def release(self, question: Inquiry) -> int | None:
        """Return the valid release that answers a question, or None."""
        epoch, release = self._found().get(question.digest, (-1, None))
        if release is None and not self._all:
            rows = self._ledger.notes(MEANINGS, digest=question.digest).to_pylist()
            epoch, release = max(((r["epoch"], r["release"]) for r in rows), default=(-1, None))
        return release if self.standing.holds(epoch, question.meaning) else None

    def stands(self, question: Inquiry, release: int) -> bool:
        """Tell whether a release is still the known answer to a question; safe in any thread.

        It does not search the ledger: False means unknown.
        """
        releases = self._releases
        epoch, latest = (-1, None) if not releases else releases.get(question.digest, (-1, None))
        return latest == release and self.standing.holds(epoch, question.meaning)

    def answer(self, question: Inquiry, release: int) -> Answer | None:
        """Return the recorded answer of a release to a question with the same meaning."""
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
        return _answer(self._plan(query, facts), noised, facts)

    def measured(self, question: Inquiry) -> MeasuredBefore | None:
        """Return the scales, values and half-widths of the recorded answer, or None."""
        release = self.release(question)
        if release is None or release >= self._ledger.next_id:
            return None
        notes = self._ledger.notes(MEASURED, release=release, digest=question.digest)
        if _JOINED in notes["measured"].to_pylist():
            return None
        cells = self._cells(release)
        places = cells.places(question.names)
        if places is None:
            return None
        noised = cells.of(places, question.query.domains)
        facts = Answer.from_bytes(self._ledger.read(release).answer).facts
        means = tuple(float(np.abs(values).mean()) for values in noised.measures)
        ends = [noised.ends(i) for i in range(len(noised.measures))]
        widths = tuple(median(high - low) / 2 for low, high in ends)
        return MeasuredBefore(tuple(facts.scale[i] for i in places), means, widths, facts.price)

    def _joined_before(self, question: Inquiry, release: int) -> Answer | None:
        """Return the joined answer whose last part is a release."""
        earlier = [one for one in self._candidates(question) if one[0] <= release]
        pieces = self._pieces(question, earlier, lambda: None)
        answer = self.joined(question, pieces, lambda _: True)
        if answer is None:
            return None
        return Answer(answer.arrow(), replace(answer.facts, follows=False, repeated=True))

    def notes(self, question: Inquiry, release: int, noised: Measurements) -> tuple[Note, ...]:
        """Return the notes to write with a release that answers a question."""
        cells = RecordedCells(question.names, noised, question.meaning.grid).to_bytes()
        written = [(question.digest, cells)]
        if question.whole is not None:
            written.append((question.whole.digest, _JOINED))
        return tuple(
            MEASURED.rows(epoch=self.epoch, release=release, digest=digest, measured=measured)
            for digest, measured in written
        )

    def remember(self, question: Inquiry, release: int) -> None:
        """Record a release as the answer to a question."""
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

        It follows from one release if possible, otherwise from several.

        Args:
            question: A question with a scale, price, sigma or accuracy never follows.
            fits: Tells whether such an answer is acceptable.
            flush: Makes staged releases durable; called before it reads such a release.
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
        """Return the known part of a question, and the part to ask; None: ask the whole question.

        The answer to the part completes all unknown groups, so that its charge is never wasted. (A
        group without possible rows follows from nothing.)
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
        """Return the answer to a question from its pieces and the answer to its rest.

        Args:
            question: The whole question.
            pieces, rest: From `rest`.
            facts, noised: The answer to the rest, which may not be charged yet.
        """
        parts = _cover(question, rest)
        cells = RecordedCells(rest.names, noised, rest.meaning.grid)
        last = self._derive(question, parts, facts, cells)
        whole = self.joined(question, [*pieces, last], lambda _: True)
        assert whole is not None  # `rest` has checked this
        return Answer(whole.arrow(), replace(whole.facts, follows=False))

    def joined(
        self, question: Inquiry, pieces: Sequence[Piece], fits: Callable[[DerivedAnswer], bool]
    ) -> Answer | None:
        """Return the joined answer of pieces if they are complete and it fits."""
        query = question.query
        if not pieces or sum(len(piece.groups) for piece in pieces) < query.groups:
            return None
        answer = joined(query, pieces)
        return self._follows(query, answer, facts_of(pieces)) if fits(answer) else None

    def _candidates(self, question: Inquiry) -> list[tuple[int, Coverage]]:
        """Return the latest releases that cover a part of the question, the latest first."""
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
        """Return the answer that follows from a release; None: its confidence is too low."""
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
        return _answer(self._plan(query, facts), answer.noised, facts)

    def _cells(self, release: int) -> RecordedCells:
        rows = self._ledger.notes(MEASURED, release=release)["measured"].to_pylist()
        (data,) = (row for row in rows if row != _JOINED)
        return RecordedCells.from_bytes(data)

    def _gridded(self) -> Grids:
        """Return the grids of the latest valid releases."""
        if self._grids is None:
            self._grids = Grids()
            for row in self._latest_notes(LOOKED_THROUGH, MEASURED):
                self._add_grid(self._grids, row)
        return self._grids

    def _add_grid(self, grids: Grids, note: dict[str, Any]) -> None:
        joined = note["measured"] == _JOINED
        grid = None if joined else RecordedCells.from_bytes(note["measured"]).grid
        if grid is not None:
            grids.add(GridOf(note["epoch"], note["release"], grid))

    def _found(self) -> OrderedDict[str, tuple[int, int]]:
        """Return epochs and releases of the latest answers, by question."""
        if self._releases is None:
            rows = self._latest_notes(_QUESTIONS + 1)
            self._all = len(rows) <= _QUESTIONS
            latest = rows[-_QUESTIONS:]
            self._releases = OrderedDict((r["digest"], (r["epoch"], r["release"])) for r in latest)
        return self._releases

    def _latest_notes(self, many: int, table: NoteTable = MEANINGS) -> list[dict[str, Any]]:
        """Return the latest valid notes, oldest first."""
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
    """Return the groups of a question that follow from the answer to its rest."""
    if question.meaning.grid is None or rest.meaning.grid is None:
        return Coverage((), ())
    return find_covered(question.meaning.grid, rest.meaning.grid)


def _answer(plan: Plan, noised: Measurements, facts: Facts) -> Answer:
    """Return the answer from noised cells, with the notes about its groups."""
    notes = (*facts.notes, *group_notes(plan, noised))
    return Answer(render(plan, noised), replace(facts, notes=notes))
