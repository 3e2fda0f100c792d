"""Stored keys outside of the declared ones.

And people who may be one: identifiers that differ in case or in spaces alone. All of it is for the
curator, in numbers, after rows have come in; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import duckdb

from sparseq.base.texts import shown
from sparseq.engine._duckdb.tables import dictionary_table
from sparseq.engine.protocol import quote
from sparseq.ledger._duckdb.notes import CuratorLog
from sparseq.sql.catalog import Column, Table


@dataclass(frozen=True)
class Outside:
    """How much in a table is not as declared; by column, with the number of values that it has.

    Attributes:
        keys: Values that are not among a column's keys.
        alike: People whose identifiers differ in case or spaces alone from another's.
    """

    keys: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    alike: int = 0

    @classmethod
    def of(cls, connection: duckdb.DuckDBPyConnection, table: Table) -> Outside:
        """Count, in a private table as it is now."""
        columns = [c for c in table.columns if c.name != table.user]
        return cls(
            {c.name: _unlisted(connection, table, c) for c in columns if c.keys is not None},
            _alike(connection) if table.column(table.user).type == "VARCHAR" else 0,
        )

    def tell(self, connection: duckdb.DuckDBPyConnection, table: Table) -> None:
        """Write to the curator's log what is more by now, in the transaction of the rows."""
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
                f"{now.alike:,} people have identifiers that differ in case or spaces alone from "
                "another's: each is a person with a budget of its own"
            )


def _unlisted(
    connection: duckdb.DuckDBPyConnection, table: Table, column: Column
) -> tuple[int, int]:
    rows, value = f"by_user.{quote(table.name)} AS r", f"r.{quote(column.name)}"
    if column.coded:
        rows += f" JOIN {dictionary_table(table.name, column.name)} AS d ON d.code = {value}"
        value = "d.value"
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
    if values < count:  # rows that were replaced had values too
        return f"{count:,} more values"
    return f"{count:,} of {values:,} values ({100 * count / values:.2g} %)"


def _pair(
    connection: duckdb.DuckDBPyConnection, sql: str, params: list[object] | None = None
) -> tuple[int, int]:
    ((one, other),) = connection.execute(sql, params or []).fetchall()
    return int(one), int(other)
