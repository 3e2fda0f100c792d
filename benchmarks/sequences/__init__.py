"""No exception but ours: random lives of a store, by every way in.

A life is a sequence of steps: questions, rows that come, erasures, restarts, looks and nonsense, by
SQL, Python, DB-API, command line, HTTP, PostgreSQL's protocol and MCP. Steps are data, made from a
seed before the first is done, so that a life that ends badly can be lived again with fewer of them.

    python -m benchmarks.sequences --minutes 30 --seed 1
"""
