"""Stored keys outside of the declared ones, and users whose identifiers may mean one person.

Such identifiers differ only in case or spaces. The counts are for the curator, after rows have been
loaded; they change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import duckdb

from sparseq.base.sql_text import quote
from sparseq.base.texts import shown
from sparseq.ledger._duckdb.curator_log import CuratorLog
from sparseq.question.catalog import Column, Table


@dataclass(frozen=True)
class Outside:
    """Values outside of the declared keys, with the number of all values, by column.

    Attributes:
        keys: Values outside of a column's keys.
        alike: Users whose identifier equals another one but for case or spaces.
    """

    keys: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    alike: int = 0

    @classmethod
    def of(cls, connection: duckdb.DuckDBPyConnection, table: Table) -> Outside:
        """Count the values in the current state of a private table."""
        columns = [c for c in table.columns if c.name != table.user]
        return cls(
            {c.name: _decode_listed(connection, table, c) for c in columns if c.keys is not None},
            _alike(connection) if table.column(table.user).type == "VARCHAR" else 0,
        )

    def tell(self, connection: duckdb.DuckDBPyConnection, table: Table) -> None:
        """Write the increase to the curator's log, in the transaction of the rows."""
        now, log = Outside.of(connection, table), CuratorLog(connection)
        for message in self._messages(now, table):
            log.add("ingest", f"{table.name}: {message}")

    def _messages(self, now: Outside, table: Table) -> Iterator[str]:
        for name, found in now.keys.items():
            if more := _share(found, self.keys.get(name)):
                keys = len(table.column(name).keys or ())
                yield f"{shown(name)}: {more} are not among the {keys:,} keys, and in no group"
        if now.alike > self.alike:
            yield (
                f"{now.alike:,} people have identifiers that differ only in case or spaces from "
                "another's: each counts as a person with its own budget"
            )


def _decode_listed(
    connection: duckdb.DuckDBPyConnection, table: Table, column: Column
) -> tuple[int, int]:
    rows, value = f"by_user.{quote(table.name)}", quote(column.name)
    keys = f"SELECT TRY_CAST(k AS {column.type}) FROM (SELECT unnest(?) AS k)"
    keys = f"SELECT * FROM ({keys}) AS t(k) WHERE k IS NOT NULL"
    return _pair(
        connection,
        f"SELECT count(*) FILTER ({value} NOT IN ({keys})), count({value}) FROM {rows}",
        [[str(key) for key in column.keys or () if key is not None]],
    )


def _alike(connection: duckdb.DuckDBPyConnection) -> int:
    people, _ = _pair(
        connection,
        "SELECT coalesce(sum(n), 0), count(*) FROM (SELECT count(*) AS n FROM ledger.users "
        "WHERE id IS NOT NULL GROUP BY lower(trim(id)) HAVING count(*) > 1)",
    )
    return people


def _share(now: tuple[int, int], before: tuple[int, int] | None) -> str:
    count, values = (a - b for a, b in zip(now, before or (0, 0), strict=True))
    if count <= 0:
        return ""
    if values < count:  # replaced rows had values, too
        return f"{count:,} more values"
    return f"{count:,} of {values:,} values ({100 * count / values:.2g} %)"


def _pair(
    connection: duckdb.DuckDBPyConnection, sql: str, params: list[object] | None = None
) -> tuple[int, int]:
    ((one, other),) = connection.execute(sql, params or []).fetchall()
    return int(one), int(other)
