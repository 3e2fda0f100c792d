"""Texts that several commands share: numbers, the guarantee, errors."""

from __future__ import annotations

import base64
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from sparseq.base.defaults import DELTA, DELTA_TEXT
from sparseq.base.errors import SparseqError, without_query
from sparseq.base.texts import shown
from sparseq.pictures.bounded_numbers import upper
from sparseq.pictures.guarantee_texts import NOT_PRIVATE
from sparseq.pictures.guarantee_texts import course_text as course_text
from sparseq.pictures.text_lines import label_lines as label_lines
from sparseq.pictures.text_lines import one_line as one_line

if TYPE_CHECKING:
    from sparseq.accounting import Budget

PRIVATE = "PRIVATE: exact facts about people. Curator only."


def loud_lines(seeded: bool, losses: int) -> list[str]:
    """Return the warnings about a store's guarantee, one banner each.

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
    """Write text for a person: all text of sparseq on a terminal goes through this function.

    Texts from data are escaped where they are inserted (`shown`, `format_table`, `one_line`,
    `label_lines`), so that not even their colours get here. A forgotten escape can do no more than
    that: of all control sequences, only colours pass.
    """
    click.echo(visible(str(text)), err=err, nl=nl)


def put_out(text: str, nl: bool = True) -> None:
    """Write text for a machine, such as CSV, unchanged, unless a terminal would execute it."""
    if sys.stdout.isatty():
        click.echo("\n".join(shown(line, None) for line in text.split("\n")), nl=nl)
    else:
        click.echo(text.encode("utf-8", "surrogateescape"), nl=nl)  # a text would lose its colours


def fill_clipboard(content: bytes) -> None:
    """Ask the terminal to put bytes on its clipboard (OSC 52); base64 hides control sequences."""
    code = base64.b64encode(content).decode()
    click.echo(f"\033]52;c;{code}\a", nl=False, err=True, color=True)


def visible(text: str) -> str:
    """Return text with all control characters escaped, except colours and line ends.

    >>> visible("\\x1b[1mbold\\x1b[0m \\x1b]0;title\\x07")
    '\\x1b[1mbold\\x1b[0m \\\\x1b]0;title\\\\x07'
    """
    return "".join(part if k % 2 else shown(part, None) for k, part in enumerate(_OURS.split(text)))


def error_text(error: SparseqError) -> str:
    """Return an error in the form of the command line."""
    text = click.style("sparseq: ", fg="red", bold=True) + one_line(error.message)
    hint, query, same = without_query(error.hint)
    text += f"\n  hint: {one_line(hint)}" if hint else ""
    word = "try:  " if same else "another question: "
    return text + (f"\n  {word}{one_line(query)}" if query else "")


def unexpected_error(error: Exception) -> SparseqError:
    """Return an error that reveals only the type of an unexpected error.

    Its text might hold a row's value. With SPARSEQ_DEBUG set, the error itself is raised.
    """
    from sparseq.base._duckdb.connection import damaged_file, is_damage
    from sparseq.ledger._duckdb.write_errors import cannot_write, not_written

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
    """Return a conspicuous line."""
    return click.style(f"!! {shown(text, None)}", fg="red", bold=True)


def guarantee_line(budget: Budget, unit: str = "") -> str:
    """Return the guarantee in one line; `unit`: the protected unit, if not a person."""
    return (
        f"{budget.promise} for all answers ever, together "
        f"(epsilon {upper(budget.epsilon(DELTA))} at delta {DELTA_TEXT})"
        f"{f', for {unit}' if unit else ''}"
    )


def statement_lines(statement: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the unit and the meaning of a promise, from `PromiseStatement.to_dict`."""
    words = [("protects", statement["guess"]), ("together", statement["several"])]
    return [(label, textwrap.fill(text, 76)) for label, text in words]


def terminal_width() -> int | None:
    """Return the width of standard output in columns; None if it is no terminal."""
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else None


def tell_curator(messages: Iterable[str]) -> None:
    """Write messages for the curator alone to standard error."""
    for message in messages:
        say(f"{message} (for the curator only)", err=True)
