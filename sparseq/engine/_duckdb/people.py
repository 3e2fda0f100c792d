"""Users with an account: identifiers, and the keyed hashes of erased ones.

    ledger.users        (user index, identifier or NULL if it was erased, budget)
    ledger.forgotten    (user index, keyed hash of the erased identifier)
    ledger.whose        (user index, person): if windows have accounts and a person's windows have a
                        joint cap, the first window of the same person

An account is permanent. Its charges are for releases that are public and cannot be revoked, so an
erased user who returns must get the unchanged account: a new account would let the stream charge
the same user two budgets. To recognise a returning user, the store keeps BLAKE2b of the identifier
under a key of 256 bits from the operating system's entropy. The key is in the store, so only a
holder of the store's file can check a guess at an identifier.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from sparseq.accounting import UNITS_PER_NORM, budget_units
from sparseq.base.arguments import check_text
from sparseq.base.errors import DataError
from sparseq.base.private import Private
from sparseq.base.sql_text import quote
from sparseq.engine.protocol import USER
from sparseq.ledger.accounts import Person
from sparseq.question.catalog import INTEGER_TYPES

_WHOSE = "windows of "
"""The prefix of a person with erased windows; no identifier of an account begins with it."""
_USER_ID_TYPES = INTEGER_TYPES | {"VARCHAR", "UUID"}


def kind_of(type: str) -> str:
    """Return the type in which identifiers of a column's type are stored.

    Integers of any width are one kind: the same number is the same user.

    Raises:
        DataError: The type cannot identify users.
    """
    kind = "BIGINT" if type in INTEGER_TYPES - {"UBIGINT", "HUGEINT"} else type
    if kind not in _USER_ID_TYPES:
        raise DataError(
            f"the user column is {type}", "user identifiers are integers, strings or UUIDs"
        )
    return kind


def hash_of(key: bytes, identifier: str) -> bytes:
    """Return the stored hash of an erased identifier: keyed BLAKE2b (RFC 7693), 256 bits."""
    return hashlib.blake2b(identifier.encode(), key=key, digest_size=32).digest()


def person_of(identifier: str) -> str:
    """Return the part of an identifier before its window.

    >>> person_of("7,ann,2024-03-01")
    '7,ann'
    """
    return identifier.rpartition(",")[0]


@dataclass(frozen=True)
class BudgetFaults:
    """Invalid budgets of new users: private.

    Attributes:
        odd: The number of new users with an invalid budget.
        several: The number of new users with several budgets.
    """

    odd: int = 0
    several: int = 0

    def messages(self) -> list[str]:
        """Return the messages."""
        lines = []
        if self.odd:
            lines.append(
                f"{self.odd:,} new people have a budget that is not a number from 0 to the store's"
                " norm_budget; it is ignored"
            )
        if self.several:
            lines.append(f"{self.several:,} new people have several budgets; the smallest counts")
        return lines


class People:
    """The accounts of one store by identifier; every write is in the caller's transaction.

    Args:
        connection: The store's connection.
        kind: The type of identifiers.
        key: The key of the hashes of erased identifiers; None until one is erased.
        whole: True if an identifier is a person and a window; then `ledger.whose` is kept.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        kind: str,
        key: bytes | None,
        whole: bool = False,
    ) -> None:
        self._con = connection
        self._kind = kind
        self._key = key
        self._whole = whole

    def create_tables(self) -> None:
        """Create the tables, empty."""
        self._con.execute(
            f"{self.users_table()}"
            f"CREATE TABLE ledger.forgotten ({USER} INTEGER NOT NULL, hash BLOB NOT NULL);"
        )
        if self._whole:
            self._con.execute(
                f"CREATE TABLE ledger.whose ({USER} INTEGER NOT NULL, person INTEGER NOT NULL)"
            )

    def users_table(self, name: str = "users") -> str:
        """Return SQL that creates the table of users, empty."""
        return (
            f"CREATE TABLE ledger.{name} ({USER} INTEGER NOT NULL, id {self._kind}, "
            "budget BIGINT NOT NULL);\n"
        )

    def find(self, identifier: str) -> Private[Person | None]:
        """Return the user with an identifier in DuckDB's spelling, or None.

        Raises:
            ParameterError: No text in a file can have this value.
        """
        check_text("the identifier", identifier)
        text = _spell(identifier) if self._kind == "UUID" else identifier
        rows = self._con.execute(
            f"SELECT {USER} FROM ledger.users WHERE CAST(id AS VARCHAR) = ?", [text]
        ).fetchall()
        if rows:
            return Private(Person(rows[0][0], erased=False))
        user = self._forgotten().get(hash_of(self._key, text)) if self._key else None
        return Private(None if user is None else Person(user, erased=True))

    def beginning_with(self, text: str) -> Private[list[str]]:
        """Return the identifiers that begin with a text; the identifiers must be texts."""
        rows = self._con.execute(
            "SELECT id FROM ledger.users WHERE starts_with(id, ?) ORDER BY 1", [text]
        ).fetchall()
        return Private([identifier for (identifier,) in rows])

    def _forgotten(self) -> dict[bytes, int]:
        rows = self._con.execute(f"SELECT hash, {USER} FROM ledger.forgotten").fetchall()
        return {bytes(hash): user for hash, user in rows}

    def forget(self, users: Iterable[int]) -> None:
        """Replace identifiers by keyed hashes.

        The table is rewritten, which also removes DuckDB's statistics about a column, such as its
        extremes.
        """
        assert self._key is not None
        users = list(users)
        named = self._con.execute(
            f"SELECT {USER}, CAST(id AS VARCHAR) FROM ledger.users "
            f"WHERE id IS NOT NULL AND {USER} IN (SELECT unnest(?))",
            [users],
        ).fetchall()
        for user, identifier in named:
            self._hide(user, identifier)
            if self._whole:
                self._hide(user, _WHOSE + person_of(identifier))
        self._con.execute(self.users_table("remaining"))
        self._con.execute(
            f"INSERT INTO ledger.remaining SELECT {USER}, "
            f"CASE WHEN {USER} NOT IN (SELECT unnest(?)) THEN id END, budget "
            f"FROM ledger.users ORDER BY {USER}",
            [users],
        )
        self._con.execute("DROP TABLE ledger.users")
        self._con.execute("ALTER TABLE ledger.remaining RENAME TO users")

    def _hide(self, user: int, identifier: str) -> None:
        assert self._key is not None
        self._con.execute(
            "INSERT INTO ledger.forgotten VALUES (?, ?)", [user, hash_of(self._key, identifier)]
        )

    def open_accounts(self, column: str, default_budget: int, budget_column: str) -> BudgetFaults:
        """Open accounts for the staged rows' users: new ones in the order of their identifiers.

        An erased user gets the old account back, unchanged. An existing account keeps its budget,
        whatever a row contains. Invalid budgets (NULL, negative, more than the store's) are
        ignored; the smallest of several counts; without a valid budget the store's applies. So each
        budget depends only on the rows of its user, and no budget can stop a load.

        Args:
            column: The column of identifiers.
            default_budget: The store's budget in ledger units; also the maximum for any user.
            budget_column: The column of the users' own budgets; "": no such column.
        """
        self._welcome_back(column)
        ((start,),) = self._con.execute("SELECT count(*) FROM ledger.users").fetchall()
        into = f"INSERT INTO ledger.users SELECT {start} + row_number() OVER (ORDER BY id) - 1, id"
        if not budget_column:
            self._con.execute(
                f"{into}, ? FROM (SELECT DISTINCT {quote(column)} AS id {_unknown(column)}) "
                "ORDER BY id",
                [default_budget],
            )
            self._tell_whose(start)
            return BudgetFaults(0, 0)
        own, beyond = quote(budget_column), (default_budget + 1) / UNITS_PER_NORM
        sensible = f"CASE WHEN {own} >= 0 AND {own} < {beyond!r} THEN {own} END"
        new = self._con.sql(
            f"SELECT {quote(column)} AS id, min({sensible}) + 0.0 AS budget, "
            f"count({own}) > count({sensible}) AS odd, count(DISTINCT {own}) > 1 AS several "
            f"{_unknown(column)} GROUP BY 1 ORDER BY 1"
        ).to_arrow_table()
        budgets = new["budget"].unique().drop_null().to_pylist()
        self._con.register("new_users", new)
        self._con.execute(
            f"{into}, coalesce(units, ?) FROM new_users LEFT JOIN (SELECT "
            "unnest(?::DOUBLE[]) AS budget, unnest(?::BIGINT[]) AS units) USING (budget) "
            "ORDER BY id",
            [default_budget, budgets, [budget_units(b) for b in budgets]],
        )
        self._con.unregister("new_users")
        self._tell_whose(start)
        return BudgetFaults(_trues(new["odd"]), _trues(new["several"]))

    def _tell_whose(self, start: int) -> None:
        """Record the persons of the windows from `start` on, as the index of their first window.

        An erased person is recognised by the hash.
        """
        if not self._whole:
            return
        person = "regexp_replace(id, ',[^,]*$', '')"
        known = (
            f"SELECT {person} AS name, min(person) AS person FROM ledger.users "
            f"JOIN ledger.whose USING ({USER}) WHERE id IS NOT NULL GROUP BY 1"
        )
        self._con.execute(
            f"INSERT INTO ledger.whose SELECT {USER}, "
            f"coalesce(k.person, min({USER}) OVER (PARTITION BY {person})) "
            f"FROM ledger.users LEFT JOIN ({known}) AS k ON k.name = {person} "
            f"WHERE {USER} >= ? ORDER BY {USER}",
            [start],
        )
        self._know_again(start)

    def _know_again(self, start: int) -> None:
        """Find the persons of new windows among erased persons."""
        forgotten = self._forgotten() if self._key else {}
        if not forgotten:
            return
        assert self._key is not None
        new = self._con.execute(
            f"SELECT {USER}, id FROM ledger.users WHERE {USER} >= ?", [start]
        ).fetchall()
        for user, identifier in new:
            window = forgotten.get(hash_of(self._key, _WHOSE + person_of(identifier)))
            if window is not None:
                self._con.execute(
                    "UPDATE ledger.whose SET person = "
                    f"(SELECT person FROM ledger.whose WHERE {USER} = ?) WHERE {USER} = ?",
                    [window, user],
                )

    def _welcome_back(self, column: str) -> None:
        """Return old accounts to staged users whose identifiers were erased."""
        forgotten = self._forgotten() if self._key else {}
        if not forgotten:
            return
        assert self._key is not None
        identifier = f"CAST(CAST({quote(column)} AS {self._kind}) AS VARCHAR)"
        names = self._con.execute(f"SELECT DISTINCT {identifier} {_unknown(column)}").fetchall()
        for (name,) in names:
            user = forgotten.get(hash_of(self._key, name))
            if user is not None:
                self._con.execute(
                    f"UPDATE ledger.users SET id = CAST(? AS {self._kind}) WHERE {USER} = ?",
                    [name, user],
                )
                self._con.execute(f"DELETE FROM ledger.forgotten WHERE {USER} = ?", [user])


def _trues(column: pa.ChunkedArray) -> int:
    return sum(int(chunk.true_count) for chunk in column.chunks)


def _unknown(column: str) -> str:
    """Return SQL for the staged rows of users without an account."""
    name = quote(column)
    return (
        f"FROM staged ANTI JOIN ledger.users AS u ON u.id = staged.{name} WHERE {name} IS NOT NULL"
    )


def _spell(identifier: str) -> str:
    """Return a UUID in DuckDB's spelling."""
    try:
        return str(uuid.UUID(identifier))
    except ValueError:
        return identifier
