"""A noised answer as an Arrow table: keys, values, and beside each value its ±."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.released.outputs import Estimate, Measurements, Outputs
from sparseq.sql.plan import ERROR, INTERVAL, Domain, Plan, Query, values_of_keys

ERROR_SUFFIX = "_error"
"""Beside every noised column x, column x_error has its ±; null where none can be given."""
LOW_SUFFIX, HIGH_SUFFIX = "_low", "_high"
"""Of a weighted answer, columns x_low and x_high have the ends of the interval about everybody."""
SUPPRESSED_SUFFIX = "_suppressed"
"""A store that shows nothing about few people says so in column x_suppressed, not with a value."""
_LOOKED_AT = 4096  # values of a key that its type is told from
SUFFIXES = (ERROR_SUFFIX, LOW_SUFFIX, HIGH_SUFFIX, SUPPRESSED_SUFFIX)


def columns_of(table: pa.Table) -> list[str]:
    """Return the names of an answer's columns, without those that stand beside noised ones."""
    names = set(table.column_names)
    beside = {n + s for n in names if n + ERROR_SUFFIX in names for s in SUFFIXES}
    return [name for name in table.column_names if name not in beside]


def shown_columns(table: pa.Table, columns: str | None) -> pa.Table:
    """Return an answer with the columns that are to be shown: see `Options.columns`.

    Example:
        >>> table = pa.table({"n": [3.0], "n_error": [2.0], "n_low": [1.0], "n_high": [5.0]})
        >>> shown_columns(table, "error").column_names, shown_columns(table, "plain").column_names
        (['n', 'n_error'], ['n'])
    """
    if columns in (None, INTERVAL):
        return table
    own = columns_of(table)
    kept = (ERROR_SUFFIX, SUPPRESSED_SUFFIX) if columns == ERROR else ()
    errors = {name + suffix for name in own for suffix in kept}
    return table.select([n for n in table.column_names if n in own or n in errors])


def keys_of(table: pa.Table) -> list[str]:
    """Return the names of an answer's columns without noise: its keys."""
    return [n for n in columns_of(table) if n + ERROR_SUFFIX not in table.column_names]


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


def schema_of(query: Query, weighted: bool) -> pa.Schema:
    """Return the columns that an answer will have, before it is asked; noised ones are float64.

    An answer's own types can be narrower: counts are int64 where no noise is lost by that, and a
    key of which HAVING leaves nothing has no type.
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
            noised = {
                name for name in table.column_names if name + ERROR_SUFFIX in table.schema.names
            }
            types = {
                n: None if n in noised else table.schema.field(n).type for n in columns_of(table)
            }
    fields: dict[str, pa.DataType] = {}
    numbers = SUFFIXES[:3] if weighted else (ERROR_SUFFIX,)
    for name, kind in types.items():
        beside = () if kind is not None else numbers
        fields |= {name + suffix: kind or pa.float64() for suffix in ("", *beside)}
        if kind is None and query.outputs.least is not None:
            fields[name + SUPPRESSED_SUFFIX] = pa.string()
    return pa.schema(fields.items())


def _types(query: Query, outputs: Outputs) -> dict[str, pa.DataType | None]:
    """Return the types of an answer's columns, told from the values of the keys; None: noised."""
    length = min(max((len(d.values) for d in query.domains), default=1), _LOOKED_AT)
    values = [some for _, _, some in values_of_keys(query.domains)]
    keys = [np.array([*islice(cycle(some), length), None], object)[:-1] for some in values]
    zeros = [np.zeros((length, m.bins)) for m in query.measures]
    noised = Measurements(zeros, [0.0] * len(zeros), keys, length)
    types: dict[str, pa.DataType | None] = {}
    for output in outputs.columns:
        result = output.node(noised)
        if not isinstance(result, Estimate):
            types[output.name] = pa.array(np.broadcast_to(result, length).tolist()).type
            continue
        if outputs.histogram is not None:
            types |= {"bin_low": pa.float64(), "bin_high": pa.float64()}
        types[output.name] = None
    return types


def _measures(plan: Plan, noised: Measurements) -> pa.Table:
    """Return the keys and the noised measures, one row a group, whatever was to become of them."""
    columns: dict[str, pa.Array] = {
        name: pa.array(k.tolist())
        for (_, name, _), k in zip(values_of_keys(plan.query.domains), noised.keys, strict=True)
    }
    weighted = noised.weighted is not None
    for i, m in enumerate(plan.query.measures):
        low, high = noised.ends(i)
        bins = noised.measures[i].shape[1]  # of a quantile, those that it was measured in
        for b in range(bins):
            name = f"{m.label} [{b}]" if bins > 1 else m.label
            known = Estimate(noised.measures[i][:, b], low[:, b], high[:, b])
            columns |= noised_column(name, known, weighted, False, _hidden(plan, noised, i, b))
    return pa.table(columns)


@dataclass(frozen=True)
class Suppression:
    """The values of a column that are not shown: where, and what stands there."""

    where: NDArray[np.bool_]
    mark: str


def _hidden(plan: Plan, noised: Measurements, i: int, bin: int) -> Suppression | None:
    """Return the groups in which a bin of a measure is about too few people."""
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
) -> dict[str, pa.Array]:
    """Return a noised column, and what stands beside it."""
    hidden = np.zeros(len(known.value), np.bool_) if suppressed is None else suppressed.where
    columns = {
        name: _numbers(known.value, integral, hidden),
        name + ERROR_SUFFIX: _numbers(known.error, False, hidden),
    }
    if weighted:
        columns[name + LOW_SUFFIX] = _numbers(known.low, False, hidden)
        columns[name + HIGH_SUFFIX] = _numbers(known.high, False, hidden)
    if suppressed is not None:
        marks = [suppressed.mark if one else None for one in hidden]
        columns[name + SUPPRESSED_SUFFIX] = pa.array(marks, pa.string())
    return columns


def _shown(plan: Plan, noised: Measurements) -> pa.Table:
    if not isinstance(plan.query.outputs, Outputs):
        table: pa.Table = plan.query.outputs.shown(noised, _whole(plan))
        return table
    outputs, weighted = plan.query.outputs, noised.weighted is not None
    rows = outputs.rows(noised)
    if outputs.histogram is not None:
        return _histogram(plan, noised, outputs, rows)
    columns: dict[str, pa.Array] = {}
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
            columns |= noised_column(output.name, known, weighted, integral, suppressed)
        else:
            values = np.broadcast_to(np.asarray(result), noised.groups)[rows].tolist()
            columns[output.name] = pa.array(values, mask=hidden if hidden.any() else None)
    return pa.table(columns)


def _histogram(plan: Plan, noised: Measurements, outputs: Outputs, rows: Any) -> pa.Table:
    """One row a group and bin: keys, bin_low, bin_high, count."""
    assert outputs.histogram is not None
    i = outputs.histogram
    edges = np.asarray(plan.query.measures[i].edges)
    bins = len(edges) - 1
    columns: dict[str, pa.Array] = {}
    weighted = noised.weighted is not None
    for output in outputs.columns:
        result = output.node(noised)
        if isinstance(result, Estimate):
            columns["bin_low"] = pa.array(np.tile(edges[:-1], len(rows)))
            columns["bin_high"] = pa.array(np.tile(edges[1:], len(rows)))
            counts = (noised.measures[i], *noised.ends(i))
            known = Estimate(*(part[rows].reshape(-1) for part in counts))
            hidden = None
            if outputs.least is not None:
                cells = outputs.least.hidden(noised, outputs.least.counts[i])[rows]
                hidden = Suppression(cells.reshape(-1), outputs.least.mark)
            integral = output.integral and _whole(plan)
            columns |= noised_column(output.name, known, weighted, integral, hidden)
        else:
            columns[output.name] = pa.array(np.repeat(np.asarray(result)[rows], bins).tolist())
    return pa.table(columns)


def _whole(plan: Plan) -> bool:
    """Tell whether rounding counts to whole numbers adds no noise to speak of."""
    return all(n.granularity >= 1 or n.sigma >= 4 for n in plan.noise)


def _numbers(values: Any, integral: bool, hidden: NDArray[np.bool_]) -> pa.Array:
    """Return numbers as Arrow; what is hidden, and NaN and infinity, become null."""
    known = np.isfinite(values)
    whole = integral and known.all()
    known &= ~hidden
    shown = np.where(known, values, 0.0)
    numbers = np.rint(shown).astype(np.int64) if whole else shown
    bits = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    kind = pa.int64() if whole else pa.float64()  # `pa.array` would import pandas
    return pa.Array.from_buffers(kind, len(numbers), [bits, pa.py_buffer(numbers)])


def key_columns(domains: Sequence[Domain]) -> list[NDArray[Any]]:
    """Return each key's value by group, last key fastest."""
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
