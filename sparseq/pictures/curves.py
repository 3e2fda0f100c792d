"""Rényi budget curves, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence

from sparseq.pictures.figure import COLORS, Axis, Figure, Floats, Series


def curves_figure(names: Sequence[str], orders: Floats, values: Sequence[Floats]) -> Figure:
    """Return a figure of RDP values, in nats, by order: a curve for each name."""
    return Figure(
        "Rényi budget curves",
        [
            Series(name, orders, y, color=color)
            for name, y, color in zip(names, values, COLORS, strict=False)
        ],
        Axis("order", "log"),
        Axis("RDP (nats)", "log"),
    )
