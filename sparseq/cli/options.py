"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import sparseq
from sparseq.cli.output import FORMATS

if TYPE_CHECKING:
    from sparseq.store import Store

POTS = ("queries", "watch", "forecast")
"""Names of `sparseq.ledger.pots.Pot`, which takes time to import."""


class Share(click.ParamType[float]):
    """A share of the budget, as 0.05; the range is the store's to check."""

    name = "share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        try:
            return float(value)
        except ValueError:
            option = param.opts[0] if param else "the option"
            self.fail(f"{value!r} is not a share. Write {option}=0.05, or put {option} last.")


store_argument = click.argument("store", type=click.Path(path_type=Path))
format_option = click.option(
    "--format",
    "format",
    type=click.Choice(FORMATS),
    help="How the answer is written. Default: what FILE's name says, else table.",
)
output_option = click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to FILE, which appears whole or not at all.",
)
facts_format_option = click.option(
    "--format",
    "format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How it is written.",
)


def open_store(path: Path) -> Store:
    """Open a store."""
    return sparseq.connect(path)
