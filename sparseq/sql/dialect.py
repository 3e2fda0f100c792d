"""DuckDB's dialect as an object: sqlglot makes a new one each time that it is given a name."""

from __future__ import annotations

from sqlglot.dialects.duckdb import DuckDB

DUCKDB = DuckDB()
"""Writes expressions as DuckDB's SQL; it has no state."""
