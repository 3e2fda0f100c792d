"""`sparseq replay`: a log of queries, answered line by line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sparseq.cli.curator import PRIVATE
from sparseq.cli.options import facts_format_option, open_store, store_argument
from sparseq.cli.output import Output
from sparseq.cli.replay_page import compare_page, summary_table
from sparseq.cli.text import NOT_PRIVATE, banner, say
from sparseq.escape import shown
from sparseq.pictures.tables import format_table
from sparseq.replay import AnswerFile, Log
from sparseq.replay import replay as run
from sparseq.replay.compare import SCHEMA, compare
from sparseq.replay.replay import price_list

if TYPE_CHECKING:
    from sparseq.replay import Log, Summary
    from sparseq.store import Store

_SHOWN = 20  # reasons


@click.command(short_help="Answer a log of queries, each line with an outcome of its own.")
@store_argument
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--out", "-o", type=click.Path(path_type=Path), metavar="FILE",
              help="Parquet, CSV or JSON Lines, by its name: one row a line of LOG.")  # fmt: skip
@click.option("--resume", is_flag=True, help="Go on after the rows that a stopped replay wrote.")
@click.option("--dry-run", is_flag=True, help="Check and price every line; ask and charge nothing.")
@click.option("--compare", "modes", metavar="MODES",
              help="Curator only: worst-case,individual[,halt] on exact values.")  # fmt: skip
@click.option("--name", metavar="NAME", help="Of the log, in request ids. [default: the file's]")
@click.option("--quiet", "-q", is_flag=True, help="No progress on standard error.")
@facts_format_option
def replay(
    store: Path,
    log: Path,
    out: Path | None,
    resume: bool,
    dry_run: bool,
    modes: str | None,
    name: str | None,
    quiet: bool,
    format: str,
) -> None:
    """Answer every line of LOG, in order; a line that is refused or can't be read stops nothing.

    LOG is JSON Lines, CSV or Parquet with a column sql, and if there are any id, time, analyst,
    parameters and options; the first two may be compressed (.gz, .zst). A line that was answered
    once is read back ever after, free and with the same noise: replays can be stopped, killed and
    repeated.

    \b
    Examples:
      sparseq replay shop.sparseq queries/cdnow_log.jsonl.gz --out answers.parquet
      sparseq replay shop.sparseq queries/cdnow_log.jsonl.gz --out answers.parquet --resume
      sparseq replay shop.sparseq queries/cdnow_log.jsonl.gz --dry-run
      sparseq replay shop.sparseq queries/cdnow_log.jsonl.gz --compare worst-case,individual
          --out compared.parquet
    """

    if dry_run == (out is not None):
        raise click.UsageError("say --out FILE, or --dry-run")
    if modes is not None and (dry_run or resume):
        raise click.UsageError("--compare goes with --out FILE alone")
    lines = Log(log)
    if modes is not None:
        say(banner(PRIVATE), err=True)
    with open_store(store) as opened:
        if dry_run:
            say(checked(opened, lines, format, quiet))
            return
        assert out is not None
        if modes is not None:
            say(compared(opened, lines, modes.split(","), out, format, quiet))
            return
        if opened.seed is not None and not quiet:
            say(banner(NOT_PRIVATE), err=True)
        facts = {"log": str(lines.path.resolve()), "bytes": lines.bytes, "name": name or lines.name}
        answers = AnswerFile(out, facts, resume)
        try:
            with progress(lines, answers.lines, quiet) as advance:
                summary = run(opened, lines, answers, name, advance)
        except KeyboardInterrupt:
            say(f"\nstopped after {answers.lines:,} lines; --resume goes on", err=True)
            raise
    say(json.dumps(asdict(summary)) if format == "json" else summary_text(summary))


@contextmanager
def progress(log: Log, before: int, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show lines, rate and time left, on a terminal's standard error."""

    bar = Progress(
        TextColumn("{task.fields[lines]:,} lines"), BarColumn(), TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(), console=Console(stderr=True),
        disable=quiet or not sys.stderr.isatty(), transient=True,
    )  # fmt: skip
    with bar:
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
        f"{summary.lines:,} lines: {summary.answered:,} answered{journal}, "
        f"{summary.refused:,} refused, {summary.failed:,} failed; "
        f"{summary.seconds:,.1f} s, {rate:,.0f} lines/s"
    )


def compared(store: Store, log: Log, modes: list[str], out: Path, format: str, quiet: bool) -> str:
    """Compare ways of accounting; write the rows, and the page beside them."""

    if out.suffix.lower() not in (".parquet", ".pq"):
        raise click.UsageError("--compare writes FILE.parquet, and FILE.html beside it")
    page = out.with_suffix(".html")
    with Output(out, "parquet", private=True) as rows_to, Output(page, "html", True) as page_to:
        with (
            progress(log, 0, quiet) as advance,
            pq.ParquetWriter(rows_to.file, SCHEMA) as writer,
        ):
            done = compare(store, log, [m.strip() for m in modes], writer.write_table, advance)
        page_to.write(compare_page(done, log.name))
    if format == "json":
        return json.dumps([asdict(f) for f in done.fared])
    return (
        format_table(*summary_table(done.fared))
        + f"\n\n{shown(out)} has every line, {shown(page)} the plots"
    )


def checked(store: Store, log: Log, format: str, quiet: bool) -> str:
    """Return what a replay would do, by kind of outcome, and what it would cost at most."""

    with progress(log, 0, quiet) as advance:
        prices = price_list(store, log, advance)
    if format == "json":
        return json.dumps(asdict(prices))
    budget = store.budget.norm_budget
    head = (
        f"{prices.lines:,} lines: {prices.answered:,} can be answered, "
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
