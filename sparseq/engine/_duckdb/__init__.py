"""The engine of one machine: rows in a DuckDB file, contributions by DuckDB."""
