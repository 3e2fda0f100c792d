"""The ledger of one machine: in the same DuckDB file as the rows."""
