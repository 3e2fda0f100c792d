"""`sparseq keys`: keys that are privately found."""

from __future__ import annotations

from pathlib import Path

import click

from sparseq.base.texts import json_text, shown
from sparseq.cli.options import Group, facts_format_option, open_store, store_argument
from sparseq.cli.text import banner, guarantee_line, labelled, say
from sparseq.pictures.tables import NOT_PRIVATE
from sparseq.store.text_keys import PICKS, PRICE, Keys


@click.group(
    cls=Group, short_help="Find the keys of a column privately, and list those that were found."
)
def keys() -> None:
    """Keys to group by that nobody has listed: those that enough people have.

    For stores that were made with --for questions,keys-delta=D.

    \b
    Examples:
      sparseq keys discover web.sparseq "SELECT page FROM visits"
      sparseq keys list web.sparseq
    """


@keys.command(short_help="Look for keys of a column.")
@store_argument
@click.argument("sql")
@click.option(
    "--picks",
    type=int,
    default=PICKS,
    show_default=True,
    help="New keys that one person's weight is divided among, at most.",
)
@click.option("--delta", type=float, help="Of the store's keys_delta. [default: an eighth]")
@click.option(
    "--price",
    type=float,
    default=PRICE,
    show_default=True,
    help="What it may cost a person, in counts.",
)
@facts_format_option
def discover(
    store: Path, sql: str, picks: int, delta: float | None, price: float, format: str
) -> None:
    """Look for keys of a column of STORE that were not found yet; it is charged.

    \b
    Examples:
      sparseq keys discover web.sparseq "SELECT page FROM visits"
      sparseq keys discover web.sparseq "SELECT page, count(*) FROM visits GROUP BY page"
    """
    with open_store(store) as opened:
        answer = Keys(opened).discover(sql, picks=picks, delta=delta, price=price)
        found = next(iter(answer.arrow().to_pydict().values()))
        if format == "json":
            say(json_text({"release": answer.facts.release, "found": found}))
            return
        if opened.seed is not None:
            say(banner(NOT_PRIVATE))
        say(
            labelled(
                [
                    ("found", "\n".join(shown(key, None) for key in found) or "no new key"),
                    ("private", guarantee_line(opened.guarantee, opened.catalog.unit)),
                    ("release", f"{answer.facts.release}"),
                ]
            )
        )


@keys.command("list", short_help="List the keys that were found: free.")
@store_argument
@facts_format_option
def list_(store: Path, format: str) -> None:
    """List the keys of STORE that were found: public, and free.

    \b
    Examples:
      sparseq keys list web.sparseq
    """
    with open_store(store) as opened:
        found = Keys(opened).list()
    if format == "json":
        say(json_text(found))
        return
    lines = [
        (f"{table}.{column}", "\n".join(shown(key, None) for key in some) or "none")
        for table, columns in found.items()
        for column, some in columns.items()
    ]
    say(labelled(lines) if lines else "no keys have been looked for")
