"""Declared facts that earlier versions applied to several columns, by their bare names.

`create --bounds price=0..100` was also applied to the `price` of every other table. Now a public
table's own values are used, and facts in a catalogue about it are ignored (`Catalog.from_dict`).
Among several private tables the intended one is unknown, so the curator gets a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparseq.language.column_id import ColumnId

FACTS_OF_COLUMNS = "facts are of columns"
"""The key in a store's file for catalogues without facts by bare names."""
_FACTS = (("bounds", "bounds"), ("keys", "keys"), ("owned", "@own"))


@dataclass(frozen=True)
class SharedFact:
    """One kind of fact that was applied to several columns of one name.

    Attributes:
        kind: The kind of the fact, in words.
        private: The private columns with the fact, one or several, all with the same value.
        public: The public columns that had the fact.
    """

    kind: str
    private: tuple[ColumnId, ...]
    public: tuple[ColumnId, ...]

    def messages(self) -> list[str]:
        """Return a sentence for each change that was made or must be decided."""
        said = []
        for column in self.public:
            said.append(
                f"{self.kind} had been applied to {column} by its name; {column.table} is public, "
                "so its own values are used now (answers that were recorded stay as they are)"
            )
        if len(self.private) > 1:
            names = " and ".join(map(str, self.private))
            said.append(
                f"{names} have the same {self.kind}, which may have been declared for one of them; "
                "nothing was changed: if they are wrong, make the store again, and name the table "
                f"(--{'bounds' if self.kind == 'bounds' else 'keys'} {self.private[0]}=…)"
            )
        return said


def shared_facts(catalog: Mapping[str, Any]) -> list[SharedFact]:
    """Return the facts in a stored catalogue that several columns share by bare name.

    Args:
        catalog: The catalogue in a store's file: `Catalog.to_dict`.

    Example:
        >>> price = {"name": "price", "bounds": [0.0, 100.0], "keys": None}
        >>> tables = [{"name": "sales", "user": "who", "columns": [price]},
        ...     {"name": "prod", "user": "", "columns": [price]}]
        >>> [str(column) for column in shared_facts({"tables": tables})[0].public]
        ['prod.price']
    """
    found: dict[tuple[str, str, str], tuple[list[ColumnId], list[ColumnId]]] = {}
    for table in catalog["tables"]:
        for column in table["columns"]:
            for field, kind in _FACTS:
                if column.get(field):
                    same = (kind, column["name"].lower(), repr(column[field]))
                    private, public = found.setdefault(same, ([], []))
                    place = ColumnId(table["name"], column["name"])
                    (private if table["user"] else public).append(place)
    return [
        SharedFact(kind, tuple(private), tuple(public))
        for (kind, _, _), (private, public) in found.items()
        if public or len(private) > 1
    ]
