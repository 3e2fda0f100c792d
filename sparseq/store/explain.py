"""An explanation of a query beforehand, from public facts, without access to data or charges."""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from sparseq.accounting import UNITS_PER_NORM
from sparseq.answers.answer_texts import key_texts
from sparseq.answers.interval_words import WHY
from sparseq.base.defaults import BETA
from sparseq.pictures.bounded_numbers import format_bound, number, percent, upper
from sparseq.pictures.tables import format_table
from sparseq.pictures.text_lines import label_lines, one_line
from sparseq.question.plan import calibrate
from sparseq.released.result_columns import ColumnRole, column_parts
from sparseq.store.bound_questions import Lowers
from sparseq.store.whole_price import WholePrice, price_whole
from sparseq.stream.expected_width import Outlook, doubt, least_half_width, outlook, said
from sparseq.stream.joint_unit import joint
from sparseq.stream.question import question_of
from sparseq.stream.question_price import without_wish
from sparseq.stream.weighted_answer import asked_parts

if TYPE_CHECKING:
    from sparseq.accounting import Budget
    from sparseq.answers.answer import Answer
    from sparseq.question.plan import Domain, Options, Plan, Query
    from sparseq.stream.public_stream import PublicStream

_SHOWN_VALUES = 5
_OF_ENGINE = re.compile(r"\bby_user\.|#(?=\w+\")")


@dataclass(frozen=True, repr=False)
class Explanation:
    """The explanation of a query; a prompt shows it in words.

    Attributes:
        facts: The same as plain data.
        styled: The words, with colours.
        price: The price and the expected width of the intervals, in a few of these words.
    """

    facts: dict[str, Any]
    styled: str
    price: str = ""

    def __repr__(self) -> str:
        return click.unstyle(self.styled)


def explained(
    store: Lowers, query: Query, options: Options, known: Answer | None = None
) -> Explanation:
    """Explain a query, which may have a known answer, without asking or charging it."""
    stream = store.stream
    budget = stream.terms.budget
    if query.asks_nobody:
        none = {"release": 0, "half_width": {}, "free": True}
        line = label_lines([("query", query.text), ("known", WHY["public"])])
        return Explanation({"query": query.text, "known": none}, line, line)
    free = known is not None and stream.repeats(query, options)
    if free and options.over(query.options).wish is not None:  # it was met, at any price
        query, options = without_wish(query, options)
    whole = price_whole(store, query, options)
    notes = _first_notes(whole, query)
    query = replace(whole.query, notes=(*whole.query.notes, *notes))
    if stream.weighs(query):
        facts = weighted_facts(stream, query, options, whole)
        price = label_lines(weighted_price(facts, budget))
        text = weighted_text(query, facts, budget)
    else:
        plan = calibrate(query, budget, options)
        price = label_lines([*plan_price(plan, budget), ("noise", _bounds_text(plan))])
        facts, text = plan_facts(plan, budget), plan_text(plan, budget)
    facts |= {"charge": whole.charge, "charge_units": whole.units, "charge_exact": whole.exact}
    if whole.first:
        asked = [(text, one.units / UNITS_PER_NORM) for text, one in whole.first]
        facts["first"] = [{"query": text, "price": cost} for text, cost in asked]
        price = f"{price}\n{label_lines([('first', note) for note in notes])}"
    if known is None:
        return Explanation(facts, text, price)
    widths = _half_widths(known)
    facts["known"] = {"release": known.facts.release, "half_width": widths, "free": free}
    told = [f"{name} ± {format_bound(w)}" for name, w in widths.items() if w is not None]
    said = ", ".join(told) or "no interval"
    line = f"release {known.facts.release} has the answer: {said}. To ask is free."
    if known.facts.follows:
        line = f"from release {known.facts.release} follows {said}. "
        line += "To ask is free." if free else "To ask is expected to be finer."
    line = label_lines([("known", line)])
    return Explanation(facts, f"{line}\n{text}", line)


def _first_notes(whole: WholePrice, query: Query) -> list[str]:
    """Describe the questions asked before a question, and their price."""
    notes = []
    if query.unbounded is not None and whole.bounds:
        columns = ", ".join(column.name for column in query.unbounded.columns)
        cost = number(sum(one.units for one in whole.bounds) / UNITS_PER_NORM)
        notes.append(
            f"first, once for all questions: where {columns} lies is asked; it costs a person "
            f"{cost} at most; values beyond what is found count as its end"
        )
    for text, one in whole.first:
        cost = number(one.units / UNITS_PER_NORM)
        notes.append(f"asked first, for {cost} at most: {text}")
    if whole.first:
        notes.append(
            f"with what is asked first it costs a person {number(whole.charge)} at most; in its "
            "place in the rows above stands another number"
        )
    return notes


def _half_widths(answer: Answer) -> dict[str, float | None]:
    """Return the median half-width of the intervals of each noised column, where known."""
    table, found = answer.arrow(), {}
    for name, parts in column_parts(table).items():
        if ColumnRole.ERROR in parts:
            known = [x for x in table[parts[ColumnRole.ERROR]].to_pylist() if x is not None]
            found[name] = statistics.median(known) if known else None
    return found


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
    """Return the price of an answer in words, where queries do not weigh users."""
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
    """Return a weighted answer in words; its scale is unknown before the query."""
    lines = [("query", one_line(query.text)), ("rows", one_line(_rows_sql(query)))]
    lines += [("key", _domain_line(d)) for d in query.domains]
    values = "value" if query.coordinates == 1 else "values"
    noised = f"{query.coordinates:,} noised {values}, with intervals about everybody"
    lines.append(("answer", noised))
    lines += weighted_price(facts, budget)
    lines += [("note", note) for note in query.notes]
    return "\n".join([label_lines(lines), "", "Nothing was asked, nothing charged."])


def weighted_price(facts: dict[str, Any], budget: Budget) -> list[tuple[str, str]]:
    """Return the price and the expected width of a weighted answer in words."""
    if facts["pilots"]:
        scale = "pilots choose the scale"
    elif facts["cut"]:
        scale = f"scale {number(facts['scale'])}, as people have faded: no pilots"
    else:
        scale = f"nobody can be above scale {number(facts['scale'])}: no pilots"
    parts = [
        (facts["price"], "for the answer"),
        (facts["pilots"], "for pilots"),
        (facts["first_price"], "for what is asked once for many questions"),
    ]
    told = [f"{number(cost)} {what}" for cost, what in parts if cost]
    made = f": {', '.join(told)}" if len(told) > 1 else ""
    price = f"{upper(facts['own'], 6)} of {number(budget.norm_budget)} at most{made}"
    lines = [
        ("price", f"{price};\nwho contributes nothing pays nothing"),
        ("noise", f"{scale}; at scale 1, sigma is {number(facts['sigma_at_1'])}"),
    ]
    lines.append(("expect", "\n".join(_expect(facts))))
    if facts["parents"]:
        first = "once for all questions of this kind: " + ", ".join(facts["parents"])
        cost = number(facts["first_price"])
        lines.append(("first", f"{first};\nit costs a person {cost} at most"))
    return lines


def weighted_facts(
    stream: PublicStream, query: Query, options: Options, whole: WholePrice
) -> dict[str, Any]:
    """Return the facts about a weighted answer before the query, as plain data."""
    course, budget, price = stream.course, stream.terms.budget, whole.own
    assert course is not None
    options = options.over(query.options)
    asked = stream.asked_as(query, options)
    about, rows = course.about(query.span), stream.terms.rows
    parts = [(part, some) for some, part, _ in asked_parts(asked, options)]
    expected = outlook(course, asked, options, budget, rows, price.parts)
    questions = [
        question_of(joint(some, own, budget, rows), about, own, budget, BETA, pays)
        for (some, _, own), pays in zip(asked_parts(asked, options), price.parts, strict=True)
    ]
    return {
        "query": query.text,
        "keys": [{"name": d.name, "size": len(d.values)} for d in query.domains],
        "measures": [
            {"label": m.label, "kind": m.kind.value, "bins": m.bins} for m in query.measures
        ],
        "coordinates": query.coordinates,
        "price": price.answers / UNITS_PER_NORM,
        "pilots": price.pilots / UNITS_PER_NORM,
        "first_price": price.first / UNITS_PER_NORM,
        "own": price.units / UNITS_PER_NORM,
        "scale": None if price.pilots else questions[0].scale or 1.0,
        "cut": any(one.cut.some for one in questions),
        "sigma_at_1": budget.sigma_0 / math.sqrt(max(one.price for one in questions)),
        "least": {
            some.measures[0].label: least_half_width(course, some, options, budget, pays)
            for (part, some), pays in zip(parts, price.parts, strict=True)
            if len(some.measures) == 1 and part.statistic is None
        },
        "expected": {name: asdict(one) for name, one in expected.items()},
        "doubt": doubt(expected),
        "parents": list(price.once),
        "least_weight": about.least_allowance(price.base),
        "notes": list(query.notes),
        "charged": False,
    }


def _expect(facts: dict[str, Any]) -> list[str]:
    """Return the expected quality of an answer in words."""
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
    """Return which rows a query reads, without the names that only the engine needs."""
    relation = query.relation
    text = relation.sql + (f" WHERE {relation.where}" if relation.where else "")
    return _OF_ENGINE.sub("", re.sub(r"\b_user\b", "user", text))


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
    """Return the charge for a contribution at full scale to every measure, in squared norm."""
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
