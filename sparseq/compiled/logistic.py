"""The logistic function, the same bits in NumPy and in a compiled loop.

NumPy calls it with arrays, and Numba compiles the very same lines for one number. It adds,
multiplies and divides, one operation after the other. IEEE 754 fixes each of these to the bit, so
the value is the same in both versions, on any machine, at any place in an array; a library's exp
promises none of this. Augmented assignments work in place on an array. The module does not need
Numba.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_HALVINGS = 8
_FARTHEST = 64.0
_SERIES = tuple(1 / math.factorial(n) for n in range(10, -1, -1))
_FIRST = 1 / math.factorial(11)


def sigmoid(z: Any) -> Any:
    """Return 1 / (1 + exp(-z)), with |z| cut at 64, to within a relative 2**-42; NaN for NaN.

    exp(t) is exp(t / 256)**256, by a Taylor series and eight squarings. The series at |t| <= 1/4
    leaves out less than 2**-52, and each squaring doubles the error that is there.

    Example:
        >>> sigmoid(np.array([0.0, 1.0, -1e300])).round(6).tolist()
        [0.5, 0.731059, 0.0]
    """
    t = np.minimum(np.maximum(z, -_FARTHEST), _FARTHEST)
    t *= -(2.0**-_HALVINGS)
    power = t * _FIRST
    power += _SERIES[0]
    for coefficient in _SERIES[1:]:
        power *= t
        power += coefficient
    for _ in range(_HALVINGS):
        power *= power
    power += 1.0
    return 1.0 / power
