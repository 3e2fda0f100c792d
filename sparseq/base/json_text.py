"""Plain data as JSON text."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, is_dataclass
from typing import Any


def json_text(value: Any, indent: int | None = 2) -> str:
    """Return plain data as JSON: dataclasses as objects, dates as texts, non-finite numbers as
    null.

    >>> json_text({"a": [1, float("nan")]}, indent=None)
    '{"a": [1, null]}'
    """
    return json.dumps(_finite(value), indent=indent, default=str, allow_nan=False)


def _finite(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
