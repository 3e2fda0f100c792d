"""Readers of files, databases and tables in memory; rows are independent of each other."""
