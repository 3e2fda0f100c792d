"""The papers' tables, measured here: `python -m benchmarks.papers.adult --data FOLDER`."""
