"""Words that several commands share: numbers, the guarantee, errors."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import click

from sparseq.errors import SparseqError
from sparseq.escape import shown
from sparseq.pictures.numbers import number, upper
from sparseq.pictures.words import DELTA, DELTA_TEXT, NOT_PRIVATE

if TYPE_CHECKING:
    from sparseq.accounting import Budget

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
    `one_line`, `labelled`), so that not even a colour of theirs gets here. Whatever is forgotten
    there can't do more than that: of what a terminal obeys, only colours pass.
    """
    click.echo(visible(str(text)), err=err, nl=nl)


def put_out(text: str, nl: bool = True) -> None:
    """Write text for a machine, such as CSV: exactly as it is, unless a terminal would obey it."""
    if sys.stdout.isatty():
        click.echo(_lines_shown(text), nl=nl)
    else:
        click.echo(text.encode("utf-8", "surrogateescape"), nl=nl)  # a text would lose its colours


def _lines_shown(text: str) -> str:
    return "\n".join(shown(line, None) for line in text.split("\n"))


def visible(text: str) -> str:
    """Return text with nothing hidden in it but colours and ends of lines.

    >>> visible("\\x1b[1mbold\\x1b[0m \\x1b]0;title\\x07")
    '\\x1b[1mbold\\x1b[0m \\\\x1b]0;title\\\\x07'
    """
    return "".join(part if k % 2 else shown(part, None) for k, part in enumerate(_OURS.split(text)))


def one_line(text: str, width: int | None = None) -> str:
    """Return text on one line, cut to `width`.

    >>> one_line("SELECT\\n  1", 6)
    'SELEC…'
    """
    line = shown(" ".join(text.split()), None)
    return line if width is None or len(line) <= width else line[: max(width - 1, 1)] + "…"


def error_text(error: SparseqError) -> str:
    """Return an error as the command line shows it."""
    text = click.style("sparseq: ", fg="red", bold=True) + one_line(error.message)
    return text + (f"\n  hint: {one_line(error.hint)}" if error.hint else "")


def unexpected(error: Exception) -> SparseqError:
    """Return an error that says no more than the type of one that we did not foresee.

    Its text might hold a row's value. With SPARSEQ_DEBUG set, the error itself is raised.
    """
    from sparseq.engine._duckdb.connection import damaged_file, is_damage

    if os.environ.get("SPARSEQ_DEBUG"):
        raise error
    if is_damage(error):
        return damaged_file()
    return SparseqError(
        f"something went wrong inside sparseq ({type(error).__name__})",
        "please report it; SPARSEQ_DEBUG=1 shows where, and may show the data",
    )


def labelled(lines: list[tuple[str, str]], wrap: int | None = None) -> str:
    """Return (label, text) lines, the labels dim, in a column of their own; a text may have lines.

    Nothing in them is hidden. With `wrap`, texts are broken at words to be that many columns wide
    at most, labels and all.

    >>> print(labelled([("a", "one"), ("bcd", "two")]))
    \x1b[2ma    \x1b[0mone
    \x1b[2mbcd  \x1b[0mtwo
    """
    width = max(len(label) for label, _ in lines) + 2
    margin = "\n" + " " * width

    def broken(text: str) -> list[str]:
        return textwrap.wrap(text, max(wrap - width, 20)) if wrap else [text]

    return "\n".join(
        click.style(shown(label, None).ljust(width), dim=True)
        + margin.join(part for line in text.split("\n") for part in broken(shown(line, None)))
        for label, text in lines
    )


def banner(text: str) -> str:
    """Return a line that nobody overlooks."""
    return click.style(f"!! {shown(text, None)}", fg="red", bold=True)


def guarantee_facts(budget: Budget) -> dict[str, Any]:
    """Return the guarantee as plain data."""
    return {
        "kappa": budget.kappa,
        "mu": budget.mu,
        "epsilon": budget.epsilon(DELTA),
        "delta": DELTA,
        "norm_budget": budget.norm_budget,
    }


def guarantee_line(budget: Budget) -> str:
    """Return the guarantee in one line."""
    return (
        f"{number(budget.kappa)}-zCDP for all answers ever, together "
        f"(epsilon {upper(budget.epsilon(DELTA))} at delta {DELTA_TEXT})"
    )


def terminal_width() -> int | None:
    """Return how many columns standard output shows; None if it is no terminal."""
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else None
