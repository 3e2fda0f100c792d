"""The store's table of facts by key: settings, the catalogue, marks."""

from __future__ import annotations

import json
from typing import Any

import duckdb


def get(connection: duckdb.DuckDBPyConnection, key: str) -> Any:
    """Return the value that was stored under `key`, or None."""
    rows = connection.execute("SELECT value FROM meta WHERE key = ?", [key]).fetchall()
    return json.loads(rows[0][0]) if rows else None


def put(connection: duckdb.DuckDBPyConnection, key: str, value: Any) -> None:
    """Store plain data under `key`, in place of the former value.

    Two statements together take half as long as `INSERT OR REPLACE`.
    """
    text = json.dumps(value, default=str)
    ((known,),) = connection.execute(
        "UPDATE meta SET value = ? WHERE key = ?", [text, key]
    ).fetchall()
    if not known:
        connection.execute("INSERT INTO meta VALUES (?, ?)", [key, text])
