"""One stream, many askers: a process that owns a store, and the protocols that clients have.

service.py     what all protocols use: sign in, describe, explain, ask, read back
thread.py      the stream's thread: who is next, fair between askers; health
tokens.py      who may ask: names, roles, quotas
quota_desk.py  quotas before a question, the audit log (audit.py) after it
releases.py    answers that are given again without a turn
fields.py      what clients may send, by HTTP (http/) and by MCP (mcp.py): read once
jobs.py        what a server does by itself
serve.py       all of it, for as long as it runs; PostgreSQL's protocol is `sparseq.pgwire`
"""
