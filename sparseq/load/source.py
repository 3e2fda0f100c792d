"""The protocol of a source of rows: what every file, database table and frame offers a loader."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

NO_TYPES: Mapping[str, str] = {}
"""The types of the stored columns where none is known."""


class Source(Protocol):
    """Rows to read.

    Attributes:
        name: The name of the file, for messages.
        types: The tidy type of each column, None for a column of an unusable type; text for all
            columns of text files. For JSON Lines: the keys of the first lines.
        open_ended: True if a column that is missing in `types` may still exist.
        left_out: The number of lines left out so far because they are too long or malformed.
        separator: The separator of a text file's values.
        declared: The stored types that the source itself declares for text columns.
        words: Text columns whose values are never numbers, even if they look like numbers.
        not_null: Columns that the source itself declares as NOT NULL.
        unreadable: The number of lines or rows so far with bytes that are not text.
        short: The number of lines so far with fewer values than the header has names.
        torn: The number of last lines left out so far, because they have no line end and too few
            values.
        notes: Messages for the curator about data that were not read, or were changed.
    """

    name: str
    open_ended: bool
    separator: str
    notes: tuple[str, ...]

    @property
    def declared(self) -> Mapping[str, str]:
        """See above."""

    @property
    def left_out(self) -> int:
        """See above."""

    @property
    def unreadable(self) -> int:
        """See above."""

    @property
    def short(self) -> int:
        """See above."""

    @property
    def torn(self) -> int:
        """See above."""

    @property
    def words(self) -> Collection[str]:
        """See above."""

    @property
    def not_null(self) -> Collection[str]:
        """See above."""

    @property
    def types(self) -> dict[str, pa.DataType | None]:
        """See above."""

    def raw_types(self) -> dict[str, pa.DataType]:
        """Return the original types of the columns that are not text."""

    def batches(
        self, columns: Sequence[str], types: Mapping[str, str] = NO_TYPES
    ) -> Iterator[list[pa.Array]]:
        """Return the columns of all rows with the file's values; text is tidy.

        Args:
            columns: The columns, in order.
            types: The types of the stored columns, if known: in a text column, a number has one
                spelling.
        """
