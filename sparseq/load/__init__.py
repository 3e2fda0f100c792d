"""Files and tables in memory on their way into a store: each row is read by itself."""
