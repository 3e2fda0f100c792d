"""`sparseq budget`: the promise of a store and its worth in answers, both public."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import sparseq
from sparseq.base.json_text import json_text
from sparseq.base.texts import count_of, shown
from sparseq.cli.options import (
    StoreAddress,
    check_one_place,
    command,
    facts_format_option,
    server_option,
)
from sparseq.cli.text import course_text, label_lines, loud_lines, say, statement_lines
from sparseq.pictures.bounded_numbers import number, percent, upper
from sparseq.pictures.tables import format_table
from sparseq.store.store_promise import open_promise


@command(short_help="Show the guarantee, and what it buys.")
@click.argument("store", type=StoreAddress(), required=False)
@server_option
@facts_format_option
def budget(store: Path | None, server: str | None, format: str) -> None:
    """Show the promise of STORE about all its answers: public facts.

    \b
    Examples:
      sparseq budget shop.sparseq
      sparseq budget shop.sparseq --format json
      sparseq budget --server https://numbers.example.org
    """
    check_one_place(store, server)
    if server is not None:
        with sparseq.connect(server, token="") as remote:
            facts = remote.budget()
    else:
        with open_promise(Path(str(store))) as promise:
            facts = promise.facts()
    say(json_text(facts) if format == "json" else budget_text(facts))


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
    approximate = ""
    if facts["keys_delta"]:
        approximate = f",\nbut for keys_delta {facts['keys_delta']:g}: {facts['promise']}"
    stays = (
        "stays out of all later ones" if facts["halt"] else "is left out of it, and pays nothing"
    )
    unit = facts["statement"]["unit"]
    budget = f"{number(facts['norm_budget'])} for {unit}: "
    if facts["weighted"] is None:
        budget += f"it pays 1 for a count, and what can't pay\nfor a query {stays}"
    else:
        budget += course_text(facts["weighted"])
    lines = [
        (
            "private",
            f"kappa {number(facts['kappa'])} (zCDP){gdp}, for all answers ever, together"
            + approximate,
        ),
        ("", epsilons),
        *statement_lines(facts["statement"]),
        ("noise", f"sigma_0 {number(facts['sigma_0'])}: the noise of a query of scale 1"),
        *_least_lines(facts["least_people"]),
        ("budget", budget),
        *population_lines(facts["population"]),
        *purpose_lines(facts["purposes"]),
        *aside_lines(facts),
        *_watch_lines(facts["watch"]),
        *[
            ("lost", f"after release {loss['after']:,}, {loss['at']}: {loss['missing']}")
            for loss in facts["losses"]
        ],
        ("so far", f"{count_of(facts['releases'], 'release')}; there is no limit"),
        (
            "compare",
            "one budget for everybody, at the same noise and guarantee, ends after "
            f"{facts['worst_case_queries']:,} queries",
        ),
    ]
    loud = loud_lines(facts["seeded"], len(facts["losses"]))
    return "\n".join([*loud, label_lines(lines)])


def aside_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the reserved parts of norm_budget and their purposes: public."""
    parts, whole = facts["parts"], facts["norm_budget"]
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
    left = f"{number(round(parts['queries'], 6))} of {number(whole)} are left for questions"
    lines += [left] * bool(lines or facts["purposes"])
    return [("set aside" if i == 0 else "", line) for i, line in enumerate(lines)]


def population_lines(drawn: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Return the draws of a store from its population: public."""
    if drawn is None:
        return []
    began = "; a draw was begun, and is not done" * drawn["begun"]
    return [
        (
            "population",
            f"{shown(drawn['place'])} (kappa {number(drawn['kappa'])}, for all of its stores "
            f"together):\n{percent(round(drawn['drawn'], 6))} of the most that this one may draw "
            f"is drawn{began}",
        )
    ]


def purpose_lines(purposes: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the parts of every budget that series have: public."""
    lines = [
        f"{p['name']} has {percent(p['share'])} of {'what was left' if p['later'] else 'it'} "
        f"(kappa {number(p['kappa'])}) for {p['ticks']:,} ticks: a count has noise of sigma "
        f"{number(p['sigma'])}"
        for p in purposes
    ]
    return [("series" if i == 0 else "", line) for i, line in enumerate(lines)]


def _least_lines(least: int) -> list[tuple[str, str]]:
    if not least:
        return []
    return [("shown", f"nothing about fewer than {least:,} people, as counted with noise")]


def _watch_lines(begun: dict[str, Any] | None) -> list[tuple[str, str]]:
    if begun is None:
        return []
    below = ", ".join(percent(share) for share in begun["thresholds"])
    alarm = f"; the alarm is for less than {below} active" if below else "; there is no alarm"
    return [("watch", f"for {begun['ticks']:,} ticks{alarm}")]
