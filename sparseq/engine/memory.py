"""Giving memory back to the operating system, which allocators keep when it is freed."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import pyarrow as pa


def release_freed() -> None:
    """Give back what is free: between parts of what is too large to be held at once."""
    pa.default_memory_pool().release_unused()
    if (trim := _trim()) is not None:
        trim(0)


@cache
def _trim() -> Any:
    """Return the C library's own way, where it is glibc."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
