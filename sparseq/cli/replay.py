"""`sparseq replay`: a log of queries, answered line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pyarrow.parquet as pq
from rich.progress import BarColumn, TimeElapsedColumn

from sparseq.base.json_text import json_text
from sparseq.base.texts import count_of, shown
from sparseq.cli.options import (
    GOES,
    FilePath,
    command,
    facts_format_option,
    file_option,
    open_store,
    quiet_option,
    store_argument,
)
from sparseq.cli.output import Output
from sparseq.cli.progress import progress_bar
from sparseq.cli.text import PRIVATE, banner, course_text, label_lines, say
from sparseq.pictures.guarantee_texts import NOT_PRIVATE
from sparseq.pictures.page import html_page
from sparseq.pictures.tables import format_table
from sparseq.replay import AnswerFile, Log
from sparseq.replay import replay as run
from sparseq.replay.compare import SCHEMA, compare
from sparseq.replay.replay_figures import replay_sheet, summary_table
from sparseq.replay.run import price_list

if TYPE_CHECKING:
    from sparseq.replay import Log, Summary
    from sparseq.store.store import Store

_SHOWN = 20  # reasons


@command(short_help="Answer a log of queries; each line is answered or refused by itself.")
@store_argument
@click.argument("log", type=FilePath())
@file_option(
    "--output", "-o", help="Parquet, CSV or JSON Lines, by its name: one row a line of LOG."
)
@click.option("--resume", is_flag=True, help="Continue after the rows that a stopped replay wrote.")
@click.option(
    "--dry-run", is_flag=True, help="Check and price every line; ask nothing and charge nothing."
)
@click.option("--compare", "modes", hidden=True, help="Now: sparseq curator compare.")
@click.option(
    "--name", metavar="NAME", help="Name of the log in request ids. [default: the file's]"
)
@quiet_option
@facts_format_option
def replay(
    store: Path,
    log: Path,
    output: Path | None,
    resume: bool,
    dry_run: bool,
    modes: str | None,
    name: str | None,
    quiet: bool,
    format: str,
) -> None:
    """Answer every line of LOG in order; a line that is refused or can't be read does not stop it.

    LOG is JSON Lines, CSV or Parquet with a column sql and optional columns id, time, analyst,
    parameters and options; the first two formats may be compressed (.gz, .zst). An answered line
    keeps its answer afterwards, free and with the same noise: replays can be stopped, killed and
    repeated.

    \b
    Examples:
      sparseq replay shop.sparseq queries/cdnow_log.jsonl.gz --output answers.parquet
      sparseq replay shop.sparseq queries/cdnow_log.jsonl.gz --output answers.parquet --resume
      sparseq replay shop.sparseq queries/cdnow_log.jsonl.gz --dry-run
    """

    if dry_run == (output is not None):
        raise click.UsageError("give --output FILE, or --dry-run")
    lines = Log(log)
    if modes is not None and output is not None:
        say(f"replay --compare is now curator compare; {GOES}", err=True)
        say(banner(PRIVATE), err=True)
        compare_exactly(store, lines, modes, output, quiet, format)
        return
    with open_store(store) as opened:
        if dry_run:
            say(check(opened, lines, format, quiet))
            return
        assert output is not None
        if opened.seed is not None and not quiet:
            say(banner(NOT_PRIVATE), err=True)
        facts = {"log": str(lines.path.resolve()), "bytes": lines.bytes, "name": name or lines.name}
        answers = AnswerFile(output, facts, resume)
        try:
            with progress(lines, answers.lines, quiet) as advance:
                summary = run(opened, lines, answers, name, advance)
            course = opened.course_facts()
        except KeyboardInterrupt:
            say(f"\nstopped after {answers.lines:,} lines; --resume goes on", err=True)
            raise
    if format == "json":
        say(json_text(asdict(summary) | ({"weighted": course} if course else {}), indent=None))
        return
    say(summary_text(summary))
    if course:
        say(label_lines([("budget", course_text(course))]))


@command("compare", short_help="Run a log of queries under several ways of accounting.")
@click.argument("log", type=FilePath())
@click.option(
    "--modes",
    default="worst-case,individual",
    show_default=True,
    metavar="MODE,…",
    help="Of worst-case, individual and halt.",
)
@file_option(
    "--output",
    "-o",
    required=True,
    help="A .parquet of every line; plots go into an .html of the same name.",
)
@quiet_option
@facts_format_option
@click.pass_obj
def curator_compare(
    store: Path, log: Path, modes: str, output: Path, quiet: bool, format: str
) -> None:
    """Run LOG under several ways of accounting on exact values, and compare their progress.

    \b
    Examples:
      sparseq curator compare shop.sparseq queries/cdnow_log.jsonl.gz --output compared.parquet
    """
    compare_exactly(store, Log(log), modes, output, quiet, format)


def compare_exactly(
    store: Path, log: Log, modes: str, output: Path, quiet: bool, format: str
) -> None:
    """Compare ways of accounting on a store's exact data."""
    with open_store(store) as opened:
        say(compared(opened, log, modes.split(","), output, format, quiet))


@contextmanager
def progress(log: Log, before: int, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show lines, rate and time left, on a terminal's standard error."""

    counted, rate_now = "{task.fields[lines]:,} lines", "{task.fields[rate]}"
    with progress_bar(counted, BarColumn(), rate_now, TimeElapsedColumn(), quiet=quiet) as bar:
        task = bar.add_task("", total=1.0, lines=before, rate="")
        start = log.share

        def advance(lines: int) -> None:
            if bar.disable or lines % 64:
                return
            elapsed, share = bar.tasks[0].elapsed or 0.0, log.share
            left = (1 - share) / (share - start) * elapsed if share > start else None
            rate = f"{(lines - before) / elapsed:,.0f}/s" if elapsed > 0.5 else ""
            rate += f", {_clock(left)} left" if left is not None and elapsed > 2 else ""
            bar.update(task, completed=share, lines=lines, rate=rate)

        yield advance


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def summary_text(summary: Summary) -> str:
    """Return the summary as a sentence or two."""
    rate = summary.lines / summary.seconds if summary.seconds else 0.0
    journal = f" ({summary.from_journal:,} read back, free)" if summary.from_journal else ""
    return (
        f"{count_of(summary.lines, 'line')}: {summary.answered:,} answered{journal}, "
        f"{summary.refused:,} refused, {summary.failed:,} failed; "
        f"{summary.seconds:,.1f} s, {rate:,.0f} lines/s"
    )


def compared(store: Store, log: Log, modes: list[str], out: Path, format: str, quiet: bool) -> str:
    """Compare ways of accounting; write the rows, and the page next to them."""

    if out.suffix.lower() not in (".parquet", ".pq"):
        raise click.UsageError("--output FILE ends in .parquet; FILE.html is written beside it")
    page = out.with_suffix(".html")
    with Output(out, "parquet", private=True) as rows_to, Output(page, "html", True) as page_to:
        with progress(log, 0, quiet) as advance, pq.ParquetWriter(rows_to.file, SCHEMA) as writer:
            done = compare(store, log, [m.strip() for m in modes], writer.write_table, advance)
        page_to.write(html_page(replay_sheet(done, log.name)))
    if format == "json":
        return json_text(done.fared, indent=None)
    return (
        format_table(*summary_table(done.fared))
        + f"\n\n{shown(out)} has every line, {shown(page)} the plots"
    )


def check(store: Store, log: Log, format: str, quiet: bool) -> str:
    """Return the outcomes of a replay by kind, and its highest possible price."""

    with progress(log, 0, quiet) as advance:
        prices = price_list(store, log, advance)
    if format == "json":
        return json_text(prices, indent=None)
    budget = store.guarantee.norm_budget
    head = (
        f"{count_of(prices.lines, 'line')}: {prices.answered:,} can be answered, "
        f"{prices.refused:,} refused, {prices.failed:,} failed; nothing was asked.\n"
        f"A person with a full part in every one would pay {prices.worst_case:,.4g} in squared "
        f"norm,\n{prices.worst_case / budget:,.1f} times the budget of {budget:g}: by worst-case "
        "composition, "
        + (
            f"the first {prices.affordable:,} would be answered."
            if prices.affordable < prices.answered
            else "all of them would be answered."
        )
    )
    rows = [[f"{n:,}", reason] for reason, n in list(prices.reasons.items())[:_SHOWN]]
    return head + ("\n\n" + format_table(["lines", "reason"], rows, ["r", "l"]) if rows else "")
