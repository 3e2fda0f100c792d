"""Readers that are optional: imported where a source needs one."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sparseq.base.errors import DataError


def needed(module: str, extra: str, what: str) -> Any:
    """Return an optional module.

    Raises:
        DataError: It is not installed; the message says how to.

    >>> needed("json", "text", "JSON").__name__
    'json'
    """
    try:
        return import_module(module)
    except ImportError:
        raise DataError(
            f"{what} needs a reader that is not installed: {module.partition('.')[0]}",
            f"pip install 'sparseq[{extra}]'",
        ) from None
