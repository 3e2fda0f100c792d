"""The common cells of a dashboard's panels: days × groups, of each number that they add up.

A panel is an ordinary question. Its meaning (`sparseq.reuse.question_meanings`) gives the numbers
that it adds up and, for each of its groups, a region of rows. All panels of a dashboard are about
one table. The days of its time column, and at most two other keys that some panel groups by, part
its rows into cells; each group of each panel must be a union of whole cells. A key has one more
group for rows with none of its values, so that all rows of a day are a union of cells, too. It all
follows from the questions' texts and public facts.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from sparseq.base.errors import QueryRefused
from sparseq.base.sql_text import quote
from sparseq.dashboards.dashboard_file import Dashboard, Panel
from sparseq.dashboards.least_squares import CellUnion
from sparseq.language.expression_tree import day_of
from sparseq.language.value_sets import Spans, Values, union
from sparseq.question.catalog import Table
from sparseq.question.plan import Cell, Domain, Kind, Measure, Query
from sparseq.reuse.grids import Grid, GridKey, GridMeasure
from sparseq.reuse.question_meanings import meaning_of
from sparseq.reuse.regions import Region, bare
from sparseq.sql.key_domains import place_without_join
from sparseq.store.store import Store

MOST_KEYS, MOST_GROUPS, MOST_DAYS = 2, 500, 800
_MICROSECONDS = 86_400_000_000
_ONE_BY_ONE = "leave it out, and ask it with sparseq sql or sparseq monitor"
_REST = "all other"


@dataclass(frozen=True)
class BoardKey:
    """A key of the cells: its domain, with one more value for all other rows, and the pieces."""

    domain: Domain
    pieces: GridKey


@dataclass(frozen=True)
class BoardNumber:
    """A number of the cells.

    Attributes:
        key: A text that is equal for equal numbers of equal groups: with other groups, days are
            measured anew.
        measure: The measure.
    """

    key: str
    measure: Measure


@dataclass(frozen=True)
class PanelCells:
    """A panel on one morning: its question and, by measure, its number and the cells by group."""

    panel: Panel
    query: Query
    numbers: tuple[str, ...]
    unions: tuple[tuple[CellUnion, ...], ...]

    @property
    def needed(self) -> list[tuple[str, frozenset[int]]]:
        """The days of each number that the panel adds up together."""
        found = dict.fromkeys(
            (number, one.days)
            for number, some in zip(self.numbers, self.unions, strict=True)
            for one in some
        )
        return list(found)


@dataclass(frozen=True)
class Board:
    """A dashboard on one morning: its table, keys, numbers and panels."""

    store: Store
    dashboard: Dashboard
    today: dt.date
    table: Table
    keys: tuple[BoardKey, ...]
    numbers: Mapping[str, BoardNumber]
    panels: tuple[PanelCells, ...]

    @property
    def groups(self) -> int:
        """The number of groups of a day."""
        return math.prod(len(key.domain.values) for key in self.keys)

    @property
    def group_names(self) -> list[str]:
        """The groups of a day in words."""
        some = product(*(map(str, key.domain.values) for key in self.keys))
        return [", ".join(one) or "all" for one in some]

    def node(self, number: str, first: int, last: int) -> Query:
        """Return the question of a node: a number by group, from one day to another."""
        start, end = (dt.date(1970, 1, 1) + dt.timedelta(days=d) for d in (first, last + 1))
        time, table = quote(self.table.time), quote(self.table.name)
        rows = self.store.lower(
            f"SELECT count(*) AS n FROM {table} WHERE {time} >= DATE '{start}' "
            f"AND {time} < DATE '{end}'"
        )
        one = self.numbers[number].measure
        until = "" if first == last else f" to {end - dt.timedelta(days=1)}"
        text = f"{self.dashboard.name}: {one.label} on {start}{until}"
        return replace(rows, text=text, domains=tuple(k.domain for k in self.keys), measures=(one,))


def board_of(store: Store, dashboard: Dashboard, today: dt.date) -> Board:
    """Return a dashboard's common cells on a morning.

    Raises:
        QueryRefused: A panel is no union of cells; the message names it, and the way out.
    """
    asked = [_lowered(store, panel, today) for panel in dashboard.panels]
    tables = {grid.origin for _, _, grid in asked}
    if len(tables) > 1:
        raise QueryRefused("the panels are about several tables", "make a dashboard for each table")
    table = store.catalog.table(asked[0][1].relation.stored)
    kind = table.column(table.time).type if table.time else ""
    if kind not in ("DATE", "TIMESTAMP"):
        raise QueryRefused(
            f"{table.name} has no time column, so its rows have no days",
            "sparseq create --time COLUMN",
        )
    time = bare(f'"t".{quote(table.time)}')
    keys = _keys_of(asked, time)
    cells = _Cells(time, _MICROSECONDS if kind == "TIMESTAMP" else 1, day_of(today), keys)
    numbers: dict[str, BoardNumber] = {}
    panels = []
    for panel, query, grid in asked:
        chosen = []
        for measure, one in zip(query.measures, grid.measures, strict=True):
            number = _number(store, table, panel, measure, one, cells)
            chosen.append(numbers.setdefault(number.key, number).key)
        unions = tuple(cells.unions(panel, grid, one) for one in grid.measures)
        panels.append(PanelCells(panel, query, tuple(chosen), unions))
    return Board(store, dashboard, today, table, keys, numbers, tuple(panels))


Asked = tuple[Panel, Query, Grid]


def _lowered(store: Store, panel: Panel, today: dt.date) -> Asked:
    """Return a panel's question and its grid, or refuse it."""
    try:
        query = store.lower(panel.sql(today))
    except QueryRefused as error:
        raise _refusal(panel, error.message, error.hint) from None
    meaning = None if query.unbounded or query.first else meaning_of(query)
    grid = None if meaning is None else meaning.grid
    if grid is None or query.asks_nobody:
        raise _refusal(
            panel,
            "it is no sum over rows of one table by public groups",
            "count(*), sum(x), their shares and quotients, FROM one table; for others: "
            + _ONE_BY_ONE,
        )
    for measure, one in zip(query.measures, grid.measures, strict=True):
        low = 0.0 if measure.bounds is None else measure.bounds[0]
        unknown = measure.kind is Kind.SUM and measure.bounds is None
        if not one.additive or measure.bins > 1 or unknown or low < 0:
            raise _refusal(
                panel,
                f"{measure.label} is no count of rows and no sum of values from 0 on",
                "sum(x) / count(*) in place of avg(x), and bounds from 0 on; for others: "
                + _ONE_BY_ONE,
            )
    return panel, query, grid


def _refusal(panel: Panel, why: str, hint: str = "") -> QueryRefused:
    return QueryRefused(f"the panel {panel.title!r}: {why}", hint)


def _keys_of(asked: Sequence[Asked], time: str) -> tuple[BoardKey, ...]:
    """Return the keys of the cells: those that panels group by, except time."""
    found: dict[str, BoardKey] = {}
    for panel, query, grid in asked:
        for domain, pieces in zip(query.domains, grid.keys, strict=True):
            if pieces.name == time:
                continue
            known = found.get(pieces.name)
            if known is None or len(known.pieces.pieces) < len(pieces.pieces):
                place = place_without_join(domain)
                if place is None:
                    raise _refusal(
                        panel, f"the values of {domain.name} were found", "declare them: --keys"
                    )
                found[pieces.name] = BoardKey(_with_rest(domain, place), pieces)
    groups = math.prod(len(key.domain.values) for key in found.values())
    if len(found) > MOST_KEYS or groups > MOST_GROUPS:
        raise QueryRefused(
            f"the panels group by {len(found)} keys with {groups:,} combinations; the limits are "
            f"{MOST_KEYS} and {MOST_GROUPS}",
            "make two dashboards, or group by something coarser",
        )
    return tuple(found[name] for name in sorted(found))


def _with_rest(domain: Domain, place: str) -> Domain:
    """Return a domain with one more value, for rows with none of its values."""
    size = len(domain.values)
    position = f"CASE WHEN ({place}) BETWEEN 0 AND {size - 1} THEN ({place}) ELSE {size} END"
    values = (*domain.values, _REST)
    return replace(domain, values=values, position=Cell(position), key=None, rest=True)


def _number(
    store: Store,
    table: Table,
    panel: Panel,
    measure: Measure,
    asked: GridMeasure,
    cells: _Cells,
) -> BoardNumber:
    """Return the number that a measure adds up in each cell.

    Its conditions are on time and keys, or they are part of the measure (FILTER).
    """
    plain = store.lower(f"SELECT count(*) AS n FROM {quote(table.name)}")
    alone = meaning_of(replace(plain, measures=(measure,)))
    assert alone is not None
    (own,) = alone.measures
    mine, free = own.region, {cells.time, *(key.pieces.name for key in cells.keys)}
    others = {name: v for name, v in asked.region.values.items() if name not in free}
    left = {name: v for name, v in mine.values.items() if name not in free}
    if own.adds != asked.adds or others != left or mine.conditions != asked.region.conditions:
        raise _refusal(
            panel,
            "it has a condition on a column that is neither the time nor a key of the panels",
            "write count(*) FILTER (WHERE …), or group some panel by that column",
        )
    if measure.kind is Kind.ROWS and not left and not mine.conditions:
        measure = replace(measure, value=None, label="count(*)")  # its FILTER chooses cells
    groups = [(key.pieces.name, key.domain.values) for key in cells.keys]
    meant = repr((own.adds, Region(left, mine.conditions).key, groups))
    digest = hashlib.sha256(meant.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return BoardNumber(f"{measure.kind.value} {digest}", measure)


@dataclass(frozen=True)
class _Cells:
    """The cells as values: the time column, its places in a day, the morning, and the keys."""

    time: str
    day: int
    today: int
    keys: tuple[BoardKey, ...]

    def unions(self, panel: Panel, grid: Grid, measure: GridMeasure) -> tuple[CellUnion, ...]:
        """Return the cells of each group of a panel."""
        known: dict[object, frozenset[int]] = {}
        found = []
        for pieces in product(*(key.pieces for key in grid.keys)):
            cell = grid.cell(measure, pieces)
            found.append(CellUnion(self._days(panel, cell), self._groups(panel, cell, known)))
        return tuple(found)

    def _days(self, panel: Panel, cell: Mapping[str, Values]) -> frozenset[int]:
        wanted = cell.get(self.time)
        spans = wanted.known.spans if wanted is not None and isinstance(wanted.known, Spans) else ()
        if wanted is None or wanted.null or not spans or math.isinf(spans[0][0]):
            raise _refusal(
                panel, "it has no first day", "WHERE day >= :today - 28 AND day < :today"
            )
        days: set[int] = set()
        for low, high in spans:
            if math.isinf(high) or high >= self.today * self.day:
                raise _refusal(
                    panel, "it includes days that are not complete", "WHERE day < :today"
                )
            first, rest = divmod(int(low), self.day)
            end, more = divmod(int(high) + 1, self.day)
            if rest or more:
                raise _refusal(panel, "it parts a day", "conditions on whole days")
            days.update(range(first, end))
        if not days or self.today - min(days) > MOST_DAYS:
            raise _refusal(panel, f"it has no day of the last {MOST_DAYS}", "a later first day")
        return frozenset(days)

    def _groups(
        self, panel: Panel, cell: Mapping[str, Values], known: dict[object, frozenset[int]]
    ) -> frozenset[int] | None:
        wanted = tuple(cell.get(key.pieces.name) for key in self.keys)
        if all(one is None for one in wanted):
            return None
        if wanted not in known:
            chosen = [_pieces(panel, k, w) for k, w in zip(self.keys, wanted, strict=True)]
            sizes = [len(key.domain.values) for key in self.keys]
            places = [0]
            for some, size in zip(chosen, sizes, strict=True):
                places = [at * size + k for at in places for k in some]
            known[wanted] = frozenset(places)
        return known[wanted]


def _pieces(panel: Panel, key: BoardKey, wanted: Values | None) -> Sequence[int]:
    """Return the groups of a key that make up the wanted values."""
    if wanted is None:
        return range(len(key.domain.values))
    common = [piece.both(wanted) for piece in key.pieces.pieces]
    chosen = [k for k, some in enumerate(common) if some]
    whole = all(common[k] == key.pieces.pieces[k] for k in chosen)
    if not chosen or not whole or union([common[k] for k in chosen]) != wanted:
        raise _refusal(
            panel,
            f"its values of {key.domain.name} are no union of that key's groups",
            "the same groups in all panels",
        )
    return chosen
