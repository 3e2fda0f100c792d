"""Return of freed memory to the operating system; otherwise allocators keep it."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import pyarrow as pa


def release_freed() -> None:
    """Return freed memory to the system, between parts of data too large to be held at once."""
    pa.default_memory_pool().release_unused()
    if (trim := _trim()) is not None:
        trim(0)


@cache
def _trim() -> Any:
    """Return glibc's `malloc_trim`; None: the C library is not glibc."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
