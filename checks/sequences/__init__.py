"""Random lives of a store, by every way in, without unexpected exceptions.

A life is a sequence of steps: questions, rows that come, erasures, restarts, looks and nonsense, by
SQL, Python, DB-API, command line, HTTP, PostgreSQL's protocol and MCP. Steps are data, drawn from a
seed before the first is done, so that a failed life can be repeated with fewer of them.

    python -m checks.sequences --minutes 30 --seed 1
"""
