"""The curator's log keeps what was written, in order, and nothing of a transaction undone."""

import pyarrow as pa

import sparseq
from checks.stores import IN_OR_OUT
from sparseq.ledger._duckdb.curator_log import CuratorLog


def test_lines_are_kept_in_order() -> None:
    rows = pa.table({"who": [1]})
    with sparseq.create(None, {"t": rows}, user="who", seed=1, purposes=IN_OR_OUT) as con:
        log = CuratorLog(con.backend.database)
        for i in range(3):
            log.add("test", f"line {i}")
        con.backend.database.execute("BEGIN")
        log.add("test", "undone")
        con.backend.database.rollback()
        assert [note.message for note in log.entries()] == ["line 0", "line 1", "line 2"]
        assert [note.message for note in log.entries(last=1)] == ["line 2"]
