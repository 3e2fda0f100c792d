"""A noised answer as an Arrow table: keys, values, and beside each value its ±."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.query.outputs import Estimate, Measurements, Outputs
from sparseq.query.plan import Plan

ERROR_SUFFIX = "_error"
"""Beside every noised column x, column x_error has its ±; null where none can be given."""


def render(plan: Plan, noised: Measurements) -> pa.Table:
    """Return the answer: one row a group (or a group and bin), in the order asked for.

    It can't fail, and warns of nothing: that would tell of noised values before they are charged.
    Should SELECT, HAVING or ORDER BY not be computable from them, the measures are the answer.
    """
    with np.errstate(all="ignore"):
        try:
            return _shown(plan, noised)
        except Exception:
            return _measures(plan, noised)


def _measures(plan: Plan, noised: Measurements) -> pa.Table:
    """Return the keys and the noised measures, one row a group, whatever was to become of them."""
    columns = [
        (d.name, pa.array(k.tolist())) for d, k in zip(plan.query.domains, noised.keys, strict=True)
    ]
    for m, values, bound in zip(plan.query.measures, noised.measures, noised.bounds, strict=True):
        for i in range(m.bins):
            name = f"{m.label} [{i}]" if m.bins > 1 else m.label
            columns.append((name, _numbers(values[:, i], False)))
            columns.append((name + ERROR_SUFFIX, _numbers(np.full(len(values), bound), False)))
    return pa.Table.from_arrays([c for _, c in columns], names=[n for n, _ in columns])


def _shown(plan: Plan, noised: Measurements) -> pa.Table:
    outputs: Outputs = plan.query.outputs
    rows = outputs.rows(noised)
    if outputs.histogram is not None:
        return _histogram(plan, noised, outputs, rows)
    columns: dict[str, pa.Array] = {}
    for output in outputs.columns:
        result = output.node(noised)
        if isinstance(result, Estimate):
            values = np.broadcast_to(result.value, noised.groups)[rows]
            errors = np.broadcast_to(result.error, noised.groups)[rows]
            columns[output.name] = _numbers(values, output.integral and _whole(plan))
            columns[output.name + ERROR_SUFFIX] = _numbers(errors, False)
        else:
            columns[output.name] = pa.array(
                np.broadcast_to(np.asarray(result), noised.groups)[rows].tolist()
            )
    return pa.table(columns)


def _histogram(plan: Plan, noised: Measurements, outputs: Outputs, rows: Any) -> pa.Table:
    """One row a group and bin: keys, bin_low, bin_high, count."""
    assert outputs.histogram is not None
    i = outputs.histogram
    edges = np.asarray(plan.query.measures[i].edges)
    bins = len(edges) - 1
    columns: dict[str, pa.Array] = {}
    for output in outputs.columns:
        result = output.node(noised)
        if isinstance(result, Estimate):
            columns["bin_low"] = pa.array(np.tile(edges[:-1], len(rows)))
            columns["bin_high"] = pa.array(np.tile(edges[1:], len(rows)))
            counts = noised.measures[i][rows].reshape(-1)
            columns[output.name] = _numbers(counts, output.integral and _whole(plan))
            errors = np.full(len(rows) * bins, noised.bounds[i])
            columns[output.name + ERROR_SUFFIX] = _numbers(errors, False)
        else:
            columns[output.name] = pa.array(np.repeat(np.asarray(result)[rows], bins).tolist())
    return pa.table(columns)


def _whole(plan: Plan) -> bool:
    """Tell whether counts are noised in whole steps; rounding them again would add noise."""
    return all(n.granularity >= 1 for n in plan.noise)


def _numbers(values: Any, integral: bool) -> pa.Array:
    """Return numbers as Arrow; NaN and infinity, of which nothing is known, become null."""
    missing = ~np.isfinite(values)
    if integral and not missing.any():
        return pa.array(np.rint(values).astype(np.int64))
    return pa.array(np.where(missing, 0.0, values), mask=missing)


def key_columns(plan: Plan) -> list[NDArray[Any]]:
    """Return each key's value by group, last key fastest."""
    columns, repeat, tile = [], plan.query.groups, 1
    for domain in plan.query.domains:
        repeat //= len(domain.values)
        values = np.empty(len(domain.values), object)
        values[:] = domain.values
        columns.append(np.tile(np.repeat(values, repeat), tile))
        tile *= len(domain.values)
    return columns
