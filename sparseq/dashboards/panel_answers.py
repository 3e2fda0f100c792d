"""Answers of panels: post-processing of a dashboard's nodes, free for every viewer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparseq.accounting import Price
from sparseq.answers.answer import Answer
from sparseq.base.defaults import CONFIDENCE, beta_at
from sparseq.base.errors import QueryRefused
from sparseq.dashboards.common_cells import Board, PanelCells
from sparseq.dashboards.least_squares import CellSolution, CellUnion, UnionEstimate
from sparseq.dashboards.node_log import NodeRecord, valid_nodes, values_of
from sparseq.dashboards.refresh import purpose_of
from sparseq.ledger.pots import Pot
from sparseq.question.plan import Kind, Noise, Plan, Query
from sparseq.released.outputs import Intervals, Measurements, Outputs
from sparseq.released.render import key_columns, render
from sparseq.stream.draft import facts_of
from sparseq.stream.node_sums import PILOT_PRICE, alike_of

_FINE = 2.0**-20
"""The granularity of estimates: they are not rounded, so that parts add up to totals."""


@dataclass(frozen=True)
class ShownPanel:
    """A panel and its answer."""

    title: str
    answer: Answer


def answer_panels(
    board: Board, nodes: Sequence[NodeRecord], confidence: float | None = None
) -> list[ShownPanel]:
    """Return the answers of all panels from the nodes: nothing is asked or charged.

    Args:
        board: The dashboard's cells on the morning.
        nodes: Its nodes.
        confidence: The confidence of all intervals of a panel together.

    Raises:
        QueryRefused: The nodes do not cover a panel: the morning was not refreshed.
    """
    store = board.store
    part = purpose_of(store, board.dashboard)
    sigma_0 = store.stream.part(Pot(part.answers)).budget.sigma_0
    sd = sigma_0 / math.sqrt(PILOT_PRICE)
    solutions: dict[str, CellSolution] = {}
    for key, number in board.numbers.items():
        mine = [node for node in valid_nodes(nodes) if node.number == key]
        alike = alike_of(number.measure)
        solutions[key] = CellSolution(values_of(mine, sigma_0, sd, alike), board.groups)
    beta = beta_at(CONFIDENCE if confidence is None else confidence)
    return [
        ShownPanel(panel.panel.title, _answer(board, panel, nodes, solutions, beta))
        for panel in board.panels
    ]


def _answer(
    board: Board,
    panel: PanelCells,
    nodes: Sequence[NodeRecord],
    solutions: dict[str, CellSolution],
    beta: float,
) -> Answer:
    query, store = _unrounded(panel.query), board.store
    found = [
        [_estimate(panel, solutions[number], one, beta) for one in unions]
        for number, unions in zip(panel.numbers, panel.unions, strict=True)
    ]
    values, lows, highs, noises = (
        [np.array([[getattr(one, name)] for one in some]) for some in found]
        for name in ("value", "low", "high", "noise")
    )
    sigmas = [float(noise.max(initial=0.0)) for noise in noises]
    z = [0.0] * len(sigmas)
    missing = [np.zeros_like(one) for one in values]
    intervals = Intervals(lows, highs, values, sigmas, missing, z)
    keys = key_columns(query.domains)
    noised = Measurements(values, sigmas, keys, query.groups, intervals)
    budget = store.stream.part(Pot(purpose_of(store, board.dashboard).answers)).budget
    noise = tuple(
        Noise(sigma, _FINE, sigma, _FINE, Price.of(max(sigma, _FINE), _FINE, budget))
        for sigma in sigmas
    )
    plan = Plan(query, noise, beta)
    facts = replace(
        facts_of(plan, nodes[-1].release, None, store.stream.terms, board.dashboard.name),
        interval="assumed",
        follows=True,
        charge=0.0,
    )
    return Answer(render(plan, noised), facts)


def _unrounded(query: Query) -> Query:
    """Return a panel's question with all groups listed, and with counts that are not rounded."""
    outputs = query.outputs
    if isinstance(outputs, Outputs):
        columns = tuple(replace(column, integral=False) for column in outputs.columns)
        outputs = replace(outputs.of_every_group(), columns=columns)
    measures = tuple(replace(one, kind=Kind.SUM) for one in query.measures)
    return replace(query, outputs=outputs, measures=measures)


def _estimate(
    panel: PanelCells, solution: CellSolution, union: CellUnion, beta: float
) -> UnionEstimate:
    found = solution.estimate(union, beta, panel.query.coordinates)
    if found is None:
        raise QueryRefused(
            f"the panel {panel.panel.title!r} has days that were not measured",
            "sparseq dashboard refresh measures them",
        )
    return found
