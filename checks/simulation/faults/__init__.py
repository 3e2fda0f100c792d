"""Faults that are planted in sparseq, one at a time; see `registry`."""

from checks.simulation.faults import lake, monitors, populations, servers, store_file, stream
from checks.simulation.faults.registry import PLANTED as _REGISTERED
from checks.simulation.faults.registry import Fault

__all__ = ["PLANTED", "Fault"]

_MODULES = [m.__name__ for m in (lake, store_file, stream, monitors, servers, populations)]

PLANTED: dict[str, Fault] = dict(
    sorted(_REGISTERED.items(), key=lambda item: _MODULES.index(item[1].places.__module__))
)
"""All faults by name, in the order of their modules."""
