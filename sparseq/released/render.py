"""A noised answer as an Arrow table: keys, values, and the ± of each value."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.language import types as T
from sparseq.language.interval_arithmetic import Floats
from sparseq.question.plan import Domain, Kind, Plan, Query, values_of_keys
from sparseq.released.outputs import Estimate, Measurements, Outputs
from sparseq.released.result_columns import (
    BIN_ENDS,
    ColumnRole,
    ResultColumn,
    column_parts,
    result_schema,
    result_table,
)

_LOOKED_AT = 4096  # values of a key that determine its type


def render(plan: Plan, noised: Measurements) -> pa.Table:
    """Return the answer: one row per group (or group and bin), in the requested order.

    It never fails or warns, because that would reveal noised values before they are charged. If
    SELECT, HAVING or ORDER BY cannot be computed from them, the answer consists of the measures.
    """
    with np.errstate(all="ignore"):
        try:
            return _shown(plan, whole_counts(plan, noised))
        except Exception:
            return _measures(plan, noised)


def whole_counts(plan: Plan, noised: Measurements) -> Measurements:
    """Return the measurements with counts rounded to whole numbers, for every use.

    So `n`, `n + 0` and `n = round(n)` use the same number. Low ends of intervals are rounded down
    and high ends up, so intervals stay valid. In in-or-out answers counts are whole already. Counts
    stay unrounded if rounding would add to their small noise, or if they belong to a statistic.
    """
    known, outputs = noised.weighted, plan.query.outputs
    if known is None or not _whole(plan):
        return noised
    histogram = outputs.histogram if isinstance(outputs, Outputs) else None
    counts = {
        i
        for i, m in enumerate(plan.query.measures)
        if m.kind in (Kind.ROWS, Kind.USERS) and not m.role and (not m.edges or i == histogram)
    }

    def rounded(f: Callable[[Floats], Floats], values: Sequence[Floats]) -> list[Floats]:
        return [f(v) if i in counts else v for i, v in enumerate(values)]

    ends = replace(known, lows=rounded(np.floor, known.lows), highs=rounded(np.ceil, known.highs))
    return replace(noised, measures=rounded(np.rint, noised.measures), weighted=ends, known={})


def key_array(values: list[Any], mask: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return public values as a column; whole numbers beyond 64 bits are decimals.

    Example:
        >>> key_array([1, None]).type, key_array([2**64 - 1]).type, key_array([-1, 2**63]).type
        (DataType(int64), DataType(uint64), Decimal128Type(decimal128(38, 0)))
    """
    numbers = [v for v in values if isinstance(v, int)]
    low, high = min(numbers, default=0), max(numbers, default=0)
    kind = None
    if high > T.INT64[1] or low < T.INT64[0]:
        kind = pa.uint64() if low >= 0 and high <= T.UINT64[1] else pa.decimal128(T.MAX_DIGITS, 0)
    return pa.array(values, kind, mask=mask)


def schema_of(query: Query, weighted: bool) -> pa.Schema:
    """Return the columns that an answer will have; noised columns are float64.

    The types of the answer itself can be narrower: counts are int64 if they lose no noise by that,
    and a key without rows after HAVING has no type.
    """
    with np.errstate(all="ignore"):
        if isinstance(query.outputs, Outputs):
            types = _types(query, query.outputs)
        else:
            zeros = [np.zeros((query.groups, m.bins)) for m in query.measures]
            bounds, keys = [0.0] * len(zeros), key_columns(query.domains)
            table: pa.Table = query.outputs.shown(
                Measurements(zeros, bounds, keys, query.groups), False
            )
            types = [
                (name, None if ColumnRole.VALUE in parts else table.schema.field(name).type)
                for name, parts in column_parts(table).items()
            ]
    numbers = [
        ColumnRole.VALUE,
        ColumnRole.ERROR,
        *([ColumnRole.LOW, ColumnRole.HIGH] if weighted else []),
    ]
    noised: dict[ColumnRole, pa.DataType] = dict.fromkeys(numbers, pa.float64())
    if query.outputs.least is not None:
        noised[ColumnRole.SUPPRESSED] = pa.string()
    return result_schema(
        [ResultColumn(name, noised if t is None else {ColumnRole.KEY: t}) for name, t in types]
    )


def _types(query: Query, outputs: Outputs) -> list[tuple[str, pa.DataType | None]]:
    """Return the types of an answer's columns, from the values of the keys; None: noised."""
    length = min(max((len(d.values) for d in query.domains), default=1), _LOOKED_AT)
    values = [some for _, _, some in values_of_keys(query.domains)]
    keys = [np.array([*islice(cycle(some), length), None], object)[:-1] for some in values]
    zeros = [np.zeros((length, m.bins)) for m in query.measures]
    noised = Measurements(zeros, [0.0] * len(zeros), keys, length)
    types: list[tuple[str, pa.DataType | None]] = []
    for output in outputs.columns:
        result = output.node(noised)
        if not isinstance(result, Estimate):
            found = key_array(np.broadcast_to(result, length).tolist()).type
            types.append((output.name, found))
            continue
        if outputs.histogram is not None:
            types += [(name, pa.float64()) for name in BIN_ENDS]
        types.append((output.name, None))
    return types


def _measures(plan: Plan, noised: Measurements) -> pa.Table:
    """Return the keys and the noised measures, one row per group, without SELECT's expressions."""
    columns = [
        ResultColumn(name, {ColumnRole.KEY: key_array(k.tolist())})
        for (_, name, _), k in zip(values_of_keys(plan.query.domains), noised.keys, strict=True)
    ]
    weighted = noised.weighted is not None
    for i, m in enumerate(plan.query.measures):
        low, high = noised.ends(i)
        bins = noised.measures[i].shape[1]  # a quantile has several
        for b in range(bins):
            name = f"{m.label} [{b}]" if bins > 1 else m.label
            known = Estimate(noised.measures[i][:, b], low[:, b], high[:, b])
            columns.append(noised_column(name, known, weighted, False, _hidden(plan, noised, i, b)))
    return result_table(columns)


@dataclass(frozen=True)
class Suppression:
    """The hidden values of a column: a mask of their rows, and the text shown instead."""

    where: NDArray[np.bool_]
    mark: str


def _hidden(plan: Plan, noised: Measurements, i: int, bin: int) -> Suppression | None:
    """Return the groups in which a bin of a measure counts too few users."""
    outputs = plan.query.outputs
    if outputs.least is None:
        return None
    hidden = outputs.hidden(noised, i)
    return Suppression(hidden[:, bin if hidden.shape[1] > 1 else 0], outputs.least.mark)


def noised_column(
    name: str,
    known: Estimate,
    weighted: bool,
    integral: bool,
    suppressed: Suppression | None = None,
) -> ResultColumn:
    """Return a noised column, with the columns of its interval."""
    hidden = np.zeros(len(known.value), np.bool_) if suppressed is None else suppressed.where
    parts = {
        ColumnRole.VALUE: _numbers(known.value, integral, hidden),
        ColumnRole.ERROR: _numbers(known.error, False, hidden),
    }
    if weighted:
        parts[ColumnRole.LOW] = _numbers(known.low, False, hidden)
        parts[ColumnRole.HIGH] = _numbers(known.high, False, hidden)
    if suppressed is not None:
        marks = [suppressed.mark if one else None for one in hidden]
        parts[ColumnRole.SUPPRESSED] = pa.array(marks, pa.string())
    return ResultColumn(name, parts)


def _shown(plan: Plan, noised: Measurements) -> pa.Table:
    if not isinstance(plan.query.outputs, Outputs):
        table: pa.Table = plan.query.outputs.shown(noised, _whole(plan))
        return table
    outputs, weighted = plan.query.outputs, noised.weighted is not None
    noised = outputs.present(noised)
    rows = outputs.rows(noised)
    if outputs.histogram is not None:
        return _histogram(plan, noised, outputs, rows)
    columns = list[ResultColumn]()
    for output in outputs.columns:
        result, hidden = output.node(noised), outputs.hides(output.node, noised)[rows]
        if isinstance(result, Estimate):
            known = Estimate(
                *(
                    np.broadcast_to(part, noised.groups)[rows]
                    for part in (result.value, result.low, result.high)
                )
            )
            least = outputs.least
            suppressed = None if least is None else Suppression(hidden, least.mark)
            integral = output.integral and _whole(plan)
            columns.append(noised_column(output.name, known, weighted, integral, suppressed))
        else:
            values = np.broadcast_to(np.asarray(result), noised.groups)[rows].tolist()
            array = key_array(values, hidden if hidden.any() else None)
            columns.append(ResultColumn(output.name, {ColumnRole.KEY: array}))
    return result_table(columns)


def _histogram(plan: Plan, noised: Measurements, outputs: Outputs, rows: Any) -> pa.Table:
    """Return one row per group and bin: keys, the ends of the bin, count."""
    assert outputs.histogram is not None
    i = outputs.histogram
    edges = np.asarray(plan.query.measures[i].edges)
    bins = len(edges) - 1
    columns = list[ResultColumn]()
    weighted = noised.weighted is not None
    for output in outputs.columns:
        result = output.node(noised)
        if isinstance(result, Estimate):
            for name, ends in zip(BIN_ENDS, (edges[:-1], edges[1:]), strict=True):
                columns.append(
                    ResultColumn(name, {ColumnRole.KEY: pa.array(np.tile(ends, len(rows)))})
                )
            counts = (noised.measures[i], *noised.ends(i))
            known = Estimate(*(part[rows].reshape(-1) for part in counts))
            hidden = None
            if outputs.least is not None:
                cells = outputs.least.hidden(noised, outputs.least.counts[i])[rows]
                hidden = Suppression(cells.reshape(-1), outputs.least.mark)
            integral = output.integral and _whole(plan)
            columns.append(noised_column(output.name, known, weighted, integral, hidden))
        else:
            array = key_array(np.repeat(np.asarray(result)[rows], bins).tolist())
            columns.append(ResultColumn(output.name, {ColumnRole.KEY: array}))
    return result_table(columns)


def _whole(plan: Plan) -> bool:
    """Tell whether rounding counts to whole numbers adds no significant noise."""
    return all(n.granularity >= 1 or n.sigma >= 4 for n in plan.noise)


def _numbers(values: Any, integral: bool, hidden: NDArray[np.bool_]) -> pa.Array:
    """Return numbers as Arrow; hidden values, NaN and infinity become null."""
    known = np.isfinite(values)
    whole = integral and known.all()
    known &= ~hidden
    shown = np.where(known, values, 0.0)
    numbers = np.rint(shown).astype(np.int64) if whole else shown
    bits = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    kind = pa.int64() if whole else pa.float64()  # `pa.array` would import pandas
    return pa.Array.from_buffers(kind, len(numbers), [bits, pa.py_buffer(numbers)])


def key_columns(domains: Sequence[Domain]) -> list[NDArray[Any]]:
    """Return each key's value by group; the last key varies fastest."""
    repeats, repeat, tile = [], math.prod(len(d.values) for d in domains), 1
    for domain in domains:
        repeat //= len(domain.values)
        repeats.append((repeat, tile))
        tile *= len(domain.values)
    columns = []
    for i, _, some in values_of_keys(domains):
        values = np.empty(len(some), object)
        values[:] = some
        repeat, tile = repeats[i]
        columns.append(np.tile(np.repeat(values, repeat), tile))
    return columns
