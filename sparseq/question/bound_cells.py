"""The cells of a search for bounds: a person is in the cell of the largest |value|."""

from __future__ import annotations

import sys

EDGES = (
    0.0,
    *(float(f"{m}e{k}") for k in range(-9, 19) for m in (1, 2, 5)),
    sys.float_info.max,
)
"""Edges of the cells: 0 and values near 0, three cells to a power of ten, and larger values."""
