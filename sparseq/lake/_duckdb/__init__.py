"""Buckets in DuckDB files."""
