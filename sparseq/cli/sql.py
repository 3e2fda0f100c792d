"""`sparseq sql`: ask one query."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import sparseq
from sparseq.answers.answer_exports import answer_cells
from sparseq.base.cancellation import Cancellation, checked_seconds
from sparseq.base.errors import ParameterError
from sparseq.base.json_text import json_text
from sparseq.cli.clipboard import Clipboard
from sparseq.cli.options import (
    Share,
    command,
    file_option,
    format_option,
    memory_option,
    open_store,
    output_option,
    server_option,
)
from sparseq.cli.output import TITLED, Output, chosen_format
from sparseq.cli.show import encode, warn_if_seeded
from sparseq.cli.stop_signals import (
    INTERRUPTED,
    released_so_far,
    stoppable,
    stopped_text,
    unstoppable,
)
from sparseq.cli.text import say, terminal_width
from sparseq.question.plan import OPTIONS, Options
from sparseq.store.address import without_scheme
from sparseq.store.ask import Asking
from sparseq.store.few_people import few_people_notes

if TYPE_CHECKING:
    from sparseq.answers.answer import Answer
    from sparseq.store.explain import Explanation
    from sparseq.store.remote import Remote
    from sparseq.store.store import Store


def question_options(function: Any) -> Any:
    """Add the options of a question from the table of options (`sparseq.question.plan`)."""
    for name, one in reversed(list(OPTIONS.items())):
        usual = f" [default: {one.usual}]" if one.usual else ""
        shown: dict[str, Any] = {"help": one.about + usual}
        if one.is_flag:
            shown["is_flag"] = True
        elif one.choices:
            shown["type"] = click.Choice(one.choices)
        else:
            shown["type"] = Share() if one.share else float
            shown["metavar"] = one.letter
        function = click.option(f"--{name.replace('_', '-')}", **shown)(function)
    return function


@command(short_help="Ask a query, and get a private answer with its error bound.")
@click.argument("store", required=False)
@click.argument("query", required=False)
@server_option
@click.option(
    "--file", "-f", "file", metavar="FILE", help="Read the query from FILE; - is standard input."
)
@format_option
@output_option
@file_option("--plot", help="Draw it: .html, .svg or .png; - is the terminal, and no table.")
@click.option("--title", metavar="TEXT", help="Title of the drawing or the document.")
@click.option("--copy", is_flag=True, help="Copy it too, for a spreadsheet to paste.")
@click.option(
    "--request-id",
    metavar="ID",
    help="Name this question; asked again with ID, its answer is free.",
)
@click.option("--fresh", is_flag=True, help="Ask anew, and pay, also what was asked before.")
@click.option("--explain", is_flag=True, help="Show what would be asked; charge nothing.")
@question_options
@click.option(
    "--timeout",
    type=float,
    metavar="SECONDS",
    help="Cancel it after so long, if it is not answered: nothing is charged then.",
)
@memory_option
def sql(
    store: str | None,
    query: str | None,
    server: str | None,
    file: str | None,
    format: str | None,
    output: Path | None,
    plot: Path | None,
    title: str | None,
    copy: bool,
    request_id: str | None,
    fresh: bool,
    explain: bool,
    timeout: float | None,
    **words: Any,
) -> None:
    """Ask QUERY, one SELECT that aggregates; - reads it from standard input.

    Every value comes with an interval about everybody. A query charges the people in the rows that
    it reads; a refused query charges nobody. The same question on the same data has one answer,
    which is free the next time. Give at most one of --sigma, --accuracy, --precision and --price:
    they set the same quantity.

    \b
    Examples:
      sparseq sql shop.sparseq "SELECT count(DISTINCT customer_id) AS buyers FROM purchases"
      sparseq sql shop.sparseq "SELECT sum(amount) FROM purchases" --scale 100 --explain
      sparseq sql shop.sparseq --file daily.sql --request-id 1997-03-01 --output daily.csv
      sparseq sql shop.sparseq --file weekly.sql --plot weekly.html --title "Buyers by week"
      sparseq sql shop.sparseq --file weekly.sql --copy
      sparseq sql --server https://numbers.example.org "SELECT count(*) FROM purchases"
    """
    if server is not None:
        if query is not None:
            raise click.UsageError("give a STORE, or a --server")
        store, query = None, store
    elif store is None:
        raise click.UsageError("Missing argument 'STORE'.")
    text = query_text(query, file)
    options = Options.of(**words)
    shown = Shown(chosen_format(format, output), plot, title or "", output)
    clipboard = Clipboard() if copy and not explain else None
    width = terminal_width() if output is None else None
    before: tuple[int, float] | None = None
    found: Answer | None = None
    try:
        with (
            _open(store, server) as opened,
            Output(output, shown.format) as out,
        ):
            if explain:
                out.write(explanation(opened, text, options, shown.format))
            elif not confirm(opened, text, options):
                say("not asked, nothing charged", err=True)
            else:
                before = released_so_far(opened) if isinstance(opened, Asking) else None
                with stoppable(), Cancellation(checked_seconds(timeout)):
                    found, recorded = asked(opened, text, options, request_id, fresh, timeout)
                warn_if_seeded(found, shown.format)
                if isinstance(opened, Asking) and shown.format == "table":
                    for note in few_people_notes(opened.promise):
                        say(note, err=True)
                out.write(shown.text(found, width, recorded))
    except KeyboardInterrupt:
        if before is None:
            raise
        with unstoppable(), open_store(Path(str(store))) as opened:
            show = f"sparseq history {store} --show {{}}"
            say("\nsparseq: " + stopped_text(opened, before, show), err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    if found is not None:
        shown.draw(found)
        if clipboard is not None:
            clipboard.copy(answer_cells(found.arrow()))


@dataclass(frozen=True)
class Shown:
    """The form of an answer: a format and a drawing.

    Raises:
        ParameterError: No such drawing can be made.
        click.UsageError: The options contradict each other.
    """

    format: str
    plot: Path | None
    title: str
    output: Path | None

    def __post_init__(self) -> None:
        if self.title and self.plot is None and self.format not in TITLED:
            raise click.UsageError(
                f"--title is of a drawing or a document: add --plot FILE, not {self.format} alone"
            )
        if self.is_drawn_here and (self.output is not None or self.format != "table"):
            raise click.UsageError(
                "--plot - is shown in the place of a table: leave out the others"
            )
        if self.plot is not None and not self.is_drawn_here:
            from sparseq.pictures.image import picture_kind

            picture_kind(self.plot)

    @property
    def is_drawn_here(self) -> bool:
        """True if the terminal shows a drawing and no table."""
        return self.plot is not None and str(self.plot) == "-"

    def text(self, answer: Answer, width: int | None, recorded: bool) -> str | bytes:
        """Return the text or bytes for the output."""
        if self.is_drawn_here:
            color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
            return answer.plot(self.title).terminal(min(width or 100, 120), color)
        return encode(answer, self.format, width, recorded, self.title)

    def draw(self, answer: Answer) -> None:
        """Write the drawing to its file, if there is one."""
        if self.plot is not None and not self.is_drawn_here:
            answer.plot(self.title).save(self.plot)


def confirm(store: Store | Remote, text: str, options: Options) -> bool:
    """Return True to ask; on a terminal, the user must confirm an answer of no expected use."""
    if options.at_least_useful or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    doubt = of_no_use(store.explain(text, options))
    return not doubt or click.confirm(f"{doubt}. Ask it?", err=True)


def of_no_use(plan: Explanation) -> str:
    """Return in words that an answer is expected to be of no use, or ""."""
    known = plan.facts.get("known", {}).get("free")
    return "" if known else str(plan.facts.get("doubt", ""))


def _open(store: str | None, server: str | None) -> Store | Remote:
    if server is not None:
        return sparseq.connect(server, token="")
    return open_store(Path(without_scheme(str(store))))


def query_text(query: str | None, file: str | None) -> str:
    """Return the query, which is given in one of three ways.

    Raises:
        click.UsageError: No query was given, or more than one.
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


def explanation(store: Store | Remote, text: str, options: Options, format: str) -> str:
    """Return the explanation of a query as a table or JSON."""
    if format not in ("table", "json"):
        raise click.UsageError("--explain is written as table or json")
    found = store.explain(text, options)
    return json_text(found.facts) if format == "json" else found.styled


def asked(
    store: Store | Remote,
    text: str,
    options: Options,
    request_id: str | None = None,
    fresh: bool = False,
    timeout: float | None = None,
) -> tuple[Answer, bool]:
    """Ask a query; return the answer, and True if it was recorded under its id before."""

    before = store.released if request_id is not None else 0
    if isinstance(store, Asking):
        answer = store.ask(store.lower(text), options, request_id, fresh)
    else:
        answer = store.asked(text, options, request_id, fresh=fresh, timeout=timeout)
    return answer, request_id is not None and answer.facts.release <= before
