"""A ledger in a lake: see `sparseq.ledger._lake.ledger.LakeLedger`."""
