"""Output of the scripts of all papers: one row, with the paper's, as a table or JSON."""

from __future__ import annotations

import json
from typing import Any

from sparseq.pictures.tables import format_table

KEYS = (
    "epsilon",
    "delta",
    "accuracy_plain",
    "accuracy_filtered",
    "sd",
    "paper_plain",
    "paper_filtered",
    "seconds",
)


def shown(rows: list[dict[str, Any]], format: str) -> str:
    """Return rows (all of `KEYS` each) as text; one JSON object a line."""
    if format == "json":
        return "\n".join(json.dumps({k: row[k] for k in KEYS}) for row in rows)
    cells = [[_cell(row[k]) for k in KEYS] for row in rows]
    return format_table(list(KEYS), cells, ["."] * len(KEYS))


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:g}"
