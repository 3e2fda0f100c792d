"""Optional modules, which are imported when a source needs one."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sparseq.base.errors import DataError


def import_optional(module: str, extra: str, what: str) -> Any:
    """Return an optional module.

    Raises:
        DataError: The module is not installed; the message says how to install it.

    >>> import_optional("json", "text", "JSON").__name__
    'json'
    """
    try:
        return import_module(module)
    except ImportError:
        raise DataError(
            f"{what} needs a reader that is not installed: {module.partition('.')[0]}",
            f"pip install 'sparseq[{extra}]'",
        ) from None
