"""The engine for one machine: rows in a DuckDB file, contributions computed by DuckDB."""
