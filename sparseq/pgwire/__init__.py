"""PostgreSQL's wire protocol 3.0, for psql, drivers and BI tools.

messages.py, pg_values.py                  bytes of the clients' and the server's messages
scram.py                                   authentication
statement_kinds.py                         kinds of statements
route.py                                   route of a SELECT: the stream, the catalogue, nowhere
pg_session.py, pg_settings.py              the protocol's state machine, without sockets
run_statement.py, commands.py, selects.py  execution of its statements
connections.py                             sockets, TLS, authentication, cancelling
_duckdb/                                   the catalogue: a database without people
"""
