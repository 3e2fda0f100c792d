"""`sparseq sql`: ask one query."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sparseq.cli.explain import plan_json, plan_text
from sparseq.cli.options import command, format_option, open_store, output_option, store_argument
from sparseq.cli.output import Output, chosen_format
from sparseq.cli.show import encode, warn_if_seeded
from sparseq.cli.text import terminal_width
from sparseq.errors import ParameterError
from sparseq.query.plan import Options

if TYPE_CHECKING:
    from sparseq.query.plan import Options
    from sparseq.store import Store


@dataclass(frozen=True)
class Knobs:
    """What may be said about one query's noise; sigma, accuracy and scale are the same knob."""

    sigma: float | None = None
    accuracy: float | None = None
    scale: float | None = None
    confidence: float | None = None

    def options(self) -> Options:
        """Return it as the store takes it; raises `ParameterError` where it makes no sense."""

        return Options(self.sigma, self.accuracy, self.scale, self.confidence)


@command(short_help="Ask a query, and get a private answer with its error bound.")
@store_argument
@click.argument("query", required=False)
@click.option(
    "--file", "-f", "file", metavar="FILE", help="Read the query from FILE; - is standard input."
)
@format_option
@output_option
@click.option(
    "--request-id",
    metavar="ID",
    help="Name this question; asked again with ID, its answer is free.",
)
@click.option("--explain", is_flag=True, help="Show what would be asked; charge nothing.")
@click.option("--sigma", type=float, help="Standard deviation of the noise.")
@click.option("--accuracy", type=float, metavar="A", help="Keep the noise within ± A.")
@click.option("--scale", type=float, metavar="C", help="Most that one person adds to a sum.")
@click.option(
    "--confidence",
    type=float,
    help="Confidence of every ±, for all values at once. [default: 0.95]",
)
def sql(
    store: Path,
    query: str | None,
    file: str | None,
    format: str | None,
    output: Path | None,
    request_id: str | None,
    explain: bool,
    sigma: float | None,
    accuracy: float | None,
    scale: float | None,
    confidence: float | None,
) -> None:
    """Ask QUERY, one SELECT that aggregates; - reads it from standard input.

    Every value comes with its ±. Asking charges the people in the rows that the query reads; a
    refused query charges nobody. Give one of --sigma, --accuracy and --scale at most: they turn the
    same knob.

    \b
    Examples:
      sparseq sql shop.sparseq "SELECT count(DISTINCT customer_id) AS buyers FROM purchases"
      sparseq sql shop.sparseq "SELECT sum(amount) FROM purchases" --scale 100 --explain
      sparseq sql shop.sparseq --file daily.sql --request-id 1997-03-01 --output daily.csv
    """
    text = query_text(query, file)
    knobs = Knobs(sigma, accuracy, scale, confidence)
    knobs.options()
    width = terminal_width() if output is None else None
    with (
        open_store(store) as opened,
        Output(output, chosen := chosen_format(format, output)) as out,
    ):
        if explain:
            out.write(explained(opened, text, knobs, chosen))
        else:
            out.write(asked(opened, text, knobs, chosen, request_id, width))


def query_text(query: str | None, file: str | None) -> str:
    """Return the query that was given in one of three ways.

    Raises:
        click.UsageError: None was, or more than one.
        ParameterError: The file can't be read.
    """
    if (query is None) == (file is None):
        raise click.UsageError("give one query: as text, with --file FILE, or - for standard input")
    source = "-" if query == "-" else file
    if source is None:
        return str(query).strip()
    try:
        with click.open_file(source, encoding="utf-8") as stream:
            return str(stream.read()).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ParameterError(f"can't read {source!r}: {why}") from None


def explained(store: Store, text: str, knobs: Knobs, format: str) -> str:
    """Return the plan of a query as a table or JSON."""

    if format not in ("table", "json"):
        raise click.UsageError("--explain is written as table or json")
    plan = store.explain(store.lower(text), knobs.options())
    return plan_json(plan, store.budget) if format == "json" else plan_text(plan, store.budget)


def asked(
    store: Store,
    text: str,
    knobs: Knobs,
    format: str,
    request_id: str | None = None,
    width: int | None = None,
) -> str | bytes:
    """Ask a query; return the answer in the format."""

    before = store.releases if request_id is not None else 0
    answer = store.ask(store.lower(text), knobs.options(), request_id)
    warn_if_seeded(answer, format)
    recorded = request_id is not None and answer.facts.release <= before
    return encode(answer, format, width, recorded)
