"""`sparseq demo`: a year and a half of daily counts of real purchases, and two questions."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import sparseq
from sparseq.base.defaults import DELTA, DELTA_TEXT, KAPPA
from sparseq.base.errors import DataError, ParameterError
from sparseq.base.json_text import json_text
from sparseq.base.whole_files import how_to_mend
from sparseq.cli.demo_analyst import (
    BUYERS,
    Findings,
    ask_questions,
    monitor,
    root_mean_square,
    true_buyers,
)
from sparseq.cli.options import FilePath, command, facts_format_option, seed_option
from sparseq.cli.progress import progress_bar
from sparseq.cli.text import banner, label_lines, say
from sparseq.pictures.bounded_numbers import interval_texts, number, upper
from sparseq.pictures.demo_figure import demo_figure
from sparseq.pictures.figure import Figure, Floats, Sheet
from sparseq.pictures.guarantee_texts import NOT_PRIVATE
from sparseq.pictures.image import write_picture
from sparseq.pictures.terminal import terminal_chart

if TYPE_CHECKING:
    from sparseq.accounting import Budget
    from sparseq.answers.answer import Answer

FIRST, LAST = dt.date(1997, 1, 1), dt.date(1998, 6, 30)
DATA = Path(sparseq.__file__).parent / "sample" / "cdnow.parquet"


@dataclass(frozen=True)
class Results:
    """The figures of a demo.

    `share` is the series' share of every budget, `inside` the number of exact values in their
    intervals; `rmse_worst_case`, on the same share, is the exact expectation: sigma itself.
    """

    queries: int
    kappa: float
    share: float
    epsilon: float
    delta: float
    rmse: float
    inside: float
    rmse_worst_case: float
    ratio: float
    questions: list[dict[str, Any]]
    seconds: float
    store: str
    page: str
    png: str | None


@command(short_help="Monitor real purchases for 546 days, privately.")
@click.option(
    "--data",
    type=FilePath(),
    metavar="FILE",
    help="The CDNOW purchases. [default: those that come with sparseq]",
)
@click.option(
    "--kappa", type=float, default=KAPPA, show_default=True, help="zCDP level of all answers."
)
@click.option(
    "--output",
    "-o",
    type=FilePath(),
    default=Path("out", "demo"),
    show_default=True,
    metavar="DIR",
    help="Folder for the store, chart and page; if it exists, DIR-2 and so on.",
)
@click.option(
    "--keep/--discard", default=True, show_default=True, help="Keep the files, or delete them."
)
@seed_option
@facts_format_option
def demo(
    data: Path | None, kappa: float, output: Path, keep: bool, seed: int | None, format: str
) -> None:
    """Ask for the number of buyers on each of 546 days, privately, on real purchases.

    CDNOW sold compact discs; the data are all purchases of 23,570 customers in 1997 and 1998. The
    series has 60 % of every customer's budget. The rest is for questions; two questions are made
    from the series' answers. In the end the demo reads the exact counts, which an analyst never
    sees, and measures the error of the answers.

    \b
    Examples:
      sparseq demo
      sparseq demo --kappa 1
      sparseq demo --format json
    """

    source = find_data(data)
    folder = fresh_folder(output)
    try:
        path = folder / "cdnow.sparseq"
        with sparseq.create(
            path,
            {"purchases": str(source)},
            user="customer_id",
            time="date",
            kappa=kappa,
            bounds={"amount": (0, 500)},
            purposes=[BUYERS],
            seed=seed,
        ) as store:
            days = [FIRST + dt.timedelta(days=k) for k in range((LAST - FIRST).days + 1)]
            seen = _monitor(store, days)
            answers = ask_questions(store, seen)
            budget, (part,) = store.guarantee, store.promise.purposes
        values, bounds = np.array(seen.values), np.array(seen.bounds)
        truth = true_buyers(str(source), seen.days)
        worst = part.budget().worst_case_sigma(len(days))
        figure = demo_figure(seen.days, values, bounds, truth, budget, worst, seed is not None)
        page, png = write_files(figure, folder)
        results = measure(seen, budget, worst, truth, answers, path, page, png)
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # from a demo that could not write anything
            folder.rmdir()
    if format == "json":
        say(json_text(results))
    else:
        show(figure, results, seed, keep)


def find_data(data: Path | None) -> Path:
    """Return the file of purchases: the given file, or the file in the package.

    Raises:
        DataError: There is no such file.
    """
    path = data or DATA
    if not path.is_file():
        raise DataError(f"there is no file {str(path)!r}", "install sparseq, or give --data FILE")
    return path


def fresh_folder(wanted: Path) -> Path:
    """Make a new folder, or take an empty one: `wanted`, or `wanted`-2 and so on.

    Raises:
        ParameterError: The folder can't be made.
    """
    folder, k = wanted, 1
    try:
        while folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            k += 1
            folder = wanted.with_name(f"{wanted.name}-{k}")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(
            f"can't make the folder {str(folder)!r}: {error.strerror}", how_to_mend(error)
        ) from None
    return folder


def _monitor(store: Any, days: list[dt.date]) -> Findings:
    """Ask all queries, with a progress bar on a terminal's standard error."""

    with progress_bar() as progress:
        task = progress.add_task("asking", total=len(days))

        def tick(seen: Findings) -> None:
            last = f"{seen.days[-1]}: {seen.values[-1]:4.0f} ± {seen.bounds[-1]:.0f} buyers"
            progress.update(task, advance=1, description=last)

        return monitor(store, days, tick)


def write_files(figure: Figure, folder: Path) -> tuple[Path, Path | None]:
    """Write the page, and the PNG if Matplotlib is installed; return their paths."""

    page, png = folder / "buyers.html", folder / "buyers.png"
    sheet = Sheet(figure.title, [figure])
    write_picture(sheet, page)
    try:
        write_picture(sheet, png)
    except ParameterError:  # no Matplotlib
        return page, None
    return page, png


def measure(
    seen: Findings,
    budget: Budget,
    worst: float,
    truth: Floats,
    answers: Sequence[tuple[str, Answer]],
    store: Path,
    page: Path,
    png: Path | None,
) -> Results:
    """Return the error of the answers against the truth about everybody."""

    errors = np.array(seen.values) - truth
    ours = root_mean_square(errors)
    return Results(
        queries=len(seen.days),
        kappa=budget.kappa,
        share=BUYERS.share,
        epsilon=budget.epsilon(DELTA),
        delta=DELTA,
        rmse=ours,
        inside=float(np.mean(np.abs(errors) <= np.array(seen.bounds))),
        rmse_worst_case=worst,
        ratio=worst / ours,
        questions=[{"query": sql, "rows": answer.rows()} for sql, answer in answers],
        seconds=seen.seconds,
        store=str(store),
        page=str(page),
        png=str(png) if png else None,
    )


def show(figure: Figure, results: Results, seed: int | None, keep: bool) -> None:
    """Print the chart, and three lines for a newcomer."""

    size = shutil.get_terminal_size((100, 30))
    color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    width, height = max(min(size.columns, 110), 40), max(min(size.lines - 8, 26), 16)
    say(terminal_chart(figure, width, height, color=color))
    say()
    if seed is not None:
        say(banner(NOT_PRIVATE))
    say(label_lines(closing_lines(results, keep), wrap=width))


def _question_text(question: dict[str, Any]) -> str:
    """Return a question with its answer, each value with its interval."""
    (row,) = question["rows"]
    values = []
    for name in row:
        if f"{name}_low" in row:
            ends = row[name], row[f"{name}_low"], row[f"{name}_high"]
            (text,) = interval_texts([ends], whole=isinstance(row[name], int))
            values.append(f"{name} {text}")
    return f"{question['query']}\n{', '.join(values)}"


def closing_lines(results: Results, keep: bool) -> list[tuple[str, str]]:
    """Return the guarantee, the error and the paths of the files."""
    r = results
    files = ", ".join(filter(None, [r.page, r.png]))
    return [
        (
            "Guarantee",
            f"whether any one customer is in the data hardly changes these {r.queries} counts, or "
            f"any later ones: {number(r.kappa)}-zCDP, epsilon {upper(r.epsilon)} at delta "
            f"{DELTA_TEXT}, however many queries follow.",
        ),
        (
            "Error",
            f"{r.rmse:.1f} customers a day (root mean square), and {r.inside:.1%} of the exact "
            f"values lie in the band. Worst-case composition can expect {r.rmse_worst_case:.1f} "
            f"from the same {r.share:.0%} of every budget, {r.ratio:.1f} times as much. The demo "
            "looked at the truth to say so.",
        ),
        *[("Also asked" if k == 0 else "", _question_text(q)) for k, q in enumerate(r.questions)],
        (
            "Store",
            f"{r.store}, and charts of it: {files}\nask it more: sparseq shell {r.store}"
            if keep
            else "deleted again, as you asked",
        ),
    ]
