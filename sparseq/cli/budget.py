"""`sparseq budget` and `card`: what a store promises, and what that buys. All of it public."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sparseq.base.errors import ParameterError
from sparseq.base.texts import json_text, shown
from sparseq.cli.options import command, facts_format_option, output_option, store_argument
from sparseq.cli.output import Output
from sparseq.cli.text import course_text, label_lines, loud_lines, say, windows_line
from sparseq.pictures.tables import format_table, number, percent, upper
from sparseq.store.store_promise import NOTES, open_promise


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
    with open_promise(store) as promise:
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
        approximate += ", of one window" if facts["unit"] else ""
    stays = (
        "stays out of all later ones" if facts["halt"] else "is left out of it, and pays nothing"
    )
    budget = f"{number(facts['norm_budget'])} for each person: "
    if facts["weighted"] is None:
        budget += f"a person pays 1 for a count, and whoever can't pay\nfor a query {stays}"
    else:
        budget += course_text(facts["weighted"])
    unit = facts["unit"]
    lines = [
        (
            "private",
            f"kappa {number(facts['kappa'])} (zCDP){gdp}, for all answers ever, together"
            + approximate,
        ),
        ("", epsilons),
        *([("windows", windows_line(unit, facts["lifetime_kappa"]))] if unit else []),
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
        ("so far", f"{facts['releases']:,} releases; there is no limit"),
        (
            "compare",
            "one budget for everybody, at the same noise and guarantee, ends after "
            f"{facts['worst_case_queries']:,} queries",
        ),
    ]
    loud = loud_lines(facts["seeded"], len(facts["losses"]))
    return "\n".join([*loud, label_lines(lines)])


def aside_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what of norm_budget is set aside, and what for: public."""
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
    """Return what a store has drawn from its population: public."""
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
    """Return what series have of every budget: public."""
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


# -- `sparseq card` --------------------------------------------------------------------------------

_TITLES = {
    "basic": "What is published",
    "dp_variant": "What is promised",
    "privacy_loss": "To whom, and how much",
    "deployment_model": "Whom one has to trust",
    "accounting": "How answers add up",
    "implementation": "How it is done",
    "so_far": "So far",
}


@command(short_help="Print a card to publish: what is promised to whom, and what was asked.")
@store_argument
@click.option(
    "--note",
    "notes",
    multiple=True,
    metavar="NAME=TEXT",
    help="What only you know: "
    + "; ".join(f"{k}: {v}" for k, v in NOTES.items())
    + ". Repeatable.",
)
@click.option(
    "--format",
    "format",
    type=click.Choice(["markdown", "json"]),
    default="markdown",
    show_default=True,
    help="Format of the card.",
)
@output_option
def card(store: Path, notes: tuple[str, ...], format: str, output: Path | None) -> None:
    """Print a deployment card of STORE: public facts, to publish beside the answers.

    It has the parts of the registry of deployments (https://registry.opendp.org), and what the
    guidelines of NIST ask for (SP 800-226): who is protected, how much, by what, what was asked so
    far, and what is not covered.

    \b
    Examples:
      sparseq card shop.sparseq
      sparseq card shop.sparseq --note "curator=A shop" --note "use=weekly figures" -o card.md
      sparseq card shop.sparseq --format json
    """
    said = dict(map(_note, notes))
    with open_promise(store) as promise:
        facts = promise.card(said)
    with Output(output, format) as out:
        out.write(json_text(facts) if format == "json" else card_text(facts, store.name))


def _note(text: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not value:
        raise ParameterError(f"--note {shown(text)} is not NAME=TEXT", '--note "curator=A shop"')
    return name, value


def card_text(facts: dict[str, Any], name: str) -> str:
    """Return a card in Markdown; what nobody has said is left out."""
    title = facts["basic"]["name"] or name
    lines = [f"# Privacy card: {_in_cell(title)}"]
    for part, heading in _TITLES.items():
        rows = [(k.replace("_", " "), _value(k, v)) for k, v in facts[part].items() if _is_said(v)]
        lines += ["", f"## {heading}", "", "| | |", "|---|---|"]
        lines += [f"| {_in_cell(k)} | {_in_cell(v)} |" for k, v in rows]
    return "\n".join(lines)


def _is_said(value: Any) -> bool:
    return value not in (None, [], {}, 0.0) or value is False


def _value(name: str, value: Any) -> str:
    """Return a value of a card in words; an epsilon is rounded up."""
    if isinstance(value, dict):
        pairs = [(k, v) for k, v in value.items() if _is_said(v)]
        return ", ".join(f"{k.replace('_', ' ')} {_value(k, v)}" for k, v in pairs)
    if isinstance(value, list):
        return "; ".join(_value(name, v) for v in value)
    if name == "epsilon":
        return upper(value)
    if name == "right_guess":
        return f"whether somebody is in the data: {percent(round(value, 3))}, where a coin has 50 %"
    if isinstance(value, float):
        return number(value) if value >= 1e-3 else f"{value:g}".replace("e-0", "e-")
    return str(value)


def _in_cell(text: str) -> str:
    return shown(text, None).replace("|", "\\|")
