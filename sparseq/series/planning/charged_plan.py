"""Planning on private data: the distribution of people's totals, released once and charged.

Each user's total is the sum of the charges of the series' ticks, in full contributions. Totals are
put in declared bins, and the numbers of users at or below each edge are released by a tree over the
bins (`sparseq.mechanisms.quantile`, which has its price and error), in one step of the stream. The
effect of budgets is computed from the released ranks, which is free, under two assumptions that
the ranks can't check: people contribute evenly over the ticks, and in full contributions. So bias
is an estimate here; and forecasts, which depend on the times of contributions, are not planned.

**What the noise may hide.** A few people with large totals are lost in the noise of many. Their
bias then seems to be 0, and twice 0 is 0: so the caution used on known data is not enough. Bias is
linear in the ranks, so the deviation that their noise adds to it is known: it is added to bias, by
root mean square. A person who contributes at every tick adds one at every tick, so the deviation is
about `sigma` people: if the noise is as large as that of worst-case composition, no smaller budget
is recommended.
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
from sparseq.engine.cells import Cells, contributions_from
from sparseq.engine.reduction import Ints
from sparseq.ledger.purposes import Purpose
from sparseq.mechanisms.quantile import Quantiles, Ranks
from sparseq.question.plan import Cell, Domain, Kind, Measure, Options, Query, Relation
from sparseq.released.outputs import OutputColumn, Outputs, key, measure
from sparseq.series.planning.known_stream import KnownStream
from sparseq.series.planning.plan_search import CAUTION, Candidate, PlanSearch
from sparseq.series.planning.plan_strategies import targets_of
from sparseq.series.planning.simulate import BudgetSplit
from sparseq.series.planning.verdict import FORECAST, PLAIN, Method, Verdict
from sparseq.store.store import Store

_ASIDE, _CAP = 0.05, 0.1  # of forecasts: share of the part, and share of a full contribution


def charged_ranks(
    store: Store, stream: KnownStream, sigma: float, request_id: str | None = None
) -> Ranks:
    """Release the number of users with totals at or below each edge: one step of the store.

    Args:
        store: Store with the stream's users, by index.
        stream: All ticks of one series; its length is public.
        sigma: Noise of each node, in users: a user pays for at most floor(log2 bins) + 1 nodes.
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
    """Return the largest squared norm that the ranks charge a user: public.

    Raises:
        ParameterError: No user would be sure to pay it.
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
    """Return the method for people with these ranks: plain, or dropping with a forecast; free.

    Ranks do not show the times of contributions, so a forecast may be completely wrong, and its
    interval says so.
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
    """Return the effect of budgets on people with these ranks, without forecasts; free."""
    edges = ranks.query.edges
    worst = _candidate(float(ticks), ranks, kappa, ticks)
    mean = float(np.diff(np.array((0, *ranks.cumulative[: len(edges)]))) @ _totals(edges)) / ticks
    found = [_candidate(float(b), ranks, kappa, ticks) for b in edges[:-1]]
    return PlanSearch(kappa, ticks, (worst, *found), sizes=((mean, mean),))


def _totals(edges: Sequence[float]) -> NDArray[np.float64]:
    """Return the approximate total of people in each bin: the geometric mean of its ends."""
    return np.array([1.0, *(math.sqrt(a * b) for a, b in pairwise(edges))])


def _candidate(paying: float, ranks: Ranks, kappa: float, ticks: int) -> Candidate:
    edges = np.asarray(ranks.query.edges)
    counts = np.diff(np.array((0, *ranks.cumulative[: len(edges)]), np.float64))
    totals = _totals(ranks.query.edges)
    whole = math.ceil(paying * 100 - 1e-9) / 100
    sigma, worst = Budget(kappa, whole).sigma_0, math.sqrt(ticks / (2 * kappa))
    gone = np.arange(ticks)[:, None] >= ticks * paying / totals
    missed = gone * totals / ticks  # missing contribution of a person, by tick and bin
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
    """Return the root mean square, over ticks, of the noise in the missing part, (ticks, bins).

    The count of bin k is the rank at its edge minus the rank at the edge before, and a rank is the
    sum of nodes with independent noise.
    """
    ranks = missed - np.pad(missed, ((0, 0), (0, 1)))[:, 1:]
    nodes = np.zeros((missed.shape[1], query.bins))
    for k, row in enumerate(nodes, 1):
        row[_prefix(k)] = 1.0
    return query.sigma * math.sqrt(float(np.mean(np.sum((ranks @ nodes) ** 2, axis=1))))


def _nodes(users: Ints, places: Ints, bins: int) -> Cells:
    """Return the nodes of the tree over the bins that contain each user."""
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
    """Return the nodes that together are the bins from 0 to `last`."""
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
