"""A judge from outside: do the observations of clients fit the promise? In the manner of Jepsen.

    python -m checks.judge live --runs 20                drive the real thing, and judge it
    python -m checks.judge check HISTORY EXPORT    judge an earlier recording
    python -m checks.judge planted                 is every planted fault found?

`workload.py` drives servers, drivers, kills and copies from outside, as processes, and records the
messages of each client, with times. `export.py` is the curator's export at the end. `check.py`
depends on neither: it reads the two files, counts with plain DuckDB, and imports no part of
sparseq. docs/judge.md describes the checks, and both formats.
"""
