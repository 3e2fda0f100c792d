"""A report of rows that did not fit, for the curator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sparseq.base.texts import shown
from sparseq.load.convert import MOST_TEXT
from sparseq.load.read_schema import Schema
from sparseq.load.sniff import Guess

_DECLARED = {"dates": "DATE:%d.%m.%Y", "numbers": "DOUBLE:,"}
_THOUSANDS = {
    "": " with a point: if it stands between thousands, --type COLUMN=DOUBLE:, says so",
    ",": " with a decimal comma: 1,234 is 1.234; if it is not, --type COLUMN=VARCHAR keeps texts",
}


@dataclass
class Intake:
    """What was done to rows that did not fit, in numbers: private.

    Attributes:
        rows: That came.
        no_user: Rows that don't say whom they are about, and were left out.
        early: Rows of an earlier day than is taken, or of none, that were left out.
        lines: Lines of text that were left out: too long, or with too many values.
        unreadable: Lines or rows with bytes that are no text: such a value is NULL.
        no_value: By column: values that did not fit, and are NULL.
        cut: By column: texts that were cut.
        bounded: What was cut to the bounds of its column, in words.
        columns: By column: why nothing of it could be read.
        notes: What was not looked at: other files in a folder, other sheets.
    """

    rows: int = 0
    no_user: int = 0
    early: int = 0
    lines: int = 0
    unreadable: int = 0
    no_value: dict[str, int] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    bounded: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def messages(self) -> list[str]:
        """Return it in words, a line each; nothing if every row was read as it is."""
        said = list(self.notes)
        if self.lines:
            said.append(f"{self.lines:,} lines were left out: too long, or with too many values")
        if self.unreadable:
            said.append(
                f"{self.unreadable:,} lines or rows have bytes that are not UTF-8, or NUL: such "
                "values are NULL (in JSON, the characters are replaced); a store made with "
                "--csv encoding=latin-1 reads Latin-1"
            )
        if self.no_user:
            said.append(f"{self.no_user:,} of {self.rows:,} rows were left out: they name no user")
        if self.early:
            said.append(f"{self.early:,} of {self.rows:,} rows were left out: they are too early")
        for name, why in self.columns.items():
            said.append(f"{shown(name)} is empty: {why}")
        for name, count in self.no_value.items():
            said.append(f"{shown(name)}: {count:,} values did not fit, and are NULL")
        for name, count in self.cut.items():
            said.append(f"{shown(name)}: {count:,} texts were cut to {MOST_TEXT:,} characters")
        return said + self.bounded


def facts_of(
    schema: Schema,
    ambiguous: Mapping[str, Guess],
    kept: Mapping[str, str],
    left_out: Sequence[str],
) -> list[str]:
    """Return what is read otherwise than a file has it, or not at all, in words: public.

    Args:
        schema: How the rows of a new table are read.
        ambiguous: Columns whose texts can be read in several ways, or in none of all.
        kept: By column: how its values are kept, in words, if not as they are.
        left_out: Columns that are not stored.
    """
    said = []
    for name in schema.types:
        format, guessed = schema.formats.get(name, ""), ambiguous.get(name, Guess(""))
        doubt = ""
        if guessed.like:
            said.append(
                f"{shown(name)} as text: most look like {guessed.like}, and not all are written in "
                f"one way; --type {shown(name)}={_DECLARED[guessed.like]} says in which"
            )
        elif "thousands" in guessed.also:
            doubt = _THOUSANDS[format]
        elif guessed.also:
            doubt = f"; {' and '.join(guessed.also)} would fit as well: is it so? --type says it"
        if format or doubt:
            said.append(f"{shown(name)} as {format or 'numbers'}{doubt}")
    said += [f"{shown(name)}: {how}" for name, how in kept.items()]
    if left_out:
        said.append(f"columns that are not stored: {', '.join(left_out)}")
    return said
