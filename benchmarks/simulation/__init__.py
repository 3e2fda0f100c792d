"""Whole lives of stores in one process, from one seed: see `README.md` in this folder."""
