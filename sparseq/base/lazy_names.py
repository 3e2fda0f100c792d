"""Packages whose names are imported at first use: `sparseq --help` needs no engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's `__getattr__` (PEP 562).

    Args:
        package: The name of the package.
        homes: The module that defines each name.

    Example:
        >>> lazy("sparseq", {"Answer": "sparseq.answers.answer"})("Answer").__name__
        'Answer'
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return get
