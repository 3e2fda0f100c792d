"""The public part of a stream: look-ups of recorded answers, and prices of questions.

It depends only on the texts of questions, the course of the stream, and recorded answers; it reads
no account and no row. A `Stream` uses it in its steps. A view of an open store uses it for look-ups
while a question is being answered (`sparseq.store.public_view`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sparseq.answers.answer import Answer
from sparseq.base.defaults import BETA
from sparseq.ledger.pots import Pot
from sparseq.question.plan import Kind, Options, Plan, Query, calibrate
from sparseq.reuse.answer_cache import Inquiry, MeasuredBefore, Recall
from sparseq.reuse.derived_answers import DerivedAnswer
from sparseq.stream.budget_part import BudgetPart
from sparseq.stream.draft import facts_of
from sparseq.stream.full_payer import FullPayer
from sparseq.stream.parent_pilots import without_pilots
from sparseq.stream.participation import Terms
from sparseq.stream.stream_progress import Course

if TYPE_CHECKING:
    from sparseq.accounting import Budget
    from sparseq.stream.joint_unit import Joint
    from sparseq.stream.part_price import PartPrice
    from sparseq.stream.question_price import QuestionPrice
    from sparseq.stream.wish_price import ExpectedPart

Lower = Callable[[str, Sequence[Answer]], Query]


class PublicQuestions(ABC):
    """See `sparseq.stream.public_stream.PublicStream`.

    Attributes:
        terms: Facts of every answer.
        parts: The parts of every budget, with the course of each.
        recall: The recorded answers.
        lower_again: Lowers the text of a question again, with the answers to the first of the
            questions that must be asked before it.
    """

    terms: Terms
    parts: dict[Pot, BudgetPart]
    recall: Recall
    lower_again: Lower

    @abstractmethod
    def new_payer(self, pot: Pot = Pot.QUERIES) -> FullPayer:
        """Return a user without earlier charges, who is charged the most."""

    @abstractmethod
    def flush(self) -> None:
        """Make all recorded answers durable that are not durable yet."""

    @abstractmethod
    def settle(self, release: int) -> None:
        """Make one recorded answer durable if it is not durable yet."""

    @property
    def course(self) -> Course | None:
        """The progress of the questions' weighted answers; None: users are in or out."""
        return self.parts[Pot.QUERIES].course

    def part(self, pot: Pot) -> BudgetPart:
        """Return a pot's part of the budgets; a pot without one has the store's level."""
        found = self.parts.get(pot)
        return BudgetPart(pot, self.terms.budget, None) if found is None else found

    def weighs(self, query: Query, pot: Pot = Pot.QUERIES) -> bool:
        """Tell whether users are weighted in the answer; otherwise they are in or out."""
        kinds, course = {m.kind for m in query.measures}, self.parts[pot].course
        return course is not None and not query.comparisons and Kind.DENSE not in kinds

    def repeats(self, query: Query, options: Options) -> bool:
        """Tell whether a question has a recorded answer: public."""
        return self.known(query, options) is not None

    def known(self, query: Query, options: Options, anyhow: bool = False) -> Answer | None:
        """Return the recorded answer to the same question, or a derived one; it costs nothing.

        Args:
            query, options: The question.
            anyhow: Also return a derived answer that is wider than a new one is expected to be.
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
            fits = partial(self.fits, question)
            return self.recall.following(question, lambda d: anyhow or fits(d), self.flush)
        self.settle(release)
        return self.recall.answer(question, release)

    def fits(self, question: Inquiry, found: DerivedAnswer, wider: float = 1.0) -> bool:
        """Tell whether a derived answer has the requested precision, or the width of a new one."""
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

    def known_first(self, query: Query, options: Options) -> Query:
        """Return a question with the known numbers of its preceding questions filled in."""
        return self.with_numbers(query, options, self.known)

    def with_numbers(
        self, query: Query, options: Options, answer: Callable[[Query, Options], Answer | None]
    ) -> Query:
        """Return a question with the numbers that `answer` returns for its preceding questions."""
        answers, own = list[Answer](), options.over(query.options).of_first
        while query.first:
            found = answer(query.first[0], own)
            if found is None:
                break
            answers.append(found)
            query = self.lower_again(query.text, answers)
        return query

    def price_first(
        self,
        query: Query,
        options: Options,
        pot: Pot = Pot.QUERIES,
        before: Sequence[QuestionPrice] = (),
    ) -> list[QuestionPrice]:
        """Return the prices of the questions that must be asked before a question: public.

        Args:
            query, options, pot: The question, and the pot that pays for it.
            before: The prices of still earlier questions.

        Raises:
            QueryRefused: A preceding question cannot be asked. No row is read and no noise drawn.
        """
        own = options.over(query.options).of_first
        found: list[QuestionPrice] = []
        for one in query.first:
            if not self.repeats(one, own):
                found.append(self.check_useful(one, own, pot, [*before, *found]))
        return found

    def check_useful(
        self, query: Query, options: Options, pot: Pot, before: Sequence[QuestionPrice]
    ) -> QuestionPrice:
        """Return a question's price; raise the refusal that asking it would raise."""
        part, options = self.parts[pot], options.over(query.options)
        query = self.asked_as(query, options, pot)
        price = self.price(query, options, pot, before)
        if self.weighs(query, pot):
            self.refuse_no_use(part, query, options, price)
        return price

    def asked_as(self, query: Query, options: Options, pot: Pot = Pot.QUERIES) -> Query:
        """Return a question in its final form; refuse it if it cannot be asked.

        Args:
            query: A question whose preceding questions have been asked.
            options: The question's options, with those of the caller over them.
            pot: The pot that pays for it.
        """
        from sparseq.stream import weighted_answer as weighted

        part = self.part(pot)
        if part.course is None or not self.weighs(query, pot):
            return query
        return weighted.asked_as(query, options, part.course, part.budget, self.terms.rows)

    def price(
        self,
        query: Query,
        options: Options,
        pot: Pot = Pot.QUERIES,
        before: Sequence[QuestionPrice] = (),
        in_turn: bool = False,
    ) -> QuestionPrice:
        """Return the price of a question whose preceding questions have been asked: public.

        Args:
            query: A result of `asked_as`.
            options: The question's options, with those of the caller over them.
            pot: The pot that pays for it.
            before: The prices of the questions that will be asked before it.
            in_turn: Some preceding questions have just been asked. An earlier answer to the same
                question with their numbers was unknown when the price was quoted, and is ignored.

        Raises:
            QueryRefused: A wish cannot be met.
        """
        from sparseq.stream.question_price import plan_in_or_out, price_in_or_out, price_question

        part, payer = self.part(pot), self.new_payer(pot)
        self.terms.check_price(options.over(query.options))
        if not self.weighs(query, pot):
            return price_in_or_out(plan_in_or_out(query, options, part.budget, payer), payer)
        assert part.course is not None
        course = next((one.course for one in reversed(before) if one.course), part.course)
        new = {key for one in before for key in one.once}
        return price_question(
            query,
            options,
            course,
            part.budget,
            self.terms.rows,
            payer,
            partial(self._known_answer, query, options, in_turn or bool(query.first)),
            partial(_expected, new, part.budget),
            math.inf if self.terms.price is None else self.terms.price,
        )

    def _known_answer(self, query: Query, options: Options, in_turn: bool) -> MeasuredBefore | None:
        """Return the scales and values of a valid earlier answer to the question without its wish.

        A question that contains the numbers of preceding questions has none.
        """
        from sparseq.stream.question_price import without_wish

        if in_turn:
            return None
        question = Inquiry.of(*without_wish(query, options))
        return None if question is None else self.recall.measured(question)

    def refuse_no_use(
        self, part: BudgetPart, query: Query, options: Options, price: QuestionPrice
    ) -> None:
        """Refuse a question that is expected to be useless, if the options ask for that."""
        if options.at_least_useful:
            from sparseq.stream.expected_width import refuse_no_use

            assert part.course is not None
            rows = self.terms.rows
            refuse_no_use(part.course, query, options, part.budget, rows, price.parts)


def _expected(
    new: Collection[str],
    budget: Budget,
    course: Course,
    query: Query,
    options: Options,
    asked: Joint,
    pays: PartPrice,
) -> ExpectedPart | None:
    """Return the expected numbers of a part, without pilots that are not released yet."""
    from sparseq.stream.expected_width import expected_part

    return expected_part(without_pilots(course, new), budget, query, options, asked, pays)
