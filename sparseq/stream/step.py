"""Algorithm 2 of Feldman & Zrnic (2021), one step a query, with the mechanism of Corollary 4.7.

Contributions, who pays for how much, exact sums, exact noise, a durable commit; then the answer.

Many queries at once, none of which depends on another's answer, take the same step, strictly in
order, so that answers, charges and drops are those of asking one by one. Two things are shared:
queries that differ in their times only have their rows read by one scan (`Engine.read_ahead`), and
the releases of a group become durable in one transaction. No answer leaves before that.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sparseq.base.cancellation import Cancellation, check
from sparseq.base.defaults import BETA
from sparseq.base.errors import (
    ParameterError,
    QueryCancelError,
    QueryRefused,
    SparseqError,
    StoreError,
)
from sparseq.compiled import compiled
from sparseq.engine.contributions import Contributions
from sparseq.engine.protocol import Engine
from sparseq.ledger.accounts import Accounts, Departures, Index, Ints
from sparseq.ledger.notes import Fact, Note, RequestId, requested
from sparseq.ledger.protocol import Entry, Ledger, held
from sparseq.ledger.purposes import Pot, Pots, name_of
from sparseq.mechanisms import SYSTEM_ENTROPY, Entropy, rounded_gaussian
from sparseq.mechanisms.entropy import for_release
from sparseq.released.render import render
from sparseq.reuse.answer_cache import ARRIVALS, EPOCH, MOST_WIDTH, Inquiry, Recall, RowsCame
from sparseq.reuse.answer_views import DerivedAnswer
from sparseq.sql.catalog import Table
from sparseq.sql.plan import Kind, Options, Plan, Query, calibrate
from sparseq.store.answer import Answer, Facts
from sparseq.stream.budget_part import BudgetPart, budget_parts
from sparseq.stream.draft import (
    Draft,
    Participation,
    Terms,
    difference_line,
    facts_of,
    in_unit,
    most_charge,
    release_of,
    rests_on,
)
from sparseq.stream.release_charges import Bill, admit
from sparseq.stream.side_reads import Readings, Unread
from sparseq.stream.stream_progress import Course

if TYPE_CHECKING:
    from sparseq.stream.weighted_sums import WeightedSums

# -- algorithm 2 of Feldman & Zrnic (2021) ---------------------------------------------------------

_NOBODY = np.zeros(0, np.int32)
_KEPT = "what is asked before it was charged, and is free from now on"

Asked = RequestId | str | None
Mechanism = Callable[[Plan, Sequence[Ints], Entropy], Sequence[Ints]]
"""Exact sums in, what is released out: integers in lattice steps, one array a measure."""
Lower = Callable[[str, Sequence[Answer]], Query]


class Stream:
    """The stream of queries of one store, by one engine and one ledger.

    Threads may share it; queries are answered one after the other. All that is here is for the
    curator and for parts of sparseq: accounts are private.

    Args:
        engine: Says what people contribute.
        ledger: Says what they have spent.
        terms: Of every answer.
        lower: Lowers the text of a question again, with the answers to the first of the questions
            that are asked before it.
        check: Raises if nothing can be asked now; called with the lock held.
        abandon: Called where memory may not be what is durable: nothing may be asked again.

    Attributes:
        lock: Whoever holds it has the stream for itself.
        half_done: A step was stopped in a moment in which memory may not be what is durable.
        parts: Of everybody's budget, by what is paid from them.
        differences: How often, since it was opened, somebody's rows gave another answer alone than
            among all: private.
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
        self._lower, self._check, self._abandon = lower, check, abandon
        self.lock = threading.RLock()
        self.half_done = False
        self.parts = budget_parts(ledger, terms)
        series_pots = {p.name: Pot(p.answers) for p in self.pots.purposes}
        for series, users, units in held(ledger):
            self.pots[series_pots.get(series, Pot.QUERIES)].hold(series, users, units)
        self.recall = Recall(ledger, terms.budget, terms.losses)
        self._staged: list[Entry] = []  # charged, not yet durable; empty when nobody has the lock
        self._readings: Readings | None = None
        self.staged_bytes = 0  # about what the next transaction will write
        self.differences = 0

    @property
    def accounts(self) -> Accounts:
        """The accounts that queries are paid from: private."""
        return self.pots[Pot.QUERIES]

    @property
    def course(self) -> Course | None:
        """The progress of the questions' weighted answers: public; None: there are none."""
        return self.parts[Pot.QUERIES].course

    @property
    def pots(self) -> Pots:
        """The accounts, by what they are for: private."""
        return self.ledger.pots

    @property
    def departures(self) -> Departures:
        """The people left out of a query, and of which first: private."""
        return self.ledger.departures

    @property
    def people(self) -> int:
        """Number of people who have an account: private."""
        return len(self.pots)

    @property
    def next_release(self) -> int:
        """The number of the release to come."""
        return self.ledger.next_id + len(self._staged)

    def part(self, pot: Pot) -> BudgetPart:
        """Return the part of budgets that a pot is: of what is set aside, as of questions."""
        found = self.parts.get(pot)
        return BudgetPart(pot, self.terms.budget, None) if found is None else found

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the stream still, having checked that it can be asked."""
        with self.lock:
            self._check()
            yield

    def contributions(self, plan: Plan) -> Contributions:
        """Return what everybody contributes to a plan: private."""
        check()
        if self._readings is not None:
            return self._readings.contributions(self.engine, plan, self.people)
        return self.engine.contributions(plan, self.people)

    def _foresee(self, plans: Sequence[Plan]) -> None:
        """Have plans read beside the stream, where this question reads there, before any noise."""
        if self._readings is not None:
            for plan in plans:
                self._readings.need(self.engine, plan)

    @contextlib.contextmanager
    def reading_from(self, readings: Readings | None) -> Iterator[None]:
        """Have long reads come from what was read beside the stream, for one question."""
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
            self.flush()  # what an interrupt left
            request, options = requested(request_id), options or Options()
            recorded = self.recorded(query, options, request, fresh)
            if recorded is not None:
                return recorded
            try:
                answer = self.asked(query, options, request, fresh, pot)
            except (QueryRefused, ParameterError, QueryCancelError):
                self.flush()  # what was asked before it
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
    ) -> Answer:
        """Answer a question that has no answer; of most of its groups there may be known ones.

        What is asked before it is asked here; if it is refused or cancelled then, that stays. The
        answer may leave after `flush` only, and so may what is raised.
        """
        if query.first:
            return self._asked_in_turn(query, options, request, fresh, pot)
        known = None if fresh or request is not None else Inquiry.of(query, options)
        left = None
        if known is not None:
            fits = partial(self._fits, known, wider=MOST_WIDTH)
            left = self.recall.rest(known, fits, self.flush)
        if known is None or left is None:
            question = Inquiry.of(query, options)
            return self._stage(self._draft(query, options, request, question, pot))
        pieces, rest = left
        draft = self._draft(rest.query, rest.options, None, rest)
        whole = self.recall.completed(known, pieces, rest, draft.answer.facts, draft.noised)
        self._stage(draft)
        return whole

    def _asked_in_turn(
        self, query: Query, options: Options, request: RequestId | None, fresh: bool, pot: Pot
    ) -> Answer:
        """Answer a question after those before it."""
        before = self.next_release
        try:
            query = self._after_first(query, options, pot)
            known = None if fresh or request is not None else self.known(query, options)
            return self.asked(query, options, request, fresh, pot) if known is None else known
        except (QueryRefused, ParameterError, QueryCancelError) as error:
            if before < self.next_release:
                error.message = f"{error.message.partition('; nothing was charged')[0]}; {_KEPT}"
            raise

    def _after_first(self, query: Query, options: Options, pot: Pot) -> Query:
        """Return a question with the numbers of those before it, which are asked if need be.

        What any of them would be refused for is told first. What one releases is durable before
        the next looks at a row: else what a number makes slow, or ends, would tell of it unpaid.
        So nothing is drawn twice, and each is a step of its own (see `Readings`).
        """
        left, own = self.known_first(query, options), options.over(query.options).of_first
        for one in left.first:
            self._check_askable(one, own, pot)
        if left.first:
            self._check_askable(left, options, pot)

        def answer(one: Query, own: Options) -> Answer:
            found = self.known(one, own)
            if found is None:
                found = self.asked(one, own, None, False, pot)
                self.flush()
            if self._readings is not None:
                self._readings.noised = False
            return found

        return self._with_numbers(query, options, answer)

    def known_first(self, query: Query, options: Options) -> Query:
        """Return a question with the numbers of those before it, as far as they are known."""
        return self._with_numbers(query, options, self.known)

    def _with_numbers(
        self, query: Query, options: Options, answer: Callable[[Query, Options], Answer | None]
    ) -> Query:
        answers, own = list[Answer](), options.over(query.options).of_first
        while query.first:
            found = answer(query.first[0], own)
            if found is None:
                break
            answers.append(found)
            query = self._lower(query.text, answers)
        return query

    def _check_askable(self, query: Query, options: Options, pot: Pot) -> None:
        """Raise what a question would be refused for; nothing is read, drawn or charged."""
        if self.weighs(query, pot):
            self._askable(self.parts[pot], query, options)
        else:
            calibrate(query, self.parts[pot].budget, options)

    def recorded(
        self, query: Query, options: Options, request: RequestId | None, fresh: bool
    ) -> Answer | None:
        """Return the answer that there is already: of the request, or else of the same question.

        A name stands for a release of its own, so a new one asks anew.
        """
        if request is not None and not query.asks_nobody:
            release = self.ledger.recorded(request, query.text)
            return None if release is None else Answer.from_bytes(release.answer)
        always = query.asks_nobody
        return self.known(query, options) if always or not fresh else None

    def repeats(self, query: Query, options: Options) -> bool:
        """Tell whether a question has its answer already: public."""
        return self.known(query, options) is not None

    def known(self, query: Query, options: Options, anyhow: bool = False) -> Answer | None:
        """Return the recorded answer to the same question, or one that follows; free.

        Args:
            query, options: The question.
            anyhow: Also what is wider than asking is expected to be.
        """
        if query.asks_nobody:
            facts = facts_of(Plan(query, (), BETA), 0, None, self.terms, "")
            return Answer(query.outputs.rows, replace(facts, interval="public"))
        if query.first and (query := self.known_first(query, options)).first:
            return None
        question = Inquiry.of(query, options)
        if question is None:
            return None
        release = self.recall.release(question)
        if release is None and options.interval is not None:
            return None
        if release is None:
            fits = partial(self._fits, question)
            return self.recall.following(question, lambda d: anyhow or fits(d), self.flush)
        if release >= self.ledger.next_id:
            self.flush()  # it is of the same group
        return self.recall.answer(question, release)

    def _fits(self, question: Inquiry, found: DerivedAnswer, wider: float = 1.0) -> bool:
        """Tell whether what follows does what was asked for, or is about as wide as asking."""
        query, options, budget = question.query, question.options, self.terms.budget
        if options.precision is not None:
            return found.within(options.precision)
        if not self.weighs(query):
            bounds = calibrate(query, budget, options).bounds
        else:
            from sparseq.stream.expected_width import expected_widths

            assert self.course is not None
            bounds = expected_widths(self.course, query, options, budget)
        most = wider * (1 + 1e-9)
        return all(w <= b * most for w, b in zip(found.widths, bounds, strict=True))

    def _draft(
        self,
        query: Query,
        options: Options,
        request: RequestId | None,
        question: Inquiry | None,
        pot: Pot = Pot.QUERIES,
    ) -> Draft:
        """Measure what the engine evaluates; nothing is charged yet."""
        if self.weighs(query, pot):
            return self._weight(self.parts[pot], query, options, request, question)
        plan = calibrate(query, self.parts[pot].budget, options)
        return self._in_or_out(plan, self.contributions(plan), request, pot, question=question)

    def weighs(self, query: Query, pot: Pot = Pot.QUERIES) -> bool:
        """Tell whether people are weighted in the answer; else they are in or out."""
        kinds, course = {m.kind for m in query.measures}, self.parts[pot].course
        return course is not None and not query.comparisons and Kind.DENSE not in kinds

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
            self.flush()  # what an interrupt left
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
        """Let in whoever can pay, add up over these, add noise; nothing is charged yet."""
        part, bill = self.part(pot), Bill(self.pots[pot], self.ledger.lifetimes)
        let_in = admit(plan, contributions, bill)
        noised = in_unit(plan, (mechanism or add_gaussian)(plan, let_in.sums, self._entropy()))
        answer = Answer(shown() if shown else render(plan, noised), self._facts(plan, request, pot))
        notes = tuple(gated(Participation(answer.facts.release, let_in.users, let_in.active)))
        course = part.course and part.course.after_in_or_out(most_charge(plan))
        paid = self._entry(plan, answer, request, part, bill, let_in.left_out, course, notes)
        return Draft(answer, paid, noised, course, question)

    def _weight(
        self,
        part: BudgetPart,
        query: Query,
        options: Options,
        request: RequestId | None,
        question: Inquiry | None,
    ) -> Draft:
        """Measure a query with everybody weighted; nothing is charged yet."""
        from sparseq.stream import weighted_answer as weighted

        options = options.over(query.options)
        sums, query = self._askable(part, query, options)
        assert part.course is not None
        done = weighted.answer(sums, query, options, self._foresee)
        facts = replace(
            self._facts(done.plan, request, part.pot),
            interval=rests_on(query, part.course.about(query.span), done.kind),
            price=done.price,
        )
        noised = done.measurements()
        answer = Answer(render(done.plan, noised), facts)
        paid = self._entry(done.plan, answer, request, part, sums.bill, done.faint, done.course)
        return Draft(answer, paid, noised, done.course, question)

    def _askable(
        self, part: BudgetPart, query: Query, options: Options
    ) -> tuple[WeightedSums, Query]:
        """Return what a weighted answer is made by, and the question; refuse what can't be."""
        from sparseq.stream import weighted_answer as weighted

        assert part.course is not None
        options = options.over(query.options)
        if options.at_least_useful:
            from sparseq.stream.expected_width import refuse_no_use

            refuse_no_use(part.course, query, options, part.budget, self.terms.rows)
        return weighted.askable(
            query,
            options,
            part,
            self.pots[part.pot],
            self.contributions,
            self._entropy,
            self.terms.rows,
            self.ledger.lifetimes,
        )

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
        """Return what makes an answer durable: who pays for it, and all that changes with it."""
        departed = self.departures.new(left_out if part.pot is Pot.QUERIES else _NOBODY)
        if course is not None:
            notes += (Fact(part.key, course.to_dict()),)
        release = release_of(plan, answer, part.pot, request)
        failed = list(dict.fromkeys(self.engine.take_failures()))  # of pilots and sums alike
        return Entry(release, *bill.paid(), departed, notes, failed, bill.lifetimes)

    def _stage(self, draft: Draft) -> Answer:
        """Charge; the next transaction is to make it durable, with the answer.

        All that can fail comes before the first line that changes something, and so does the last
        look at whether the question was cancelled. Whatever is raised after it (an interrupt)
        leaves `half_done` set, and the store is read anew or closed. The answer may leave after
        `flush` only.
        """
        check()
        entry, question = draft.entry, draft.question
        if question is not None:
            known = self.recall.notes(question, entry.release.id, draft.noised)
            entry = replace(entry, notes=(*entry.notes, *known))
        self.half_done = True
        if question is not None:  # from here on the release is the answer, or there is no stream
            self.recall.remember(question, entry.release.id)
        self.charge(entry, draft.course)
        self.half_done = False
        return draft.answer

    def charge(self, entry: Entry, course: Course | None) -> None:
        """Charge in memory; the next transaction makes it durable. `half_done` is the caller's."""
        self.part(entry.release.pot).course = course
        self.pots[entry.release.pot].charge(entry.users, entry.charges)
        if self.ledger.lifetimes is not None and entry.lifetimes is not None:
            self.ledger.lifetimes.charge(entry.lifetimes)
        self.departures.add(entry.release.id, entry.departed)
        self._staged.append(entry)
        self.staged_bytes += 3 * len(entry.users) + len(entry.release.answer)

    def flush(self) -> None:
        """Make charges and answers durable together; only then may the answers go.

        Raises:
            StoreError: They are not, or nobody can tell; nothing can be asked any more.
        """
        self._check()
        self.ledger.recover()
        if not self._staged:
            return
        self.half_done = True
        try:
            self.ledger.commit(self._staged)
            self._staged, self.staged_bytes = [], 0
            self.ledger.fold(16 * self.people)
        except BaseException:
            self._abandon()  # was it written? only the ledger knows: it must be opened anew
            raise
        self.half_done = False
        self._check_alone()

    def _check_alone(self) -> None:
        """Have a few people's rows evaluated alone, and tell the curator of differences.

        Answers are durable already, and nothing of them changes; so it raises nothing.
        """
        with contextlib.suppress(Exception):
            found = self.engine.check_alone()
            self.differences += len(found)
            names = self.ledger.identifiers([one.user for one in found]) if found else {}
            for one in found:
                line = difference_line(self.ledger.next_id - 1, one, names)
                self.ledger.in_transaction(partial(self.ledger.write, line))

    def rows_arrive(self, table: Table, since: dt.date | None = None, others: bool = False) -> None:
        """Take note, durably and before they do, that rows arrive: what is known is of others.

        Args:
            table: To which.
            since: None of them is of an earlier day; what is known of those stands.
            others: Rows of other tables may come with them, of any day; nothing stands then.

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
        self.recall.begin_epoch(arrival)  # no later one is noted before it is durable

    def forget(self) -> None:
        """Forget what is not durable, and let nobody pay any more: memory may be wrong."""
        for _, accounts in self.pots.items():
            accounts.spent = accounts.budgets.copy()  # they may be in the middle of growing
        if self.ledger.lifetimes is not None:
            self.ledger.lifetimes.exhaust()
        self._staged, self.staged_bytes = [], 0

    def _facts(self, plan: Plan, request: RequestId | None, pot: Pot) -> Facts:
        series = name_of(pot, self.pots.purposes)
        return facts_of(plan, self.next_release, request, self.terms, series)

    def _entropy(self, part: str = "") -> Entropy:
        """The operating system's, or a stream of this seed, release and part."""
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


# -- many queries at once, none of which depends on another's answer: the stream, in groups --------

BLOCK = 4096  # queries whose rows are read ahead together
LOADING_PAYS = 500  # queries from which to load the compiled loops at once
GROUP = 256  # queries in a transaction, at most
GROUP_BYTES = 1 << 25  # about so many at most are written in one


@dataclass(frozen=True)
class Request:
    """One query of many; see `Store.ask`.

    Attributes:
        cancellation: Whoever has it can cancel it; None: nobody.
        readings: What was read for it beside the stream; None: the stream reads.
    """

    query: Query
    options: Options = field(default_factory=Options)
    request_id: RequestId | str | None = None
    fresh: bool = False
    cancellation: Cancellation | None = None
    readings: Readings | None = None

    @property
    def request(self) -> RequestId | None:
        """Its name: a text is an analyst's."""
        return requested(self.request_id)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one query: an answer, or why there is none.

    Attributes:
        recorded: The answer is an old one, read back from the journal.
        unread: What is to be read beside the stream, before it is asked again.
        charged: Nothing was answered, but what is asked before it was.
    """

    answer: Answer | None = None
    refused: SparseqError | None = None
    recorded: bool = False
    unread: Plan | None = None
    charged: bool = False


def ask_many(stream: Stream, asked: Iterable[Request]) -> Iterator[Outcome]:
    """Yield what becomes of each query, in order (see `Store.ask_many`)."""
    queries = iter(asked)
    while block := list(islice(queries, BLOCK)):
        if len(block) >= LOADING_PAYS:
            compiled()
        with stream.held():
            stream.ledger.numbers(_requests(block))
            stream.engine.read_ahead(_plans(stream, block))
        while block:
            with stream.held():
                outcomes = _group(stream, block[:GROUP])
            del block[: len(outcomes)]
            yield from outcomes


def _requests(block: Sequence[Request]) -> list[RequestId]:
    return [request for request in (one.request for one in block) if request is not None]


def _plans(stream: Stream, block: Sequence[Request]) -> Iterator[Plan]:
    """Yield the plans of the queries that are new."""
    for one in block:
        request = one.request
        if one.query.asks_nobody:
            continue
        if request is None or stream.ledger.number(request) is None:
            try:
                plan = calibrate(one.query, stream.terms.budget, one.options)
            except (QueryRefused, ParameterError):
                continue  # its own turn will tell
            if one.readings is None or not stream.engine.reads_long(plan):
                yield plan


def _group(stream: Stream, block: Sequence[Request]) -> list[Outcome]:
    """Answer queries until a transaction is full; it is written whatever happens."""
    outcomes: list[Outcome] = []
    stream.flush()  # what an interrupt left
    pending: set[RequestId | None] = set()
    stream.ledger.read_ahead(_requests(block))
    try:
        for one in block:
            outcomes.append(_outcome(stream, one, pending))
            pending.add(one.request)
            if stream.staged_bytes >= GROUP_BYTES:
                break
    except BaseException:
        with contextlib.suppress(StoreError):  # the store is closed: what stopped it is told
            stream.flush()
        raise
    stream.flush()
    return outcomes


def _outcome(stream: Stream, one: Request, pending: set[RequestId | None]) -> Outcome:
    request = one.request
    if request is not None and request in pending:
        stream.flush()  # asked again in the same group
    work, before = one.cancellation, stream.next_release
    try:
        with stream.reading_from(one.readings), work.ambient() if work else nullcontext():
            recorded = stream.recorded(one.query, one.options, request, one.fresh)
            if recorded is not None:
                return Outcome(recorded, recorded=True)
            return Outcome(stream.asked(one.query, one.options, request, one.fresh))
    except (QueryRefused, ParameterError) as error:
        return Outcome(refused=error, charged=stream.next_release > before)
    except Unread as needed:
        return Outcome(unread=needed.plan, charged=stream.next_release > before)
    except QueryCancelError as error:
        stream.engine.take_failures()  # of what is not answered
        return Outcome(refused=error, charged=stream.next_release > before)
