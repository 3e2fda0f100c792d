"""Rényi budget curves by name: as a figure, as plain data and as a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import rdp
from sparseq.base.errors import ParameterError
from sparseq.pictures.bounded_numbers import number, upper
from sparseq.pictures.figure import COLORS, Axis, Figure, Series
from sparseq.pictures.tables import format_table
from sparseq.pictures.terminal import MARKS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

POINTS = 129


@dataclass(frozen=True)
class NamedCurve:
    """RDP values of one mechanism at `orders`, and how a chart shows it."""

    name: str
    mark: str
    orders: NDArray[np.float64]
    values: NDArray[np.float64]


def named_curves(
    gaussian: tuple[float, ...],
    laplace: tuple[float, ...],
    response: tuple[float, ...],
    pure: tuple[float, ...],
    sampled: tuple[tuple[float, float], ...],
    span: tuple[float, float],
) -> list[NamedCurve]:
    """Return the requested curves, at orders with alpha - 1 in equal ratios.

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
        *(
            (f"randomised response, p {number(p)}", partial(rdp.randomized_response, p))
            for p in response
        ),
        *((f"pure, epsilon {number(e)}", partial(rdp.pure, e)) for e in pure),
        *(
            (
                f"sampled Gaussian, rate {number(q)}, sigma {number(s)}",
                partial(rdp.subsampled_gaussian, q, s),
            )
            for q, s in sampled
        ),
    ]
    if len(makers) > len(MARKS):
        raise ParameterError(f"{len(makers)} curves; a chart shows at most {len(MARKS)}")
    return [
        NamedCurve(name, mark, orders, make(orders))
        for (name, make), mark in zip(makers, MARKS, strict=False)
    ]


def curves_of(named: list[NamedCurve]) -> Figure:
    """Return the curves as a figure."""
    series = [
        Series(one.name, one.orders, one.values, color=color)
        for one, color in zip(named, COLORS, strict=False)
    ]
    return Figure("Rényi budget curves", series, Axis("order", "log"), Axis("RDP (nats)", "log"))


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
    """Return a table of each curve's epsilon at `delta`, under `title`."""
    rows = [
        [one.mark, one.name, upper(rdp.epsilon(one.values, one.orders, delta), 4)] for one in named
    ]
    return format_table(["", "mechanism", title], rows, ["l", "l", "."])
