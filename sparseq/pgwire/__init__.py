"""PostgreSQL's wire protocol 3.0: what psql, drivers and BI tools speak.

messages.py, pg_values.py                  bytes: what clients send and get
scram.py                                   signing in
statement_kinds.py                         what a statement says
route.py                                   where a SELECT goes: the stream, the catalogue, nowhere
pg_session.py, pg_settings.py              the protocol's state machine, without sockets
run_statement.py, commands.py, selects.py  what its statements do
connections.py                             sockets, TLS, signing in, cancelling
_duckdb/                                   the catalogue: a database without people
"""

from __future__ import annotations

from sparseq.pgwire.connections import serve_wire

__all__ = ["serve_wire"]
