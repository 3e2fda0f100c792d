"""Former names of modules: they work in this version, with a DeprecationWarning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

FORMER = {
    "sparseq.accounting.filters": "sparseq.papers.filters",
    "sparseq.accounting.odometers": "sparseq.papers.odometers",
    "sparseq.accounting.sgd": "sparseq.papers.sgd_account",
    "sparseq.analyses": "sparseq.papers.analyses",
    "sparseq.curator": "sparseq.store.curator",
    "sparseq.errors": "sparseq.base.errors",
    "sparseq.keys": "sparseq.store.text_keys",
    "sparseq.lipschitz": "sparseq.papers.lipschitz",
    "sparseq.local": "sparseq.papers.local",
    "sparseq.monitor": "sparseq.series",
}


class FormerNames(MetaPathFinder, Loader):
    """Finds modules by the names that they had; what is found is the module itself."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `MetaPathFinder`."""
        return ModuleSpec(name, self) if name in FORMER else None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of today in the place of this one."""
        former = module.__name__
        warnings.warn(f"{former} is called {FORMER[former]}", DeprecationWarning, stacklevel=2)
        sys.modules[former] = import_module(FORMER[former])


def known() -> None:
    """Have former names found, once."""
    if not any(isinstance(finder, FormerNames) for finder in sys.meta_path):
        sys.meta_path.insert(0, FormerNames())
