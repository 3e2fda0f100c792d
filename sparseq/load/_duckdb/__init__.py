"""Loading of rows into DuckDB, through DuckDB's own readers."""
