"""Rényi budget curves, on logarithmic axes: a chart for a terminal, a picture by Matplotlib."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import rdp
from sparseq.cli.output import Output
from sparseq.errors import ParameterError
from sparseq.pictures.numbers import number, upper
from sparseq.pictures.tables import format_table

MARKS = "●○◆◇▲△■□"
SUFFIXES = (".png", ".svg")
POINTS = 129
ROWS = 15
_MARGIN = 9  # columns of the labels of values and the axis
_LEAST = 1e-300  # a zero has no place on a logarithmic axis


@dataclass(frozen=True)
class NamedCurve:
    """RDP values of one mechanism at `orders`, and how a chart shows it."""

    name: str
    mark: str
    orders: NDArray[np.float64]
    values: NDArray[np.float64]

    def drawable(self) -> NDArray[np.bool_]:
        """Where the curve has a place on logarithmic axes."""
        return np.isfinite(self.values) & (self.values > _LEAST)


def named_curves(
    gaussian: tuple[float, ...],
    laplace: tuple[float, ...],
    response: tuple[float, ...],
    pure: tuple[float, ...],
    sampled: tuple[tuple[float, float], ...],
    span: tuple[float, float],
) -> list[NamedCurve]:
    """Return the curves asked for, at orders with alpha - 1 in equal ratios.

    Raises:
        ParameterError: A number is out of its range, or there are more curves than marks.
    """
    low, high = rdp.checked_orders(span).tolist()
    if low >= high:
        raise ParameterError(f"orders go from {low:g} to {high:g}", "give the lower one first")
    orders = 1 + np.geomspace(low - 1, high - 1, POINTS)
    makers: list[tuple[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]]] = [
        *((f"Gaussian, sigma {number(s)}", partial(rdp.gaussian, s)) for s in gaussian),
        *((f"Laplace, scale {number(b)}", partial(rdp.laplace, b)) for b in laplace),
        *((f"randomised response, p {number(p)}", partial(rdp.randomized_response, p))
          for p in response),
        *((f"pure, epsilon {number(e)}", partial(rdp.pure, e)) for e in pure),
        *((f"sampled Gaussian, rate {number(q)}, sigma {number(s)}",
           partial(rdp.subsampled_gaussian, q, s)) for q, s in sampled),
    ]  # fmt: skip
    if len(makers) > len(MARKS):
        raise ParameterError(f"{len(makers)} curves; a chart shows at most {len(MARKS)}")
    return [
        NamedCurve(name, mark, orders, make(orders))
        for (name, make), mark in zip(makers, MARKS, strict=False)
    ]


def text_chart(curves: list[NamedCurve], width: int = 80) -> str:
    """Return a chart of at most `width` columns; a later curve hides an earlier one.

    >>> orders = np.geomspace(1.5, 64, 40)
    >>> print(text_chart([NamedCurve("a", "●", orders, orders / 2)], 40))
    RDP (nats), by order
         30 ┤                             ●●
            │                           ●●
            │                         ●●
            │                       ●●
         10 ┤                     ●●
            │                   ●●
            │                 ●●
            │              ●●●
            │            ●●
          3 ┤          ●●
            │        ●●
            │      ●●
            │    ●●
          1 ┤  ●●
            │●●
            └──┬─────┬────┬─────┬────┬──────
               2     4    8     16   32
    """
    columns = max(width - _MARGIN, 20)
    low, high = _value_range(curves)
    cells = [[" "] * columns for _ in range(ROWS)]
    for one in curves:
        shown = one.drawable()
        if not shown.any():
            continue
        x = np.log(one.orders[shown])
        at = np.linspace(math.log(one.orders[0]), math.log(one.orders[-1]), columns)
        height = np.interp(at, x, np.log(one.values[shown] / low)) / math.log(high / low)
        rows = np.rint((1 - height) * (ROWS - 1)).astype(int)
        for column in np.flatnonzero((at >= x[0] - 1e-9) & (at <= x[-1] + 1e-9)).tolist():
            cells[rows[column]][column] = one.mark
    labels = _value_labels(low, high)
    body = [
        f"{labels.get(k, ''):>{_MARGIN - 2}} {'┤' if k in labels else '│'}{''.join(row)}".rstrip()
        for k, row in enumerate(cells)
    ]
    axis, orders = _order_axis(float(curves[0].orders[0]), float(curves[0].orders[-1]), columns)
    margin = " " * (_MARGIN - 1)
    return "\n".join(["RDP (nats), by order", *body, f"{margin}└{axis}", f"{margin} {orders}"])


def _value_range(curves: list[NamedCurve]) -> tuple[float, float]:
    """From the smallest to the largest value; a little more where they are the same."""
    shown = np.concatenate([one.values[one.drawable()] for one in curves])
    low, high = (float(shown.min()), float(shown.max())) if shown.size else (1.0, 1.0)
    return (low, high) if high > 1.5 * low else (low / 2, high * 2)


def _value_labels(low: float, high: float) -> dict[int, str]:
    """Labels by line from the top: powers of ten, and three times these where few fit."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = max(1, math.ceil(len(decades) / (ROWS / 2)))
    digits = (1, 3) if len(decades) <= ROWS / 3 else (1,)
    ticks = [d * 10.0**k for k in decades if k % every == 0 for d in digits]
    return {
        round(math.log(high / tick) / math.log(high / low) * (ROWS - 1)): f"{tick:g}"
        for tick in ticks
        if low <= tick <= high
    }


def _order_axis(low: float, high: float, columns: int) -> tuple[str, str]:
    """The axis and its labels: powers of two, where there is room."""
    axis, labels, free = ["─"] * columns, [" "] * columns, 0
    for k in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1):
        at = round(math.log(2.0**k / low) / math.log(high / low) * (columns - 1))
        label = f"{2.0**k:g}"
        if free <= at <= columns - len(label):
            axis[at] = "┬"
            labels[at : at + len(label)] = label
            free = at + len(label) + 1
    return "".join(axis), "".join(labels).rstrip()


def write_plot(curves: list[NamedCurve], path: Path) -> None:
    """Draw the curves into a .png or .svg with Matplotlib, the optional extra `plot`.

    Raises:
        ParameterError: Another kind of file, Matplotlib is not installed, or no place to write.
    """
    kind = path.suffix.lower()
    if kind not in SUFFIXES:
        raise ParameterError(f"can't draw a {kind or 'file without a suffix'}", "use .png or .svg")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ParameterError(
            "--plot needs Matplotlib, which is not installed", "pip install 'sparseq[plot]'"
        ) from error
    canvas = Figure(figsize=(8, 5), dpi=150, layout="constrained")
    axes = canvas.add_subplot()
    for one in curves:
        shown = one.drawable()
        axes.plot(one.orders[shown], one.values[shown], label=one.name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("order")
    axes.set_ylabel("Rényi divergence (nats)")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    drawn = io.BytesIO()
    canvas.savefig(drawn, format=kind[1:], metadata={"Software": None} if kind == ".png" else None)
    with Output(path, kind[1:]) as output:
        output.write(drawn.getvalue())


def curve_facts(named: list[NamedCurve], delta: float) -> dict[str, Any]:
    """Return the curves as plain data; inf, which JSON can't write, as null."""
    rows = []
    for one in named:
        epsilon = rdp.epsilon(one.values, one.orders, delta)
        values = [v if math.isfinite(v) else None for v in one.values.tolist()]
        epsilon_rdp = epsilon if math.isfinite(epsilon) else None
        rows.append({"mechanism": one.name, "epsilon_rdp": epsilon_rdp, "rdp": values})
    return {"delta": delta, "orders": named[0].orders.tolist(), "curves": rows}


def curve_table(named: list[NamedCurve], delta: float, title: str) -> str:
    """Return what the curves come to at `delta`, under `title`."""
    rows = [
        [one.mark, one.name, upper(rdp.epsilon(one.values, one.orders, delta), 4)] for one in named
    ]
    return format_table(["", "mechanism", title], rows, ["l", "l", "."])
