"""An explanation of a query before it is asked: public facts, nothing touched or charged."""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from sparseq.base.defaults import BETA
from sparseq.pictures.answer_texts import key_texts
from sparseq.pictures.tables import (
    format_bound,
    format_table,
    label_lines,
    number,
    one_line,
    percent,
    upper,
)
from sparseq.released.render import ERROR_SUFFIX
from sparseq.sql.plan import calibrate
from sparseq.store.answer_facts import WHY
from sparseq.stream.expected_width import Outlook, doubt, least_half_width, outlook, said
from sparseq.stream.joint_unit import joint
from sparseq.stream.question import WeightedPart, once_for, parts_of, price_in, question_of
from sparseq.stream.stream_progress import QUESTION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sparseq.accounting import Budget
    from sparseq.accounting.pilots.choice import Question
    from sparseq.sql.plan import Domain, Options, Plan, Query
    from sparseq.store.answer import Answer
    from sparseq.stream.step import Stream

_SHOWN_VALUES = 5


@dataclass(frozen=True, repr=False)
class Explanation:
    """The explanation of a query; a prompt shows it in words.

    Attributes:
        facts: The same as plain data.
        styled: The words, with colours.
        price: What it would cost, and how wide its intervals will be, in a few of these words.
    """

    facts: dict[str, Any]
    styled: str
    price: str = ""

    def __repr__(self) -> str:
        return click.unstyle(self.styled)


def explained(
    stream: Stream, query: Query, options: Options, known: Answer | None = None
) -> Explanation:
    """Explain a query, of which an answer may be known; nothing is asked or charged."""
    budget = stream.terms.budget
    if query.asks_nobody:
        free = {"release": 0, "half_width": {}, "free": True}
        line = label_lines([("query", query.text), ("known", WHY["public"])])
        return Explanation({"query": query.text, "known": free}, line, line)
    knobs = options.over(query.options)
    if query.unbounded is not None and knobs.scale is None and knobs.sigma is None:
        columns = ", ".join(column for _, column in query.unbounded.columns)
        note = (
            f"first, once for all questions: where {columns} lies is asked; it costs a person "
            f"{number(query.unbounded.price)} at most; values beyond what is found count as its end"
        )
        after = query.unbounded.after
        query = replace(after, notes=(*after.notes, note))
    query = stream.known_first(query, options)
    first = [(one.text, dearest(stream, one, knobs.of_first)) for one in query.first]
    if first:
        query = replace(query, first=())
        notes = _first_notes(first, dearest(stream, query, options))
        query = replace(query, notes=(*query.notes, *notes))
    if stream.weighs(query):
        facts = weighted_facts(stream, query, options)
        price = label_lines(weighted_price(facts, budget))
        text = weighted_text(query, facts, budget)
    else:
        plan = calibrate(query, budget, options)
        price = label_lines([*plan_price(plan, budget), ("noise", _bounds_text(plan))])
        facts, text = plan_facts(plan, budget), plan_text(plan, budget)
    if first:
        facts["first"] = [{"query": text, "price": cost} for text, cost in first]
        price = f"{price}\n{label_lines([('first', note) for note in notes])}"
    if known is None:
        return Explanation(facts, text, price)
    widths = _half_widths(known)
    facts["known"] = {"release": known.facts.release, "half_width": widths}
    told = [f"{name} ± {format_bound(w)}" for name, w in widths.items() if w is not None]
    said = ", ".join(told) or "no interval"
    facts["known"]["free"] = stream.repeats(query, options)
    line = f"release {known.facts.release} has the answer: {said}. To ask is free."
    if known.facts.follows:
        line = f"from release {known.facts.release} follows {said}. "
        line += "To ask is free." if facts["known"]["free"] else "To ask is expected to be finer."
    line = label_lines([("known", line)])
    return Explanation(facts, f"{line}\n{text}", line)


def _first_notes(first: Sequence[tuple[str, float]], own: float) -> list[str]:
    """Say what is asked before a question, and what all of it costs; `own`: of the question."""
    total = own + sum(cost for _, cost in first)
    return [
        *(f"asked first, for {number(cost)} at most: {text}" for text, cost in first),
        f"with what is asked first it costs a person {number(total)} at most; in its place in the "
        "rows above stands another number",
    ]


def _half_widths(answer: Answer) -> dict[str, float | None]:
    """Return the median half-width of the intervals of each noised column, where one is known."""
    table, found = answer.arrow(), {}
    for name in answer.values:
        if name + ERROR_SUFFIX in table.column_names:
            known = [x for x in table[name + ERROR_SUFFIX].to_pylist() if x is not None]
            found[name] = statistics.median(known) if known else None
    return found


def price_of(stream: Stream, query: Query, options: Options) -> float:
    """Return what a question costs a person who contributes at full scale: public.

    A weighted question for which sigma, accuracy or precision was asked has its price when it is
    answered only; it counts as 1 here. Pilots of all rows, once for many questions, are not in it.

    Raises:
        QueryRefused: It has no public scale.
    """
    budget, options = stream.terms.budget, options.over(query.options)
    if query.asks_nobody:
        return 0.0
    if query.unbounded is not None and options.scale is None and options.sigma is None:
        return query.unbounded.price + price_of(stream, query.unbounded.after, options)
    if query.first:
        return _with_first(stream, query, options, price_of)
    if not stream.weighs(query):
        return worst_case_charge(calibrate(query, budget, options), budget)
    price, parts = _priced_parts(stream, query, options)
    answers, pilots = _most_costs(price, parts)
    return answers + pilots


def dearest(stream: Stream, query: Query, options: Options) -> float:
    """Return what a question costs a person at most, pilots of all rows included: public.

    Raises:
        QueryRefused: It has no public scale.
    """
    if query.first:
        return _with_first(stream, query, options, dearest)
    price, once = price_of(stream, query, options), list[str]()
    query = query if query.unbounded is None else query.unbounded.after
    if price and stream.weighs(query):
        _, parts = _priced_parts(stream, query, options.over(query.options))
        once = _asked_once(stream, parts)
    return price + len(once)


def _with_first(
    stream: Stream, query: Query, options: Options, cost: Callable[[Stream, Query, Options], float]
) -> float:
    """Return a cost of a question, with that of those before it whose answers are not known."""
    query = stream.known_first(query, options)
    first = (cost(stream, one, options.over(query.options).of_first) for one in query.first)
    return sum(first) + cost(stream, replace(query, first=()), options)


@dataclass(frozen=True)
class _PartFacts:
    """A part of a weighted question, the same as a question, and what is public about it."""

    part: WeightedPart
    query: Query
    question: Question


def _priced_parts(stream: Stream, query: Query, options: Options) -> tuple[float, list[_PartFacts]]:
    """Return the price of a weighted answer, and the parts of a question."""
    assert stream.course is not None
    price, budget = price_in(options), stream.terms.budget
    parts, course = [], stream.course.about(query.span)
    for part in parts_of(query):
        one = part.of(query)
        asked = joint(one, options, budget)
        question = question_of(asked, course, options, budget, BETA)
        parts.append(_PartFacts(part, one, question))
    return price, parts


def _asked_once(stream: Stream, parts: Sequence[_PartFacts]) -> list[str]:
    """Return the pilots of all rows, once for many questions, that parts would be the first for."""
    course = stream.course
    assert course is not None
    keys = dict.fromkeys(key for one in parts for key in once_for(one.query))
    return [key for key in keys if course.wants(key)]


def _most_costs(price: float, parts: Sequence[_PartFacts]) -> tuple[float, float]:
    """Return what the answers and the pilots cost a person at most."""
    costs = [(one.part.costs, one.question.pilots) for one in parts]
    answers = price * sum(answers for (answers, _), _ in costs)
    return answers, (QUESTION - 1) * sum(times for (_, times), has in costs if has)


def plan_text(plan: Plan, budget: Budget) -> str:
    """Return a plan in words."""
    query = plan.query
    lines = [("query", one_line(query.text)), ("rows", one_line(_rows_sql(query)))]
    lines += [("key", _domain_line(d)) for d in query.domains]
    values = "value" if query.coordinates == 1 else "values"
    lines.append(("answer", f"{query.coordinates:,} noised {values}"))
    lines += plan_price(plan, budget)
    lines += [("note", note) for note in query.notes]
    noise = format_table(*_noise_table(plan, budget))
    end = f"± with {percent(1 - plan.beta)} confidence. Nothing was asked, nothing charged."
    return "\n".join([label_lines(lines), "", noise, "", end])


def plan_price(plan: Plan, budget: Budget) -> list[tuple[str, str]]:
    """Return in words what an answer would cost, where people are in or out."""
    charge = worst_case_charge(plan, budget)
    share = upper(100 * charge / budget.norm_budget, 2)
    costs = f"a contribution the size of its scale costs {upper(charge)} of "
    return [
        (
            "price",
            f"{costs}{number(budget.norm_budget)} ({share} %);\n"
            "one of twice the size, four times as much; who contributes nothing pays nothing",
        )
    ]


def _bounds_text(plan: Plan) -> str:
    bounds = ", ".join(dict.fromkeys(f"± {format_bound(bound)}" for bound in plan.bounds))
    return f"{bounds} with {percent(1 - plan.beta)} confidence"


def weighted_text(query: Query, facts: dict[str, Any], budget: Budget) -> str:
    """Return in words what a weighted answer would be: its scale is known when it is asked."""
    lines = [("query", one_line(query.text)), ("rows", one_line(_rows_sql(query)))]
    lines += [("key", _domain_line(d)) for d in query.domains]
    values = "value" if query.coordinates == 1 else "values"
    noised = f"{query.coordinates:,} noised {values}, with intervals about everybody"
    lines.append(("answer", noised))
    lines += weighted_price(facts, budget)
    lines += [("note", note) for note in query.notes]
    return "\n".join([label_lines(lines), "", "Nothing was asked, nothing charged."])


def weighted_price(facts: dict[str, Any], budget: Budget) -> list[tuple[str, str]]:
    """Return in words what a weighted answer would cost, and how wide it will be."""
    if facts["pilots"]:
        paid, scale = f" and {number(facts['pilots'])} for the pilots", "pilots choose the scale"
    elif facts["scale"] is None:
        paid, scale = "", "the scale is told by how people have faded: no pilots"
    else:
        paid, scale = "", f"nobody can be above scale {number(facts['scale'])}: no pilots"
    most, whole = number(facts["price"]), number(budget.norm_budget)
    price = f"{most} of {whole} at most{paid}, from whoever contributes at full scale;"
    lines = [
        ("price", f"{price}\nwho contributes nothing pays nothing"),
        ("noise", f"{scale}; at scale 1, sigma is {number(facts['sigma_at_1'])}"),
    ]
    lines.append(("expect", "\n".join(_expect(facts))))
    if facts["parents"]:
        first = "once for all questions of this kind: " + ", ".join(facts["parents"])
        lines.append(("first", f"{first};\nit costs a person 1 at most, each"))
    return lines


def weighted_facts(stream: Stream, query: Query, options: Options) -> dict[str, Any]:
    """Return what is known of a weighted answer before it is asked, as plain data."""
    course, budget = stream.course, stream.terms.budget
    assert course is not None
    options = options.over(query.options)
    price, parts = _priced_parts(stream, query, options)
    answers, pilots = _most_costs(price, parts)
    faded = any(one.question.faded_as_all for one in parts)
    expected = outlook(course, query, options, budget, stream.terms.rows)
    return {
        "query": query.text,
        "keys": [{"name": d.name, "size": len(d.values)} for d in query.domains],
        "measures": [
            {"label": m.label, "kind": m.kind.value, "bins": m.bins} for m in query.measures
        ],
        "coordinates": query.coordinates,
        "price": answers,
        "pilots": pilots,
        "scale": None if pilots or faded else parts[0].question.scale or 1.0,
        "sigma_at_1": budget.sigma_0 / math.sqrt(price),
        "least": {
            one.query.measures[0].label: least_half_width(course, one.query, options, budget)
            for one in parts
            if len(one.query.measures) == 1 and one.part.statistic is None
        },
        "expected": {name: asdict(one) for name, one in expected.items()},
        "doubt": doubt(expected),
        "parents": _asked_once(stream, parts),
        "least_weight": course.about(query.span).least_allowance(price),
        "notes": list(query.notes),
        "charged": False,
    }


def _expect(facts: dict[str, Any]) -> list[str]:
    """Return in words what an answer is going to be like."""
    told = [
        f"{one_line(label, 40)} ± {format_bound(least)} at least"
        for label, least in facts["least"].items()
        if least is not None
    ]
    expected = {name: Outlook(**one) for name, one in facts["expected"].items()}
    if expected:
        return [*told, f"if all rows are in it: {said(expected)}"]
    return [*told, "how wide is not known before somebody has asked about these rows"]


def _rows_sql(query: Query) -> str:
    relation = query.relation
    return relation.sql + (f" WHERE {relation.where}" if relation.where else "")


def _domain_line(domain: Domain) -> str:
    values = key_texts(domain.values[:_SHOWN_VALUES])
    more = ", …" if len(domain.values) > _SHOWN_VALUES else ""
    return one_line(f"{domain.name}: {len(domain.values):,} values ({', '.join(values)}{more})")


def _noise_table(plan: Plan, budget: Budget) -> tuple[list[str], list[list[str]], list[str]]:
    columns = ["noised", "scale", "sigma", "lattice", "±", "Corollary 4.7"]
    facts = plan_facts(plan, budget)["measures"]
    rows = [
        [
            one_line(m["label"], 60),
            number(m["scale"]),
            number(m["sigma"]),
            number(m["granularity"]),
            format_bound(m["bound"]),
            format_bound(m["corollary_bound"]),
        ]
        for m in facts
    ]
    return columns, rows, ["l", ".", ".", ".", ".", "."]


def worst_case_charge(plan: Plan, budget: Budget) -> float:
    """Return what a contribution at full scale to every measure costs, in squared norm."""
    norms = [n.scale * budget.sigma_0 / n.sigma for n in plan.noise]
    return sum(norm * norm for norm in norms)  # a power would raise where this is infinite


def plan_facts(plan: Plan, budget: Budget) -> dict[str, Any]:
    """Return a plan as plain data."""
    query = plan.query
    measures = zip(query.measures, plan.noise, plan.bounds, plan.corollary_bounds, strict=True)
    return {
        "query": query.text,
        "relation": {"sql": query.relation.sql, "where": query.relation.where},
        "keys": [
            {"name": d.name, "size": len(d.values), "position": d.position.sql}
            for d in query.domains
        ],
        "measures": [
            {
                "label": m.label,
                "kind": m.kind.value,
                "value": m.value.sql if m.value is not None else None,
                "bins": m.bins,
                "scale": n.scale,
                "granularity": n.granularity,
                "sigma": n.sigma,
                "bound": bound,
                "corollary_bound": corollary,
            }
            for m, n, bound, corollary in measures
        ],
        "coordinates": query.coordinates,
        "confidence": 1 - plan.beta,
        "worst_case_charge": worst_case_charge(plan, budget),
        "notes": list(query.notes),
        "charged": False,
    }
