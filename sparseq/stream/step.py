"""Algorithm 2 of Feldman & Zrnic (2021), one step per query, with the mechanism of Corollary 4.7.

A step computes contributions, charges, exact sums and exact noise, commits durably, and only then
returns the answer.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sparseq.accounting import UNITS_PER_NORM, budget_units
from sparseq.answers.answer import Answer, Facts
from sparseq.base.cancellation import check
from sparseq.base.errors import (
    ParameterError,
    QueryCancelError,
    QueryRefused,
)
from sparseq.base.private import Private
from sparseq.engine.cells import contributions_from, with_total
from sparseq.engine.contributions import Contributions
from sparseq.engine.protocol import Engine
from sparseq.ledger.accounts import Accounts, Index, Ints
from sparseq.ledger.departures import Departures
from sparseq.ledger.notes import Fact, Note
from sparseq.ledger.pots import Pot, Pots
from sparseq.ledger.protocol import Ledger
from sparseq.ledger.purposes import name_of
from sparseq.ledger.releases import Entry
from sparseq.ledger.request_id import RequestId, requested
from sparseq.ledger.series_users import held
from sparseq.mechanisms import SYSTEM_ENTROPY, Entropy, rounded_gaussian
from sparseq.mechanisms.entropy import for_release
from sparseq.question.catalog import Table
from sparseq.question.plan import Options, Plan, Query, calibrate
from sparseq.released.group_notes import group_notes
from sparseq.released.outputs import Measurements
from sparseq.released.render import render
from sparseq.reuse.answer_cache import ARRIVALS, EPOCH, Inquiry, Recall
from sparseq.reuse.joined_answers import MOST_WIDTH
from sparseq.reuse.staleness import RowsCame
from sparseq.stream.budget_part import BudgetPart, budget_parts
from sparseq.stream.draft import (
    Draft,
    difference_line,
    facts_of,
    in_unit,
    most_charge,
    release_of,
    rests_on,
)
from sparseq.stream.full_payer import FullPayer
from sparseq.stream.participation import Participation, Terms
from sparseq.stream.public_questions import Lower, PublicQuestions
from sparseq.stream.release_charges import Bill, admit
from sparseq.stream.side_reads import Readings
from sparseq.stream.stream_progress import Course

if TYPE_CHECKING:
    from sparseq.accounting.pilots.pooled_pilots import Pool
    from sparseq.stream.node_sums import MeasuredNodes, Node, PlannedCosts
    from sparseq.stream.question_price import QuestionPrice


_NOBODY = np.zeros(0, np.int32)
_KEPT = "what is asked before it was charged, and is free from now on"

Asked = RequestId | str | None
Mechanism = Callable[[Plan, Sequence[Ints], Entropy], Sequence[Ints]]
"""Maps exact sums to released sums: integers in lattice steps, one array per measure."""


class Stream(PublicQuestions):
    """The stream of queries of one store, with one engine and one ledger.

    Threads may share it; it answers queries one after the other. Its members are for the curator
    and for parts of sparseq, because accounts are private.

    Args:
        engine: Computes the users' contributions.
        ledger: Keeps the users' charges.
        terms: The terms of every answer.
        lower: Lowers the text of a question again, with the answers to the first of the questions
            that must be asked before it.
        check: Raises if the store accepts no question now; called with the lock held.
        abandon: Called when memory may differ from the durable state, to refuse further questions.

    Attributes:
        lock: Gives its holder exclusive use of the stream.
        half_done: A step was interrupted while memory may differ from the durable state.
        parts: The parts of each user's budget, by pot.
        differences: Number of times since opening that a user's rows, evaluated alone, gave another
            contribution than among all rows: private.
    """

    def __init__(
        self,
        engine: Engine,
        ledger: Ledger,
        terms: Terms,
        lower: Lower,
        check: Callable[[], None] = lambda: None,
        abandon: Callable[[], None] = lambda: None,
    ) -> None:
        self.engine, self.ledger, self.terms = engine, ledger, terms
        self.lower_again, self._check, self._abandon = lower, check, abandon
        self.lock = threading.RLock()
        self.half_done = False
        self.parts = budget_parts(ledger, terms)
        series_pots = {p.name: Pot(p.answers) for p in self.pots.purposes}
        for series, users, units in held(ledger):
            self.pots[series_pots.get(series, Pot.QUERIES)].hold(series, users, units)
        self.recall = Recall(ledger, terms.budget, terms.losses)
        self._staged: list[Entry] = []  # charged, not yet durable; empty unless the lock is held
        self._readings: Readings | None = None
        self.staged_bytes = 0  # about what the next transaction will write
        self.differences = 0

    @property
    def accounts(self) -> Accounts:
        """The accounts that pay for queries: private."""
        return self.pots[Pot.QUERIES]

    @property
    def pots(self) -> Pots:
        """The accounts of every pot: private."""
        return self.ledger.pots

    @property
    def departures(self) -> Departures:
        """The users left out of a query, and the first such query of each: private."""
        return self.ledger.departures

    @property
    def people(self) -> Private[int]:
        """Number of users with an account."""
        return Private(len(self.pots))

    @property
    def next_release(self) -> int:
        """The number of the next release."""
        return self.ledger.next_id + len(self._staged)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock, after a check that the stream accepts questions."""
        with self.lock:
            self._check()
            yield

    def contributions(self, plan: Plan) -> Contributions:
        """Return all users' contributions to a plan: private."""
        check()
        if self._readings is not None:
            return self._readings.contributions(self.engine, plan, self.people.inside())
        return self.engine.contributions(plan, self.people.inside())

    def _foresee(self, query: Query, price: QuestionPrice) -> None:
        """Have a long question's rows read outside the stream, before any noise is drawn."""
        if self._readings is not None and self.engine.reads_long(query):
            for asked, beta in price.foreseen:
                self._readings.need(self.engine, asked.before(beta))

    @contextlib.contextmanager
    def reading_from(self, readings: Readings | None) -> Iterator[None]:
        """Serve one question's long reads from readings that were made outside the stream."""
        self._readings = readings
        if readings is not None:
            readings.noised = False
        try:
            yield
        finally:
            self._readings = None

    def ask(
        self,
        query: Query,
        options: Options | None = None,
        request_id: Asked = None,
        fresh: bool = False,
        pot: Pot = Pot.QUERIES,
    ) -> Answer:
        """Answer one query that the engine evaluates: see `Store.ask`."""
        with self.lock:
            self.flush()  # entries that an interrupt left
            request, options = requested(request_id), options or Options()
            recorded = self.recorded(query, options, request, fresh)
            if recorded is not None:
                return recorded
            try:
                answer = self.asked(query, options, request, fresh, pot)
            except (QueryRefused, ParameterError, QueryCancelError):
                self.flush()  # the questions that were asked before it
                raise
            self.flush()
            return answer

    def asked(
        self,
        query: Query,
        options: Options,
        request: RequestId | None,
        fresh: bool,
        pot: Pot = Pot.QUERIES,
        in_turn: bool = False,
    ) -> Answer:
        """Answer a question without a recorded answer; answers to most groups may be known.

        This method also asks the questions that must come first; they stay charged if this question
        is then refused or cancelled. The answer, or an error, may leave only after `flush`.
        """
        if query.first:
            return self._asked_in_turn(query, options, request, fresh, pot)
        known = None if fresh or request is not None else Inquiry.of(query, options)
        left = None
        if known is not None and known.options.wish is None:
            fits = partial(self.fits, known, wider=MOST_WIDTH)
            left = self.recall.rest(known, fits, self.flush)
        if known is None or left is None:
            question = Inquiry.of(query, options)
            return self._stage(self._draft(query, options, request, question, pot, in_turn))
        pieces, rest = left
        draft = self._draft(rest.query, rest.options, None, rest)
        whole = self.recall.completed(known, pieces, rest, draft.answer.facts, draft.noised)
        self._stage(draft)
        return whole

    def _asked_in_turn(
        self, query: Query, options: Options, request: RequestId | None, fresh: bool, pot: Pot
    ) -> Answer:
        """Answer a question after the questions that must be asked before it."""
        before = self.next_release
        try:
            in_turn = bool(self.known_first(query, options).first)
            query = self._after_first(query, options, pot)
            known = None if fresh or request is not None else self.known(query, options)
            if known is not None:
                return known
            return self.asked(query, options, request, fresh, pot, in_turn)
        except (QueryRefused, ParameterError, QueryCancelError) as error:
            if before < self.next_release:
                error.message = f"{error.message.partition('; nothing was charged')[0]}; {_KEPT}"
            raise

    def _after_first(self, query: Query, options: Options, pot: Pot) -> Query:
        """Return a question with the numbers of its preceding questions; ask these if necessary.

        If any of these must be refused, the refusal comes before the first is asked. The release of
        one is durable before the next reads a row: otherwise a number that slows or ends the next
        evaluation would reveal itself without a charge. So nothing is drawn twice, and each is a
        separate step (see `Readings`).
        """
        left = self.known_first(query, options)
        if left.first:
            before = self.price_first(left, options, pot)
            self.check_useful(left, options, pot, before)

        def answer(one: Query, own: Options) -> Answer:
            found = self.known(one, own)
            if found is None:
                found = self.asked(one, own, None, False, pot)
                self.flush()
            if self._readings is not None:
                self._readings.noised = False
            return found

        return self.with_numbers(query, options, answer)

    def recorded(
        self, query: Query, options: Options, request: RequestId | None, fresh: bool
    ) -> Answer | None:
        """Return a recorded answer: to the same request, or else to the same question.

        A request's name identifies one release, so a new name makes a new release.
        """
        if request is not None and not query.asks_nobody:
            release = self.ledger.recorded(request, query.text)
            return None if release is None else Answer.from_bytes(release.answer)
        always = query.asks_nobody
        return self.known(query, options) if always or not fresh else None

    def _draft(
        self,
        query: Query,
        options: Options,
        request: RequestId | None,
        question: Inquiry | None,
        pot: Pot = Pot.QUERIES,
        in_turn: bool = False,
    ) -> Draft:
        """Measure a query that the engine evaluates; nothing is charged yet."""
        from sparseq.stream.question_price import plan_in_or_out

        if self.weighs(query, pot):
            return self._weight(self.parts[pot], query, options, request, question, in_turn)
        own, payer = options.over(query.options), self.new_payer(pot)
        self.terms.check_price(own)
        plan = plan_in_or_out(query, own, self.parts[pot].budget, payer)
        return self._in_or_out(plan, self.contributions(plan), request, pot, question=question)

    def step(
        self,
        query: Query,
        contributions: Callable[[Plan], Contributions],
        options: Options | None = None,
        request_id: Asked = None,
        *,
        pot: Pot = Pot.QUERIES,
        gated: Callable[[Participation], Sequence[Note]] = lambda _: (),
        mechanism: Mechanism | None = None,
        shown: Callable[[], pa.Table] | None = None,
    ) -> Answer:
        """Answer one query whose contributions the caller computes: see `Store.step`."""
        if query.first:
            raise QueryRefused(
                f"another question has to be asked before this one: {query.first[0].text}",
                "ask it first, and write its number into this one",
            )
        with self.lock:
            self.flush()  # entries that an interrupt left
            request = requested(request_id)
            recorded = self.ledger.recorded(request, query.text)
            if recorded is not None:
                return Answer.from_bytes(recorded.answer)
            plan = calibrate(query, self.part(pot).budget, options or Options())
            made = contributions(plan)
            draft = self._in_or_out(plan, made, request, pot, gated, mechanism, None, shown)
            answer = self._stage(draft)
            self.flush()
            return answer

    def _in_or_out(
        self,
        plan: Plan,
        contributions: Contributions,
        request: RequestId | None,
        pot: Pot = Pot.QUERIES,
        gated: Callable[[Participation], Sequence[Note]] = lambda _: (),
        mechanism: Mechanism | None = None,
        question: Inquiry | None = None,
        shown: Callable[[], pa.Table] | None = None,
    ) -> Draft:
        """Admit the users who can pay, sum their contributions, add noise; charge nothing yet."""
        from sparseq.stream.question_price import price_in_or_out

        part, bill = self.part(pot), Bill(self.pots[pot], self.ledger.lifetimes)
        let_in = admit(plan, contributions, bill)
        noised = in_unit(plan, (mechanism or add_gaussian)(plan, let_in.sums, self._entropy()))
        most = price_in_or_out(plan, self.new_payer(pot)).units / UNITS_PER_NORM
        facts = replace(self._facts(plan, request, pot), charge=most)
        facts = replace(facts, notes=(*facts.notes, *group_notes(plan, noised)))
        answer = Answer(shown() if shown else render(plan, noised), facts)
        notes = tuple(gated(Participation(answer.facts.release, let_in.users, let_in.active)))
        course = part.course and part.course.after_in_or_out(most_charge(plan))
        paid = self._entry(plan, answer, request, part, bill, let_in.left_out, course, notes)
        return Draft(answer, paid, noised, course, question)

    def measure_nodes(
        self,
        pot: Pot,
        nodes: Sequence[Node],
        pools: Mapping[str, Pool],
        planned: PlannedCosts,
        written: Callable[[int, MeasuredNodes], tuple[pa.Table, Sequence[Note]]],
    ) -> int:
        """Measure nodes of a dashboard in one release (`sparseq.stream.node_sums`).

        Args:
            pot: The pot that pays.
            nodes: The nodes.
            pools: The earlier pilots of their kinds.
            planned: The costs that are planned.
            written: Returns the answer's table and the notes of the release with this number.

        Returns:
            The number of the release, which is durable.
        """
        from sparseq.stream.node_sums import NodeSums

        with self.held():
            self.flush()
            part = self.part(pot)
            assert part.course is not None

            def vectors(plan: Plan) -> Contributions:
                cells, size = self.engine.cells(plan, self.people.inside()), plan.query.groups
                if size == 1:
                    return contributions_from(cells, 1)
                return contributions_from(with_total(cells, size), size + 1)

            sums = NodeSums(
                part.budget,
                self.pots[pot],
                part.course,
                vectors,
                self._entropy,
                self.terms.rows,
                self.new_payer(pot),
                self.ledger.lifetimes,
            )
            done = sums.nodes(nodes, pools, planned)
            charge = sums.payer.units / UNITS_PER_NORM
            facts = replace(self._facts(done.plan, None, pot), charge=charge)
            table, notes = written(facts.release, done)
            answer = Answer(table, facts)
            paid = self._entry(
                done.plan, answer, None, part, sums.bill, done.faint, done.course, tuple(notes)
            )
            self._stage(Draft(answer, paid, Measurements([], [], [], 0), done.course, None))
            self.flush()
            return facts.release

    def new_payer(self, pot: Pot = Pot.QUERIES) -> FullPayer:
        """Return a user without earlier charges, who is charged the most: public."""
        lifetimes, budget = self.ledger.lifetimes, self.terms.budget
        left = self.pots.of_new_user(budget_units(budget.norm_budget))[pot]
        life = None if lifetimes is None else lifetimes.budget
        return FullPayer(self.part(pot).budget, left, life)

    def _weight(
        self,
        part: BudgetPart,
        query: Query,
        options: Options,
        request: RequestId | None,
        question: Inquiry | None,
        in_turn: bool,
    ) -> Draft:
        """Measure a query with every user weighted; nothing is charged yet."""
        from sparseq.stream import weighted_answer as weighted
        from sparseq.stream.wish_price import reached_note

        options = options.over(query.options)
        assert part.course is not None
        query = self.asked_as(query, options, part.pot)
        price = self.price(query, options, part.pot, in_turn=in_turn)
        self.refuse_no_use(part, query, options, price)
        sums = weighted.askable(
            query,
            options,
            part,
            self.pots[part.pot],
            self.contributions,
            self._entropy,
            self.terms.rows,
            self.ledger.lifetimes,
            self.new_payer(part.pot),
        )
        self._foresee(query, price)
        done = weighted.answer(sums, query, options, price.parts)
        facts = replace(
            self._facts(done.plan, request, part.pot),
            interval=rests_on(query, part.course.about(query.span), done.kind),
            price=sums.highest,
            charge=sums.payer.units / UNITS_PER_NORM,
        )
        noised = done.measurements()
        reached = reached_note(options, noised, [m.label for m in query.measures])
        facts = replace(facts, notes=(*facts.notes, *group_notes(done.plan, noised), *reached))
        answer = Answer(render(done.plan, noised), facts)
        paid = self._entry(done.plan, answer, request, part, sums.bill, done.faint, done.course)
        return Draft(answer, paid, noised, done.course, question)

    def _entry(
        self,
        plan: Plan,
        answer: Answer,
        request: RequestId | None,
        part: BudgetPart,
        bill: Bill,
        left_out: Index,
        course: Course | None,
        notes: tuple[Note, ...] = (),
    ) -> Entry:
        """Return an answer's journal entry: its charges, and all state that changes with it."""
        departed = self.departures.new(left_out if part.pot is Pot.QUERIES else _NOBODY)
        if course is not None:
            notes += (Fact(part.key, course.to_dict()),)
        release = release_of(plan, answer, part.pot, request)
        failed = list(dict.fromkeys(self.engine.take_failures()))  # of pilots and of sums
        return Entry(release, *bill.paid(), departed, notes, failed, bill.lifetimes)

    def _stage(self, draft: Draft) -> Answer:
        """Charge in memory; the next transaction makes charge and answer durable.

        All code that can fail, and the last check for a cancellation, precede the first line that
        changes state. An interrupt after that line leaves `half_done` set, and the store is
        reloaded from disk or closed. The answer may leave only after `flush`.
        """
        check()
        entry, question = draft.entry, draft.question
        if question is not None:
            known = self.recall.notes(question, entry.release.id, draft.noised)
            entry = replace(entry, notes=(*entry.notes, *known))
        self.half_done = True
        if question is not None:  # from here on the release is the answer, or the stream ends
            self.recall.remember(question, entry.release.id)
        self.charge(entry, draft.course)
        self.half_done = False
        return draft.answer

    def charge(self, entry: Entry, course: Course | None) -> None:
        """Charge in memory; the next transaction makes it durable. The caller sets `half_done`."""
        self.part(entry.release.pot).course = course
        self.pots[entry.release.pot].charge(entry.users, entry.charges)
        if self.ledger.lifetimes is not None and entry.lifetimes is not None:
            self.ledger.lifetimes.charge(entry.lifetimes)
        self.departures.add(entry.release.id, entry.departed)
        self._staged.append(entry)
        self.staged_bytes += 3 * len(entry.users) + len(entry.release.answer)

    def flush(self) -> None:
        """Make charges and answers durable together; the answers may leave only after this.

        Raises:
            StoreError: The commit failed, or its outcome is unknown; the store takes no further
                question.
        """
        self._check()
        self.ledger.recover()
        if not self._staged:
            return
        self.half_done = True
        try:
            self.ledger.commit(self._staged)
            self._staged, self.staged_bytes = [], 0
            self.ledger.fold(16 * self.people.inside())
        except BaseException:
            self._abandon()  # only the ledger knows whether it was written: reopen the store
            raise
        self.half_done = False
        self._check_alone()

    def _check_alone(self) -> None:
        """Evaluate a few users' rows alone, and record differences for the curator.

        The answers are durable already and do not change, so it raises nothing.
        """
        with contextlib.suppress(Exception):
            found = self.engine.check_alone()
            self.differences += len(found)
            names = self.ledger.identifiers([one.user for one in found]) if found else {}
            for one in found:
                line = difference_line(self.ledger.next_id - 1, one, names)
                self.ledger.in_transaction(partial(self.ledger.write, line))

    def settle(self, release: int) -> None:
        """See `PublicQuestions`: an answer of the same group is not durable before `flush`."""
        if release >= self.ledger.next_id:
            self.flush()

    def rows_arrive(self, table: Table, since: dt.date | None = None, others: bool = False) -> None:
        """Record durably that rows arrive, before they do: recorded answers are of older rows.

        Args:
            table: The table that receives them.
            since: None of the rows is of an earlier day; answers about earlier days stay valid.
            others: Rows of other tables, of any day, may arrive with them; no answer stays valid.

        Raises:
            ParameterError: See `RowsCame.of`.
        """
        arrival = RowsCame.of(self.recall.epoch + 1, table, since)
        if others:
            arrival = RowsCame.of(arrival.epoch, table, None)
        facts = [Fact(EPOCH, arrival.epoch)]
        kept = self.recall.standing.after(arrival).kept()
        if kept or self.recall.standing.kept():
            facts.append(Fact(ARRIVALS, kept))
        for part in self.parts.values():
            if part.course is not None:
                part.course = part.course.after_rows()
                facts.append(Fact(part.key, part.course.to_dict()))

        def write() -> None:
            for fact in facts:
                self.ledger.write(fact)

        self.ledger.in_transaction(write)
        self.recall.begin_epoch(arrival)  # only after it is durable

    def forget(self) -> None:
        """Drop all that is not durable, and empty every account: memory may be wrong."""
        for _, accounts in self.pots.items():
            accounts.spent = accounts.budgets.copy()  # an interrupt may have left them half grown
        if self.ledger.lifetimes is not None:
            self.ledger.lifetimes.exhaust()
        self._staged, self.staged_bytes = [], 0

    def _facts(self, plan: Plan, request: RequestId | None, pot: Pot) -> Facts:
        series = name_of(pot, self.pots.purposes)
        return facts_of(plan, self.next_release, request, self.terms, series)

    def _entropy(self, part: str = "") -> Entropy:
        """Return the operating system's entropy, or that of this seed, release and part."""
        if self._readings is not None:
            self._readings.noised = True
        if self.terms.seed is None:
            return SYSTEM_ENTROPY
        return for_release(self.terms.seed, self.next_release, part)


def add_gaussian(plan: Plan, sums: Sequence[Ints], entropy: Entropy) -> list[Ints]:
    """Add floor(Z + 1/2), Z ~ N(0, (sigma/g)²), to the integer sums: Corollary 4.7's mechanism."""
    return [
        total + rounded_gaussian(n.lattice_sigma, len(total), entropy)
        for n, total in zip(plan.noise, sums, strict=True)
    ]
