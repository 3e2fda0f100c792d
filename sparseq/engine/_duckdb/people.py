"""People with an account: identifiers, and the keyed hashes of those that were erased.

    ledger.users        (user index, identifier or NULL if it was erased, budget)
    ledger.forgotten    (user index, keyed hash of the erased identifier)
    ledger.whose        (user index, person): where windows have accounts and all of a person's have
                        a cap, the first of the windows of the same person

An account is for good. What it has spent was charged for releases that are out and can't be taken
back, so whoever is erased and comes back must find it as it was: a fresh account would let the
stream charge the same person two budgets. What is kept to tell who comes back is BLAKE2b of the
identifier under a key of 256 bits from the operating system's entropy, which is in the store:
whoever has the store's file can still check a guess at an identifier, and nobody else can.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.accounting import UNITS_PER_NORM, budget_units
from sparseq.base.arguments import check_text
from sparseq.base.errors import DataError
from sparseq.engine.protocol import USER, first_line, quote
from sparseq.ledger.accounts import Person
from sparseq.sql.catalog import INTEGER_TYPES

if TYPE_CHECKING:
    from sparseq.engine.contributions import Index, Ints

# -- people with an account: identifiers, and the keyed hashes of those that were erased -----------

_WHOSE = "windows of "
"""Before a person whose windows are erased: it is no identifier of an account."""
_USER_ID_TYPES = INTEGER_TYPES | {"VARCHAR", "UUID"}


def kind_of(type: str) -> str:
    """Return the type that identifiers of a column's type are kept in.

    Integers of any width are one kind: the same number is the same person.

    Raises:
        DataError: The type is none that identifies people.
    """
    kind = "BIGINT" if type in INTEGER_TYPES - {"UBIGINT", "HUGEINT"} else type
    if kind not in _USER_ID_TYPES:
        raise DataError(
            f"the user column is {type}", "user identifiers are integers, strings or UUIDs"
        )
    return kind


def hash_of(key: bytes, identifier: str) -> bytes:
    """Return what is kept of an erased identifier: keyed BLAKE2b (RFC 7693), 256 bits."""
    return hashlib.blake2b(identifier.encode(), key=key, digest_size=32).digest()


def person_of(identifier: str) -> str:
    """Return the part of an identifier that is before its window.

    >>> person_of("7,ann,2024-03-01")
    '7,ann'
    """
    return identifier.rpartition(",")[0]


@dataclass(frozen=True)
class BudgetFaults:
    """Faults of new users' own budgets: private.

    Attributes:
        odd: New users who had a budget that makes no sense.
        several: New users who had several budgets.
    """

    odd: int = 0
    several: int = 0

    def messages(self) -> list[str]:
        """Return it in words."""
        lines = []
        if self.odd:
            lines.append(
                f"{self.odd:,} new people have a budget that is not a number from 0 to the store's "
                "norm_budget; it counts for nothing"
            )
        if self.several:
            lines.append(f"{self.several:,} new people have several budgets; the smallest counts")
        return lines


class People:
    """The accounts of one store by identifier; every write is the caller's transaction.

    Args:
        connection: The store's.
        kind: Type of identifiers.
        key: That erased identifiers are hashed under; None as long as none was.
        whole: An identifier is a person and a window, and whose each is, is kept.
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
        """Make the tables, empty."""
        self._con.execute(
            f"{self.users_table()}"
            f"CREATE TABLE ledger.forgotten ({USER} INTEGER NOT NULL, hash BLOB NOT NULL);"
        )
        if self._whole:
            self._con.execute(
                f"CREATE TABLE ledger.whose ({USER} INTEGER NOT NULL, person INTEGER NOT NULL)"
            )

    def users_table(self, name: str = "users") -> str:
        """Return SQL that makes the table of users, empty."""
        return (
            f"CREATE TABLE ledger.{name} ({USER} INTEGER NOT NULL, id {self._kind}, "
            "budget BIGINT NOT NULL);\n"
        )

    def find(self, identifier: str) -> Person | None:
        """Return whose identifier it is, in DuckDB's spelling of it; None if nobody's.

        Raises:
            ParameterError: No text of a file can be it.
        """
        check_text("the identifier", identifier)
        text = _spell(identifier) if self._kind == "UUID" else identifier
        rows = self._con.execute(
            f"SELECT {USER} FROM ledger.users WHERE CAST(id AS VARCHAR) = ?", [text]
        ).fetchall()
        if rows:
            return Person(rows[0][0], erased=False)
        user = self._forgotten().get(hash_of(self._key, text)) if self._key else None
        return None if user is None else Person(user, erased=True)

    def beginning_with(self, text: str) -> list[str]:
        """Return the identifiers that begin with a text; of a kind that is text."""
        rows = self._con.execute(
            "SELECT id FROM ledger.users WHERE starts_with(id, ?) ORDER BY 1", [text]
        ).fetchall()
        return [identifier for (identifier,) in rows]

    def _forgotten(self) -> dict[bytes, int]:
        rows = self._con.execute(f"SELECT hash, {USER} FROM ledger.forgotten").fetchall()
        return {bytes(hash): user for hash, user in rows}

    def forget(self, users: Iterable[int]) -> None:
        """Put keyed hashes in the place of identifiers.

        The table is written anew: what DuckDB keeps about a column, such as its extremes, goes too.
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

        Whoever was erased gets the old account back, as it was. An account that is there keeps its
        budget, whatever a row says. Own budgets that make no sense (none, negative, more than the
        store's) count for nothing; of several the smallest counts; where none is left it is the
        store's. So each budget is decided by the rows of its user, and none can stop a load.

        Args:
            column: With the identifiers.
            default_budget: In ledger units, also the most that anybody can have.
            budget_column: With the users' own budgets, "" if there is none.
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
        """Keep whose the windows from `start` on are: a person is called by a first window.

        Somebody who was erased is known by the hash, as the same person.
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
        """Find whose new windows are, of those people who were erased."""
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
        """Give staged users whose identifiers were erased their accounts back."""
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
    """Return a UUID as DuckDB spells it."""
    try:
        return str(uuid.UUID(identifier))
    except ValueError:
        return identifier


# -- contributions that were made elsewhere, for the people of a DuckDB file -----------------------

_COLUMNS = ("user", "coordinate", "value")


def triplets(
    connection: duckdb.DuckDBPyConnection, table: pa.Table, size: int
) -> tuple[Index, Index, NDArray[Any]]:
    """Return users, coordinates and values of a table of contributions.

    Raises:
        DataError: A column is missing or does not fit, a user has no account, or a coordinate is
            not below `size`.
    """
    missing = [name for name in _COLUMNS if name not in table.column_names]
    if missing:
        raise DataError(
            f"the contributions have no column {missing[0]!r}", "columns: user, coordinate, value"
        )
    connection.register("handed", table)
    try:
        found = connection.sql(
            f"SELECT coalesce(u.{USER}, -1) AS u, coalesce(h.coordinate::BIGINT, -1) AS k, "
            "h.value::DOUBLE AS v "
            "FROM handed AS h LEFT JOIN ledger.users AS u ON u.id = h.user"
        ).to_arrow_table()
    except duckdb.Error as error:
        raise DataError(f"the contributions don't fit: {first_line(error)}") from None
    finally:
        connection.unregister("handed")
    users, coordinates = found["u"].to_numpy(), found["k"].to_numpy()
    if len(users) and users.min() < 0:
        raise DataError("some contributions are by users who have no account", "ingest them first")
    if len(users) and (coordinates.min() < 0 or coordinates.max() >= size):
        raise DataError(f"a coordinate is outside 0..{size - 1}")
    values = found["v"].fill_null(0.0).to_numpy()
    return users.astype(np.int32), coordinates.astype(np.int32), values


def numbers_of(connection: duckdb.DuckDBPyConnection, identifiers: pa.Array) -> Ints:
    """Return the numbers of people by identifier, -1 for whom there is no account.

    Raises:
        DataError: The identifiers are not of the kind that people have here.
    """
    connection.register("handed", pa.table({"user": identifiers}))
    try:
        answer = connection.sql(
            f"SELECT coalesce(u.{USER}, -1)::BIGINT AS u FROM (SELECT user, row_number() OVER () "
            "AS place FROM handed) AS h LEFT JOIN ledger.users AS u ON u.id = h.user ORDER BY place"
        ).to_arrow_table()
    except duckdb.Error as error:
        raise DataError(f"the identifiers don't fit: {first_line(error)}") from None
    finally:
        connection.unregister("handed")
    numbers: Ints = answer["u"].to_numpy()
    return numbers
