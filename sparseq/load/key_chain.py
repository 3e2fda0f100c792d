"""Key chains: tables that find the user of each row by a key of another table's rows.

    customer.c_custkey  ←  orders.o_custkey  ←  lineitem.l_orderkey = orders.o_orderkey

`--user` names a column of the first table; each other table leads to it by links, in any number of
steps. These decisions are public, and precede any reading of rows.

A link to the user column itself says that the key is the user: such a table has a user column of
another name, and needs nothing else. Every other link is followed once, when a row is loaded: see
`sparseq.load._duckdb.linked_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparseq.base.errors import DataError, ParameterError, did_you_mean
from sparseq.base.texts import shown
from sparseq.load.composite_identifier import composite_name, parts_of
from sparseq.load.open_sources import keys_elsewhere
from sparseq.load.read_schema import Declarations, fit_name
from sparseq.question.catalog import INTEGER_TYPES, KeyLink

_KEYS = frozenset(["BIGINT", "UBIGINT", "VARCHAR", "UUID", "DATE", "TIMESTAMP"])
_ONE_PERSON = "a row belongs to one person, who is found in one way"


def key_kind(type: str) -> str:
    """Return the type in which keys of a column's type are compared; "" if they can't be compared.

    >>> key_kind("INTEGER"), key_kind("VARCHAR"), key_kind("DOUBLE")
    ('BIGINT', 'VARCHAR', '')
    """
    kind = "BIGINT" if type in INTEGER_TYPES - {"UBIGINT", "HUGEINT"} else type
    return kind if kind in _KEYS else ""


@dataclass(frozen=True)
class KeyChains:
    """For each table: the column of its users, or the link to a table that has one.

    Attributes:
        users: By table: the column, or several with commas; "": the table has a link.
        links: By table: the link to follow.
        named: By table: a link to the user column, so that the table has its own.
    """

    users: Mapping[str, str]
    links: Mapping[str, KeyLink]
    named: Mapping[str, KeyLink]

    @classmethod
    def of(
        cls,
        user: str,
        links: Mapping[str, str],
        tables: Iterable[str],
        public: Iterable[str] = (),
    ) -> KeyChains:
        """Return the declared chains.

        Args:
            user: The column of the user's identifier: in every table without a link, or in one
                table as `TABLE.COL`.
            links: From `TABLE.COL[,COL]` to another table's.
            tables: The tables about people.
            public: The other tables.

        Raises:
            ParameterError: A link names no table, leads in a circle, or leads to two people.

        >>> chains = KeyChains.of("c_key", {"orders.o_cust": "customer.c_key",
        ...     "items.i_order": "orders.o_key"}, ["items", "customer", "orders"])
        >>> chains.users, chains.order()
        ({'items': '', 'customer': 'c_key', 'orders': 'o_cust'}, ['customer', 'orders', 'items'])
        """
        tables, public = list(tables), list(public)
        declared: dict[str, KeyLink] = {}
        pairs = links.items() if isinstance(links, Mapping) else [(None, None)]
        if not all(isinstance(place, str) for pair in pairs for place in pair):
            raise ParameterError(
                f"links are {links!r}", "write from TABLE.COL to TABLE.COL: {'items.o': 'orders.o'}"
            )
        for child, parent in links.items():
            table, columns = _place(child, tables, public)
            other, keys = _place(parent, tables, public)
            link = KeyLink(columns, other, keys)
            if len(columns) != len(keys):
                raise ParameterError(
                    f"--link {link.said(table)} has {len(columns)} and {len(keys)} columns",
                    "name one column of one table for each column of the other",
                )
            if table in declared:
                both = f"{declared[table].said(table)} and {link.said(table)}"
                raise ParameterError(
                    f"{table} has two links, {both}: its rows would be about two people at once "
                    "(many-to-many)",
                    f"{_ONE_PERSON}: remove one of them",
                )
            declared[table] = link
        root, column = ("", user)
        if declared and any(_begins(user, t) for t in tables):
            root, columns = _place(user, tables, public)
            column = ",".join(columns)
        _check_circles(declared)
        for table in tables if root else ():
            if (table == root) == (table in declared):
                raise ParameterError(
                    f"{root} has both the user column and a link"
                    if table == root
                    else f"no option says whom a row of {table} is about",
                    _ONE_PERSON
                    if table == root
                    else f"use --link {table}.COL={root}.COL, or --user COL if {table} has it, too",
                )
        users = {t: "" if t in declared else column for t in tables}
        made = cls(users, declared, {})
        named: dict[str, KeyLink] = {}
        for table in (t for t in made.order() if t in declared):
            link = declared[table]
            user = users[link.parent].lower()
            if user and [key.lower() for key in link.keys] == list(_columns(user)):
                users[table], named[table] = ",".join(link.columns), link
        return cls(users, {t: k for t, k in declared.items() if t not in named}, named)

    def user_columns(self) -> list[str]:
        """Return the columns that identify users, each once."""
        found = (column for user in self.users.values() if user for column in _columns(user))
        return list(dict.fromkeys(found))

    def order(self) -> list[str]:
        """Return the tables, each after the table that its link leads to."""
        found: list[str] = []

        def add(table: str) -> None:
            link = self.links.get(table) or self.named.get(table)
            if link is not None:
                add(link.parent)
            if table not in found:
                found.append(table)

        for table in self.users:
            add(table)
        return found

    def first(self, table: str) -> str:
        """Return the table at the end of a table's links, which has a user column."""
        while not self.users[table]:
            table = self.links[table].parent
        return table

    def user_name(self, table: str, types: Iterable[str]) -> str:
        """Return the name of the column that a table's link makes: that of the linked table.

        Args:
            table: A table with a link.
            types: The table's own columns. If one has the name already, the table's name is put
                before it.
        """
        first = self.first(table)
        name, own = composite_name(_columns(self.users[first])), list(types)
        taken = name.lower() in map(str.lower, own)
        return fit_name(f"{first}_{name}", own) if taken else name

    def ways(self) -> dict[tuple[str, ...], str]:
        """Return the columns, or groups of columns, that identify or lead to a user, with the link.

        >>> KeyChains.of("c", {"items.o": "orders.o_key"}, ["orders", "items"]).ways()
        {('c',): '', ('o',): 'orders.o_key', ('o_key',): 'orders.o_key'}
        """
        found = {_columns(user): "" for user in self.users.values() if user}
        for link in self.links.values():
            where = f"{link.parent}.{', '.join(link.keys)}"
            found = {link.columns: where, link.keys: where} | found
        return dict(sorted(found.items(), key=lambda way: bool(way[1])))

    def below(self, table: str, types: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
        """Return the keys by which other tables' rows find rows of a table, in the table's
        spelling.

        Raises:
            DataError: The table has no such column.
        """
        found = (link.keys for link in self.links.values() if link.parent == table)
        return tuple(dict.fromkeys(_spell(table, keys, types) for keys in found))

    def link_of(
        self, table: str, types: Mapping[str, str], parent: Mapping[str, str]
    ) -> KeyLink | None:
        """Return the link of a table in the columns' spelling; None: it has a user column.

        Args:
            table: The table.
            types: The types of its columns in files.
            parent: The types of the linked table's columns.

        Raises:
            DataError: A column does not exist, or its values can't be compared.
        """
        link = self.links.get(table)
        if link is None:
            return None
        columns, keys = (
            _spell(table, link.columns, types),
            _spell(link.parent, link.keys, parent),
        )
        for column, key in zip(columns, keys, strict=True):
            own, other = key_kind(types[column]), key_kind(parent[key])
            if not own or own != other:
                raise DataError(
                    f"{table}.{shown(column)} is {types[column]}, and {link.parent}.{shown(key)} "
                    f"{parent[key]}: they can't be compared",
                    "use whole numbers, texts, UUIDs, dates or times as keys, of the same kind "
                    f"on both sides: --type {shown(column)}={other or 'BIGINT'}",
                )
        return KeyLink(columns, link.parent, keys)


@dataclass(frozen=True)
class ForeignLinks:
    """The foreign keys of one table in a database.

    Attributes:
        columns: The columns of the table, in lower case.
        links: From `TABLE.COL` to another table's: the foreign keys to tables of the store.
    """

    columns: frozenset[str]
    links: Mapping[str, str]

    def leading(self, user: str, tables: Iterable[str]) -> dict[str, str]:
        """Return the links to some tables; none if the table identifies the user itself."""
        if self.columns.issuperset(map(str.lower, _columns(user))):
            return {}
        return {c: p for c, p in self.links.items() if any(_begins(p, t) for t in tables)}


def declared_links(sources: Mapping[str, Any], read_as: Declarations) -> dict[str, ForeignLinks]:
    """Return the foreign keys of the tables from databases.

    Args:
        sources: By table: one or several places, or rows in memory.
        read_as: The declarations, which rename columns.
    """
    places = {
        tuple(str(place).split("#", 1)): table
        for table, source in sources.items()
        for place in (source if isinstance(source, list | tuple) else [source])
        if isinstance(place, str | Path) and "#" in str(place)
    }

    def called(table: str, columns: Iterable[str]) -> list[str]:
        names = {old.lower(): new for old, new in read_as.of(table).rename.items()}
        return [names.get(column.lower(), column) for column in columns]

    def listed(table: str, columns: Iterable[str]) -> str:
        return f"{table}.{','.join(called(table, columns))}"

    found = {}
    for (database, there), table in places.items():
        columns, keys = keys_elsewhere(f"{database}#{there}")
        links = {
            listed(table, key.columns): listed(places[database, key.parent], key.keys)
            for key in keys
            if places.get((database, key.parent), table) != table
        }
        own = frozenset(map(str.lower, called(table, columns)))
        found[table] = ForeignLinks(own, links)
    return found


def check_declared(
    chains: KeyChains,
    declared: Mapping[str, ForeignLinks],
    public: Iterable[str] = (),
    really_public: Iterable[str] = (),
) -> None:
    """Check tables of databases against their foreign keys.

    Raises:
        DataError: A table lacks the user column, and no link was declared for a foreign key.
        ParameterError: A public table leads to people by one.
    """
    for table, said in declared.items():
        for child, parent in said.links.items() if table in public else ():
            if table not in really_public and not any(_begins(parent, t) for t in public):
                column = shown(child.partition(".")[2])
                raise ParameterError(
                    f"{table} is declared public, but its {column} leads to people: it refers to "
                    f"{parent}",
                    f"load it without --public and with --link {child}={parent}; --really-public "
                    f"{table} allows everybody to see every row",
                )
    lacking = {
        table: links
        for table, said in declared.items()
        if chains.users.get(table) and (links := said.leading(chains.users[table], chains.users))
    }
    for table in lacking:
        written = [
            " or ".join(f"--link {child}={parent}" for child, parent in links.items())
            for links in lacking.values()
        ]
        raise DataError(
            f"{table} has no column {shown(chains.users[table])!r}, which identifies the user of "
            "a row",
            "its database has foreign keys; if they lead to the person, use " + " ".join(written),
        )


def _columns(user: str) -> tuple[str, ...]:
    return parts_of(user) or (user,)


def _begins(text: str, table: str) -> bool:
    return text.lower().startswith(f"{table.lower()}.")


def _place(text: str, tables: Iterable[str], public: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """Return the table and the columns of one side of a link.

    Raises:
        ParameterError: No table about people has this name.
    """
    table = max((t for t in tables if _begins(text, t)), key=len, default="")
    columns = tuple(c.strip() for c in text[len(table) + 1 :].split(","))
    if table and all(columns):
        return table, columns
    said = text.partition(".")[0]
    if any(_begins(text, t) for t in public):
        raise ParameterError(
            f"{shown(said)} is a public table: no row of it is about a person",
            f"remove the link {shown(text)}; a public table is joined by any column",
        )
    raise ParameterError(
        f"--link {shown(text)}: no table about people has the name {shown(said)!r}",
        did_you_mean(said, tables) or "write --link CHILD.COL=PARENT.COL, with the tables' names",
    )


def _check_circles(links: Mapping[str, KeyLink]) -> None:
    for table in links:
        way, at = [table], links[table].parent
        while at in links and at not in way:
            way.append(at)
            at = links[at].parent
        if at in way:
            raise ParameterError(
                f"links lead in a circle: {' → '.join([*way[way.index(at) :], at])}",
                "the last table of a chain has the user column, and no link",
            )


def _spell(table: str, names: Iterable[str], types: Mapping[str, str]) -> tuple[str, ...]:
    actual = {name.lower(): name for name in types}
    for name in names:
        if name.lower() not in actual:
            raise DataError(
                f"{table} has no column {shown(name)!r}; it has {', '.join(map(shown, types))}",
                did_you_mean(name, types) or "write --link CHILD.COL=PARENT.COL",
            )
    return tuple(actual[name.lower()] for name in names)
