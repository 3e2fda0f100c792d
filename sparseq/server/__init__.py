"""One stream, many askers: a process that owns a store, and the protocols that clients have.

service.py     what all protocols use: sign in, describe, explain, ask, read back
queue.py       who is next: fair between askers, with a limit
tokens.py      who may ask: names, roles, quotas
wire/          PostgreSQL's protocol
"""
