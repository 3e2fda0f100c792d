"""A store in one DuckDB file."""
