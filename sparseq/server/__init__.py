"""A server: one process that owns a store for many users, and the protocols of its clients.

service.py     what all protocols use: sign in, describe, explain, ask, read back
thread.py      the stream's thread: turns that are fair between users; health
tokens.py      rights: names, roles, quotas
quota_desk.py  quotas before a question, the audit log (audit.py) after it
releases.py    repeated answers, which need no turn
fields.py      input from clients, by HTTP (http/) and by MCP (mcp.py), parsed in one place
jobs.py        the server's own tasks
serve.py       start, run and stop of all parts; PostgreSQL's protocol is `sparseq.pgwire`
"""
