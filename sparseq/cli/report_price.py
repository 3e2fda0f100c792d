"""The price of a report beforehand, and series for its repeated questions.

Everything is public: prices follow from the questions and the release log.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from sparseq.base.errors import ParameterError
from sparseq.pictures.bounded_numbers import number, percent, upper
from sparseq.series.query_series import tick_cost
from sparseq.store.whole_price import price_in_turn

if TYPE_CHECKING:
    from sparseq.question.plan import Options, Query
    from sparseq.store.store import Store

FULL = 0.9
"""Least weight of a person after a report with repeated questions."""
_LAST = 1_000  # releases to search for repeated questions
_FOR_SERIES = 0.8  # part of the remaining budget for questions to offer for series
_TICKS = 52


class ReportQuestion(NamedTuple):
    """One question of a report: a name for its series, the query, its options."""

    name: str
    query: Query
    options: Options


@dataclass(frozen=True)
class ReportPrice:
    """The price of a report.

    Attributes:
        questions: Number of its questions.
        asked: Number of new questions, whose answers are not read back.
        charge, norm_budget: The most that one person pays, and that person's budget: squared norms.
        used, used_after: Upper bounds of the share of the budget for questions used by a person in
            every question, before and after the report. None: queries do not weigh users.
        weight, weight_after: The weight of such a person.
        repeated: The questions that are asked again because rows have arrived.
    """

    questions: int
    asked: int
    charge: float
    norm_budget: float
    used: float | None = None
    used_after: float | None = None
    weight: float = 1.0
    weight_after: float = 1.0
    repeated: tuple[ReportQuestion, ...] = ()

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The price in words, each line with its label."""
        free = self.questions - self.asked
        are = "question is" if self.questions == 1 else "questions are"
        what = f"{self.asked:,} of {self.questions:,} {are} asked"
        what += f", {free:,} are read back" if free else ""
        lines = [("report", what)]
        if not self.asked:
            return [("report", "all of its questions are read back: nothing is charged")]
        share = upper(100 * self.charge / self.norm_budget, 2)
        lines.append(
            (
                "price",
                f"{upper(self.charge)} of {number(self.norm_budget)} at most ({share} %), "
                "for a person who is in all of them",
            )
        )
        if self.used is not None and self.used_after is not None:
            lines.append(
                (
                    "budget",
                    f"at most {_share(self.used)} of it is used now, {_share(self.used_after)} "
                    "after this report; a person who\nwas in every question counts for "
                    f"{_share(self.weight)} now, for {_share(self.weight_after)} after it",
                )
            )
        return lines

    @property
    def burns(self) -> bool:
        """True if repeated questions make the intervals of the next page wider."""
        return bool(self.repeated) and self.weight_after < FULL

    def check(self) -> None:
        """Refuse a report whose repeated questions make its intervals wider each time.

        Raises:
            ParameterError: They make the intervals wider.
        """
        if self.burns:
            raise ParameterError(
                f"{len(self.repeated)} of its questions were asked before, of earlier rows; asked "
                "anew for each page they use the budget up: a person who was in every question "
                f"would count for {_share(self.weight_after)}, and intervals widen",
                "make series of them, as above (docs/weekly-report.md), or report --anyway",
            )


def price_report(store: Store, asked: Sequence[ReportQuestion]) -> ReportPrice:
    """Return the price of a report's questions, without asking or charging them.

    Raises:
        QueryRefused: A question can't be priced.
    """
    with store.stream.held():
        prices = price_in_turn(store, [(one.query, one.options) for one in asked])
    new = [(one, price) for one, price in zip(asked, prices, strict=True) if price is not None]
    before = {_normal(r.query) for r in store.releases(_LAST)} if new else set()
    price = ReportPrice(
        len(asked),
        len(new),
        sum(price.charge for _, price in new),
        store.guarantee.norm_budget,
        repeated=tuple(one for one, _ in new if _normal(one.query.text) in before),
    )
    course, begun = store.promise.course, store.promise.begun
    after = new[-1][1].own.course if new else course
    if course is None or begun is None or after is None:
        return price
    used, used_after = (1 - max(c.about(None).least_left, 0) / begun.least for c in (course, after))
    weights = (c.about(None).least_allowance(1.0) if c.sure else 0.0 for c in (course, after))
    return replace(
        price,
        used=used,
        used_after=used_after,
        weight=next(weights),
        weight_after=next(weights),
    )


def series_lines(price: ReportPrice, store: Store, place: str) -> list[str]:
    """Return the commands that make series of the repeated questions.

    Each takes an equal part of everybody's remaining budget for questions, four fifths together. A
    count of people needs no plan; for other questions `curator plan` tries the methods on the
    store's own rows. A series is one COUNT or SUM a file, so an average becomes two.
    """
    left, lines, files = 1.0, list[str](), list[str]()
    found = [part for one in price.repeated for part in _parts_of(one)]
    each = _FOR_SERIES / max(len(found), 1)
    for name, needs_plan in found:
        files.append(f"{name}.sql")
        share, left = int(100 * each / left), left - each
        if needs_plan:
            lines.append(
                f"sparseq curator plan {place} --queries {name}.sql --every 1w --from MONDAY "
                f"--to MONDAY --share {share}%  # says how: sparseq purpose add {place} …"
            )
        else:
            lines.append(f"sparseq purpose add {place} {name}={share}%,ticks={_TICKS}")
    times = {table.time for table in store.catalog.private if table.time}
    time = min(times) if len(times) == 1 else "day"
    several = [one.name for one in price.repeated if len(one.query.measures) > 1]
    return [
        *lines,
        f"sparseq monitor {place} {' '.join(files)} --every 1w --from MONDAY --output weekly.csv",
        f"each .sql: its question about one week, WHERE {time} >= :week AND {time} < :next_week",
        *(
            f"{name}_1.sql and so on: one COUNT or SUM a file; an average is their quotient"
            for name in several
        ),
        'in the report, one part with series = "weekly.csv" stands for them',
    ]


def _parts_of(one: ReportQuestion) -> list[tuple[str, bool]]:
    """Return the names of a question's series, and whether each needs a plan."""
    measures = one.query.measures
    if len(measures) > 1:
        return [(f"{one.name}_{k}", True) for k, _ in enumerate(measures, 1)]
    return [(one.name, tick_cost(one.query) > 1)]


def series_name(heading: str, number: int) -> str:
    """Return a name for the series of a part.

    Example:
        >>> series_name("Visits, by ward", 1), series_name("", 2)
        ('visits_by_ward', 'part_2')
    """
    return re.sub(r"\W+", "_", heading.lower()).strip("_")[:40] or f"part_{number}"


def _normal(text: str) -> str:
    return " ".join(text.split())


def _share(share: float) -> str:
    return percent(round(min(max(share, 0.0), 1.0), 2))
