"""The ends of a program: places among so many, and values on the lattice."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparseq.compiled import bits_as
from sparseq.engine.operations.logic import Kernel, both
from sparseq.engine.operations.vector import ALL, Vector
from sparseq.engine.reduce import quantise


def placed(size: int) -> Kernel:
    """Return what gives places in the narrowest type, -1 for what is out of range or not known."""
    kind = np.min_scalar_type(-size)

    def kernel(found: Vector) -> Vector:
        places: Any = np.asarray(found.values)
        if places.dtype not in (np.int32, np.int64):
            places = places.astype(np.int64)
        unsigned = bits_as(places, np.signedinteger, f"u{places.dtype.itemsize}")
        inside = unsigned < size  # what is negative is above all
        inside = np.asarray(both(inside, found.known))
        if inside.all():
            return Vector(places.astype(kind, copy=False)[()])
        return Vector(np.where(inside, places, -1).astype(kind)[()])

    return kernel


def on_lattice(step: float) -> Kernel:
    """Return what gives lattice values of numbers, or of truths; 0 where they are not known."""

    def kernel(found: Vector) -> Vector:
        values = np.atleast_1d(found.values)
        if values.dtype == np.bool_:
            ones = bits_as(values, np.bool_, np.uint8)
            made = ones if step == 1.0 else quantise(ones, step)
        else:
            if found.known is not ALL:
                values = np.where(found.known, values, np.nan)
            made = quantise(np.ascontiguousarray(values), step)
        return Vector(made if np.ndim(found.values) or np.ndim(found.known) else made[0])

    return kernel
