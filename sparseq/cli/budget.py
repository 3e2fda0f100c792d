"""`sparseq budget`: what a store promises, and what that buys. All of it public."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparseq.cli.options import command, facts_format_option, open_store, store_argument
from sparseq.cli.output import json_text
from sparseq.cli.text import labelled, loud_lines, say
from sparseq.monitor.watch import begun_as
from sparseq.pictures.numbers import number, percent, upper
from sparseq.pictures.tables import format_table

if TYPE_CHECKING:
    from sparseq.store import Store

DELTAS = (1e-5, 1e-6, 1e-9, 1e-12)


@command(short_help="Show the guarantee, and what it buys.")
@store_argument
@facts_format_option
def budget(store: Path, format: str) -> None:
    """Show what STORE promises about all its answers: public facts.

    \b
    Examples:
      sparseq budget shop.sparseq
      sparseq budget shop.sparseq --format json
    """
    with open_store(store) as opened:
        facts = budget_facts(opened)
    say(json_text(facts) if format == "json" else budget_text(facts))


def budget_facts(store: Store) -> dict[str, Any]:
    """Return the public facts as plain data."""

    budget = store.budget
    return {
        "kappa": budget.kappa,
        "mu": budget.mu,
        "epsilon": [
            {
                "delta": d,
                "gdp": budget.epsilon(d) if budget.gaussian else None,
                "zcdp": budget.epsilon_zcdp(d),
            }
            for d in DELTAS
        ],
        "norm_budget": budget.norm_budget,
        "parts": {pot.name.lower(): part for pot, part in store.parts.items()},
        "sigma_0": budget.sigma_0,
        "worst_case_queries": budget.worst_case_queries(),
        "watch": begun_as(store),
        "releases": store.releases,
        "halt": store.halt,
        "seeded": store.seed is not None,
        "losses": [asdict(loss) for loss in store.losses],
    }


def budget_text(facts: dict[str, Any]) -> str:
    """Return the facts in words."""
    claims = ["zcdp"] if facts["mu"] is None else ["gdp", "zcdp"]
    rows = [
        [f"{e['delta']:g}".replace("e-0", "e-"), *(upper(e[claim]) for claim in claims)]
        for e in facts["epsilon"]
    ]
    names = ["at delta", "epsilon", "by zCDP alone"][: 1 + len(claims)]
    epsilons = format_table(names, rows, ["l", *"." * len(claims)])
    gdp = "" if facts["mu"] is None else f", mu {number(facts['mu'])} (GDP)"
    stays = (
        "stays out of all later ones" if facts["halt"] else "is left out of it, and pays nothing"
    )
    lines = [
        ("private", f"kappa {number(facts['kappa'])} (zCDP){gdp}, for all answers ever, together"),
        ("", epsilons),
        ("noise", f"sigma_0 {number(facts['sigma_0'])}: the noise of a query of scale 1"),
        ("budget", f"norm_budget {number(facts['norm_budget'])}: a person pays 1 for a count, "
                   f"and whoever can't pay\nfor a query {stays}"),
        *aside_lines(facts["parts"]),
        *_watch_lines(facts["watch"]),
        *[("lost", f"after release {loss['after']:,}, {loss['at']}: {loss['missing']}")
          for loss in facts["losses"]],
        ("so far", f"{facts['releases']:,} releases; there is no limit"),
        ("compare", "one budget for everybody, at the same noise and guarantee, ends after "
                    f"{facts['worst_case_queries']:,} queries"),
    ]  # fmt: skip
    loud = loud_lines(facts["seeded"], len(facts["losses"]))
    return "\n".join([*loud, labelled(lines)])


def aside_lines(parts: dict[str, float]) -> list[tuple[str, str]]:
    """Return what of norm_budget is set aside, and what for: public."""
    whole = sum(parts.values())
    why = {
        "watch": "to estimate how many people have been left out;\n"
        "its alarm is no Gaussian, so only zCDP is claimed",
        "forecast": "to estimate what they would still contribute",
    }
    lines = [
        f"{number(part)} ({percent(round(part / whole, 6))}) {why[name]}"
        for name, part in parts.items()
        if name in why
    ]
    left = [f"{number(parts['queries'])} of {number(whole)} are left for queries"] if lines else []
    return [("set aside" if i == 0 else "", line) for i, line in enumerate([*lines, *left])]


def _watch_lines(begun: dict[str, Any] | None) -> list[tuple[str, str]]:
    if begun is None:
        return []
    below = ", ".join(percent(share) for share in begun["thresholds"])
    alarm = f"; the alarm is for less than {below} active" if below else "; there is no alarm"
    return [("watch", f"for {begun['ticks']:,} ticks{alarm}")]
