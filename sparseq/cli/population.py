"""`sparseq population`: budgets of people that several stores draw on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import sparseq
from sparseq.base.defaults import KAPPA
from sparseq.base.json_text import json_text
from sparseq.base.texts import shown
from sparseq.cli.options import (
    FilePath,
    Group,
    NumberPair,
    Share,
    facts_format_option,
    open_store,
    store_argument,
)
from sparseq.cli.text import label_lines, say
from sparseq.pictures.bounded_numbers import number, percent, upper
from sparseq.pictures.tables import format_table
from sparseq.store.address import address
from sparseq.store.open_address import backend_at
from sparseq.store.population import create_population, open_population
from sparseq.store.store import Store
from sparseq.store.store_draws import move

population_argument = click.argument("population", type=FilePath(), metavar="POPULATION")


@click.group(cls=Group)
def population() -> None:
    """One budget for everybody, which several stores draw on.

    The stores are about the same people, each with one account. All answers of all stores together
    keep its promise. It is for the curator: POPULATION contains the people in their data.

    \b
    Examples:
      sparseq population create people.population --kappa 0.5 --marks /mnt/other/marks
      sparseq create visits.sparseq visits.csv --user id --population people.population --kappa 0.3
      sparseq create orders.sparseq orders.csv --user id --population people.population=50%
          --kappa 0.4
      sparseq population draw people.population orders.sparseq 25%
      sparseq population show people.population
    """


@population.command(short_help="Make a population.")
@population_argument
@click.option(
    "--kappa",
    type=float,
    metavar="K",
    help=f"Of all answers of all its stores together: zCDP level. [default: {KAPPA:g}]",
)
@click.option(
    "--epsilon",
    type=NumberPair(),
    metavar="E,DELTA",
    help="The same as epsilon, with its delta: 1,1e-6.",
)
@click.option(
    "--marks",
    metavar="FOLDER",
    help="Of the high-water marks of POPULATION and of all its stores, on another disk or machine, "
    "or in a bucket: s3://bucket/folder. [default: POPULATION.marks]",
)
def create(population: Path, **options: Any) -> None:
    """Make POPULATION: an account for each person, and no rows.

    Make stores with it: `sparseq create STORE … --population POPULATION`. Its people are the people
    of its stores; the same identifier is the same person.

    \b
    Examples:
      sparseq population create people.population --epsilon 2,1e-6
    """
    create_population(population, **options)
    facts = sparseq.population_facts(population)
    say(f"made {shown(population)}\n\n{_text(facts)}")


@population.command(short_help="Show what was promised, and what stores have drawn.")
@population_argument
@facts_format_option
def show(population: Path, format: str) -> None:
    """Show the promise of POPULATION and the draws of each of its stores: public facts.

    \b
    Examples:
      sparseq population show people.population
    """
    facts = sparseq.population_facts(population)
    say(json_text(facts) if format == "json" else _text(facts))


def _text(facts: dict[str, Any]) -> str:
    lines = [
        (
            "private",
            f"kappa {number(facts['kappa'])} (zCDP), mu {number(facts['mu'])} (GDP), "
            f"epsilon {upper(facts['epsilon'])} at delta 1e-6,\n"
            "for all answers of all stores ever, together",
        ),
        ("marks", shown(facts["marks"])),
        ("left", f"{_share(facts['least_left'])} of everybody's, if somebody is in all stores"),
    ]
    if not facts["stores"]:
        return label_lines([*lines, ("stores", "none yet")])
    rows = [
        [
            shown(one["name"]),
            _share(one["share"]),
            f"{one['draws']:,}",
            one["last_draw"].replace("T", " ")[:19],
        ]
        for one in facts["stores"]
    ]
    columns = ["store", "has drawn at most", "draws", "the last one (UTC)"]
    return f"{label_lines(lines)}\n\n{format_table(columns, rows, ['l', 'r', 'r', 'l'])}"


def _share(share: float) -> str:
    return percent(round(share, 6))


@population.command(short_help="Draw more for a store.")
@population_argument
@store_argument
@click.argument("share", type=Share())
def draw(population: Path, store: Path, share: float) -> None:
    """Draw SHARE of the most that STORE may ever draw, its kappa, from POPULATION.

    Each person in STORE is given that amount, or the rest of that person's budget. Choose SHARE
    from public facts alone.

    \b
    Examples:
      sparseq population draw people.population orders.sparseq 25%
    """
    with open_store(store) as opened:
        opened.draw(share, str(population))
        now = opened.budget()["population"]
    say(f"{shown(address(store))} has drawn {_share(now['drawn'])} of the most that it may")


@population.command(short_help="Tell a store where its population lies now.")
@population_argument
@store_argument
def relocate(population: Path, store: Path) -> None:
    """Tell STORE that its population is now at POPULATION. Draws that were begun are finished.

    \b
    Examples:
      sparseq population relocate /mnt/new/people.population orders.sparseq
    """
    known = Store(backend_at(store))
    try:
        move(known.stream, known.backend, population)
    finally:
        known.close()
    open_store(store).close()
    say(f"{shown(address(store))} draws from {shown(population)}")


@population.command(short_help="Erase people's identifiers; their accounts stay.")
@population_argument
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def forget(population: Path, ids: tuple[str, ...]) -> None:
    """Replace each identifier ID in POPULATION by a keyed hash.

    The person's charges stay: a person who comes back has the same account. Rows are in stores:
    erase them with `sparseq curator forget`.

    \b
    Examples:
      sparseq population forget people.population 4711
    """
    with open_population(population) as found:
        erased = found.forget(ids)
    say(f"erased {erased:,} identifiers; what was given to stores stays")
