"""Rows whose person is found by a key, and rows that wait for it.

    chain."T.c"       (key, user index or NULL): whose rows of table T with that key are; NULL: of
                      several people
    chain.forgotten   (link, user index, keyed hash): keys of people who were erased
    waiting.C         rows of table C whose key nobody has yet, as they came

A row is some person's once: when it comes in, or when a row comes in that has its key. Then it is
stored as any other row of that person is, and nothing else of a store knows of links.

The rule. A key is whose the first row with it is, for good; if several people have it among rows
that come in together, it is nobody's, for good. Rows with a key that is nobody's are left out. A
later row with the key of another person is its own person's, and the key stays.

Neighbours. Let i be a person, and take away the rows of i in every table, and all rows whose key is
i's or, of several people's, i's among others. By induction over the order in which rows come in,
every other key is whose it was: the first rows that have it are not among those taken away, or the
key would be i's. So every row that is left is whose it was, or waits as it did, and became
somebody's with the same load; nothing of anybody else's rows, charges or account has changed. So a
store's promise holds as it does where every table has the user column, for a person's rows in all
tables with those that lead to them.

Whoever is erased keeps the keys, as hashes under the store's key, as the identifier is kept: a row
that comes later under such a key is still of that person, waits until the person has such a row
again, and is never anybody else's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import duckdb

from sparseq.base.errors import DataError
from sparseq.base.texts import shown
from sparseq.engine._duckdb.people import hash_of
from sparseq.engine._duckdb.tables import write_anew
from sparseq.engine.protocol import USER, quote
from sparseq.load.key_chain import key_kind
from sparseq.sql.catalog import Catalog, KeyLink, Table

SCHEMAS = (
    "CREATE SCHEMA IF NOT EXISTS chain; CREATE SCHEMA IF NOT EXISTS waiting; "
    "CREATE TABLE IF NOT EXISTS chain.forgotten "
    f"(link VARCHAR NOT NULL, {USER} INTEGER NOT NULL, hash BLOB NOT NULL);"
)


_SEVERAL = -2
"""In the place of a person: a key of several, none of whom is there now."""


def text_of(columns: Sequence[str]) -> str:
    """Return SQL of a key as one text."""
    texts = [f"CAST({column} AS VARCHAR)" for column in columns]
    return texts[0] if len(texts) == 1 else f"CAST(to_json([{', '.join(texts)}]) AS VARCHAR)"


def waiting_table(table: Table) -> str:
    """Return the SQL name of the rows of a table that wait."""
    return f"waiting.{quote(table.name)}"


class KeyIndex:
    """The people of one table's keys; every write is the caller's transaction.

    Args:
        connection: The store's.
        table: Name of the table that has the keys.
        keys: Its columns.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, table: str, keys: Sequence[str]
    ) -> None:
        self._con, self._table, self._keys = connection, table, keys
        self.name = f"{table}.{','.join(keys)}"
        self.sql = f"chain.{quote(self.name)}"
        self._places = [f"k{n}" for n in range(len(keys))]

    def create(self, table: Table) -> None:
        """Make it, empty, for a table."""
        kinds = [key_kind(table.column(key).type) for key in self._keys]
        listed = ", ".join(f"{k} {kind}" for k, kind in zip(self._places, kinds, strict=True))
        self._con.execute(f"{SCHEMAS} CREATE TABLE {self.sql} ({listed}, {USER} INTEGER)")

    def equal(self, index: str, columns: Sequence[str], row: str) -> str:
        """Return SQL: a row of the index has the key that columns of a row are."""
        pairs = zip(self._places, columns, strict=True)
        return " AND ".join(f"{index}.{k} = {row}.{quote(c)}" for k, c in pairs)

    def extend(self, since: int, secret: bytes | None) -> None:
        """Take in the keys of the table's rows after a place, of those that are not there.

        Args:
            since: A row id.
            secret: That erased people's keys are hashed under; None as long as nobody was.
        """
        columns = [f"t.{quote(key)}" for key in self._keys]
        forgotten = self._forgotten() if secret is not None else {}
        named = ", ".join(f"{c} AS {k}" for c, k in zip(columns, self._places, strict=True))
        new = (
            f"SELECT {named}, CASE WHEN min({USER}) = max({USER}) THEN min({USER}) END AS {USER}"
            f"{f', list({USER}) AS people' * bool(forgotten)} "
            f"FROM by_user.{quote(self._table)} AS t "
            f"ANTI JOIN {self.sql} AS i ON {self.equal('i', self._keys, 't')} "
            f"WHERE t.rowid > {since} AND {' AND '.join(f'{c} IS NOT NULL' for c in columns)} "
            f"GROUP BY {', '.join(columns)}"
        )
        listed = ", ".join([*self._places, USER])
        if secret is None or not forgotten:
            self._con.execute(f"INSERT INTO {self.sql} SELECT {listed} FROM ({new})")
            return
        taken = []
        for text, people in self._con.execute(
            f"SELECT {self._text()}, people FROM ({new})"
        ).fetchall():
            hash = hash_of(secret, text)
            if hash in forgotten:
                back = forgotten[hash] in people
                taken.append((text, forgotten[hash] if back else -1))
                if back:
                    self._con.execute(
                        "DELETE FROM chain.forgotten WHERE link = ? AND hash = ?", [self.name, hash]
                    )
        self._con.execute(
            f"INSERT INTO {self.sql} SELECT {', '.join(self._places)}, CASE WHEN f.u IS NULL THEN "
            f"n.{USER} ELSE f.u END FROM (SELECT *, {self._text()} AS text FROM ({new})) AS n "
            "LEFT JOIN (SELECT unnest(?::VARCHAR[]) AS text, unnest(?::INTEGER[]) AS u) AS f "
            "USING (text) WHERE f.u IS DISTINCT FROM -1",
            [[text for text, _ in taken], [user for _, user in taken]],
        )

    def forget(self, users: Iterable[int], secret: bytes) -> None:
        """Put hashes in the place of people's keys, and of several people's that no row has now."""
        same = self.equal("i", self._keys, "t")
        there = f"EXISTS (FROM by_user.{quote(self._table)} AS t WHERE {same})"
        gone = f"coalesce({USER} IN ({', '.join(map(str, users)) or -1}), NOT {there})"
        rows = self._con.execute(
            f"SELECT {self._text()}, coalesce({USER}, {_SEVERAL}) FROM {self.sql} AS i WHERE {gone}"
        ).fetchall()
        if rows:
            self._con.execute(
                "INSERT INTO chain.forgotten SELECT ?, unnest(?::INTEGER[]), unnest(?::BLOB[])",
                [self.name, [u for _, u in rows], [hash_of(secret, text) for text, _ in rows]],
            )
            write_anew(self._con, "chain", self.name, f"NOT {gone}")

    def hidden(self, users: Iterable[int]) -> set[bytes]:
        """Return the hashes of some people's keys."""
        known = set(users)
        return {hash for hash, user in self._forgotten().items() if user in known}

    def _forgotten(self) -> dict[bytes, int]:
        rows = self._con.execute(
            f"SELECT hash, {USER} FROM chain.forgotten WHERE link = ?", [self.name]
        ).fetchall()
        return {bytes(hash): user for hash, user in rows}

    def _text(self) -> str:
        return text_of(self._places)

    def check(self) -> None:
        """Check that most keys are of one person each.

        Raises:
            DataError: They are not: rows with such a key are about several people.
        """
        ((nobody, keys),) = self._con.execute(
            f"SELECT count(*) FILTER ({USER} IS NULL), count(*) FROM {self.sql}"
        ).fetchall()
        if 2 * nobody > keys:
            raise DataError(
                f"a link to {self.name} is many-to-many: {nobody:,} of {keys:,} values are of "
                "several people (for the curator only)",
                "a row belongs to one person: link it to a column that says one row, or one person",
            )


@dataclass(frozen=True)
class KeyCounts:
    """Rows of a table that came, by whether their person was found: private.

    Attributes:
        rows: How many there were.
        nameless: They have no key.
        waiting: Nobody has their key yet.
        several: Several people have it.
    """

    rows: int
    nameless: int
    waiting: int
    several: int

    def messages(self, link: KeyLink) -> list[str]:
        """Return it in words: for the curator."""
        own = ", ".join(map(shown, link.columns))
        keys = f"{link.parent}.{', '.join(map(shown, link.keys))}"
        said = []
        if self.nameless:
            said.append(
                f"{self.nameless:,} of {self.rows:,} rows were left out: they have no {own}"
            )
        if self.several:
            said.append(
                f"{self.several:,} of {self.rows:,} rows were left out: their {own} leads to "
                f"several people, who have the same {keys}"
            )
        if self.waiting:
            said.append(
                f"{self.waiting:,} of {self.rows:,} rows wait: no row has come yet whose {keys} is "
                f"their {own}; until then nobody is charged for them"
            )
        return said


class LinkedRows:
    """The rows of one table that has a link; every write is the caller's transaction.

    Args:
        connection: The store's.
        table: With a link.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, table: Table) -> None:
        assert table.link is not None
        self._con, self._table, self._link = connection, table, table.link
        self._index = KeyIndex(connection, table.link.parent, table.link.keys)
        self.waiting = waiting_table(table)

    def create(self) -> None:
        """Make the table of rows that wait, empty."""
        types = self._table.in_files
        columns = ", ".join(f"{quote(c)} {types[c]}" for c in types)
        self._con.execute(f"CREATE TABLE {self.waiting} ({columns})")

    @property
    def whose(self) -> str:
        """SQL that joins people `u` to rows `s`."""
        on = self._index.equal("u", self._link.columns, "s")
        return f"JOIN {self._index.sql} AS u ON {on} AND u.{USER} IS NOT NULL"

    def find(self) -> KeyCounts:
        """Count how many of the staged rows lead to a person; let those wait that lead nowhere."""
        named = " AND ".join(f"s.{quote(c)} IS NOT NULL" for c in self._link.columns)
        on = self._index.equal("i", self._link.columns, "s")
        ((rows, nameless, waiting, several),) = self._con.execute(
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
        return KeyCounts(rows, nameless, waiting, several)

    def stage(self) -> KeyCounts | None:
        """Move the rows that waited, and whose key somebody has now, to `staged`; None: no row."""
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
        """Return how many rows wait."""
        ((rows,),) = self._con.execute(f"SELECT count(*) FROM {self.waiting}").fetchall()
        return int(rows)


def forget_linked(
    connection: duckdb.DuckDBPyConnection, catalog: Catalog, users: Sequence[int], secret: bytes
) -> dict[str, int]:
    """Erase people's keys, and the rows that wait for them; return how many rows, by table.

    They are rows whose key an erased person had, and those whose key no row has but some that are
    erased here.
    """
    roots = (table for table in catalog.private if table.link is None)
    linked = [table for root in roots for table in catalog.reached(root)[1:]]
    for name, keys in dict.fromkeys((t.link.parent, t.link.keys) for t in linked if t.link):
        KeyIndex(connection, name, keys).forget(users, secret)
    gone: dict[str, set[int]] = {}
    for table in linked:
        assert table.link is not None
        parent, keys, theirs = table.link.parent, table.link.keys, gone.get(table.link.parent)
        hashes = KeyIndex(connection, parent, keys).hidden(users)
        only = set[str]()
        if theirs:
            above = _waiting_keys(connection, parent, keys)
            only = {above[row] for row in theirs} - {t for r, t in above.items() if r not in theirs}
            only.discard("")
        gone[table.name] = {
            row
            for row, text in _waiting_keys(connection, table.name, table.link.columns).items()
            if text in only or hash_of(secret, text) in hashes
        }
    for name, rows in gone.items():  # those too whose rows have come in: DuckDB only marks them
        listed = ", ".join(map(str, rows)) or "-1"
        write_anew(connection, "waiting", name, f"i.rowid NOT IN ({listed})")
    return {name: len(rows) for name, rows in gone.items()}


def _waiting_keys(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Sequence[str]
) -> dict[int, str]:
    """Return the keys of rows that wait, by row id."""
    text = text_of([quote(c) for c in columns])
    sql = f"SELECT rowid, coalesce({text}, '') FROM waiting.{quote(table)}"
    return dict(connection.execute(sql).fetchall())
