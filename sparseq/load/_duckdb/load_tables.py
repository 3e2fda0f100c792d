"""Rows that come, on their way into both orders of a table.

They are held in memory, and sorted there. Rows that don't fit, that DuckDB has to convert, that
bring budgets or replace others go to the temporary table `staged`, and DuckDB sorts them. The
tables that come of it are the same, but for the order of rows of one user and time.

Stored keys outside of the declared ones.

And people who may be one: identifiers that differ in case or in spaces alone. All of it is for the
curator, in numbers, after rows have come in; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import duckdb
import numpy as np
import pyarrow as pa

from sparseq.base.texts import shown
from sparseq.engine._duckdb.people import BudgetFaults, People
from sparseq.engine._duckdb.tables import dictionary_table, orders, table_sql
from sparseq.engine.contributions import Index
from sparseq.engine.protocol import USER, quote
from sparseq.ledger._duckdb.notes import CuratorLog
from sparseq.load import memory_table as held
from sparseq.load._duckdb.linked_rows import KeyCounts, KeyIndex, LinkedRows
from sparseq.load.load_rows import IncomingRows
from sparseq.load.memory_table import HeldRows, decode, in_order, sorted_rows
from sparseq.sql.catalog import Column, Table

# -- rows that come, on their way into both orders of a table --------------------------------------


class Loading:
    """Adds rows to a private table, in its caller's transaction.

    Args:
        connection: The store's.
        people: Who has an account.
        table: Where rows are added.
        new: It does not exist yet.
        coded: The columns of a new table whose strings have codes; None: its rows decide.
        below: Its columns by which rows of other tables find whose they are.
        secret: That the keys of erased people are hashed under.

    Attributes:
        table: As given; if it is new, with the coding of its strings.
        count: How many rows were added.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        people: People,
        table: Table,
        new: bool,
        coded: frozenset[str] | None = None,
        below: Sequence[tuple[str, ...]] = (),
        secret: bytes | None = None,
    ) -> None:
        self._con, self._people, self.table, self._new = connection, people, table, new
        self._coded, self._below, self._secret = coded, below, secret
        self._linked = LinkedRows(connection, table) if table.link else None
        own = table.link.columns if table.link else ()
        self._keys = frozenset([*own, *(name for keys in below for name in keys)])
        self._found: KeyCounts | None = None
        self.count = 0

    def load(
        self, rows: IncomingRows, default_budget: int, budget_column: str, most: int
    ) -> BudgetFaults:
        """Add rows; return what was odd about new people's own budgets.

        Args:
            rows: To be added.
            default_budget: In ledger units.
            budget_column: With the users' own budgets, "" if there is none.
            most: Bytes of rows that may be held in memory.

        Raises:
            DataError: A file can't be read, or lacks a column.
        """
        types = self.table.in_files
        if budget_column:
            types[budget_column] = "DOUBLE"
        if self.table.row_key or budget_column or self._linked:
            most = 0
        user = "" if self._linked else self.table.user
        since = self._last_row()
        try:
            whole = rows.read(self._con, types, user, most, self._keys)
            if self._linked is not None and self._new:
                self._linked.create()
            if whole is not None:
                opened = self._add_held(whole, default_budget)
            elif self._linked is not None:
                self._found, opened = self._linked.find(), BudgetFaults()
                self._add_linked(self._linked)
            else:
                opened = self._add_people(default_budget, budget_column)
            self._tell_whose(since)
            return opened
        finally:
            self._con.execute("DROP TABLE IF EXISTS staged")

    def release(self) -> bool:
        """Add the rows that waited and whose keys somebody has now; tell whether there were any."""
        assert self._linked is not None
        since = self._last_row()
        try:
            self._found = self._linked.stage()
            if self._found is not None:
                self._add_linked(self._linked)
                self._tell_whose(since)
            return self._found is not None
        finally:
            self._con.execute("DROP TABLE IF EXISTS staged")

    def told(self) -> list[str]:
        """Return what became of rows whose person is found by a key, in words."""
        link = self.table.link
        return self._found.messages(link) if link and self._found else []

    def _last_row(self) -> int:
        if self._new:
            return -1
        rows = f"by_user.{quote(self.table.name)}"
        return self._number(f"SELECT coalesce(max(rowid), -1) FROM {rows}")

    def _tell_whose(self, since: int) -> None:
        """Keep whose the keys of the rows after a place are, for the rows of other tables."""
        for keys in self._below:
            index = KeyIndex(self._con, self.table.name, keys)
            if self._new:
                index.create(self.table)
            index.extend(since, self._secret)

    # -- in memory ---------------------------------------------------------------------------------

    def _add_held(self, rows: HeldRows, default_budget: int) -> BudgetFaults:
        self._code({c.name for c in self._texts() if rows.has_few(c.name)})
        identifiers, places = rows.users()
        with self._stage(self.table.user, identifiers):
            opened = self._people.open_accounts(self.table.user, default_budget, "")
            users = self._numbers(len(identifiers))[places]  # the last is of place -1
        arrays = {}
        for column in self._columns():
            if not column.coded:
                arrays[column.name] = decode(rows.column(column.name))
                continue
            words = rows.words(column.name)
            with self._stage(column.name, words.dictionary):
                self._extend_dictionary(column)
            sql = f"SELECT value, code FROM {dictionary_table(self.table.name, column.name)}"
            code = dict(self._con.execute(sql).fetchall())
            codes = pa.array([code[text] for text in words.dictionary.to_pylist()], pa.uint32())
            arrays[column.name] = codes.take(words.indices)
        time = arrays[self.table.time] if self.table.time else None
        names = [USER, *arrays]
        whole = pa.RecordBatch.from_arrays([pa.array(users), *arrays.values()], names)
        for (schema, _), order in zip(orders(self.table), sorted_rows(users, time), strict=True):
            batches = pa.RecordBatchReader.from_batches(whole.schema, in_order(whole, order))
            with self._register("ordered", batches):
                self._con.execute(
                    f"INSERT INTO {schema}.{quote(self.table.name)} SELECT * FROM ordered"
                )
            self.count = len(order)
        return opened

    def _numbers(self, identifiers: int) -> Index:
        """Return the user index of each staged identifier, and -1 at the end."""
        user = quote(self.table.user)
        found = self._con.execute(
            f'SELECT s."#place" AS place, u.{USER} AS number FROM staged AS s '
            f"JOIN ledger.users AS u ON u.id = s.{user}"
        ).fetchnumpy()
        numbers = np.full(identifiers + 1, -1, np.int32)
        numbers[found["place"]] = found["number"]
        return numbers

    @contextmanager
    def _stage(self, column: str, values: pa.Array) -> Iterator[None]:
        """Have distinct values of a column as `staged`, each with its place."""
        places = pa.array(np.arange(len(values), dtype=np.int32))
        with self._register("staged", pa.table({column: values, "#place": places})):
            yield

    @contextmanager
    def _register(self, name: str, rows: pa.Table | pa.RecordBatchReader) -> Iterator[None]:
        self._con.register(name, rows)
        try:
            yield
        finally:
            self._con.unregister(name)

    # -- by DuckDB ---------------------------------------------------------------------------------

    def _add_people(self, default_budget: int, budget_column: str) -> BudgetFaults:
        """Add the staged rows, which say whom they are about."""
        self._keep_last_versions(f"s.{quote(self.table.user)}")
        opened = self._people.open_accounts(self.table.user, default_budget, budget_column)
        self._add_staged()
        return opened

    def _add_linked(self, linked: LinkedRows) -> None:
        """Add the staged rows whose key somebody has."""
        self._keep_last_versions(f"u.{USER}", linked.whose)
        self._add_staged()

    def _add_staged(self) -> None:
        if self._new:
            counts = {
                c.name: self._number(f"SELECT count(DISTINCT {quote(c.name)}) FROM staged")
                for c in self._texts()
            }
            self._code({name for name, count in counts.items() if count <= held.DICTIONARY_LIMIT})
        for column in self._columns():
            if column.coded:
                self._extend_dictionary(column)
        self._encode()
        try:
            if self.table.row_key and not self._new:
                self._delete_replaced()
            self.count = self._number("SELECT count(*) FROM encoded")
            for schema, order in orders(self.table):
                self._con.execute(
                    f"INSERT INTO {schema}.{quote(self.table.name)} "
                    f"SELECT * FROM encoded ORDER BY {order}"
                )
        finally:
            self._con.execute("DROP TABLE IF EXISTS encoded")

    def _whose(self) -> str:
        """Return SQL that joins people `u` to staged rows `s`."""
        if self._linked is not None:
            return self._linked.whose
        return f"JOIN ledger.users AS u ON u.id = s.{quote(self.table.user)}"

    def _keep_last_versions(self, whose: str, joined: str = "") -> None:
        """Delete staged rows that later ones replace; staged rows are in the order of the files."""
        if not self.table.row_key:
            return
        key = ", ".join(f"s.{quote(c)}" for c in self.table.row_key)
        self._con.execute(
            "DELETE FROM staged WHERE rowid NOT IN (SELECT max(s.rowid) FROM staged AS s "
            f"{joined} GROUP BY {whose}, {key})"
        )

    def _encode(self) -> None:
        """Make the temporary table `encoded` of the staged rows: as they are to be stored."""
        columns, joins = [], []
        for i, c in enumerate(self._columns()):
            if c.coded:
                joins.append(
                    f"LEFT JOIN {dictionary_table(self.table.name, c.name)} AS d{i} "
                    f"ON d{i}.value = s.{quote(c.name)}"
                )
            made = f"d{i}.code" if c.coded else f"s.{quote(c.name)}"
            columns.append(f"{made} AS {quote(c.name)}")
        self._con.execute(
            f"CREATE OR REPLACE TEMP TABLE encoded AS SELECT u.{USER}, {', '.join(columns)} "
            f"FROM staged AS s {self._whose()} " + " ".join(joins)
        )

    def _delete_replaced(self) -> None:
        """Delete the rows that encoded ones replace, from both orders."""
        key = map(quote, self.table.row_key)
        same = " AND ".join(f"t.{c} IS NOT DISTINCT FROM e.{c}" for c in key)
        for schema, _ in orders(self.table):
            deleted = self._number(
                f"DELETE FROM {schema}.{quote(self.table.name)} AS t USING encoded AS e "
                f"WHERE t.{USER} = e.{USER} AND {same}"
            )
            if not deleted:  # nor from the other order
                return

    # -- both --------------------------------------------------------------------------------------

    def _columns(self) -> list[Column]:
        return [c for c in self.table.columns if c.name != self.table.user]

    def _texts(self) -> list[Column]:
        texts = [c for c in self._columns() if c.type == "VARCHAR"]
        return [c for c in texts if c.name not in self._keys]

    def _code(self, coded: set[str]) -> None:
        """Make the tables of a table that is new, with dictionaries for some columns."""
        if not self._new:
            return
        for column in self._texts():
            if column.name in (coded if self._coded is None else self._coded):
                self.table = self.table.with_column(replace(column, coded=True))
        self._con.execute(table_sql(self.table))

    def _extend_dictionary(self, column: Column) -> None:
        target, name = dictionary_table(self.table.name, column.name), quote(column.name)
        self._con.execute(
            f"INSERT INTO {target} SELECT (SELECT coalesce(max(code) + 1, 0) FROM {target}) "
            "+ row_number() OVER (ORDER BY value) - 1, value FROM "
            f"(SELECT DISTINCT {name} AS value FROM staged) "
            f"WHERE value IS NOT NULL AND value NOT IN (SELECT value FROM {target}) ORDER BY value"
        )

    def _number(self, sql: str) -> int:
        ((number,),) = self._con.execute(sql).fetchall()
        return int(number)


# -- stored keys outside of the declared ones ------------------------------------------------------


@dataclass(frozen=True)
class Outside:
    """Values of a table that are not as declared; by column, with the number of values that it has.

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
            {c.name: _decode_listed(connection, table, c) for c in columns if c.keys is not None},
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


def _decode_listed(
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
