"""DuckDB's connections, with judged settings."""
