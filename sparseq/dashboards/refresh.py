"""The refresh of a dashboard: the nodes that its panels lack are measured, each once.

A morning needs, of each number, the weeks (from Monday) that lie in some union of days of a panel,
and the days of all unions that are not made of whole weeks. Those that were not measured before are
measured now, calendar week by calendar week, each in one release with all numbers. A day that was
measured is never measured again: rows that come later are in no panel. A week is not measured if
rows may have come to a day of it after that day was measured, as it would not be the sum of its
days; only public facts decide (`sparseq.reuse.staleness`).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sparseq.base.errors import ParameterError
from sparseq.dashboards.common_cells import Board, board_of
from sparseq.dashboards.dashboard_file import Dashboard
from sparseq.dashboards.node_log import (
    DAY,
    WEEK,
    NodeRecord,
    pools_of,
    read_nodes,
    valid_nodes,
    write_nodes,
)
from sparseq.language.expression_tree import day_of
from sparseq.ledger.notes import NoteRows
from sparseq.ledger.pots import Pot
from sparseq.ledger.purposes import Purpose
from sparseq.store.store import Store
from sparseq.stream.node_sums import (
    DAY_PRICE,
    PILOT_PRICE,
    WEEK_PRICE,
    MeasuredNodes,
    Node,
    PlannedCosts,
)

_WEEK = 7
_MONDAY = 4  # 1970-01-05, in days since 1970-01-01
_MICROSECONDS = 86_400_000_000


@dataclass(frozen=True)
class Period:
    """A node that a morning needs: a number, a kind and its days."""

    number: str
    kind: str
    first: int

    @property
    def last(self) -> int:
        """The last day."""
        return self.first + (_WEEK if self.kind == WEEK else 1) - 1

    @property
    def cost(self) -> float:
        """The most that it costs a user per a²: public."""
        return (WEEK_PRICE if self.kind == WEEK else DAY_PRICE) + PILOT_PRICE


@dataclass(frozen=True)
class Refresh:
    """A refresh that was made.

    Attributes:
        board: The dashboard's cells on the morning.
        nodes: All nodes so far.
        releases: The releases that it made.
        measured: The number of nodes that it measured.
    """

    board: Board
    nodes: Sequence[NodeRecord]
    releases: tuple[int, ...]
    measured: int


def refresh(store: Store, dashboard: Dashboard, today: dt.date) -> Refresh:
    """Measure what the panels of a morning lack; a repeat measures nothing.

    Args:
        store: The store.
        dashboard: The dashboard; its part of the budget has its name.
        today: The morning: all days before it are complete.

    Raises:
        ParameterError: The dashboard has no part of the budget, or its mornings are used up.
        QueryRefused: See `board_of`.
    """
    stream = store.stream
    with stream.held():
        part = purpose_of(store, dashboard)
        board = board_of(store, dashboard, today)
        nodes = read_nodes(stream.ledger, dashboard.name)
        pot, releases, measured = Pot(part.answers), list[int](), 0
        while missing := missing_periods(board, nodes):
            if not releases:
                _check_mornings(store, part)
            weeks = list(_by_week(missing))
            for i, periods in enumerate(weeks):
                later = [one for some in weeks[i + 1 :] for one in some]
                releases.append(_measure(board, pot, nodes, periods, later, first=not measured))
                nodes = read_nodes(stream.ledger, dashboard.name)
            measured += len(missing)
    return Refresh(board, nodes, tuple(releases), measured)


def cost_of_refresh(store: Store, dashboard: Dashboard, today: dt.date) -> tuple[int, float]:
    """Return the number of nodes that a refresh would measure, and the most that it charges a user.

    The charge is in squared norm, and public; a user who is in none of the days pays nothing.

    Raises:
        ParameterError, QueryRefused: See `refresh`.
    """
    with store.stream.held():
        part = purpose_of(store, dashboard)
        nodes = read_nodes(store.stream.ledger, dashboard.name)
        missing = missing_periods(board_of(store, dashboard, today), nodes)
        if missing:
            _check_mornings(store, part)
    return len(missing), min(sum(one.cost for one in missing), part.counts)


def purpose_of(store: Store, dashboard: Dashboard) -> Purpose:
    """Return the part of the budget that pays for a dashboard.

    Raises:
        ParameterError: There is none, or it is for a series.
    """
    name = dashboard.name
    part = next((p for p in store.stream.pots.purposes if p.name == name), None)
    if part is None:
        raise ParameterError(
            f"the dashboard {name!r} has no part of the budget",
            f"sparseq dashboard plan prints one: sparseq purpose add STORE {name}=30%,ticks=30",
        )
    if not part.weighs or store.stream.ledger.lifetimes is not None:
        raise ParameterError(
            f"the part {name!r} is for a series with {part.strategy or 'forecasts'}, or accounts "
            "have a cap for life",
            f"a part without these: sparseq purpose add STORE {name}_2=30%,ticks=30",
        )
    begun = store.stream.part(Pot(part.answers)).course
    assert begun is not None
    if begun.answers and not read_nodes(store.stream.ledger, name):
        raise ParameterError(
            f"the part {name!r} pays for a series already", "give the dashboard another name"
        )
    return part


def morning_cost(numbers: int) -> float:
    """Return the mean cost of a planned morning per a²: a day, and a seventh of a week."""
    return numbers * (DAY_PRICE + PILOT_PRICE + (WEEK_PRICE + PILOT_PRICE) / _WEEK)


def missing_periods(board: Board, nodes: Sequence[NodeRecord]) -> list[Period]:
    """Return the nodes that a morning needs and that were not measured, in order.

    It needs what the next morning will need of the days before it, too: days that are whole weeks
    today and will be parts of weeks tomorrow are measured while few users have faded.
    """
    kept = valid_nodes(nodes)
    known = {(node.number, node.kind, node.first) for node in kept}
    tomorrow = board_of(board.store, board.dashboard, board.today + dt.timedelta(days=1))
    complete, wanted = range(day_of(board.today)), set[Period]()
    for panel in (*board.panels, *tomorrow.panels):
        for number, days in panel.needed:
            weeks = {
                d
                for d in days
                if d % _WEEK == _MONDAY
                and d + _WEEK - 1 in complete
                and days.issuperset(range(d, d + _WEEK))
                and ((number, WEEK, d) in known or fits_its_days(board, kept, number, d))
            }
            wanted |= {Period(number, WEEK, d) for d in weeks}
            if len(days) != _WEEK * len(weeks):
                wanted |= {Period(number, DAY, d) for d in days if d in complete}
    lacking = [p for p in wanted if (p.number, p.kind, p.first) not in known]
    return sorted(lacking, key=lambda p: (p.first, p.kind, p.number))


def fits_its_days(board: Board, nodes: Sequence[NodeRecord], number: str, monday: int) -> bool:
    """Tell whether a week measured now is the sum of its days that were measured before."""
    days = [node for node in nodes if node.kind == DAY and node.number == number]
    mine = [node for node in days if monday <= node.first < monday + _WEEK]
    return not any(_came_to(board, node.first, node.epoch) for node in mine)


def _came_to(board: Board, day: int, epoch: int) -> bool:
    """Tell whether rows may have come to a day after an epoch: from the public log of loads."""
    unit = 1 if board.table.column(board.table.time).type == "DATE" else _MICROSECONDS
    places = board.store.stream.recall.standing.open(epoch, board.table.name.lower())
    return places is None or any((day + 1) * unit > place for place in places.values())


def _by_week(periods: Sequence[Period]) -> Iterator[list[Period]]:
    """Yield the nodes of each calendar week."""
    weeks: dict[int, list[Period]] = {}
    for one in periods:
        weeks.setdefault((one.first - _MONDAY) // _WEEK, []).append(one)
    yield from weeks.values()


def _check_mornings(store: Store, part: Purpose) -> None:
    course = store.stream.part(Pot(part.answers)).course
    assert course is not None
    if course.answers >= part.ticks:
        raise ParameterError(
            f"all {part.ticks} mornings of {part.name!r} are used up; its panels stay as they are",
            "copy the file under another name, and give that a part: sparseq purpose add",
        )


def _measure(
    board: Board,
    pot: Pot,
    nodes: Sequence[NodeRecord],
    periods: Sequence[Period],
    later: Sequence[Period],
    first: bool,
) -> int:
    """Measure nodes in one release; the last one of the first round ends a planned morning."""
    stream, today = board.store.stream, day_of(board.today)
    asked = [
        Node(board.node(p.number, p.first, p.last), f"{p.kind} {p.number}", p.kind == WEEK)
        for p in periods
    ]
    waiting = sum(one.cost for one in later)
    stale: dict[str, set[int]] = {}  # days with a week that may lack rows of today
    for week in (node for node in valid_nodes(nodes) if node.kind == WEEK):
        some = {day for day in week.days if _came_to(board, day, week.epoch)}
        stale.setdefault(week.number, set()).update(some)
    planned = PlannedCosts(morning_cost(len(board.numbers)), waiting, first and not later)

    def written(release: int, done: MeasuredNodes) -> tuple[pa.Table, list[NoteRows]]:
        records = [
            NodeRecord(
                one.number,
                one.kind,
                one.first,
                one.last,
                stream.recall.epoch,
                today,
                found.pilot.tolist(),
                found.steps,
                found.sums.tolist(),
                found.noise,
                found.unit,
                found.reach,
                node.price,
                one.kind == DAY and one.first in stale.get(one.number, ()),
            )
            for one, node, found in zip(periods, asked, done.nodes, strict=True)
        ]
        table = _shown(board, asked, records)
        return table, [write_nodes(board.dashboard.name, release, records)]

    return stream.measure_nodes(pot, asked, pools_of(nodes), planned, written)


def _shown(board: Board, asked: Sequence[Node], records: Sequence[NodeRecord]) -> pa.Table:
    """Return the table of a release in the history: the measured sums, and their noise."""
    names = board.group_names
    rows = [
        {
            "node": node.query.text,
            "group": group,
            "measured": value * record.unit,
            "sigma": record.noise * record.unit,
        }
        for node, record in zip(asked, records, strict=True)
        for group, value in zip([*names, "total"], record.sums, strict=False)
    ]
    return pa.Table.from_pylist(rows)
