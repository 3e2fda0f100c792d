"""`sparseq report`: several answers and series on one page, which can be made again for free."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparseq.answers.answer_figures import answer_part, paragraphs_of
from sparseq.answers.chart_kinds import chart_of
from sparseq.base.errors import ParameterError, SparseqError, did_you_mean
from sparseq.base.texts import shown
from sparseq.cli.options import FilePath, command, file_option, open_store
from sparseq.cli.progress import late_bar
from sparseq.cli.report_price import ReportQuestion, price_report, series_lines, series_name
from sparseq.cli.text import label_lines, loud_lines, say
from sparseq.pictures.figure import PagePart
from sparseq.pictures.guarantee_texts import HOLE, NOT_PRIVATE, guarantee
from sparseq.pictures.image import check_place, write_whole
from sparseq.pictures.page import document
from sparseq.question.plan import OPTIONS, Options
from sparseq.released.render import schema_of
from sparseq.series.series_figures import monitor_sheet
from sparseq.series.series_file import series_table
from sparseq.store.address import without_scheme

if TYPE_CHECKING:
    from sparseq.question.plan import Query
    from sparseq.store.store import Store

CHARTS = ("bars", "lines", "table", "none")
_KINDS = (".html", ".pdf")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SWITCHES = (
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--no-pdf-header-footer",
)
_SECONDS = 120  # the time limit of a browser for a page


@command(name="report", short_help="Put several answers and series on one page.")
@click.argument("file", type=FilePath())
@file_option("--output", "-o", help="A .html or .pdf file. [default: FILE with .html]")
@click.option("--dry-run", is_flag=True, help="Say what the report costs, and ask nothing.")
@click.option(
    "--anyway",
    is_flag=True,
    help="Ask questions again of new rows even if the budget is used up by it.",
)
def report(file: Path, output: Path | None, dry_run: bool, anyway: bool) -> None:
    """Make the page that FILE describes, in TOML: answers and series with titles and text.

    Everything is checked, and the price is shown, before the first query. When the page is made
    again, it reuses its answers: nothing is charged, and the page is the same until new rows are
    loaded. Then it asks its questions again; if that would use up the budget, the report is
    refused, with the commands that make series of the questions. A PDF is made by Chromium.

    \b
    Examples:
      sparseq report weekly.toml --dry-run
      sparseq report weekly.toml
      sparseq report weekly.toml --output weekly.pdf
    """
    wanted = ReportFile.read(file)
    path = output or file.with_suffix(".html")
    check_place(path, _KINDS, "--output")
    browser = _browser() if path.suffix.lower() == ".pdf" else ""
    with open_store(wanted.store) as store:
        ready = _ready(store, wanted)
        _tell_price(store, wanted, ready, anyway)
        if dry_run:
            return
        page, asked, known = _made(store, wanted, ready)
        for line in loud_lines(store.seed is not None, len(store.losses)):
            say(line, err=True)
    write_whole(path, _print_pdf(page, browser) if browser else page)
    say(f"{shown(path)}: {asked} asked, {known} read back without a charge", err=True)


@dataclass(frozen=True)
class ReportPart:
    """A part of a report in the file: an answer, a series, or text alone."""

    heading: str = ""
    text: str = ""
    sql: str = ""
    series: str = ""
    chart: str = ""
    options: Options = field(default_factory=Options)

    @classmethod
    def of(cls, given: Any, number: int) -> ReportPart:
        """Return the part that a table of the file describes.

        Raises:
            ParameterError: It has an unknown word, or words that don't go together.
        """
        with _in_part(number, given.get("heading", "") if isinstance(given, dict) else ""):
            words = _texts(given, ("heading", "text", "sql", "series", "chart"), OPTIONS)
            if words.get("sql") and words.get("series"):
                raise ParameterError("it has sql and series", "make two parts of it")
            chart = words.get("chart", "")
            if chart and chart not in CHARTS:
                raise ParameterError(f"there is no chart {chart!r}", f"one of {', '.join(CHARTS)}")
            if chart and not words.get("sql"):
                raise ParameterError("it has a chart of no answer", 'sql = "SELECT …"')
            options = Options.of(**{k: v for k, v in given.items() if k in OPTIONS})
            return cls(**words, options=options)


@dataclass(frozen=True)
class ReportFile:
    """The contents of a file; paths are relative to its folder."""

    title: str
    store: Path
    text: str
    folder: Path
    parts: tuple[ReportPart, ...]

    @classmethod
    def read(cls, path: Path) -> ReportFile:
        """Read a file.

        Raises:
            ParameterError: The file can't be read or has unknown entries.
        """
        try:
            given = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise ParameterError(f"can't read {shown(path)}: {why}", "write it in TOML") from None
        parts = given.pop("part", [])
        if not isinstance(parts, list) or not parts:
            raise ParameterError(f"{shown(path)} has no parts", "write [[part]] before each")
        words = _texts(given, ("title", "store", "text"), ())
        if not words.get("store"):
            raise ParameterError(f"{shown(path)} names no store", 'store = "shop.sparseq"')
        found = tuple(ReportPart.of(part, k) for k, part in enumerate(parts, 1))
        title = words.get("title") or path.stem
        store = path.parent / without_scheme(words["store"])
        return cls(title, store, words.get("text", ""), path.parent, found)


def _texts(given: Any, words: tuple[str, ...], others: Any) -> dict[str, str]:
    """Return the words of a table that have texts; any other entry is refused."""
    if not isinstance(given, Mapping):
        raise ParameterError(f"{given!r} is no table", "write [[part]] before each")
    for word, value in given.items():
        if word not in words and word not in others:
            raise ParameterError(
                f"there is no word {word!r}", did_you_mean(word, [*words, *others])
            )
        if word in words and not isinstance(value, str):
            raise ParameterError(f"{word} = {value!r} is no text", f'{word} = "…"')
    return {word: given[word] for word in words if word in given}


@contextmanager
def _in_part(number: int, heading: Any) -> Iterator[None]:
    """Add the part of the file to an error."""
    try:
        yield
    except SparseqError as error:
        place = f"part {number}" + (f" ({heading})" if heading else "")
        error.message = f"{place}: {error.message}"
        raise


Ready = Sequence["Query | list[PagePart]"]
"""A question for each part with one; for every other part, its parts of the page."""


def _ready(store: Store, wanted: ReportFile) -> Ready:
    """Lower all questions and read all series before the first query."""
    ready: list[Query | list[PagePart]] = []
    for number, part in enumerate(wanted.parts, 1):
        with _in_part(number, part.heading):
            ready.append(_query(store, part) if part.sql else _known(store, wanted.folder, part))
    return ready


def _tell_price(store: Store, wanted: ReportFile, ready: Ready, anyway: bool) -> None:
    """Print the price of a report, and the questions that should be series.

    Raises:
        ParameterError: Asking them again uses up the budget, and `anyway` is not given.
    """
    asked = [
        ReportQuestion(series_name(part.heading, number), found, part.options)
        for number, (part, found) in enumerate(zip(wanted.parts, ready, strict=True), 1)
        if not isinstance(found, list)
    ]
    if not asked:
        return
    price = price_report(store, asked)
    say(label_lines(price.lines), err=True)
    if price.repeated:
        say(
            f"{len(price.repeated)} of them were asked before, of earlier rows. As series they "
            "have a part of the budget, and each week\ncosts only those who are in it:",
            err=True,
        )
        for line in series_lines(price, store, shown(wanted.store)):
            say(f"  {line}", err=True)
    if not anyway:
        price.check()


def _made(store: Store, wanted: ReportFile, ready: Ready) -> tuple[str, int, int]:
    """Return the page, the number of new answers and the number of answers read back."""
    parts, asked, known = [], 0, 0
    with late_bar() as told:
        for number, (part, found) in enumerate(zip(wanted.parts, ready, strict=True), 1):
            told(part.heading or "report", number - 1, len(ready))
            if isinstance(found, list):
                parts += found
                continue
            with _in_part(number, part.heading):
                answer = store.ask(found, part.options)
            free = answer.facts.repeated or answer.facts.follows
            asked, known = asked + (not free), known + free
            table, facts = answer.arrow(), answer.facts
            parts.append(answer_part(table, facts, part.heading, part.text, part.chart))
    promise = f"{guarantee(store.guarantee)}, for all answers of the store together."
    whole = [PagePart(paragraphs=paragraphs_of(wanted.text)), *parts, PagePart(notes=[promise])]
    loud = [NOT_PRIVATE] * (store.seed is not None) + [HOLE] * bool(store.losses)
    return document(wanted.title, whole, loud), asked, known


def _query(store: Store, part: ReportPart) -> Query:
    query = store.lower(part.sql)
    chart_of(schema_of(query, store.stream.weighs(query)).empty_table(), part.chart)
    return query


def _known(store: Store, folder: Path, part: ReportPart) -> list[PagePart]:
    """Return the parts of a series that was monitored, or a text alone."""
    paragraphs = paragraphs_of(part.text)
    if not part.series:
        return [PagePart(part.heading, paragraphs)]
    if not (folder / part.series).is_file():
        raise ParameterError(f"there is no file {part.series!r}", "`sparseq monitor` writes series")
    rows = series_table(folder / part.series)
    if not rows.num_rows:
        raise ParameterError(f"{shown(part.series)} has no rows yet", "let the monitor run")
    first, *others = monitor_sheet(rows, store.guarantee, {}, False, None).figures
    drawn = replace(first, notes=())
    more = [PagePart(f.title, figure=replace(f, notes=())) for f in others]
    return [PagePart(part.heading or first.title, paragraphs, drawn), *more]


def _browser() -> str:
    """Return the path of a Chromium.

    Raises:
        ParameterError: There is no Chromium.
    """
    found = next(filter(None, map(shutil.which, _BROWSERS)), "")
    if not found:
        raise ParameterError(
            "a PDF needs Chromium, which is not installed",
            "install it, or take a .html file and print it from a browser",
        )
    return found


def _print_pdf(page: str, browser: str) -> bytes:
    """Return a page as a PDF.

    Raises:
        SparseqError: The browser made no PDF.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "page.html").write_text(page, encoding="utf-8")
        made = folder / "page.pdf"
        root = ["--no-sandbox"] * (hasattr(os, "geteuid") and os.geteuid() == 0)
        profile = f"--user-data-dir={folder / 'profile'}"
        to = [f"--print-to-pdf={made}", (folder / "page.html").as_uri()]
        try:
            subprocess.run(
                [browser, *_SWITCHES, *root, profile, *to],
                capture_output=True,
                timeout=_SECONDS,
                check=True,
            )
            return made.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            raise SparseqError(
                f"{shown(browser)} made no PDF ({type(error).__name__})",
                "take a .html file; the answers are recorded, and free",
            ) from None
