"""What a query would be, before it is asked: public facts, nothing touched, nothing charged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparseq.cli.output import json_text
from sparseq.cli.show import key_texts
from sparseq.cli.text import labelled, one_line
from sparseq.pictures.numbers import format_bound, number, percent, upper
from sparseq.pictures.tables import format_table

if TYPE_CHECKING:
    from sparseq.accounting import Budget
    from sparseq.query.plan import Domain, Plan

_SHOWN_VALUES = 5


def plan_text(plan: Plan, budget: Budget) -> str:
    """Return a plan in words."""
    query = plan.query
    lines = [("query", one_line(query.text)), ("rows", one_line(_rows_sql(plan)))]
    lines += [("key", _domain_line(d)) for d in query.domains]
    values = "value" if query.coordinates == 1 else "values"
    lines.append(("answer", f"{query.coordinates:,} noised {values}"))
    charge = worst_case_charge(plan, budget)
    lines.append(
        (
            "price",
            f"a contribution the size of its scale costs {upper(charge)} of "
            f"{number(budget.norm_budget)} ({upper(100 * charge / budget.norm_budget, 2)} %);\n"
            "one of twice the size, four times as much; who contributes nothing pays nothing",
        )
    )
    lines += [("note", note) for note in query.notes]
    noise = format_table(*_noise_table(plan, budget))
    end = f"± with {percent(1 - plan.beta)} confidence. Nothing was asked, nothing charged."
    return "\n".join([labelled(lines), "", noise, "", end])


def _rows_sql(plan: Plan) -> str:
    relation = plan.query.relation
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
    return sum((n.scale * budget.sigma_0 / n.sigma) ** 2 for n in plan.noise)


def plan_json(plan: Plan, budget: Budget) -> str:
    """Return a plan as JSON."""
    return json_text(plan_facts(plan, budget))


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
