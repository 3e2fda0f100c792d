"""`sparseq purpose`: series with a reserved part of every budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sparseq.base.json_text import json_text
from sparseq.cli.options import Group, facts_format_option, open_store, store_argument
from sparseq.cli.text import course_text, label_lines, say
from sparseq.ledger.purposes import Purpose, kept
from sparseq.pictures.bounded_numbers import number, percent
from sparseq.pictures.tables import format_table
from sparseq.store.store_promise import open_promise
from sparseq.stream.new_purpose import add_purpose

if TYPE_CHECKING:
    from sparseq.ledger.purposes import Purpose
from sparseq.cli.purpose_text import PurposeText, SaidPurpose, purpose_of, written


@click.group(cls=Group)
def purpose() -> None:
    """Give a series a part of every budget for itself.

    Other questions do not change the plan of such a series, and the series leaves their budget
    alone.

    \b
    Examples:
      sparseq purpose add shop.sparseq weekly=20%,ticks=104
      sparseq purpose list shop.sparseq
    """


@purpose.command(short_help="Give a series a part of what everybody has left for questions.")
@store_argument
@click.argument("series", type=PurposeText(), metavar="NAME=SHARE,ticks=N,…")
def add(store: Path, series: SaidPurpose) -> None:
    """Move SHARE of each person's remaining budget for questions to the series NAME.

    NAME is the name of its query's file, without .sql. Each person gives the same share of that
    person's own remaining budget. `sparseq plan` prints the words to write after it.

    \b
    Examples:
      sparseq purpose add shop.sparseq weekly=20%,ticks=104
      sparseq purpose add shop.sparseq daily_buyers=30%,ticks=365,counts=17,forecast=5%,cap=10%
    """
    with open_store(store) as opened:
        before = opened.course_facts()
        added = add_purpose(opened.stream, purpose_of(series))
        after = opened.course_facts()
        noise = added.budget().sigma_0
    lines = [
        ("added", f"{added.name}: {percent(added.share)} of what everybody had left for questions"),
        ("noise", f"sigma {number(noise)} for a count of people, for {added.ticks:,} ticks"),
    ]
    if before is not None and after is not None:
        lines.append(("questions", course_text(after)))
    say(label_lines(lines))


@purpose.command("list", short_help="List the series that have a part of their own.")
@store_argument
@facts_format_option
def list_purposes(store: Path, format: str) -> None:
    """List the series of STORE with a reserved part of every budget: public facts.

    \b
    Examples:
      sparseq purpose list shop.sparseq
    """
    with open_promise(store) as promise:
        found = promise.purposes
    if format == "json":
        say(json_text(kept(found)))
        return
    if not found:
        say("all budgets are for questions")
        return
    columns = ["series", "kappa", "noise of a count", "made with"]
    say(format_table(columns, list(map(_row, found)), ["l", "r", "r", "l"]))


def _row(p: Purpose) -> list[str]:
    share = percent(p.share) if not p.came else f"{percent(p.share)} of what was left"
    return [p.name, number(p.kappa), number(p.budget().sigma_0), written(p, share)]
