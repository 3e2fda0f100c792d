"""Former names of modules: they work in this version, with a DeprecationWarning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

FORMER = {
    "sparseq.accounting.sgd": "sparseq.networks.sgd_account",
    "sparseq.analyses": "sparseq.papers.analyses",
    "sparseq.curator": "sparseq.store.curator",
    "sparseq.errors": "sparseq.base.errors",
    "sparseq.keys": "sparseq.store.found_keys",
    "sparseq.lipschitz": "sparseq.papers.lipschitz",
    "sparseq.local": "sparseq.papers.local",
    "sparseq.monitor": "sparseq.series",
    "sparseq.papers.filters": "sparseq.accounting.filters",
    "sparseq.papers.odometers": "sparseq.accounting.odometers",
    "sparseq.papers.sgd_account": "sparseq.networks.sgd_account",
    "sparseq.training.network": "sparseq.networks.network",
}
FORMER_ATTRIBUTES = {
    "sparseq.training": dict.fromkeys(
        ("PrivateSGD", "SgdResult", "SpendLess", "SpendMore"), "sparseq.networks.sgd"
    )
}
"""Names that a module had, and the module that has each now."""


class FormerNames(MetaPathFinder, Loader):
    """Finds modules by their former names; the result is the module itself."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `MetaPathFinder`."""
        return ModuleSpec(name, self) if name in FORMER else None

    def exec_module(self, module: ModuleType) -> None:
        """Replace the module of the former name by the current one."""
        former = module.__name__
        warnings.warn(f"{former} is called {FORMER[former]}", DeprecationWarning, stacklevel=2)
        sys.modules[former] = import_module(FORMER[former])


def former_attribute(module: str) -> Callable[[str], Any]:
    """Return a module's `__getattr__` for the names that moved to another module."""
    moved = FORMER_ATTRIBUTES[module]

    def get(name: str) -> Any:
        if name not in moved:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(
            f"{module}.{name} is called {moved[name]}.{name}", DeprecationWarning, stacklevel=2
        )
        return getattr(import_module(moved[name]), name)

    return get


def known() -> None:
    """Install the finder of former names, once."""
    if not any(isinstance(finder, FormerNames) for finder in sys.meta_path):
        sys.meta_path.insert(0, FormerNames())
