"""What was done to rows that did not fit: for the curator."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparseq.engine.files.convert import MOST_TEXT
from sparseq.escape import shown


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
                f"{self.unreadable:,} lines or rows have bytes that are not UTF-8, or NUL: such values "
                "are NULL (in JSON, the characters are replaced); a store made with "
                "--encoding latin-1 reads Latin-1"
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
