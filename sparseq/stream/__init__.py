"""The stream: the one step that every query takes, alone or in groups, behind engine and ledger.

It knows no file, no SQL and no database: `Engine` (`sparseq.engine.protocol`) says what people
contribute, `Ledger` (`sparseq.ledger.protocol`) what they have spent, and makes it durable.
"""
