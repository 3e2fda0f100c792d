"""Rows on their way into DuckDB, and databases that it reads."""
