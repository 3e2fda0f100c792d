"""Identifiers of several columns: `--user shop,customer` makes the text `7,ann` of a row.

With a window, `--window month`, the first day of the window is one more part: `7,ann,2024-03-01`.

Each part has one spelling, that of its column's type, like an identifier of one column. A comma or
a backslash in a part gets a backslash before it, so that no two users have the same text. A row
that lacks a part has no user.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from sparseq.base._duckdb.connection import scratch
from sparseq.base.errors import DataError
from sparseq.base.texts import shown
from sparseq.load.convert import MOST_TEXT, expression, to_text
from sparseq.load.file_sources import one_array
from sparseq.load.read_schema import Schema
from sparseq.load.source import NO_TYPES, Source
from sparseq.load.tidy import duck_type, tidy, tidy_type
from sparseq.load.wrapped_source import WrappedSource


def parts_of(user: str) -> tuple[str, ...]:
    """Return the columns that identify users together, if there are several.

    >>> parts_of("shop,customer"), parts_of("customer")
    (('shop', 'customer'), ())
    """
    names = tuple(name.strip() for name in user.split(","))
    return names if len(names) > 1 else ()


def composite_name(parts: Sequence[str], window: str = "") -> str:
    """Return the name of the column that several columns make.

    >>> composite_name(["shop", "customer"]), composite_name(["customer"], "month")
    ('shop_customer', 'customer_month')
    """
    return "_".join([*parts, window] if window else parts)


class CompositeFile(WrappedSource):
    """A source with one more column: the identifier that several of its columns make.

    Args:
        inner: The source of the columns.
        schema: The schema with their types, formats and names.

    Raises:
        DataError: A column is missing.
    """

    def __init__(self, inner: Source, schema: Schema) -> None:
        super().__init__(inner)
        self._schema = schema
        self.name, self.separator, self.notes = inner.name, inner.separator, inner.notes
        self.open_ended, self.declared = inner.open_ended, inner.declared
        self.column = composite_name(schema.user, schema.window)
        named = {name.lower(): name for name in inner.types}
        wanted = [*schema.user, schema.time] if schema.window else schema.user
        self._parts = [named.get(part.lower(), part) for part in wanted]
        for part in self._parts:
            if part not in inner.types and not inner.open_ended:
                raise DataError(
                    f"{shown(inner.name)} has no column {shown(part)!r}",
                    f"{', '.join(map(shown, wanted))} together identify the account of a row",
                )

    @property
    def types(self) -> dict[str, pa.DataType | None]:
        """See `Source`."""
        return {**self._inner.types, self.column: pa.string()}

    @property
    def words(self) -> Collection[str]:
        """See `Source`."""
        return self._inner.words

    @property
    def not_null(self) -> Collection[str]:
        """See `Source`."""
        return self._inner.not_null

    def raw_types(self) -> dict[str, pa.DataType]:
        """See `Source`."""
        return self._inner.raw_types()

    def batches(
        self, columns: Sequence[str], types: Mapping[str, str] = NO_TYPES
    ) -> Iterator[list[pa.Array]]:
        """See `Source`."""
        inside = [c for c in dict.fromkeys([*columns, *self._parts]) if c != self.column]
        for arrays in self._inner.batches(inside, types):
            made = dict(zip(inside, arrays, strict=True))
            if self.column in columns:
                made[self.column] = self._identifiers([made[p] for p in self._parts])
            yield [made[c] for c in columns]

    def _identifiers(self, arrays: list[pa.Array]) -> pa.Array:
        raw = self._inner.raw_types()
        kept = {name.lower(): name for name in self._schema.types}
        columns, texts = {}, []
        for k, (part, array) in enumerate(zip(self._parts, arrays, strict=True)):
            kind = tidy_type(raw[part], binary=True) if part in raw else pa.string()
            if kind is None:
                return pa.nulls(len(array), pa.string())
            columns[f"c{k}"] = tidy(array)
            name = kept.get(part.lower(), part)
            target = self._schema.types.get(name, "VARCHAR")
            value = expression(f"c{k}", duck_type(kind), target, self._schema.formats.get(name, ""))
            text = value if target == "VARCHAR" else to_text(f"({value})", target)
            if k == len(self._schema.user):
                begun = f"date_trunc('{self._schema.window}', ({value})::TIMESTAMP)"
                text = f"strftime({begun}, '%Y-%m-%d')"
            # A text that is too long becomes NULL: two could begin with the same characters.
            escaped = f"replace(replace({text}, '\\', '\\\\'), ',', '\\,')"
            texts.append(f"CASE WHEN length({text}) BETWEEN 1 AND {MOST_TEXT} THEN {escaped} END")
        joined = " || ',' || ".join(texts)
        with scratch() as con:
            con.register("parts", pa.table(columns))
            found = con.sql(f"SELECT {joined} AS id FROM parts")
            return one_array(found.to_arrow_table().column(0)).cast(pa.string())
