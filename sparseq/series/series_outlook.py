"""The outlook of a series before its first tick, from public facts alone.

A series without a part of its own is charged to the part of the questions: each tick is one more
question. If it would take more than half of that part, it is refused before its first tick. A plain
series with a part is refused if each tick needs pilots, as its ± could be several times the bound
of the noise. The refusal names the command to use instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sparseq.accounting import simultaneous_bound
from sparseq.base.defaults import CONFIDENCE
from sparseq.base.errors import QueryRefused
from sparseq.ledger.purposes import Purpose
from sparseq.question.plan import Options, calibrate
from sparseq.series.query_series import QuerySeries, RowSource, priced, tick_cost
from sparseq.series.ticks import Ticks
from sparseq.series.watch_rows import horizon_of
from sparseq.store.store import Store
from sparseq.stream.budget_part import BudgetPart, of_purpose
from sparseq.stream.full_weight import planned_price
from sparseq.stream.new_purpose import foreseen
from sparseq.stream.stream_progress import Course

MOST_OF_QUESTIONS = 0.5


@dataclass(frozen=True)
class SeriesOutlook:
    """The outlook of one series: public facts.

    Attributes:
        name: Name of the series.
        purpose: Purpose with its part; None: the part of questions pays for it.
        asked, ticks: Numbers of earlier ticks, and of ticks to come.
        first, last: Expected errors of the next tick and of the last one; 0 if unknown.
        share: Share of the part of questions that the ticks to come take.
        piloted: It has a part, and each tick has pilots: the cut of users with many rows is
            estimated at each tick, from few users and at a part of the price.
    """

    name: str
    purpose: Purpose | None
    asked: int
    ticks: int
    first: float = 0.0
    last: float = 0.0
    share: float = 0.0
    piloted: bool = False


def outlooks(store: Store, sources: Iterable[RowSource], ticks: Ticks) -> list[SeriesOutlook]:
    """Return the outlook of each series, without asking a question."""
    return [_outlook(store, one, ticks) for one in sources if isinstance(one, QuerySeries)]


def planned_outlook(series: QuerySeries, ticks: Ticks, asked: Purpose) -> SeriesOutlook:
    """Return the outlook of a series with a part of the budget from now on.

    Raises:
        ParameterError: It can't have that part.
    """
    stream = series.store.stream
    part = next(of_purpose(foreseen(stream, asked), stream.terms))
    return _expect(series, ticks, part, priced(series.options, series.lowered(ticks[0])))


def _outlook(store: Store, series: QuerySeries, ticks: Ticks) -> SeriesOutlook:
    part = store.stream.part(series.part.answers)
    return _expect(series, ticks, part, series.priced(series.lowered(ticks[0])))


def _expect(series: QuerySeries, ticks: Ticks, part: BudgetPart, options: Options) -> SeriesOutlook:
    store, horizon = series.store, horizon_of(ticks) if ticks.last is None else len(ticks)
    asked = len(store.releases_of(series.request(ticks[k]) for k in range(horizon)))
    left = max(horizon - asked, 1) if ticks.last is None else horizon - asked
    told = SeriesOutlook(series.name, part.purpose, asked, left)
    if left <= 0:
        return told
    query, course = series.lowered(ticks[0]), part.course
    confidence = series.options.confidence or CONFIDENCE
    if course is None:
        noise = calibrate(query, part.budget, series.options).noise[0]
        width = float(simultaneous_bound(noise.sigma, query.coordinates, 1 - confidence))
        return replace(told, first=width, last=width)
    from sparseq.stream.expected_width import expected_widths

    cost, about = tick_cost(query), course.about(query.span)
    later = _later_course(about, left - 1, cost)
    if part.purpose is not None:  # all ticks to come share what is left
        later = replace(about, answers=about.answers + left - 1, least=about.least / left)
    first, last = (expected_widths(c, query, options, part.budget)[0] for c in (course, later))
    if part.purpose is not None:
        return replace(told, first=first, last=last, piloted=tick_cost(query) > 1)
    whole = planned_price(part.budget.norm_budget) * float(store.promise.for_questions)
    return replace(told, first=first, last=last, share=left * cost / whole)


def worst_case_bound(series: QuerySeries, ticks: Ticks) -> tuple[float, int] | None:
    """Return the bound of worst-case composition on the series' part, and its number of ticks.

    None if it is not known. It is known only if each person is in one number, once: then nothing
    has to be cut, and one fixed plan is the noise of all ticks.
    """
    part, query = series.part, series.lowered(ticks[0])
    if tick_cost(query) > 1:
        return None
    many = horizon_of(ticks) if ticks.last is None else len(ticks)
    many = many if part.purpose is None else part.purpose.ticks
    sigma = part.budget.worst_case_sigma(many)
    confidence = series.options.confidence or CONFIDENCE
    return float(simultaneous_bound(sigma, 1, 1 - confidence, lattice_step=1.0)), many


def about_everybody(series: QuerySeries) -> bool:
    """Return True if the intervals of a series cover all users, whatever budget they have left."""
    part = series.part
    if part.purpose is not None:
        return True
    return series.store.stream.part(part.answers).course is not None


def refuse_bad_series(expected: Sequence[SeriesOutlook]) -> None:
    """Refuse series whose last ticks, or whose intervals, would be of little use.

    A series that was begun before is continued.

    Raises:
        QueryRefused: They would together take most of the part of questions; a series is asked for
            more ticks than its part is planned for; or it is plain, and its ticks need pilots.
    """
    for told in expected:
        if told.purpose is not None and told.piloted and not told.asked and told.ticks:
            raise QueryRefused(
                f"{told.name} is plain, and no single count of users: its ± could be several times "
                "the bound of its noise",
                f"find another method: sparseq curator plan STORE --queries {told.name}.sql --from "
                f"DATE --to DATE --share {told.purpose.share:.0%}; or say --anyway",
            )
        if told.purpose is not None and told.asked + told.ticks > told.purpose.ticks:
            raise QueryRefused(
                f"{told.name} has a part of the budget for {told.purpose.ticks:,} ticks, and "
                f"{told.asked + told.ticks:,} are asked for",
                f"end it with --to, or give another series a part: sparseq purpose add STORE "
                f"{told.name}_2=20%,ticks={told.ticks}",
            )
    begun = [told for told in expected if told.share]
    share, ticks = sum(told.share for told in begun), max((t.ticks for t in begun), default=0)
    if share > MOST_OF_QUESTIONS:
        names, last = ", ".join(t.name for t in begun), max(t.last for t in begun)
        raise QueryRefused(
            f"{ticks:,} ticks of {names} would take {share:.0%} of what the store has for "
            f"questions, and end at ± {last:,.3g}",
            f"give each series a part of its own: sparseq purpose add STORE {begun[0].name}=40%,"
            f"ticks={begun[0].ticks} (`sparseq plan` finds a better one); or say --anyway",
        )


def _later_course(course: Course, ticks: int, cost: float) -> Course:
    for _ in range(ticks):
        course = course.after(cost, 1.0)
    return course
