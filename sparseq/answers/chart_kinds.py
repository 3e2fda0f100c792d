"""The figure of an answer: the chart that suits its kind.

A histogram is one chart of bars as wide as their bins. Several counts without a key form one chart
of bars in the order of the question, such as a funnel. A key of dates, times or numbers gives a
line for each group of the other keys; a key of texts, or of a single date, gives bars. Several
measures have separate charts.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from sparseq.answers.answer_facts import Facts
from sparseq.answers.answer_texts import fact_lines, key_texts
from sparseq.base.errors import ParameterError
from sparseq.pictures.axis_scales import period_texts
from sparseq.pictures.figure import COLORS, Axis, Figure, Floats, Look, Series
from sparseq.released.result_columns import BIN_ENDS, ColumnRole, column_parts, keys_of, noised_of

Chart = Literal["lines", "bars"]
"""Kinds of charts of an answer."""
_FUNNEL = 3
"""Smallest number of counts without a key that a report draws as bars, unless told otherwise."""


def chart_of(table: pa.Table, chart: str) -> str:
    """Return the kind of drawing for an answer with these columns.

    Raises:
        ParameterError: Lines were requested, but there is no key of dates, times or numbers.
    """
    ordered, keys = _ordered(table), keys_of(table)
    if chart == "lines" and (not ordered or bins_of(table)):
        what = "those of bins" if ordered else "none"
        raise ParameterError(
            f"lines are drawn over a key of dates, times or numbers; this answer has {what}",
            "draw it as bars",
        )
    if chart:
        return chart
    if not keys:
        counts = [n for n in noised_of(table) if _is_count(table, n)]
        return "bars" if len(counts) >= _FUNNEL else "table"
    has_place = not table.num_rows or any(len(set(table[k].to_pylist())) > 1 for k in ordered)
    return "lines" if ordered and has_place and not bins_of(table) else "bars"


def bins_of(table: pa.Table) -> tuple[str, str] | None:
    """Return the keys with the ends of a histogram's bins; None: the answer has no bins."""
    keys = keys_of(table)
    pairs = [p for p in pairwise(keys) if p == BIN_ENDS]
    numeric = [p for p in pairs if all(pa.types.is_floating(table[k].type) for k in p)]
    return numeric[-1] if numeric else None


def default_title(table: pa.Table) -> str:
    """Return a title: the measured columns, and the keys.

    >>> default_title(pa.table({"kind": ["a"], "n": [1], "n_error": [1.0]}))
    'n by kind'
    """
    keys, names = keys_of(table), noised_of(table)
    bins = bins_of(table) or ()
    shown = [k for k in keys if k not in bins]
    of_bins = ["bin"] if bins else []
    by = f" by {', '.join([*shown, *of_bins])}" if keys else ""
    return ", ".join(names) + by


def answer_figure(
    table: pa.Table, facts: Facts, title: str = "", chart: Chart | None = None
) -> Figure:
    """Return the figure of an answer.

    Args:
        table, facts: The answer.
        title: Title of the figure. "": the measured columns, and the keys.
        chart: "lines" or "bars"; None: lines if the answer has a key of dates, times or numbers.

    Raises:
        ParameterError: The answer has no row or no noised column; or lines were requested, and it
            has no key of dates, times or numbers.
    """
    keys, names = keys_of(table), noised_of(table)
    if not (names and table.num_rows):
        what = "no rows" if names else "no noised column"
        raise ParameterError(
            f"there is nothing to draw: the answer has {what}", "its table is what there is"
        )
    kind, bins = chart_of(table, chart or ""), bins_of(table)
    unit, notes = names[0] if len(names) == 1 and keys else "", list[str]()
    if not keys:
        across, drawn = "", _measures(table, names)
    elif bins:
        across, drawn = "bin", _bins(table, names, bins)
        starts, ends = (table[k].to_numpy() for k in bins)
        if np.ptp(ends - starts) > 1e-9 * np.abs(ends - starts).max():
            notes.append("Bins are not equally wide: the height of a bar is its number of rows.")
    else:
        across = _across(table, keys, kind)
        drawn = _groups(table, names, across, kind)
        if kind == "lines" and table[across].null_count:
            notes.append(f"A row without a {across} is not drawn.")
        others = [k for k in keys if k != across]
        unit += f" of each {', '.join(others)}" if others and unit else ""
    notes += fact_lines(table, facts)
    return Figure(title or default_title(table), drawn, Axis(across), Axis(unit), notes=notes)


def _measures(table: pa.Table, names: Sequence[str]) -> list[Series]:
    """Return bars without a key: the counts in one chart, in their order; others each alone.

    An answer without a key has one row, which covers all users.
    """
    counts = [n for n in names if _is_count(table, n)]
    alone = [[n] for n in names if n not in counts]
    sets = [s for s in (counts, *alone) if s]
    return [
        _series(
            "value",
            of,
            [_numbers(table, n, [0]) for n in of],
            "bars",
            panel="" if len(sets) == 1 or of is counts else of[0],
        )
        for of in sets
    ]


def _bins(table: pa.Table, names: Sequence[str], bins: tuple[str, str]) -> list[Series]:
    """Return the bars of a histogram, from one end of a bin to the other; one chart per group."""
    starts, ends = (table[k].to_pylist() for k in bins)
    drawn = []
    for name in names:
        for group, rows in _rows_by_group(table, [k for k in keys_of(table) if k not in bins]):
            rows = sorted(rows, key=starts.__getitem__)
            at = [starts[i] for i in rows]
            panel = ", ".join(filter(None, [name if len(names) > 1 else "", group]))
            made = _series(name, at, [_numbers(table, name, rows)], "bars", panel=panel)
            drawn.append(replace(made, until=np.array([ends[i] for i in rows], float)))
    return drawn


def _groups(table: pa.Table, names: Sequence[str], across: str, kind: str) -> list[Series]:
    """Return a line, or bars, for each group of an answer, and for each of its measures."""
    places = _places(table, across, kind)
    groups = _rows_by_group(table, [k for k in keys_of(table) if k != across])
    single = len(names) == 1
    drawn = []
    for name in names:
        for k, (group, found) in enumerate(groups):
            rows = [i for i in found if places[i] is not None]
            if not rows:
                continue
            if kind == "lines":
                rows = sorted(rows, key=places.__getitem__)
            drawn.append(
                _series(
                    group or name,
                    [places[i] for i in rows],
                    [_numbers(table, name, rows)],
                    "bars" if kind == "bars" else "line",
                    k=k,
                    panel="" if single else name,
                )
            )
    return drawn


def _rows_by_group(table: pa.Table, keys: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Return the rows of each group of some keys, in the order of the answer."""
    texts = [
        [f"{k} {t}" for t in found] if _is_number(table[k].type) else found
        for k in keys
        for found in [_group_texts(table[k].to_pylist())]
    ]
    groups: dict[str, list[int]] = {}
    for i in range(table.num_rows):
        groups.setdefault(", ".join(t[i] for t in texts), []).append(i)
    return list(groups.items())


def _group_texts(values: Sequence[Any]) -> list[str]:
    """Return the names of groups; NULL differs from the text 'NULL'."""
    texts = period_texts(values) or key_texts(values)
    if "NULL" in values:
        return ["(NULL)" if v is None else t for t, v in zip(texts, values, strict=True)]
    return texts


def _across(table: pa.Table, keys: Sequence[str], kind: str) -> str:
    """Return the key of the x axis, or of the bars' names.

    It is the key with the most values. For lines it is the last such key of dates, times or numbers
    (the months since a first purchase, for example, and not the month of that purchase).
    """
    ordered = _ordered(table) if kind == "lines" else []
    sizes = {k: len(set(table[k].to_pylist())) for k in ordered or keys}
    most = max(sizes.values())
    largest = [k for k in sizes if sizes[k] == most]
    return largest[-1] if ordered else largest[0]


def _places(table: pa.Table, across: str, kind: str) -> list[Any]:
    """Return the position of each row: a time, a number or a name; None: it has none."""
    values: list[Any] = table[across].to_pylist()
    if kind == "bars":
        return _group_texts(values)
    known = [v for v in values if v is not None]
    if known and isinstance(known[0], dt.datetime) and all(v.time() == dt.time.min for v in known):
        return [None if v is None else v.date() for v in values]
    return values


def _numbers(table: pa.Table, name: str, rows: Sequence[int]) -> tuple[Floats, Floats, Floats]:
    """Return the values of a column in some rows, and the ends of their intervals."""
    parts = column_parts(table)[name]

    def of(column: str) -> Floats:
        found = table[column].take(rows).to_pylist()
        return np.array([math.nan if x is None else x for x in found], float)

    values = of(name)
    if ColumnRole.LOW in parts:
        return values, of(parts[ColumnRole.LOW]), of(parts[ColumnRole.HIGH])
    bound = of(parts[ColumnRole.ERROR])
    return values, values - bound, values + bound


def _series(
    name: str,
    x: Sequence[Any],
    numbers: Sequence[tuple[Floats, Floats, Floats]],
    look: Look,
    k: int = 0,
    panel: str = "",
) -> Series:
    values, low, high = (np.concatenate(part) for part in zip(*numbers, strict=True))
    color = COLORS[k % len(COLORS)]
    return Series(name, x, values, look=look, color=color, panel=panel, ends=(low, high))


def _is_count(table: pa.Table, name: str) -> bool:
    return bool(pa.types.is_integer(table[name].type))


def _ordered(table: pa.Table) -> list[str]:
    """Return the keys of dates, times and numbers."""
    return [k for k in keys_of(table) if _is_ordered(table[k].type)]


def _is_ordered(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind) or _is_number(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
