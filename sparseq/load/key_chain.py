"""Key chains: tables whose rows say whom they are about by a key of another table's rows.

    customer.c_custkey  ←  orders.o_custkey  ←  lineitem.l_orderkey = orders.o_orderkey

`--user` names a column of the first table; a link leads from each of the others, in as many steps
as there are. All of this is public, and is decided before a row is read.

A link to the user column itself says that the key is the person: such a table has a user column of
another name, and needs nothing else. Every other link is followed once, when a row comes in: see
`sparseq.load._duckdb.linked_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparseq.base.errors import DataError, ParameterError, did_you_mean
from sparseq.base.texts import shown
from sparseq.load.memory_table import composite_name, parts_of
from sparseq.load.open_sources import keys_elsewhere
from sparseq.load.read_schema import fit_name
from sparseq.sql.catalog import INTEGER_TYPES, KeyLink

_KEYS = frozenset(["BIGINT", "UBIGINT", "VARCHAR", "UUID", "DATE", "TIMESTAMP"])
_ONE_PERSON = "a row has one person, found in one way"


def key_kind(type: str) -> str:
    """Return the type that keys of a column's type are compared in, "" if they can't be.

    >>> key_kind("INTEGER"), key_kind("VARCHAR"), key_kind("DOUBLE")
    ('BIGINT', 'VARCHAR', '')
    """
    kind = "BIGINT" if type in INTEGER_TYPES - {"UBIGINT", "HUGEINT"} else type
    return kind if kind in _KEYS else ""


@dataclass(frozen=True)
class KeyChains:
    """The column of each table that says whom its rows are about, or the link to where one does.

    Attributes:
        users: By table: the column, or several with commas; "": a link is followed.
        links: By table: what is followed.
        named: By table: a link to the user column, so that the table has one of its own.
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
        """Return the chains that are declared.

        Args:
            user: The column that says whom a row is about: of every table without a link, or as
                `TABLE.COL` of one.
            links: `TABLE.COL[,COL]` to another table's.
            tables: About people.
            public: The others.

        Raises:
            ParameterError: A link names no table, leads in a circle, or to two people.

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
                f"links are {links!r}", "from TABLE.COL to TABLE.COL: {'items.o': 'orders.o'}"
            )
        for child, parent in links.items():
            table, columns = _place(child, tables, public)
            other, keys = _place(parent, tables, public)
            link = KeyLink(columns, other, keys)
            if len(columns) != len(keys):
                raise ParameterError(
                    f"--link {link.said(table)} has {len(columns)} and {len(keys)} columns",
                    "a column of one table for each of the other",
                )
            if table in declared:
                both = f"{declared[table].said(table)} and {link.said(table)}"
                raise ParameterError(
                    f"{table} has two links, {both}: its rows would be about two people at once "
                    "(many-to-many)",
                    f"{_ONE_PERSON}: leave one of them out",
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
                    else f"nothing says whom a row of {table} is about",
                    _ONE_PERSON
                    if table == root
                    else f"--link {table}.COL={root}.COL, or --user COL if {table} has it too",
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

    def order(self) -> list[str]:
        """Return the tables, those that others lead to first."""
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
        """Return the table that a table's links lead to, which has a user column."""
        while not self.users[table]:
            table = self.links[table].parent
        return table

    def user_name(self, table: str, types: Iterable[str]) -> str:
        """Return what the column is called that a table's link makes: as where it leads to.

        Args:
            table: With a link.
            types: Its own columns. One that is called so stays; then the table stands before it.
        """
        first = self.first(table)
        name, own = composite_name(_columns(self.users[first])), list(types)
        taken = name.lower() in map(str.lower, own)
        return fit_name(f"{first}_{name}", own) if taken else name

    def ways(self) -> dict[tuple[str, ...], str]:
        """Return the columns, some together, that say or lead to whom a row is about; and how.

        >>> KeyChains.of("c", {"items.o": "orders.o_key"}, ["orders", "items"]).ways()
        {('c',): '', ('o',): 'orders.o_key', ('o_key',): 'orders.o_key'}
        """
        found = {_columns(user): "" for user in self.users.values() if user}
        for link in self.links.values():
            where = f"{link.parent}.{', '.join(link.keys)}"
            found = {link.columns: where, link.keys: where} | found
        return dict(sorted(found.items(), key=lambda way: bool(way[1])))

    def below(self, table: str, types: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
        """Return the keys by which other tables' rows find those of a table, as they are spelled.

        Raises:
            DataError: The table has no such column.
        """
        found = (link.keys for link in self.links.values() if link.parent == table)
        return tuple(dict.fromkeys(_spell(table, keys, types) for keys in found))

    def link_of(
        self, table: str, types: Mapping[str, str], parent: Mapping[str, str]
    ) -> KeyLink | None:
        """Return the link of a table, as its columns are spelled; None: it has a user column.

        Args:
            table: Of which.
            types: The types of its columns in files.
            parent: Those of the table that it leads to.

        Raises:
            DataError: There is no such column, or its values can't be compared.
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
                    "keys are whole numbers, texts, UUIDs, dates or times, of one kind on both "
                    f"sides: --type {shown(column)}={other or 'BIGINT'}",
                )
        return KeyLink(columns, link.parent, keys)


@dataclass(frozen=True)
class ForeignLinks:
    """The declarations of a database about one of its tables.

    Attributes:
        columns: Of the table, in lower case.
        links: `TABLE.COL` to another table's, of the tables that are read: its foreign keys.
    """

    columns: frozenset[str]
    links: Mapping[str, str]

    def leading(self, user: str, tables: Iterable[str]) -> dict[str, str]:
        """Return the links to some tables; none if the table has what says whom a row is about."""
        if self.columns.issuperset(map(str.lower, _columns(user))):
            return {}
        return {c: p for c, p in self.links.items() if any(_begins(p, t) for t in tables)}


def declared_links(
    sources: Mapping[str, Any], rename: Mapping[str, str]
) -> dict[str, ForeignLinks]:
    """Return what databases declare of the tables that are read from them.

    Args:
        sources: By table: a place or several, or rows in memory.
        rename: What columns are called here, by their names there.
    """
    names = {old.lower(): new for old, new in rename.items()}
    places = {
        tuple(str(place).split("#", 1)): table
        for table, source in sources.items()
        for place in (source if isinstance(source, list | tuple) else [source])
        if isinstance(place, str | Path) and "#" in str(place)
    }

    def listed(columns: Iterable[str]) -> str:
        return ",".join(names.get(column.lower(), column) for column in columns)

    found = {}
    for (database, there), table in places.items():
        columns, keys = keys_elsewhere(f"{database}#{there}")
        links = {
            f"{table}.{listed(key.columns)}": f"{places[database, key.parent]}.{listed(key.keys)}"
            for key in keys
            if places.get((database, key.parent), table) != table
        }
        found[table] = ForeignLinks(
            frozenset(names.get(c.lower(), c).lower() for c in columns), links
        )
    return found


def check_declared(
    chains: KeyChains,
    declared: Mapping[str, ForeignLinks],
    public: Iterable[str] = (),
    really_public: Iterable[str] = (),
) -> None:
    """Check tables of databases against their foreign keys.

    Raises:
        DataError: A table lacks the user column, and nobody said that a foreign key leads to it.
        ParameterError: A public table leads to people by one.
    """
    for table, said in declared.items():
        for child, parent in said.links.items() if table in public else ():
            if table not in really_public and not any(_begins(parent, t) for t in public):
                column = shown(child.partition(".")[2])
                raise ParameterError(
                    f"{table} is declared public, and its {column} leads to people: it refers to "
                    f"{parent}",
                    f"load it without --public and with --link {child}={parent}; --really-public "
                    f"{table} says that everybody may see every row",
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
            f"{table} has no column {shown(chains.users[table])!r}, which says whom a row is about",
            "its database has foreign keys; if they lead to the person, say " + " ".join(written),
        )


def _columns(user: str) -> tuple[str, ...]:
    return parts_of(user) or (user,)


def _begins(text: str, table: str) -> bool:
    return text.lower().startswith(f"{table.lower()}.")


def _place(text: str, tables: Iterable[str], public: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """Return the table and the columns of one side of a link.

    Raises:
        ParameterError: No table about people is called so.
    """
    table = max((t for t in tables if _begins(text, t)), key=len, default="")
    columns = tuple(c.strip() for c in text[len(table) + 1 :].split(","))
    if table and all(columns):
        return table, columns
    said = text.partition(".")[0]
    if any(_begins(text, t) for t in public):
        raise ParameterError(
            f"{shown(said)} is a public table: no row of it is about a person",
            f"leave the link {shown(text)} out; a public table is joined by any column",
        )
    raise ParameterError(
        f"--link {shown(text)}: no table about people is called {shown(said)!r}",
        did_you_mean(said, tables) or "--link CHILD.COL=PARENT.COL, with the tables' names",
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
                did_you_mean(name, types) or "--link CHILD.COL=PARENT.COL",
            )
    return tuple(actual[name.lower()] for name in names)
