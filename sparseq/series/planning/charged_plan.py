"""Planning on private data: the distribution of people's totals, released once and charged.

Each user's total is what the series' ticks would have charged it, in full contributions. Totals are
put in declared bins, and how many lie at or below each edge is released by a tree over the bins
(`sparseq.mechanisms.quantile`, whose price and error these are), in one step of the stream. What
budgets would do is read off the released ranks, which is free, under two assumptions that the
ranks can't check: people contribute evenly over the ticks, and in full contributions. So bias is an
estimate here; and forecasts, which depend on when people come, are not planned for.

**What the noise may hide.** A few people with large totals are lost in noise of many, bias seems to
be nothing, and nothing twice is nothing: so being cautious as on known data is not enough. Bias is
linear in the ranks, and so the deviation that their noise gives it is known: it is added to bias,
root mean square. As a person who comes at every tick is one at every tick, that is about as many as
`sigma`: with noise as large as that of worst-case composition, no smaller budget is recommended.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Budget
from sparseq.base.errors import ParameterError
from sparseq.engine.contributions import Cells, Ints, contributions_from
from sparseq.ledger.purposes import Purpose
from sparseq.mechanisms.quantile import Quantiles, Ranks
from sparseq.released.outputs import OutputColumn, Outputs, key, measure
from sparseq.series.planning.known_stream import KnownStream
from sparseq.series.planning.plan_search import CAUTION, Candidate, PlanSearch
from sparseq.series.planning.plan_strategies import targets_of
from sparseq.series.planning.simulate import BudgetSplit
from sparseq.series.planning.verdict import FORECAST, PLAIN, Method, Verdict
from sparseq.sql.plan import Cell, Domain, Kind, Measure, Options, Query, Relation
from sparseq.store.store import Store

_ASIDE, _CAP = 0.05, 0.1  # for forecasts: of the part, and of a full contribution


def charged_ranks(
    store: Store, stream: KnownStream, sigma: float, request_id: str | None = None
) -> Ranks:
    """Release how many users have totals at or below each edge: one step of the store.

    Args:
        store: Whose users the stream's are, by index.
        stream: All ticks of one series; its length is public.
        sigma: Of each node's noise, in users: a user pays for floor(log2 bins) + 1 nodes at most.
        request_id: See `Store.ask`.
    """
    query = Quantiles(edges_for(stream.ticks), sigma)
    scale = store.explain(stream.query).noise[0].scale
    totals = np.bincount(stream.users, stream.values**2, stream.people) / scale**2
    present = np.flatnonzero(totals > 0)
    places = query.place(totals[present])
    answer = store.step(
        _query(query, stream),
        lambda plan: contributions_from(_nodes(present, places, query.bins), query.bins),
        Options(sigma=sigma),
        request_id,
    )
    noised = np.rint(answer.arrow()["value"].to_numpy()).astype(np.int64)
    ranks = np.array([noised[_prefix(k)].sum() for k in range(1, query.bins + 1)])
    return Ranks(query, tuple(np.maximum.accumulate(np.maximum(ranks, 0)).tolist()))


def highest_norm(store: Store, ticks: int, sigma: float) -> float:
    """Return the squared norm that the ranks cost anybody at most: public.

    Raises:
        ParameterError: Nobody could be sure to pay.
    """
    nodes = Quantiles(edges_for(ticks), sigma).bins.bit_length()
    most = nodes * (store.guarantee.sigma_0 / sigma) ** 2
    if most > store.guarantee.norm_budget:
        least = sigma * math.sqrt(most / store.guarantee.norm_budget)
        raise ParameterError(
            f"with noise of {sigma:g} people, to plan would take {most:.3g} of a budget of "
            f"{store.guarantee.norm_budget:g}",
            f"give more noise: at least {least:.1f}",
        )
    return most


def edges_for(ticks: int) -> list[float]:
    """Return edges from 1 to the number of ticks, each at most a quarter above the last."""
    steps = math.ceil(math.log(max(ticks, 2)) / math.log(1.25))
    return sorted({float(round(ticks ** (k / steps))) for k in range(steps + 1)})


def charged_verdict(
    ranks: Ranks, name: str, budget: Budget, share: float, stream: KnownStream
) -> Verdict:
    """Return what to use for people with these ranks: plain, or dropping with a forecast; free.

    Ranks don't tell when people come, so a forecast may be wholly off, and its ± says so.
    """
    ticks, purpose = stream.ticks, Purpose(name, share, stream.ticks, kappa=budget.kappa * share)
    planned = charged_plan(ranks, purpose.kappa, ticks)
    best, worst, size = planned.recommended, planned.worst_case, planned.sizes[0]
    methods = [Method(PLAIN, purpose, worst.total)]
    if not best.worst_case:
        counts = math.ceil(best.setting.norm_budget / (1 - _ASIDE) * 100) / 100
        part = replace(purpose, counts=counts, forecast=_ASIDE, cap=_CAP, off=1.0)
        methods.append(Method(FORECAST, part, best.total, (None, None, best.cautious)))
    return Verdict(tuple(methods), size, targets_of("day"), planned)


def charged_plan(ranks: Ranks, kappa: float, ticks: int) -> PlanSearch:
    """Return what budgets would do to people with these ranks, without forecasts; free."""
    edges = ranks.query.edges
    worst = _candidate(float(ticks), ranks, kappa, ticks)
    mean = float(np.diff(np.array((0, *ranks.cumulative[: len(edges)]))) @ _totals(edges)) / ticks
    found = [_candidate(float(b), ranks, kappa, ticks) for b in edges[:-1]]
    return PlanSearch(kappa, ticks, (worst, *found), sizes=((mean, mean),))


def _totals(edges: Sequence[float]) -> NDArray[np.float64]:
    """Return what people in each bin have about: the middle of it, by factors."""
    return np.array([1.0, *(math.sqrt(a * b) for a, b in pairwise(edges))])


def _candidate(paying: float, ranks: Ranks, kappa: float, ticks: int) -> Candidate:
    edges = np.asarray(ranks.query.edges)
    counts = np.diff(np.array((0, *ranks.cumulative[: len(edges)]), np.float64))
    totals = _totals(ranks.query.edges)
    whole = math.ceil(paying * 100 - 1e-9) / 100
    sigma, worst = Budget(kappa, whole).sigma_0, math.sqrt(ticks / (2 * kappa))
    gone = np.arange(ticks)[:, None] >= ticks * paying / totals
    missed = gone * totals / ticks  # of a person, by tick and bin
    bias = math.sqrt(float(np.mean((missed @ counts) ** 2)))
    hidden = _deviation(missed, ranks.query)
    there = float(counts @ totals)
    dropped = float(counts @ np.maximum(totals - paying, 0)) / there if there else 0.0
    doubtful = math.hypot(bias, hidden)
    total = math.hypot(sigma, doubtful)
    cautious = math.hypot(sigma, CAUTION * bias, hidden) / worst
    setting = BudgetSplit(whole)
    return Candidate(
        setting,
        paying == ticks,
        (sigma,),
        dropped,
        (sigma,),
        (doubtful,),
        (total,),
        total / worst,
        cautious,
    )


def _deviation(missed: np.ndarray, query: Quantiles) -> float:
    """Return the root mean square, over ticks, of the noise in what is missed, (ticks, bins).

    What is in bin k is the rank at its edge less the one before, and a rank is the sum of nodes,
    each with noise of its own.
    """
    ranks = missed - np.pad(missed, ((0, 0), (0, 1)))[:, 1:]
    nodes = np.zeros((missed.shape[1], query.bins))
    for k, row in enumerate(nodes, 1):
        row[_prefix(k)] = 1.0
    return query.sigma * math.sqrt(float(np.mean(np.sum((ranks @ nodes) ** 2, axis=1))))


def _nodes(users: Ints, places: Ints, bins: int) -> Cells:
    """Return the nodes of the tree over the bins that each user lies in."""
    owners, nodes = [users], [places + 1]
    while len(owners[-1]):
        up = nodes[-1] + (nodes[-1] & -nodes[-1])
        owners.append(owners[-1][up <= bins])
        nodes.append(up[up <= bins])
    who, node = np.concatenate(owners), np.concatenate(nodes) - 1
    order = np.lexsort((node, who))
    ones = np.ones(len(who), np.int64)
    return Cells(who[order].astype(np.int32), node[order].astype(np.int32), ones)


def _prefix(last: int) -> list[int]:
    """Return which nodes the bins up to `last` are together, from 0."""
    nodes = []
    while last:
        nodes.append(last - 1)
        last &= last - 1
    return nodes


def _query(query: Quantiles, stream: KnownStream) -> Query:
    domain = Domain("node", tuple(range(1, query.bins + 1)), Cell("node"))
    scale = math.sqrt(query.bins.bit_length())
    one = Measure(Kind.SUM, Cell("value"), "people", integral=True, scale=scale, step=1.0)
    shown = Outputs((OutputColumn("node", key(0)), OutputColumn("value", measure(0))))
    text = f"totals over {stream.ticks} ticks of: {stream.query.text}"
    return Query(text, Relation("FROM totals"), (domain,), (one,), shown)
