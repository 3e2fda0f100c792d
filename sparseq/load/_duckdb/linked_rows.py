"""Rows that find their user by a key, and rows that wait for it.

    chain."T.c"       (key, user index): whose rows of the tables below T with that key are
    chain.forgotten   (link, user index, keyed hash): keys of users who were erased
    waiting.C         rows of table C whose key nobody has yet, as they came

A row gets its user once: when it is loaded, or when a later row claims its key. Then it is stored
like any other row of that user, and no other part of a store knows about links.

The rule: the first claim wins, for good. A row of T that has a user claims its key for that user. A
key belongs to the user of its first claim; a later claim by another user changes neither the key
nor both users' rows, and is counted for the curator. "First" is the order of loads, then of files,
then of rows in a file. A waiting row claims its key in the load in which it gets its user, after
the rows that came to its table before; rows that stop waiting in one load claim in the order in
which they came. A row that a later one replaces (`--row-key`) has claimed its key, even in the same
load, and a claim stays when the row is replaced, cut or erased. DuckDB keeps the order: claims come
from `staged`, where a row's place is its row id, and from `waiting` in the same way; the order of
the stored rows, which is by user, decides nothing.

Neighbours. Let A be a user, D the stream of loads and erasures, and D' the same without the rows of
A, as D assigns rows to users: a row that waits and is erased with A counts as A's as well. Claim:
after each step the rows of every other user, and the waiting rows, are the same in D' as in D
except for A's; and each key that another user B owns in D is owned by B in D'. The proof is by
induction over the steps.

- A row with a user column is whose it was. A row of B that a link leads came under a key that B
  owns in D, so B owns it in D' and the row is B's there, in the same load.
- A row that waits in D has a key that no row in D has claimed; the claims in D' are of rows of D,
  so it waits in D' too. A row whose key A owns is A's, and not in D'.
- So the rows that claim keys of T in D' are those of D without A's, in the same order. If the first
  claim of a key in D is B's, it is the first in D'. If it is A's, then in D' the first claim is of
  some X or of nobody; but every row under that key, whenever it came, is A's in D and not in D'.
  So X owns a key in D' under which there is no row, and that changes nobody's rows.
- An erasure of B takes the rows under B's keys, and those that wait under keys that only waiting
  rows have, of which one is erased: the same in D and D'. An erasure of A takes rows of A alone.

So no row, contribution, charge or account of another user depends on A, and a store's guarantee
holds as it does when every table has the user column. The key of an erased user is kept as a hash
under the store's key, as the identifier is: a later row with such a key still belongs to that user,
waits until the user has a row with the key again, and never gets another user.

A key that several users brought in one load had no user in earlier versions: its user is NULL in
`chain`, and stays NULL. Rows with such a key are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import duckdb

from sparseq.base.errors import DataError
from sparseq.base.sql_text import quote
from sparseq.base.texts import count_of, shown
from sparseq.engine._duckdb.people import hash_of
from sparseq.engine._duckdb.tables import write_anew
from sparseq.engine.protocol import USER
from sparseq.load.key_chain import key_kind
from sparseq.question.catalog import Catalog, KeyLink, Table

SCHEMAS = (
    "CREATE SCHEMA IF NOT EXISTS chain; CREATE SCHEMA IF NOT EXISTS waiting; "
    "CREATE TABLE IF NOT EXISTS chain.forgotten "
    f"(link VARCHAR NOT NULL, {USER} INTEGER NOT NULL, hash BLOB NOT NULL);"
)


_NOBODY = -2
"""Stands for the user of a key that an earlier version left without a user."""


def text_of(columns: Sequence[str]) -> str:
    """Return SQL that makes one text of a key."""
    texts = [f"CAST({column} AS VARCHAR)" for column in columns]
    return texts[0] if len(texts) == 1 else f"CAST(to_json([{', '.join(texts)}]) AS VARCHAR)"


def waiting_table(table: Table) -> str:
    """Return the SQL name of the table of waiting rows."""
    return f"waiting.{quote(table.name)}"


class KeyIndex:
    """The users of one table's keys; every write is in the caller's transaction.

    Args:
        connection: The store's.
        table: The name of the table that has the keys.
        keys: The columns of the key.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, table: str, keys: Sequence[str]
    ) -> None:
        self._con, self._table, self._keys = connection, table, keys
        self.name = f"{table}.{','.join(keys)}"
        self.sql = f"chain.{quote(self.name)}"
        self._places = [f"k{n}" for n in range(len(keys))]

    def create(self, table: Table) -> None:
        """Create the index, empty, for a table."""
        kinds = [key_kind(table.column(key).type) for key in self._keys]
        listed = ", ".join(f"{k} {kind}" for k, kind in zip(self._places, kinds, strict=True))
        self._con.execute(f"{SCHEMAS} CREATE TABLE {self.sql} ({listed}, {USER} INTEGER)")

    def equal(self, index: str, columns: Sequence[str], row: str) -> str:
        """Return SQL: a row of the index has the key in these columns of a row."""
        pairs = zip(self._places, columns, strict=True)
        return " AND ".join(f"{index}.{k} = {row}.{quote(c)}" for k, c in pairs)

    def claim(self, claims: str, secret: bytes | None, new: bool) -> ClaimCounts:
        """Give keys without an owner to the user of the first row that has them.

        Args:
            claims: SQL of rows with a user: the user, the key's columns, and `place`, which gives
                the rows' order.
            secret: The key of the hashes of erased users' keys; None as long as nobody was erased.
            new: True if the table is new: then most keys must belong to one user each.

        Raises:
            DataError: Most keys do not: rows with such a key are about several users.
        """
        pairs = zip(self._keys, self._places, strict=True)
        columns = ", ".join(f"c.{quote(key)} AS {k}" for key, k in pairs)
        valid = " AND ".join(f"c.{quote(key)} IS NOT NULL" for key in self._keys)
        listed = ", ".join(self._places)
        self._con.execute(
            f"CREATE OR REPLACE TEMP TABLE claims AS SELECT {columns}, c.{USER}, c.place "
            f"FROM ({claims}) AS c WHERE {valid}"
        )
        same = " AND ".join(f"i.{k} = c.{k}" for k in self._places)
        first = (
            f"SELECT {listed}, arg_min(c.{USER}, c.place) AS {USER} FROM claims AS c "
            f"ANTI JOIN {self.sql} AS i ON {same} GROUP BY {listed}"
        )
        forgotten = self.hidden() if secret is not None else {}
        hidden = self._claim_back(forgotten, secret) if secret and forgotten else 0
        self._con.execute(f"INSERT INTO {self.sql} SELECT {listed}, {USER} FROM ({first})")
        ((rows, contested, keys),) = self._con.execute(
            f"SELECT count(*), count(DISTINCT row({listed})), (SELECT count(*) FROM {self.sql}) "
            f"FROM (SELECT c.* FROM claims AS c JOIN {self.sql} AS i ON {same} "
            f"WHERE i.{USER} <> c.{USER})"
        ).fetchall()
        self._con.execute("DROP TABLE claims")
        if new and 2 * contested > keys:
            raise DataError(
                f"a link to {self.name} is many-to-many: {contested:,} of {keys:,} values belong "
                "to several people (for the curator only)",
                "a row belongs to one person: link it to a column that identifies one row, or one"
                " person",
            )
        return ClaimCounts(", ".join(map(shown, self._keys)), rows + hidden)

    def _claim_back(self, forgotten: Mapping[bytes, int], secret: bytes) -> int:
        """Give erased users back the keys that their rows have again.

        Delete other users' claims on such keys from `claims`; return the number of these rows.
        """
        text, hidden = self._text(), 0
        for key, users in self._con.execute(
            f"SELECT {text}, list(DISTINCT {USER}) FROM claims GROUP BY 1"
        ).fetchall():
            hash = hash_of(secret, key)
            owner = forgotten.get(hash)
            if owner is None:
                continue
            ((others,),) = self._con.execute(
                f"DELETE FROM claims WHERE {text} = ? AND {USER} <> ?", [key, owner]
            ).fetchall()
            hidden += others
            if owner in users:
                self._con.execute(
                    "DELETE FROM chain.forgotten WHERE link = ? AND hash = ?", [self.name, hash]
                )
        return hidden

    def forget(self, users: Iterable[int], secret: bytes) -> None:
        """Replace users' keys, and keys without a user, by hashes."""
        gone = f"({USER} IS NULL OR {USER} IN ({', '.join(map(str, users)) or -1}))"
        rows = self._con.execute(
            f"SELECT {self._text()}, coalesce({USER}, {_NOBODY}) FROM {self.sql} AS i WHERE {gone}"
        ).fetchall()
        if rows:
            self._con.execute(
                "INSERT INTO chain.forgotten SELECT ?, unnest(?::INTEGER[]), unnest(?::BLOB[])",
                [self.name, [u for _, u in rows], [hash_of(secret, text) for text, _ in rows]],
            )
            write_anew(self._con, "chain", self.name, f"NOT {gone}")

    def hidden(self) -> dict[bytes, int]:
        """Return the hashes of erased users' keys, each with its owner."""
        rows = self._con.execute(
            f"SELECT hash, {USER} FROM chain.forgotten WHERE link = ?", [self.name]
        ).fetchall()
        return {bytes(hash): user for hash, user in rows}

    def _text(self) -> str:
        return text_of(self._places)


@dataclass(frozen=True)
class ClaimCounts:
    """Rows that came with a key of another user: private.

    Attributes:
        key: The columns of the key, as text.
        rows: The number of rows.
    """

    key: str
    rows: int

    def messages(self) -> list[str]:
        """Return the counts as text, for the curator."""
        if not self.rows:
            return []
        return [
            f"{count_of(self.rows, 'row has', 'rows have')} a key ({self.key}) that a row of "
            "another user had first: such a row stays with its own user, and rows that refer to "
            "this key belong to the first user"
        ]


@dataclass(frozen=True)
class KeyCounts:
    """Rows of a linked table, by the result of the search for their user: private.

    Attributes:
        rows: The number of all rows.
        nameless: Rows without a key.
        waiting: Rows whose key has no user yet.
        nobodys: Rows whose key an earlier version left without a user.
    """

    rows: int
    nameless: int
    waiting: int
    nobodys: int

    def messages(self, link: KeyLink) -> list[str]:
        """Return the counts as text, for the curator."""
        own = ", ".join(map(shown, link.columns))
        keys = f"{link.parent}.{', '.join(map(shown, link.keys))}"
        said = []
        if self.nameless:
            said.append(
                f"{self.nameless:,} of {self.rows:,} rows were left out: they have no {own}"
            )
        if self.nobodys:
            said.append(
                f"{self.nobodys:,} of {self.rows:,} rows were left out: an earlier version left "
                f"their {keys} without a user, because several users brought it in one load"
            )
        if self.waiting:
            said.append(
                f"{self.waiting:,} of {self.rows:,} rows wait: no row has come yet whose {keys} is"
                f" their {own}; until then no user is charged for them"
            )
        return said


class LinkedRows:
    """The rows of one table with a link; every write is in the caller's transaction.

    Args:
        connection: The store's.
        table: A table with a link.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, table: Table) -> None:
        assert table.link is not None
        self._con, self._table, self._link = connection, table, table.link
        self._index = KeyIndex(connection, table.link.parent, table.link.keys)
        self.waiting = waiting_table(table)

    def create(self) -> None:
        """Create the table of waiting rows, empty."""
        types = self._table.in_files
        columns = ", ".join(f"{quote(c)} {types[c]}" for c in types)
        self._con.execute(f"CREATE TABLE {self.waiting} ({columns})")

    @property
    def whose(self) -> str:
        """SQL that joins users `u` to rows `s`."""
        on = self._index.equal("u", self._link.columns, "s")
        return f"JOIN {self._index.sql} AS u ON {on} AND u.{USER} IS NOT NULL"

    def find(self) -> KeyCounts:
        """Count the staged rows that have a user; move the others to the waiting rows."""
        named = " AND ".join(f"s.{quote(c)} IS NOT NULL" for c in self._link.columns)
        on = self._index.equal("i", self._link.columns, "s")
        ((rows, nameless, waiting, nobodys),) = self._con.execute(
            f"SELECT count(*), count(*) FILTER (NOT ({named})), "
            f"count(*) FILTER ({named} AND i.k0 IS NULL), "
            f"count(*) FILTER (i.k0 IS NOT NULL AND i.{USER} IS NULL) "
            f"FROM staged AS s LEFT JOIN {self._index.sql} AS i ON {on}"
        ).fetchall()
        if waiting:
            self._con.execute(
                f"INSERT INTO {self.waiting} SELECT {self._columns()} FROM staged AS s "
                f"ANTI JOIN {self._index.sql} AS i ON {on} WHERE {named} ORDER BY s.rowid"
            )
        return KeyCounts(rows, nameless, waiting, nobodys)

    def stage(self) -> KeyCounts | None:
        """Move waiting rows whose key has a user now to `staged`; return None if no row waited."""
        on = self._index.equal("i", self._link.columns, "s")
        known = f"{self.waiting} AS s SEMI JOIN {self._index.sql} AS i ON {on}"
        self._con.execute(
            f"CREATE OR REPLACE TEMP TABLE staged AS SELECT {self._columns()} FROM {known} "
            "ORDER BY s.rowid"
        )
        found = self.find()
        if not found.rows:
            return None
        self._con.execute(
            f"DELETE FROM {self.waiting} WHERE rowid IN (SELECT s.rowid FROM {known})"
        )
        return found

    def _columns(self) -> str:
        return ", ".join(f"s.{quote(c)}" for c in self._table.in_files)

    def count(self) -> int:
        """Return the number of waiting rows."""
        ((rows,),) = self._con.execute(f"SELECT count(*) FROM {self.waiting}").fetchall()
        return int(rows)


def forget_linked(
    connection: duckdb.DuckDBPyConnection, catalog: Catalog, users: Sequence[int], secret: bytes
) -> dict[str, int]:
    """Erase users' keys, and the rows that wait for them; return the number of rows by table.

    These are rows with a key of an erased user, and rows with a key that only waiting rows have, if
    one of those rows is erased here. Other waiting rows with the key decide nothing, because they
    may be any user's.
    """
    roots = (table for table in catalog.private if table.link is None)
    linked = [table for root in roots for table in catalog.reached(root)[1:]]
    for name, keys in dict.fromkeys((t.link.parent, t.link.keys) for t in linked if t.link):
        KeyIndex(connection, name, keys).forget(users, secret)
    gone: dict[str, set[int]] = {}
    for table in linked:
        assert table.link is not None
        parent, keys = table.link.parent, table.link.keys
        owners = KeyIndex(connection, parent, keys).hidden()
        above = _waiting_keys(connection, parent, keys) if gone.get(parent) else {}
        theirs = {above[row] for row in gone.get(parent, ())} - {""}
        gone[table.name] = {
            row
            for row, text in _waiting_keys(connection, table.name, table.link.columns).items()
            if (owner := owners.get(hash_of(secret, text))) in users
            or (owner is None and text in theirs)
        }
    # also rows that no longer wait: DuckDB only marks them as deleted
    for name, rows in gone.items():
        listed = ", ".join(map(str, rows)) or "-1"
        write_anew(connection, "waiting", name, f"i.rowid NOT IN ({listed})")
    return {name: len(rows) for name, rows in gone.items()}


def _waiting_keys(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Sequence[str]
) -> dict[int, str]:
    """Return the keys of waiting rows, by row id."""
    text = text_of([quote(c) for c in columns])
    sql = f"SELECT rowid, coalesce({text}, '') FROM waiting.{quote(table)}"
    return dict(connection.execute(sql).fetchall())
