"""PostgreSQL's wire protocol 3.0: what psql, drivers and BI tools speak.

messages.py, replies.py, values.py   bytes: what clients send and get
scram.py                             signing in
lexer.py, statements.py, types.py    what a statement says
aims.py                              where a SELECT goes: to the stream, the catalogue, nowhere
session.py                           the protocol's state machine, without sockets
running.py, commands.py, selects.py  what its statements do
connection.py                        sockets, TLS, signing in, cancelling
_duckdb/                             the catalogue: a database without people
"""

from __future__ import annotations

from sparseq.pgwire.connections import serve_wire

__all__ = ["serve_wire"]
