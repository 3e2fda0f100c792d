"""Staleness of answers when rows have come: those about times of none of the rows stand.

Whoever brings rows may say since when they are (`Store.ingest`): rows that are not are left out,
one by one, so what was measured of earlier times is still so. That is told from what was said and
from the regions of questions alone, and no row is looked at for it.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import asdict, dataclass
from typing import Any

from sparseq.base.errors import ParameterError
from sparseq.engine.sql import quote
from sparseq.language.expression_tree import day_of
from sparseq.reuse.fingerprint import Meaning
from sparseq.reuse.regions import bare, last_place
from sparseq.sql.catalog import Table

_KEPT = 1024
_MICROSECONDS = 86_400_000_000


@dataclass(frozen=True)
class RowsCame:
    """Rows that came: public.

    Attributes:
        epoch: That began with them.
        table: To which.
        column: Its column of time, as regions spell it; "": they may be of any time.
        since: The first place of it that they can have: days or microseconds since 1970.
    """

    epoch: int
    table: str
    column: str = ""
    since: int = 0

    @classmethod
    def of(cls, epoch: int, table: Table, since: dt.date | None) -> RowsCame:
        """Return what is known of rows that come.

        Raises:
            ParameterError: Nothing follows from `since` in this table.
        """
        if since is None:
            return cls(epoch, table.name.lower())
        kind = table.column(table.time).type if table.time else ""
        if kind not in ("DATE", "TIMESTAMP"):
            raise ParameterError(
                f"{table.name} has no column of dates or times by which rows are laid out",
                "say time=… (--time) when the store is made, or leave out since",
            )
        if table.row_key:
            raise ParameterError(
                f"rows that come to {table.name} may replace earlier ones, so since says nothing",
                "leave out since",
            )
        place = day_of(since) * (1 if kind == "DATE" else _MICROSECONDS)
        return cls(epoch, table.name.lower(), bare(f'"t".{quote(table.time)}'), place)


class Standing:
    """The rows that came, of which the latest are kept.

    Args:
        arrivals: As `kept` gave them.
        epoch: Today's.
    """

    def __init__(self, arrivals: Any, epoch: int) -> None:
        self._arrivals = [RowsCame(**one) for one in arrivals or ()]
        self._first = epoch - len(self._arrivals)

    def after(self, arrival: RowsCame) -> Standing:
        """Return them with another."""
        kept = [*self.kept(), asdict(arrival)] if arrival.column else []
        return Standing(kept[-_KEPT:], arrival.epoch)

    def kept(self) -> list[dict[str, Any]]:
        """Return them as plain data."""
        return [asdict(one) for one in self._arrivals]

    @property
    def oldest(self) -> int:
        """The first epoch of which an answer may stand."""
        return self._first

    def open(self, epoch: int, table: str) -> dict[str, float] | None:
        """Return the first places, by column of time, that rows of a table came to after an epoch.

        What was measured then of rows before them is still so. None: nothing is.
        """
        if epoch < self._first:
            return None
        found: dict[str, float] = {}
        for one in self._arrivals:
            if one.epoch <= epoch or (table and table != one.table):
                continue
            if not (table and one.column):
                return None
            found[one.column] = min(one.since, found.get(one.column, math.inf))
        return found

    def holds(self, epoch: int, question: Meaning) -> bool:
        """Tell whether what was measured for a question in an epoch is still so."""
        places = self.open(epoch, question.table)
        return places is not None and all(question.last(c) < at for c, at in places.items())

    def groups(self, epoch: int, question: Meaning) -> list[int]:
        """Return the groups of a question for which that is so."""
        places = self.open(epoch, question.table)
        if places is None or question.grid is None:
            return []
        return [
            group
            for group, cells in enumerate(question.grid.cells())
            if all(last_place(cell.get(c)) < at for cell in cells for c, at in places.items())
        ]
