"""The log of a dashboard's nodes: released numbers, written with their release."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from sparseq.accounting.pilots.pooled_pilots import Pool, PooledCut
from sparseq.dashboards.least_squares import NodeValues
from sparseq.ledger.notes import NoteRows, NoteTable
from sparseq.ledger.protocol import Ledger

NODES = NoteTable(
    "dashboard_nodes", {"dashboard": "VARCHAR", "release": "BIGINT", "record": "VARCHAR"}
)
DAY, WEEK = "day", "week"


@dataclass(frozen=True)
class NodeRecord:
    """A released node: public.

    Attributes:
        number: The number that it measures (`BoardNumber.key`).
        kind: DAY or WEEK.
        first, last: Its days, since 1970.
        epoch: The epoch of the rows at its release.
        morning: The day of its refresh, since 1970.
        pilot: Noised users per cell of the ladder.
        steps: C, see `sparseq.stream.node_sums.MeasuredNode`.
        sums: Noised weighted sums by group and, with several groups, the total; in joint units.
        noise: Their standard deviation, in joint units.
        unit: The joint unit.
        reach: The cell of a user with one row.
        price: The price of the sums.
        apart: A day: rows may have come to it after its week was measured.
        release: The number of its release, in nodes that were read back.
    """

    number: str
    kind: str
    first: int
    last: int
    epoch: int
    morning: int
    pilot: list[float]
    steps: int
    sums: list[float]
    noise: float
    unit: float
    reach: int
    price: float
    apart: bool = False
    release: int = 0

    @property
    def days(self) -> range:
        """Its days."""
        return range(self.first, self.last + 1)

    @property
    def pool(self) -> str:
        """The name of its pool of pilots."""
        return f"{self.kind} {self.number}"


def write_nodes(dashboard: str, release: int, nodes: Sequence[NodeRecord]) -> NoteRows:
    """Return the notes of a release of nodes."""
    records = [json.dumps(asdict(node)) for node in nodes]
    return NODES.rows(dashboard=dashboard, release=release, record=records)


def read_nodes(ledger: Ledger, dashboard: str) -> list[NodeRecord]:
    """Return all nodes of a dashboard, in the order of their releases."""
    found = ledger.notes(NODES, dashboard=dashboard).to_pylist()
    found.sort(key=lambda row: row["release"])
    return [NodeRecord(**{**json.loads(r["record"]), "release": r["release"]}) for r in found]


def valid_nodes(nodes: Sequence[NodeRecord]) -> list[NodeRecord]:
    """Return the nodes that fit together: without weeks that lack rows of one of their days."""
    apart = [(node.number, node.first, node.release) for node in nodes if node.apart]
    return [
        node
        for node in nodes
        if node.kind == DAY
        or not any(
            number == node.number and day in node.days and release > node.release
            for number, day, release in apart
        )
    ]


def pools_of(nodes: Sequence[NodeRecord]) -> dict[str, Pool]:
    """Return the latest pilots of each kind."""
    pools: dict[str, Pool] = {}
    for node in nodes:
        pools[node.pool] = pools.get(node.pool, Pool()).with_pilot(np.array(node.pilot))
    return pools


def values_of(
    nodes: Sequence[NodeRecord], sigma_0: float, sd: float, alike: float
) -> list[NodeValues]:
    """Return the numbers of nodes, grown by what their kind lacks, with their errors.

    Args:
        nodes: Nodes of one number.
        sigma_0: The noise of a full contribution in the dashboard's part.
        sd: Standard deviation of the cells of one pilot.
        alike: Standard deviation of the ratio of a group's share of the cut and of the number.
    """
    pools, found = pools_of(nodes), list[NodeValues]()
    cuts: dict[tuple[str, int], PooledCut] = {}
    for node in nodes:
        asked = pools[node.pool].question(len(node.sums), sigma_0, node.price, node.reach)
        key = node.pool, node.steps
        if key not in cuts:
            cuts[key] = pools[node.pool].cut(asked, sd, node.steps)
        cut, sums = cuts[key], np.array(node.sums)
        near = np.maximum(sums, node.noise)
        grown = (1 + cut.growth) * node.unit
        found.append(
            NodeValues(
                node.first,
                node.last,
                sums * grown,
                node.noise * grown,
                near * cut.up * node.unit,
                near * cut.down * node.unit,
                near * cut.growth * alike * node.unit,
                cut.chance(near) * node.unit,
            )
        )
    return found
