"""The price of a wish about the precision of an answer, from public facts.

`sigma` has the price at which the noise is as small as requested, for the expected scale C of the
question; C is then chosen so that the noise is never larger. `accuracy` and `precision` have the
price at which intervals are expected to be as narrow as requested. The expectation comes from the
only possible C, from released numbers about all rows of the table, or from an earlier answer to the
same question. A wish is refused if none of the three is available, or if it needs a price above
`Course.most_of_a_wish`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NoReturn

import numpy as np

from sparseq.accounting import Budget
from sparseq.accounting.pilots.choice import C_STEPS, Question
from sparseq.accounting.pilots.sample_quantiles import median
from sparseq.base.defaults import PRICE
from sparseq.base.errors import QueryRefused
from sparseq.question.plan import Options, Query
from sparseq.released.outputs import Measurements
from sparseq.reuse.answer_cache import MeasuredBefore
from sparseq.stream.joint_unit import LEAST_PRICE, Joint
from sparseq.stream.part_price import PartPrice
from sparseq.stream.pilot_noise import price_of_answer
from sparseq.stream.question import question_of
from sparseq.stream.shared_pilots import parents_of
from sparseq.stream.stream_progress import Course

_POWER = 2.7
"""The half-width of an interval of one number falls as p**(-1 / 2.7), as measured."""
_TRIES, _CLOSE = 6, 1.02
"""Steps of the search for a wish's price; most ratio of the expected half-width to the wish."""
_WISHES = {"sigma": "sigma {:g}", "accuracy": "± {:g}", "precision": "± {:.3g} of the answer"}
_NEARLY = 1 - 2.0**-40  # sigmas are rounded up, and must not exceed the wish


@dataclass(frozen=True)
class ExpectedPart:
    """Expected numbers of a part if all rows of its table are in it: public, in joint units.

    Attributes:
        scale: C.
        value: The least mean of its measures' values.
        half_width: The median half-width of its intervals.
    """

    scale: float
    value: float
    half_width: float


Expected = Callable[[Course, Query, Options, Joint, PartPrice], ExpectedPart | None]
"""Returns the expected numbers of a part at a price; None: too little was released."""


class _UnknownError(QueryRefused):
    """Too little was released to know the price of a wish."""


@dataclass(frozen=True)
class Wish:
    """A wish about one part of a question, and the known facts about the part: public.

    Attributes:
        query, places: The part, and its places in the question.
        options: The options that contain the wish.
        whole: The part in its joint unit.
        course, budget: The course and the budget of the stream.
        beta: The chance that an interval of the part misses.
        earlier: An earlier answer to the same question, if any.
        expected: Returns the expected numbers of a part if all rows of the table are in it.
        most: The highest price that the curator allows.
    """

    query: Query
    places: Sequence[int]
    options: Options
    whole: Joint
    course: Course
    budget: Budget
    beta: float
    earlier: MeasuredBefore | None
    expected: Expected
    most: float

    def price(self) -> PartPrice:
        """Return the price of the wish, or the highest one and how it follows from parent pilots.

        Raises:
            QueryRefused: It is too high, or no pilot will tell it.
        """
        try:
            return self._known()
        except _UnknownError:
            if self.course.life is not None or not parents_of(self.query):
                raise
            if self.options.precision is not None and not self._of_all_rows:
                raise
        most, noise = self._most_price, math.inf
        if self.options.sigma is not None:
            noise = self.options.sigma / self.whole.parts[0].unit * _NEARLY
        return PartPrice(most, most, noise, partial(self._later, most, noise))

    def _later(self, most: float, noise: float, course: Course) -> PartPrice:
        """Return the price once the parent pilots are known: no wish is refused any more."""
        try:
            return replace(self, course=course, most=most)._known()
        except _UnknownError:
            return PartPrice(min(most, PRICE), most, noise)
        except QueryRefused:
            return PartPrice(most, most, noise)

    def _known(self) -> PartPrice:
        return self.half_width() if self.options.sigma is None else self.noise()

    def noise(self) -> PartPrice:
        """Return the price at which the noise has the requested standard deviation."""
        question, unit = self._question(1.0), self.whole.parts[0].unit
        assert self.options.sigma is not None
        noise = self.options.sigma / unit * _NEARLY
        finer = self._scale(question) * self.budget.sigma_0 / max(noise, sys.float_info.min)
        answer = finer * finer  # `**` would raise an error instead of infinity
        price = price_of_answer(answer) if question.pilots else answer
        most, at_most = self._most_price, self._question(self._most_price)
        if price > most * (1 + 1e-9):
            self._refuse(price, self.options.sigma * math.sqrt(answer / at_most.price))
        price = min(max(price, LEAST_PRICE), most)
        return PartPrice(price, price, noise)

    def half_width(self) -> PartPrice:
        """Return the price at which intervals are expected to be as narrow as requested."""
        wanted, power = self._wanted(), _POWER if self._question(1.0).pilots else 2.0
        price, best = min(1.0, self._most_price), math.inf
        for _ in range(_TRIES):
            found = self._expected_half_width(price)
            if found <= wanted * _CLOSE:
                best = min(best, price)
            ratio = max(min(found / wanted, 1e9), 1e-9)
            after = price * ratio**power / _NEARLY
            price = min(max(after, LEAST_PRICE), self._most_price)
        if math.isinf(best):
            reached = self._expected_half_width(self._most_price)
            asked_for = getattr(self.options, str(self.options.wish))
            self._refuse(after, asked_for * reached / wanted)
        return PartPrice.of(best)

    @cached_property
    def _most_price(self) -> float:
        return min(self.course.most_of_a_wish(), self.most)

    def _question(self, price: float) -> Question:
        pays = PartPrice.of(price)
        return question_of(self.whole, self.course, self.options, self.budget, self.beta, pays)

    def _expected(self, price: float) -> ExpectedPart | None:
        """Return the expected numbers of the part if all rows of its table are in it."""
        pays = PartPrice.of(price)
        return self.expected(self.course, self.query, self.options, self.whole, pays)

    @property
    def _of_all_rows(self) -> bool:
        return not self.query.relation.where and self.query.relation.stored != ""

    def _scale(self, question: Question) -> float:
        """Return the expected C at the price 1."""
        unit, scale = self.whole.parts[0].unit, question.scale
        if scale is None and not question.pilots:
            scale = 1.0
        if scale is None and any(m.scale is None for m in self.query.measures):
            assert self.options.sigma is not None
            scale = self.options.sigma / question.sigma_0 / unit  # replaces missing bounds
        if scale is None and self.earlier is not None:
            scale = self.earlier.scales[self.places[0]] / unit
        if scale is None:
            everything = self._expected(1.0)
            scale = self._unknown() if everything is None else everything.scale
        scale = min(scale, question.most_scale)
        return max(math.ceil(C_STEPS * scale * (1 - 1e-12)), 1) / C_STEPS

    def _wanted(self) -> float:
        """Return the requested half-width, in joint units."""
        unit = self.whole.parts[0].unit
        if self.options.accuracy is not None:
            return self.options.accuracy / unit
        assert self.options.precision is not None
        everything = self._expected(1.0) if self._of_all_rows else None
        if everything is not None:
            value = everything.value
        elif self.earlier is not None:
            value = min(self.earlier.values[i] for i in self.places) / unit
        else:
            self._unknown("how large the answer is")
        return self.options.precision * max(value, 1e-9)

    def _expected_half_width(self, price: float) -> float:
        question = self._question(price)
        if not question.pilots:
            return _without_pilots(question)
        if self.earlier is not None and not self._of_all_rows:
            unit = self.whole.parts[0].unit
            then = max(self.earlier.half_widths[i] for i in self.places) / unit
            return float(then * (self.earlier.price / price) ** (1 / _POWER))
        everything = self._expected(price)
        return self._unknown() if everything is None else everything.half_width

    def _unknown(self, what: str = "how precise a price makes it") -> NoReturn:
        raise _UnknownError(
            f"{what} isn't known before the question was asked once, so what this "
            f"{self.options.wish} costs can't be said",
            f"ask it once without {self.options.wish}: then the same question with it has a price",
        )

    def _refuse(self, price: float, reached: float) -> NoReturn:
        refuse_wish(self.options, price, self._most_price, reached)


def reached_note(options: Options, noised: Measurements, labels: Sequence[str]) -> tuple[str, ...]:
    """Return the requested and the reached width of intervals, in words; empty without a wish.

    Args:
        options: The question's options.
        noised: The released numbers of its answer.
        labels: The labels of its measures.
    """
    if options.accuracy is None and options.precision is None:
        return ()
    halves = [(high - low) / 2 for low, high in map(noised.ends, range(len(labels)))]
    if options.accuracy is not None:
        wanted = f"± {options.accuracy:g}"
        reached = [f"± {median(half):.3g}" for half in halves]
    else:
        assert options.precision is not None
        wanted = f"± {options.precision:.3g} of the answer"
        sizes = [max(float(np.abs(values).mean()), 1e-9) for values in noised.measures]
        shares = [median(half) / size for half, size in zip(halves, sizes, strict=True)]
        reached = [f"± {share:.3g}" for share in shares]
    if len(labels) == 1:
        return (f"wanted {wanted}, reached {reached[0]}",)
    told = ", ".join(f"{one} for {label}" for one, label in zip(reached, labels, strict=True))
    return (f"wanted {wanted}, reached {told}",)


def refuse_wish(options: Options, price: float, most: float, reached: float) -> NoReturn:
    """Refuse a wish, and name the nearest one within reach.

    Args:
        options: The options that contain the wish.
        price: The price that the wish needs.
        most: The highest price that it may have.
        reached: The nearest value that the highest price buys.

    Raises:
        QueryRefused: Always.
    """
    name = str(options.wish)
    wanted, rounded = getattr(options, name), reached * 1.0005
    if not math.isfinite(rounded):
        raise QueryRefused(
            f"{_WISHES[name].format(wanted)} can't be reached", f"ask without {name}"
        )
    if name == "precision" and rounded > 1:
        raise QueryRefused(
            "at the highest price that a wish can have, ± is larger than the answer",
            "ask about more rows or in fewer groups",
        )
    digits = f"{rounded:.3g}" if float(f"{rounded:.3g}") >= reached else f"{rounded:.4g}"
    raise QueryRefused(
        f"{_WISHES[name].format(wanted)} needs a price of about {price:.3g}; a question of this "
        f"store can have {most:.3g} at most for a wish",
        f"{name} {digits} can be reached, at that price",
    )


def _without_pilots(question: Question) -> float:
    """Return the half-width of an interval that follows from public facts alone: see `interval`."""
    noise = (1.0 if question.scale is None else question.scale) * question.sigma_0
    noise, z, cut = noise / math.sqrt(question.price), question.z(), question.cut
    high = cut.most + z * math.hypot(noise, cut.sd)
    return max(z * noise, (z * noise + high) / 2 if cut.some else 0.0)
