"""Loading of new rows into both orders of a table.

Rows stay in memory and are sorted there. If the rows don't fit, need DuckDB for a conversion, bring
budgets or replace other rows, they go to the temporary table `staged`, and DuckDB sorts them. The
resulting tables are the same, except for the order of rows of one user and time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparseq.base.sql_text import quote
from sparseq.engine._duckdb.people import BudgetFaults, People
from sparseq.engine._duckdb.tables import orders, table_sql
from sparseq.engine.protocol import USER
from sparseq.engine.reduction import Index
from sparseq.load._duckdb.linked_rows import ClaimCounts, KeyCounts, KeyIndex, LinkedRows
from sparseq.load.held_rows import HeldRows, decode
from sparseq.load.load_rows import IncomingRows
from sparseq.load.row_order import in_order, sorted_rows
from sparseq.question.catalog import Column, Table


class Loading:
    """Adds rows to a private table, in the transaction of its caller.

    Args:
        connection: The store's.
        people: The users with accounts.
        table: The table that gets the rows.
        new: True if the table does not exist yet.
        below: The columns of this table by which rows of other tables find their user.
        secret: The key of the hashes of erased users' keys.

    Attributes:
        count: The number of added rows.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        people: People,
        table: Table,
        new: bool,
        below: Sequence[tuple[str, ...]] = (),
        secret: bytes | None = None,
    ) -> None:
        self._con, self._people, self.table, self._new = connection, people, table, new
        self._below, self._secret = below, secret
        self._linked = LinkedRows(connection, table) if table.link else None
        own = table.link.columns if table.link else ()
        self._keys = frozenset([*own, *(name for keys in below for name in keys)])
        self._found: KeyCounts | None = None
        self._contested: list[ClaimCounts] = []
        self.count = 0

    def load(
        self, rows: IncomingRows, default_budget: int, budget_column: str, most: int
    ) -> BudgetFaults:
        """Add rows; return messages about unusual budgets of new users.

        Args:
            rows: The rows to add.
            default_budget: The default budget, in ledger units.
            budget_column: The column with the users' own budgets, or "".
            most: The maximum number of bytes of rows in memory.

        Raises:
            DataError: A file can't be read, or lacks a column.
        """
        types = self.table.in_files
        if budget_column:
            types[budget_column] = "DOUBLE"
        if self.table.row_key or budget_column or self._linked:
            most = 0
        user = "" if self._linked else self.table.user
        try:
            whole = rows.read(self._con, types, user, most, self._keys)
            if self._linked is not None and self._new:
                self._linked.create()
            if whole is not None:
                return self._add_held(whole, default_budget)
            if self._linked is None:
                return self._add_people(default_budget, budget_column)
            self._found = self._linked.find()
            self._add_linked(self._linked)
            return BudgetFaults()
        finally:
            self._con.execute("DROP TABLE IF EXISTS staged")

    def release(self) -> bool:
        """Add waiting rows whose keys have a user now; tell whether there were any."""
        assert self._linked is not None
        try:
            self._found = self._linked.stage()
            if self._found is not None:
                self._add_linked(self._linked)
            return self._found is not None
        finally:
            self._con.execute("DROP TABLE IF EXISTS staged")

    def told(self) -> list[str]:
        """Return messages about linked rows and keys."""
        link = self.table.link
        said = self._found.messages(link) if link and self._found else []
        return said + [message for one in self._contested for message in one.messages()]

    def _claim(self, rows: str, user: str, place: str) -> None:
        """Let rows claim their keys, by which rows of other tables find their user.

        Args:
            rows: SQL of all new rows that have a user, named `s`.
            user: SQL of a row's user.
            place: SQL of a row's position among them.
        """
        for keys in self._below:
            index = KeyIndex(self._con, self.table.name, keys)
            if self._new:
                index.create(self.table)
            columns = ", ".join(f"s.{quote(key)}" for key in keys)
            claims = f"SELECT {columns}, {user}, {place} AS place FROM {rows}"
            self._contested.append(index.claim(claims, self._secret, self._new))

    # Rows in memory.

    def _add_held(self, rows: HeldRows, default_budget: int) -> BudgetFaults:
        self._create()
        identifiers, places = rows.users()
        with self._stage(self.table.user, identifiers):
            opened = self._people.open_accounts(self.table.user, default_budget, "")
            users = self._numbers(len(identifiers))[places]  # the last entry is for position -1
        arrays = {column.name: rows.column(column.name) for column in self._columns()}
        time = decode(arrays[self.table.time]) if self.table.time else None
        if self._below:
            below = {name: decode(arrays[name]) for keys in self._below for name in keys}
            claims = pa.table({USER: users, "#place": np.arange(len(users)), **below})
            with self._register("claimed", claims.filter(pc.field(USER) >= 0)):
                self._claim("claimed AS s", f"s.{USER}", 's."#place"')
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
        """Write distinct values of a column to `staged`, each with its position."""
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

    # Rows in DuckDB.

    def _add_people(self, default_budget: int, budget_column: str) -> BudgetFaults:
        """Add staged rows that have a user column."""
        claims = "staged"
        # rows that were replaced at once have claimed their keys, too
        if self._below and self.table.row_key:
            claims = "came"
            columns = {self.table.user, *(name for keys in self._below for name in keys)}
            listed = ", ".join(map(quote, sorted(columns)))
            self._con.execute(
                f"CREATE OR REPLACE TEMP TABLE came AS SELECT {listed} FROM staged ORDER BY rowid"
            )
        self._keep_last_versions(f"s.{quote(self.table.user)}")
        opened = self._people.open_accounts(self.table.user, default_budget, budget_column)
        self._claim(f"{claims} AS s {self._whose()}", f"u.{USER}", "s.rowid")
        self._con.execute("DROP TABLE IF EXISTS came")
        self._add_staged()
        return opened

    def _add_linked(self, linked: LinkedRows) -> None:
        """Add staged rows whose key has a user."""
        self._claim(f"staged AS s {linked.whose}", f"u.{USER}", "s.rowid")
        self._keep_last_versions(f"u.{USER}", linked.whose)
        self._add_staged()

    def _add_staged(self) -> None:
        self._create()
        self._find_owners()
        try:
            if self.table.row_key and not self._new:
                self._delete_replaced()
            self.count = self._number("SELECT count(*) FROM owned")
            for schema, order in orders(self.table):
                self._con.execute(
                    f"INSERT INTO {schema}.{quote(self.table.name)} "
                    f"SELECT * FROM owned ORDER BY {order}"
                )
        finally:
            self._con.execute("DROP TABLE IF EXISTS owned")

    def _whose(self) -> str:
        """Return SQL that joins users `u` to staged rows `s`."""
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

    def _find_owners(self) -> None:
        """Make the temporary table `owned` of the staged rows in their stored form."""
        columns = [f"s.{quote(c.name)}" for c in self._columns()]
        self._con.execute(
            f"CREATE OR REPLACE TEMP TABLE owned AS SELECT u.{USER}, {', '.join(columns)} "
            f"FROM staged AS s {self._whose()}"
        )

    def _delete_replaced(self) -> None:
        """Delete the rows that new ones replace, from both orders."""
        key = map(quote, self.table.row_key)
        same = " AND ".join(f"t.{c} IS NOT DISTINCT FROM e.{c}" for c in key)
        for schema, _ in orders(self.table):
            deleted = self._number(
                f"DELETE FROM {schema}.{quote(self.table.name)} AS t USING owned AS e "
                f"WHERE t.{USER} = e.{USER} AND {same}"
            )
            if not deleted:  # then the other order has no such row either
                return

    # For both ways.

    def _columns(self) -> list[Column]:
        return [c for c in self.table.columns if c.name != self.table.user]

    def _create(self) -> None:
        """Create the tables of a new table."""
        if self._new:
            self._con.execute(table_sql(self.table))

    def _number(self, sql: str) -> int:
        ((number,),) = self._con.execute(sql).fetchall()
        return int(number)
