"""Packages whose names are imported when they are asked for: `sparseq --help` needs no engine."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# -- packages whose names are imported when they are asked for -------------------------------------


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's `__getattr__` (PEP 562).

    Args:
        package: Its name.
        homes: Name to the module that defines it.

    Example:
        >>> lazy("sparseq", {"Answer": "sparseq.store.answer"})("Answer").__name__
        'Answer'
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return get


# -- former names of modules: they work in this version, with a DeprecationWarning -----------------

FORMER = {
    "sparseq.accounting.filters": "sparseq.papers.filters",
    "sparseq.accounting.odometers": "sparseq.papers.odometers",
    "sparseq.accounting.sgd": "sparseq.papers.sgd_account",
    "sparseq.analyses": "sparseq.papers.analyses",
    "sparseq.curator": "sparseq.store.curator",
    "sparseq.errors": "sparseq.base.errors",
    "sparseq.keys": "sparseq.store.found_keys",
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
