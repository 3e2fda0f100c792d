"""What the interpreter can do: `table` says what an operation is, the others enter theirs."""

from __future__ import annotations

from sparseq.engine.operations import choices, comparisons, numbers, times
from sparseq.engine.operations.table import (
    Kernel,
    Vector,
    constant_vector,
    kernel_of,
    representable,
)

__all__ = [
    "Kernel", "Vector", "choices", "comparisons", "constant_vector", "kernel_of", "numbers",
    "representable", "times",
]  # fmt: skip
