"""`sparseq keys`: privately found keys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sparseq.answers.answer_texts import plain_text
from sparseq.base.json_text import json_text
from sparseq.base.texts import shown
from sparseq.cli.options import Group, facts_format_option, open_store, store_argument
from sparseq.cli.text import banner, guarantee_line, label_lines, say
from sparseq.pictures.guarantee_texts import NOT_PRIVATE
from sparseq.store.found_keys import PICKS, PRICE, Keys


@click.group(
    cls=Group, short_help="Find the keys of columns privately, and list those that were found."
)
def keys() -> None:
    """Keys to group by that nobody has listed: those that enough people have.

    It needs a store made with --for questions,keys-delta=D.

    \b
    Examples:
      sparseq keys discover web.sparseq "SELECT page FROM visits"
      sparseq keys list web.sparseq
    """


@keys.command(short_help="Look for keys of columns.")
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
    """Search for new keys of columns of STORE; this is charged.

    For several columns, keys are the values that occur together. A row with a missing value has no
    key.

    \b
    Examples:
      sparseq keys discover web.sparseq "SELECT page FROM visits"
      sparseq keys discover web.sparseq "SELECT page, day FROM visits"
    """
    with open_store(store) as opened:
        answer = Keys(opened).discover(sql, picks=picks, delta=delta, price=price)
        columns = answer.arrow().to_pydict()
        several = [list(key) for key in zip(*columns.values(), strict=True)]
        found = [key[0] for key in several] if len(columns) == 1 else several
        if format == "json":
            say(json_text({"release": answer.facts.release, "found": found}))
            return
        if opened.seed is not None:
            say(banner(NOT_PRIVATE))
        say(
            label_lines(
                [
                    ("found", _key_lines(found) or "no new key"),
                    ("private", guarantee_line(opened.guarantee, opened.catalog.unit)),
                    ("release", f"{answer.facts.release}"),
                ]
            )
        )


def _key_lines(found: Sequence[Any]) -> str:
    """Return keys as lines; for several columns, the values are separated by commas."""
    lines = (key if isinstance(key, list) else [key] for key in found)
    return "\n".join(", ".join(shown(plain_text(v), None) for v in one) for one in lines)


@keys.command("list", short_help="List the keys that were found: free.")
@store_argument
@facts_format_option
def list_(store: Path, format: str) -> None:
    """List the found keys of STORE: public, and free.

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
        (f"{table}.{column}", _key_lines(some) or "none")
        for table, columns in found.items()
        for column, some in columns.items()
    ]
    say(label_lines(lines) if lines else "no keys have been looked for")
