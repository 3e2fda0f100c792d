"""The price of a question and of all questions before it, for explanations and quotas.

Found bounds of a column, and questions whose result is a constant in another question, are separate
releases, each with the price on its answer: the whole price is their sum. They are priced in order,
each from the course that the earlier ones leave (`sparseq.stream.question_price`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sparseq.accounting import UNITS_PER_NORM
from sparseq.question.plan import Kind, Options, Query
from sparseq.store.bound_questions import Lowers, bound_questions, needs_bounds
from sparseq.store.read_bounds import check_known
from sparseq.stream.question_price import QuestionPrice


@dataclass(frozen=True)
class WholePrice:
    """The price of a question and of the questions before it: public.

    Attributes:
        query: The question, with the known numbers filled in.
        own: The price of the question itself.
        first: The prices of the questions asked before it, by text.
        bounds: The prices of the questions that find bounds.
    """

    query: Query
    own: QuestionPrice
    first: tuple[tuple[str, QuestionPrice], ...]
    bounds: tuple[QuestionPrice, ...]

    @property
    def units(self) -> int:
        """The most ledger units that one account is charged."""
        before = [*self.bounds, *(price for _, price in self.first)]
        return self.own.units + sum(one.units for one in before)

    @property
    def exact(self) -> bool:
        """True if one account is charged `units`; else these are the most (`QuestionPrice`)."""
        return not self.bounds and all(one.exact for one in (self.own, *(p for _, p in self.first)))

    @property
    def charge(self) -> float:
        """The same in squared norm."""
        return self.units / UNITS_PER_NORM


def price_whole(
    store: Lowers, query: Query, options: Options, earlier: Sequence[QuestionPrice] = ()
) -> WholePrice:
    """Return the price of a question about users, without asking or charging it.

    Args:
        store, query, options: The question.
        earlier: The prices of questions to be asked before it.

    Raises:
        QueryRefused: The question has no public scale, a wish can't be met, or bounds that it
            needs are known not to be found.
    """
    stream, knobs = store.stream, options.over(query.options)
    bounds = list[QuestionPrice]()
    if query.unbounded is not None and needs_bounds(store, query, options):
        for sought in query.unbounded.columns:
            check_known(store, sought)
        for one, own in bound_questions(store, query.unbounded):
            if not stream.repeats(one, own):
                bounds.append(
                    stream.price(stream.asked_as(one, own), own, before=[*earlier, *bounds])
                )
        after = query.unbounded.after
        query = replace(after, notes=(*after.notes, *query.notes))
    query = stream.known_first(query, options)
    own = knobs.of_first
    texts = [one.text for one in query.first if not stream.repeats(one, own)]
    first = stream.price_first(query, options, before=[*earlier, *bounds])
    ways = [query, *([_never_negative(query)] if bounds else [])]
    asked = [stream.asked_as(one, knobs) for one in ways]
    prices = [stream.price(one, knobs, before=[*earlier, *bounds, *first]) for one in asked]
    price = max(prices, key=lambda one: one.units)
    query = replace(query, first=())
    return WholePrice(query, price, tuple(zip(texts, first, strict=True)), tuple(bounds))


def price_in_turn(store: Lowers, asked: Sequence[tuple[Query, Options]]) -> list[WholePrice | None]:
    """Return the price of each question, given the questions before it; None: it is free.

    A first question that several questions share is in the price of each, so the sum is an upper
    bound.

    Raises:
        QueryRefused: See `price_whole`.
    """
    found, earlier, seen = list[WholePrice | None](), list[QuestionPrice](), set[str]()
    for query, options in asked:
        free = query.asks_nobody or query.text in seen or store.stream.repeats(query, options)
        seen.add(query.text)
        whole = None if free else price_whole(store, query, options, earlier)
        found.append(whole)
        if whole is not None:
            earlier += [*whole.bounds, *(price for _, price in whole.first), whole.own]
    return found


def _never_negative(query: Query) -> Query:
    """Return a question with sums of never negative values: it may have more pilots.

    The sign of values is unknown before their bounds.
    """
    measures = tuple(
        replace(m, bounds=(0.0, m.bounds[1]))
        if m.kind is Kind.SUM and m.bounds is not None and m.bounds[0] < 0 < m.bounds[1]
        else m
        for m in query.measures
    )
    return replace(query, measures=measures)


def charge_of(store: Lowers, query: Query, options: Options) -> float:
    """Return the most that a question charges one account, in squared norm.

    Raises:
        QueryRefused: See `price_whole`.
    """
    return 0.0 if query.asks_nobody else price_whole(store, query, options).charge
