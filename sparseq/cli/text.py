"""Words that several commands share: numbers, the guarantee, errors."""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from sparseq.base.defaults import DELTA, DELTA_TEXT
from sparseq.base.errors import SparseqError, without_query
from sparseq.base.texts import shown
from sparseq.pictures.tables import NOT_PRIVATE, number, percent, upper
from sparseq.pictures.tables import label_lines as label_lines
from sparseq.pictures.tables import one_line as one_line

if TYPE_CHECKING:
    from sparseq.accounting import Budget

# -- words that several commands share: numbers, the guarantee, errors -----------------------------

PRIVATE = "PRIVATE: exact facts about people. Curator only."


def loud_lines(seeded: bool, losses: int) -> list[str]:
    """Return what must not be overlooked about a store's guarantee, one banner each.

    >>> [click.unstyle(line) for line in loud_lines(False, 1)]  # doctest: +ELLIPSIS
    [...A HOLE IN THE GUARANTEE...]
    """
    times = "once" if losses == 1 else f"{losses:,} times"
    hole = (
        f"A HOLE IN THE GUARANTEE: this store was opened {times} without a part that was missing; "
        "what the answers in it cost is not counted."
    )
    return [banner(text) for text, so in ((NOT_PRIVATE, seeded), (hole, losses > 0)) if so]


_OURS = re.compile(r"(\x1b\[[0-9;]*m|\n)")  # colours, as click.style makes them, and ends of lines


def say(text: object = "", err: bool = False, nl: bool = True) -> None:
    """Write text for a person: all that sparseq says on a terminal goes through here.

    Texts that come from data are escaped where they are put into it (`shown`, `format_table`,
    `one_line`, `label_lines`), so that not even a colour of theirs gets here. Whatever is forgotten
    there can't do more than that: of what a terminal obeys, only colours pass.
    """
    click.echo(visible(str(text)), err=err, nl=nl)


def put_out(text: str, nl: bool = True) -> None:
    """Write text for a machine, such as CSV: exactly as it is, unless a terminal would obey it."""
    if sys.stdout.isatty():
        click.echo("\n".join(shown(line, None) for line in text.split("\n")), nl=nl)
    else:
        click.echo(text.encode("utf-8", "surrogateescape"), nl=nl)  # a text would lose its colours


def visible(text: str) -> str:
    """Return text with nothing hidden in it but colours and ends of lines.

    >>> visible("\\x1b[1mbold\\x1b[0m \\x1b]0;title\\x07")
    '\\x1b[1mbold\\x1b[0m \\\\x1b]0;title\\\\x07'
    """
    return "".join(part if k % 2 else shown(part, None) for k, part in enumerate(_OURS.split(text)))


def error_text(error: SparseqError) -> str:
    """Return an error as the command line shows it."""
    text = click.style("sparseq: ", fg="red", bold=True) + one_line(error.message)
    hint, query, same = without_query(error.hint)
    text += f"\n  hint: {one_line(hint)}" if hint else ""
    word = "try:  " if same else "another question: "
    return text + (f"\n  {word}{one_line(query)}" if query else "")


def unexpected_error(error: Exception) -> SparseqError:
    """Return an error that says no more than the type of one that we did not foresee.

    Its text might hold a row's value. With SPARSEQ_DEBUG set, the error itself is raised.
    """
    from sparseq.engine._duckdb.connection import damaged_file, is_damage
    from sparseq.ledger._duckdb.notes import cannot_write, not_written

    if os.environ.get("SPARSEQ_DEBUG"):
        raise error
    if is_damage(error):
        return damaged_file()
    if cannot_write(error):
        where = f" at {error.filename}" if isinstance(error, OSError) and error.filename else ""
        return not_written(error, f"it was not done{where}", then="")
    return SparseqError(
        f"something went wrong inside sparseq ({type(error).__name__})",
        "please report it; SPARSEQ_DEBUG=1 shows where, and may show the data",
    )


def banner(text: str) -> str:
    """Return a line that nobody overlooks."""
    return click.style(f"!! {shown(text, None)}", fg="red", bold=True)


def guarantee_line(budget: Budget, unit: str = "") -> str:
    """Return the guarantee in one line; `unit`: for whom, if not for a person."""
    return (
        f"{budget.promise} for all answers ever, together "
        f"(epsilon {upper(budget.epsilon(DELTA))} at delta {DELTA_TEXT})"
        f"{f', for {unit}' if unit else ''}"
    )


def windows_line(unit: str, lifetime: float | None = None) -> str:
    """Say what accounts by window protect, and what they don't; `lifetime`: kappa of a person."""
    if lifetime is not None:
        return (
            f"the promise is for {unit}, and {number(lifetime)}-zCDP for all of a\n"
            "person, always. Whoever has little left of that counts for less, or is left out; one\n"
            "of them is then promised less than kappa: see docs/theorems/windows.md"
        )
    return (
        f"the promise is for {unit}; for n of them together it is n times\n"
        "kappa where each value is about one of them, and n² times kappa in any case"
    )


def terminal_width() -> int | None:
    """Return how many columns standard output shows; None if it is no terminal."""
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else None


# -- the progress of a stream of weighted answers, in a user's words -------------------------------


def course_text(facts: dict[str, Any]) -> str:
    """Say how far the stream has come, and what that means for intervals."""
    if facts["least_weight"] >= 1:
        return (
            "nobody is left out. Good for about "
            f"{facts['full_answers']:,} more questions\nin which the same person is fully counted; "
            "after that, intervals widen"
        )
    if facts["least_weight"] > 0:
        share, usual = percent(round(facts["least_weight"], 2)), facts["usual_weight"]
        text = (
            "nobody is left out. A person who was in every question so\nfar now counts for "
            f"{share}, and intervals widen with each question"
        )
        if usual is None:
            return text
        return f"{text}\n(on average a person counts for {percent(round(usual, 2))})"
    return (
        "people whose budget series have used up are not in later\nanswers, and no interval is "
        "about them"
    )
