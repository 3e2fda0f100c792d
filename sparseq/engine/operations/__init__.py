"""Operations of the interpreter: `table` says what one is, the others enter theirs."""

from __future__ import annotations

from sparseq.engine.operations import choices, comparisons, ends, numbers, times
from sparseq.engine.operations.ends import on_lattice, placed
from sparseq.engine.operations.logic import Kernel
from sparseq.engine.operations.table import (
    constant_vector,
    kernel_of,
    representable,
)
from sparseq.engine.operations.vector import ALL, Vector, typed

__all__ = [
    "ALL",
    "Kernel",
    "Vector",
    "choices",
    "comparisons",
    "constant_vector",
    "ends",
    "kernel_of",
    "numbers",
    "on_lattice",
    "placed",
    "representable",
    "times",
    "typed",
]
