"""Limits on sizes, lowered while it is entered: small stores go the ways of large ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from importlib import import_module

from checks.audit.planting import put

PLACES = {
    "slices": ("sparseq.engine._duckdb.engine", "SLICE_ROWS"),
    "runs": ("sparseq.load._duckdb.storage", "MAX_RUNS"),
    "cold": ("sparseq.compiled", "COLD"),
    "warm": ("sparseq.compiled", "WARM"),
}
"""Where a limit stands: module and name."""
SMALL = {"slices": 60, "runs": 1}
LOOPS = {"cold": 1, "warm": 1}


@contextlib.contextmanager
def lowered(limits: Mapping[str, int]) -> Iterator[None]:
    """Lower limits, by the names of `PLACES`."""
    with contextlib.ExitStack() as undo:
        for name, value in limits.items():
            module, attribute = PLACES[name]
            undo.enter_context(put(import_module(module), attribute, value))
        yield
