"""The curator's log: private lines in the store.

Facts that depend on a row and must not get lost (a value that did not fit, a row that was left out,
an engine's error and its users) are written here, and never to anything that an analyst sees.
"""

from __future__ import annotations

import datetime as dt

import duckdb

from sparseq.ledger.notes import LoggedLine

TABLE = """
CREATE TABLE IF NOT EXISTS curator_log (
    written_at TIMESTAMP NOT NULL, kind VARCHAR NOT NULL, message VARCHAR NOT NULL);
"""


class CuratorLog:
    """The log of one store; every write is in the caller's transaction, if there is one."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._con = connection

    def add(self, kind: str, message: str) -> None:
        """Write a line."""
        self._con.execute(*statement(kind, message))

    def add_once(self, kind: str, message: str) -> None:
        """Write a line, unless the log has it already."""
        there = "FROM curator_log WHERE kind = ? AND message = ? LIMIT 1"
        if not self._con.execute(there, [kind, message]).fetchall():
            self.add(kind, message)

    def entries(self, last: int | None = None) -> list[LoggedLine]:
        """Return the lines, oldest first; `last`: at most this number of the newest."""
        rows = self._con.execute(
            "SELECT written_at, kind, message FROM curator_log ORDER BY rowid DESC LIMIT ?",
            [2**62 if last is None else last],
        ).fetchall()
        return [LoggedLine(*row) for row in reversed(rows)]


def statement(kind: str, message: str) -> tuple[str, list[object]]:
    """Return the SQL that writes a line, and its parameters, for the transaction of a release."""
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    return "INSERT INTO curator_log VALUES (?, ?, ?)", [now, kind, message]
