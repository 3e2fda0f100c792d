"""One stream, many askers: a process that owns a store, and the protocols that clients have.

service.py     what all protocols use: sign in, describe, explain, ask, read back
queue.py       who is next: fair between askers, with a limit
tokens.py      who may ask: names, roles, quotas
desk.py        quotas before a question, the audit log (audit.py, usage.py) after it
fields.py      what clients may send, by HTTP (http/) and by MCP (mcp.py): read once
health.py      whether answers can be made durable
wire/          PostgreSQL's protocol
"""
