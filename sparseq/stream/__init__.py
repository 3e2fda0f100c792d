"""The stream: the step that answers every query, alone or in a group, with engine and ledger.

It depends on no file, SQL or database: `Engine` (`sparseq.engine.protocol`) computes the users'
contributions; `Ledger` (`sparseq.ledger.protocol`) keeps their charges and makes them durable.
"""
