"""The table of facts of a store."""

from __future__ import annotations

import duckdb

from sparseq.ledger._duckdb import facts


def test_the_latest_value_is_returned_as_plain_data() -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE meta (key VARCHAR PRIMARY KEY, value VARCHAR)")
        assert facts.get(connection, "none") is None
        facts.put(connection, "a", {"x": [1, 2.5, None]})
        facts.put(connection, "b", "é'")
        facts.put(connection, "a", [True])
        assert facts.get(connection, "a") == [True]
        assert facts.get(connection, "b") == "é'"
        assert connection.execute("SELECT count(*) FROM meta").fetchall() == [(2,)]
