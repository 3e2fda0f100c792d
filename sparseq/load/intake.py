"""The report of values and rows that did not fit, for the curator: private."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparseq.base.texts import count_of, shown
from sparseq.language.types import MOST_LISTED
from sparseq.load.convert import MOST_TEXT


@dataclass
class Intake:
    """Counts of rows that did not fit: private.

    Attributes:
        rows: The number of all rows.
        no_user: Rows without a user, which were left out.
        null: By NOT NULL column: rows without a value there, which were left out.
        early: Rows of an earlier day than the first one to load, or without a day, which were left
            out.
        lines: Lines of text that were left out: too long, or with too many values.
        unreadable: Lines or rows with bytes that are not text: such a value is NULL.
        short: Lines with fewer values than the header has names: the others are NULL.
        torn: Last lines without a line end and with too few values, which were left out.
        moved: By column of times without a zone: texts with an offset, which were converted to UTC.
        centuries: By column of two-digit years: values that mean 2000 or later.
        no_value: By column: values that did not fit, and are NULL.
        cut: By column: texts that were cut.
        lists: By column: lists that were cut.
        bounded: Messages about values that were cut to the bounds of their column.
        columns: By column: the reason that no value could be read.
        notes: Things that were not read: other files in a folder, other sheets.
    """

    rows: int = 0
    no_user: int = 0
    null: dict[str, int] = field(default_factory=dict)
    early: int = 0
    lines: int = 0
    unreadable: int = 0
    short: int = 0
    torn: int = 0
    moved: dict[str, int] = field(default_factory=dict)
    centuries: dict[str, int] = field(default_factory=dict)
    no_value: dict[str, int] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    lists: dict[str, int] = field(default_factory=dict)
    bounded: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def messages(self) -> list[str]:
        """Return the messages, one per line; none if all rows are unchanged."""
        said = list(self.notes)
        if self.lines:
            lines = count_of(self.lines, "line was", "lines were")
            said.append(f"{lines} left out: too long, or with too many values")
        if self.short:
            lines = count_of(self.short, "line has", "lines have")
            said.append(f"{lines} fewer values than the header has names: the others are NULL")
        if self.torn:
            lines = count_of(self.torn, "last line was", "last lines were")
            said.append(f"{lines} left out: no line end and too few values, as if torn off")
        if self.unreadable:
            lines = count_of(self.unreadable, "line or row has", "lines or rows have")
            said.append(
                f"{lines} bytes that are not UTF-8, or NUL: such values are NULL (in "
                "JSON, the characters are replaced); a store made with "
                "--csv encoding=latin-1 reads Latin-1"
            )
        if self.no_user:
            said.append(f"{self.no_user:,} of {self.rows:,} rows were left out: they name no user")
        for name, count in self.null.items():
            said.append(
                f"{count:,} of {self.rows:,} rows were left out: {shown(name)} is NOT NULL, and "
                "they have no value there"
            )
        if self.early:
            said.append(f"{self.early:,} of {self.rows:,} rows were left out: they are too early")
        for name, why in self.columns.items():
            said.append(f"{shown(name)} is empty: {why}")
        for name, count in self.no_value.items():
            became = "their rows were left out" if name in self.null else "and are NULL"
            said.append(f"{shown(name)}: {count:,} values did not fit, {became}")
        for name, count in self.moved.items():
            said.append(f"{shown(name)}: {count:,} times have an offset, and were converted to UTC")
        for name, count in self.centuries.items():
            said.append(
                f"{shown(name)}: two-digit years are those of 1969 to 2068; {count:,} values are "
                "of 2000 or later"
            )
        for name, count in self.cut.items():
            said.append(f"{shown(name)}: {count:,} texts were cut to {MOST_TEXT:,} characters")
        cut = {name: count for name, count in self.lists.items() if count}
        for name, count in cut.items():
            said.append(f"{shown(name)}: {count:,} lists were cut to {MOST_LISTED:,} values")
        return said + self.bounded
