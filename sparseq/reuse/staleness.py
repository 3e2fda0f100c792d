"""Staleness of answers after a load: answers about times before all new rows are still valid.

A loader may declare the smallest time of its rows (`Store.ingest`): earlier rows are left out, one
by one, so measurements of earlier times are still valid. The decision uses only the declaration and
the regions of questions, and reads no row.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import asdict, dataclass
from typing import Any

from sparseq.base.errors import ParameterError
from sparseq.base.sql_text import quote
from sparseq.language.expression_tree import day_of
from sparseq.question.catalog import Table
from sparseq.reuse.question_meanings import Meaning
from sparseq.reuse.regions import bare, last_place

_KEPT = 1024
_MICROSECONDS = 86_400_000_000


@dataclass(frozen=True)
class RowsCame:
    """One load of rows: public.

    Attributes:
        epoch: The epoch that began with it.
        table: The table of the rows.
        column: The table's column of time, as regions spell it; "": rows may have any time.
        since: The smallest time of the rows: days or microseconds since 1970.
    """

    epoch: int
    table: str
    column: str = ""
    since: int = 0

    @classmethod
    def of(cls, epoch: int, table: Table, since: dt.date | None) -> RowsCame:
        """Return the public facts about rows that are being loaded.

        Raises:
            ParameterError: `since` cannot be used with this table.
        """
        if since is None:
            return cls(epoch, table.name.lower())
        kind = table.column(table.time).type if table.time else ""
        if kind not in ("DATE", "TIMESTAMP"):
            raise ParameterError(
                f"{table.name} has no column of dates or times by which rows are laid out",
                "give time=… (--time) when the store is created, or leave out since",
            )
        if table.row_key:
            raise ParameterError(
                f"rows that come to {table.name} may replace earlier ones, so since has no effect",
                "leave out since",
            )
        place = day_of(since) * (1 if kind == "DATE" else _MICROSECONDS)
        return cls(epoch, table.name.lower(), bare(f'"t".{quote(table.time)}'), place)


class Standing:
    """The latest loads of rows.

    Args:
        arrivals: The result of `kept`.
        epoch: The current epoch.
    """

    def __init__(self, arrivals: Any, epoch: int) -> None:
        self._arrivals = [RowsCame(**one) for one in arrivals or ()]
        self._first = epoch - len(self._arrivals)

    def after(self, arrival: RowsCame) -> Standing:
        """Return the loads with one more."""
        kept = [*self.kept(), asdict(arrival)] if arrival.column else []
        return Standing(kept[-_KEPT:], arrival.epoch)

    def kept(self) -> list[dict[str, Any]]:
        """Return the loads as plain data."""
        return [asdict(one) for one in self._arrivals]

    @property
    def oldest(self) -> int:
        """The first epoch whose answers may still be valid."""
        return self._first

    def open(self, epoch: int, table: str) -> dict[str, float] | None:
        """Return the smallest times, by column, of rows loaded to a table after an epoch.

        A measurement of that epoch is still valid for rows before them. None: for no rows.
        """
        if epoch < self._first:
            return None
        first_places: dict[str, float] = {}
        for one in self._arrivals:
            if one.epoch <= epoch or (table and table != one.table):
                continue
            if not (table and one.column):
                return None
            first_places[one.column] = min(one.since, first_places.get(one.column, math.inf))
        return first_places

    def holds(self, epoch: int, question: Meaning) -> bool:
        """Tell whether the measurement of a question in an epoch is still valid."""
        places = self.open(epoch, question.table)
        return places is not None and all(question.last(c) < at for c, at in places.items())

    def groups(self, epoch: int, question: Meaning) -> list[int]:
        """Return the groups of a question whose measurements are still valid."""
        places = self.open(epoch, question.table)
        if places is None or question.grid is None:
            return []
        return [
            group
            for group, cells in enumerate(question.grid.cells())
            if all(last_place(cell.get(c)) < at for cell in cells for c, at in places.items())
        ]
