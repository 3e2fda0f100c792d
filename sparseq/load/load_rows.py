"""Rows of files, or of tables in memory, on their way into a store: each is read by itself.

What is done to a row is decided by the table's schema and by the row (`schema`, `convert`). A value
that does not fit its column is NULL; a row that does not say whom it is about is left out, and one
that has NULL where its column is NOT NULL. So neighbouring files, one of which lacks somebody's
rows, have the same other rows.
Only a file's frame can be wrong (`sources`): then nothing of it is taken in, and everybody sees it.

How much did not fit is private, and for the curator: see `intake`.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from itertools import chain
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparseq.base.errors import DataError, ParameterError, did_you_mean
from sparseq.base.texts import shown
from sparseq.engine._duckdb.connection import scratch
from sparseq.engine.protocol import quote
from sparseq.language.types import LISTS, MOST_LISTED
from sparseq.load.convert import MOST_TEXT, expression
from sparseq.load.fast_parse import ARROW, TextColumn
from sparseq.load.file_sources import (
    DAMAGE,
    FIRST,
    RenamedSource,
    Source,
    TextForm,
    damage_error,
)
from sparseq.load.memory_table import (
    CompositeFile,
    HeldRows,
    LackingRows,
    composite_name,
    decode,
    parts_of,
)
from sparseq.load.open_sources import SourceList, open_sources
from sparseq.load.read_schema import NAME, Declarations, Schema, fit_name
from sparseq.load.text_lines import Letters, ahead
from sparseq.load.tidy import (
    ColumnRead,
    Guess,
    TextHints,
    as_word,
    check_dates,
    duck_type,
    guess,
    kept_otherwise,
    long_lists,
    long_texts,
    order_of,
    said_of,
    stored_type,
    tidy,
    tidy_type,
    tidy_words,
    wider,
)
from sparseq.sql.catalog import INTEGER_TYPES

# -- a report of rows that did not fit, for the curator --------------------------------------------


@dataclass
class Intake:
    """Counts of rows that did not fit: private.

    Attributes:
        rows: That came.
        no_user: Rows that don't say whom they are about, and were left out.
        null: By column that is NOT NULL: rows that have no value there, and were left out.
        early: Rows of an earlier day than is taken, or of none, that were left out.
        lines: Lines of text that were left out: too long, or with too many values.
        unreadable: Lines or rows with bytes that are no text: such a value is NULL.
        no_value: By column: values that did not fit, and are NULL.
        cut: By column: texts that were cut.
        lists: By column: lists that were cut.
        bounded: What was cut to the bounds of its column, in words.
        columns: By column: why nothing of it could be read.
        notes: What was not looked at: other files in a folder, other sheets.
    """

    rows: int = 0
    no_user: int = 0
    null: dict[str, int] = field(default_factory=dict)
    early: int = 0
    lines: int = 0
    unreadable: int = 0
    no_value: dict[str, int] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    lists: dict[str, int] = field(default_factory=dict)
    bounded: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def messages(self) -> list[str]:
        """Return it in words, a line each; nothing if every row was read as it is."""
        said = list(self.notes)
        if self.lines:
            said.append(f"{self.lines:,} lines were left out: too long, or with too many values")
        if self.unreadable:
            said.append(
                f"{self.unreadable:,} lines or rows have bytes that are not UTF-8, or NUL: such "
                "values are NULL (in JSON, the characters are replaced); a store made with "
                "--csv encoding=latin-1 reads Latin-1"
            )
        if self.no_user:
            said.append(f"{self.no_user:,} of {self.rows:,} rows were left out: they name no user")
        for name, count in self.null.items():
            said.append(
                f"{count:,} of {self.rows:,} rows were left out: {shown(name)} is NOT NULL, and "
                "they have no value there"
            )
        if self.early:
            said.append(f"{self.early:,} of {self.rows:,} rows were left out: they are too early")
        for name, why in self.columns.items():
            said.append(f"{shown(name)} is empty: {why}")
        for name, count in self.no_value.items():
            became = "their rows were left out" if name in self.null else "and are NULL"
            said.append(f"{shown(name)}: {count:,} values did not fit, {became}")
        for name, count in self.cut.items():
            said.append(f"{shown(name)}: {count:,} texts were cut to {MOST_TEXT:,} characters")
        cut = {name: count for name, count in self.lists.items() if count}
        for name, count in cut.items():
            said.append(f"{shown(name)}: {count:,} lists were cut to {MOST_LISTED:,} values")
        return said + self.bounded


# -- rows of files, or of tables in memory, on their way into a store: each is read by itself ------


def _opened_first(
    source: Any, wanted: Sequence[str], declared: Declarations
) -> tuple[SourceList, Declarations]:
    """Return the sources of a new table, and declarations with what its text is written in."""
    form = TextForm("", declared.multiline, declared.nulls, declared.encoding, declared.skip, True)
    found = open_sources(source, wanted, form)
    if declared.encoding is not None:
        return found, declared
    letters = [one for source in found.sources if (one := getattr(source, "letters", None))]
    encoding = sum(letters, Letters()).encoding
    if any(one.encoding != encoding for one in letters):
        again = open_sources(source, wanted, replace(form, encoding=encoding, first=False))
        found = replace(again, notes=found.notes)
    return found, replace(declared, encoding=encoding)


def _names(
    sources: Sequence[Source], declared: Declarations
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return what columns of files are called, by their names there, and which are not stored.

    A name that a column can't have is made one that it can. Columns of two tables may get one name.

    Raises:
        DataError: A column of that name is there already.
        ParameterError: Two get one name.
    """
    there = list(dict.fromkeys(name for one in sources for name in one.types))
    lower = {name.lower() for name in there}
    dropped = tuple(name.lower() for name in declared.drop if name.lower() in lower)
    said = {old.lower(): new for old, new in declared.rename.items()}
    names = {name: said[name.lower()] for name in there if name.lower() in said}
    if len({new.lower() for new in names.values()}) < len(names):
        raise ParameterError("two columns are called alike", "give each a name of its own")
    taken = [n for n in there if n not in names and n.lower() not in dropped]
    for old, new in names.items():
        if new.lower() in {n.lower() for n in taken}:
            raise DataError(
                f"there is a column {new!r} already, and {old!r} would be called so",
                "--rename both",
            )
    for name in there:
        if name in taken and not NAME.fullmatch(name):
            names[name] = fit_name(name, [*taken, *names.values()])
    return names, dropped


COMMA_FREE = (";", "\t", "|")
"""Separators of values that may have a decimal comma."""
LOOKED_AT = 16
"""The types of text columns are guessed from so many files of a table, or nearly."""


class IncomingRows:
    """Rows from files or from memory.

    Args:
        source: What `open_sources` takes: places of files, or a table in memory.
        schema: How they are read. None: a table is being made, and `declared` and the first rows
            say how.
        declared: What the curator says about that.
        user: The column of identifiers, where types are guessed.
        bounds: Of columns, to which numbers are cut; None: those that are declared.
        since: A column of dates or times, and the first day that rows are taken of; None: of all.

    Raises:
        DataError: A file is missing, of no known kind, or without header or schema.
        ParameterError: A declared type is none.
    """

    def __init__(
        self,
        source: Any,
        schema: Schema | None = None,
        declared: Declarations | None = None,
        user: str = "",
        bounds: Mapping[str, tuple[float, float]] | None = None,
        since: tuple[str, dt.date] | None = None,
    ) -> None:
        declared = declared or Declarations()
        if not user:  # a public table: its rows have no window of anybody
            declared = replace(declared, window="", time="")
        self._declared = declared
        self._since, self._known, self._asked = since, schema is not None, user
        parts = parts_of(user) or ((user,) if declared.window else ())
        if schema:
            wanted = [schema.in_files(name) for name in schema.types]
            form = TextForm(
                schema.separator, schema.multiline, schema.nulls, schema.encoding, schema.skip
            )
            found = open_sources(source, wanted, form)
            names, dropped = schema.names, schema.dropped
        else:
            there = {new.lower(): old for old, new in declared.rename.items()}
            wanted = [there.get(n.lower(), n) for n in parts or ([user] if user else [])]
            found, declared = _opened_first(source, wanted, declared)
            names, dropped = _names(found.sources, declared)
        self._names, self._dropped = names, dropped
        self.sources: list[Source] = list(found.sources)
        if names or dropped:
            self.sources = [RenamedSource(one, names, dropped) for one in found.sources]
        more = [
            n
            for a, b in zip(self.sources, found.sources, strict=True)
            for n in a.notes[len(b.notes) :]
        ]
        self.files = found.files
        """The file of each source; None for one that is no file."""
        self.told = Intake(notes=[*found.notes, *more])
        self._left_out: dict[str, str] = {}
        self._guesses: dict[str, Guess] = {}
        self._failure: DataError | None = None
        self._kept: dict[str, str] = {}
        self.schema = schema or self._guess(declared, user)
        if schema is None:
            self.told.notes += self.facts()
        if self.schema.user:
            self.sources = [CompositeFile(s, self.schema) for s in self.sources]
        self._bounds = declared.numbers() if bounds is None else bounds
        self.user = composite_name(self.schema.user, self.schema.window) or user
        """The column that says whom a row is about, where a table is being made."""

    def facts(self) -> list[str]:
        """Return what is read otherwise than a file has it, or not at all, in words: public."""
        said = [fact for column in self.columns() if (fact := column.fact())]
        if self.schema.encoding and self._declared.encoding is None:
            said.append(f"text files as {self.schema.encoding}: a guess; --csv encoding=… says it")
        return said

    def columns(self) -> list[ColumnRead]:
        """Return how each column of the files is read, where a table is being made: public."""
        schema, declared, found = self.schema, self._declared, list[ColumnRead]()
        renamed = {old.lower() for old in declared.rename}
        typed = {name.lower() for name in declared.given_types()}
        for name, kind in schema.types.items():
            there, format = schema.in_files(name), schema.formats.get(name, "")
            said, own = [], []
            if schema.user and name == composite_name(schema.user, schema.window):
                there, own = " ".join(schema.user), ["says whom a row is about"]
            elif there != name:
                by_us = f"{shown(there)!r} can't be a name"
                said.append("renamed" if there.lower() in renamed else f"renamed: {by_us}")
            if name.lower() in typed:
                own.append(f"read as {format}, as --type says" if format else "as --type says")
            else:
                guessed = self._guesses.get(name, Guess(""))
                said += said_of(name, format, guessed, declared.order(name))
            said += filter(None, [self._kept.get(name)])
            if name in schema.not_null and name.lower() != self._asked.lower():
                own.append("NOT NULL")
            found.append(ColumnRead(there, name, kind, tuple(said), tuple(own)))
        found += [
            ColumnRead(
                next(n for n in declared.drop if n.lower() == old), said=("left out, as declared",)
            )
            for old in schema.dropped
        ]
        found += [ColumnRead(n, said=(f"not stored: {why}",)) for n, why in self._left_out.items()]
        return found

    def _unknown(self, types: Iterable[str]) -> list[str]:
        """Say which columns of files are not read: the table does not have them."""
        known = {name.lower() for name in (*types, *self.schema.types, *self.schema.user)}
        try:
            there = [name for source in _spread(self.sources) for name in source.types]
        except DAMAGE:  # whoever reads it says so
            return []
        more = dict.fromkeys(n for n in there if n.lower() not in known)
        return [f"columns that the table does not have: {', '.join(map(shown, more))}"] * bool(more)

    def usable(self) -> dict[str, str]:
        """Return the columns that a store can hold, with the type that it gives them."""
        return dict(self.schema.types)

    def check_people(self, table: str, time: str = "", linked: bool = False) -> None:
        """Check that a new table has the column that says whom a row is about, and that of time.

        Args:
            table: Its name.
            time: The column that says when.
            linked: A link says whom a row is about.

        Raises:
            DataError: It has not.
        """
        there = {name.lower() for name in self.schema.types}
        if not linked and self.user.lower() not in there:
            raise DataError(
                f"{table} has no column {shown(self._asked)!r}; it has "
                f"{', '.join(map(shown, self.schema.types)) or 'none'}",
                "--user names the column that says whom a row is about, or --link a key that leads "
                "there; --csv skip=2 passes over lines before the header"
                if there or not any(source.open_ended for source in self.sources)
                else "in JSON, write an object a line, or a list of objects",
            )
        if time and time.lower() == self.user.lower():
            raise ParameterError(
                f"{shown(time)} can't say both whom a row is about and when",
                "--user and --time are two columns",
            )
        if time and time.lower() not in there:
            raise DataError(
                f"{table} has no column {shown(time)!r}; it has "
                f"{', '.join(map(shown, self.schema.types))}",
                did_you_mean(time, self.schema.types) or "--time names a column of dates or times",
            )

    def check_public(self, table: str, ways: Mapping[tuple[str, ...], str]) -> None:
        """Check that a new public table has no column that says, or leads to, whom a row is about.

        Args:
            table: Its name.
            ways: Columns, some together, and the key that they lead by (`KeyChains.ways`).

        Raises:
            ParameterError: It has: its rows would be shown to everybody as they are.
        """
        actual = {name.lower(): name for name in self.schema.types}
        for columns, key in ways.items():
            named = [actual.get(column.lower()) for column in columns]
            if not all(named):
                continue
            whom = ", ".join(shown(name) for name in named if name)
            how = f"leads by {shown(key)} to whom" if key else "says whom"
            raise ParameterError(
                f"{table} is declared public, and has {whom}, which {how} a row is about",
                "each row of it would be shown without noise, and tell of that person: load it "
                f"without --public, or leave {whom} out of its file; --really-public {table} says "
                "that everybody may see every row",
            )

    def has(self, column: str) -> bool:
        """Tell whether any file has a column: by its frame."""
        return any(_found(s, column) is not None or s.open_ended for s in self.sources)

    def read(
        self,
        connection: duckdb.DuckDBPyConnection,
        types: Mapping[str, str],
        user: str = "",
        most: int = 0,
        keys: Collection[str] = (),
    ) -> HeldRows | None:
        """Read all rows, as columns of some types, into memory or into the table `staged`.

        Args:
            connection: The store's.
            types: Column to its type.
            user: The column that says whom a row is about.
            most: Bytes that may be held. What needs more goes to `staged`, which is temporary, and
                so do rows that DuckDB has to convert. 0: all rows do.
            keys: Columns by which rows find whose they are: as the user column, whole or NULL.

        Returns:
            The rows; None: they are in `staged`.

        Raises:
            DataError: A file has no such column, or can't be read to its end.
        """
        for source in self.sources:
            for name in types:
                if _found(source, name) is None and not source.open_ended:
                    raise DataError(  # what the file has instead may be a row
                        f"{shown(source.name)} has no column {shown(name)!r}",
                        f"every file of the table has a header, and {', '.join(map(shown, types))}",
                    )
        if self._known:
            self.told.notes += self._unknown(types)
        given, whole = dict.fromkeys(types, 0), {user, *keys}
        streams = [self._stream(source, types, whole, given) for source in self.sources]
        clamp = Clamp(self._bounds, {n: t for n, t in types.items() if n not in whole})
        lacking = LackingRows(self.schema.not_null, types, user)
        if most and self._since is None and all(stream.is_direct for stream in streams):
            held = HeldRows(dict(zip(types, streams[0].schema.types, strict=True)), user)
            fits = _fit(streams, held, most, clamp, lacking)
            self._check_whole()
            if fits:
                valid = [held.valid(name) for name in types]
                self._count(held.rows, given, valid, lacking, user, clamp)
                return held
            streams = [_again(held, streams[0]), *streams]
        for k, stream in enumerate(streams):
            self._stage(connection, stream, first=k == 0)
        clamp.cut_staged(connection)
        lacking.cut_staged(connection)
        counts = ", ".join(f"count({quote(name)})" for name in types)
        ((rows, *valid),) = connection.execute(f"SELECT count(*), {counts} FROM staged").fetchall()
        self._count(rows, given, valid, lacking, user, clamp)
        self._leave_out_early(connection)
        return None

    def _leave_out_early(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Take out of `staged` each row of an earlier day, or of none, than is taken."""
        if self._since is not None:
            name, day = self._since
            taken = f"coalesce({quote(name)} >= DATE '{day.isoformat()}', false)"
            ((self.told.early,),) = connection.execute(
                f"DELETE FROM staged WHERE NOT {taken}"
            ).fetchall()

    def _count(
        self,
        rows: int,
        given: Mapping[str, int],
        kept: list[int],
        lacking: LackingRows,
        user: str,
        clamp: Clamp,
    ) -> None:
        """Count what did not fit: each column had so many values given, of which some are kept."""
        self.told.rows = rows = rows + lacking.rows
        self.told.null = {name: count for name, count in lacking.null.items() if count}
        valid = [n + more for n, more in zip(kept, lacking.valid.values(), strict=True)]
        self.told.lines = sum(s.left_out for s in self.sources)
        self.told.unreadable = sum(s.unreadable for s in self.sources)
        for name, count in zip(given, valid, strict=True):
            if given[name] > count:
                self.told.no_value[name] = given[name] - count
            if name == user:
                self.told.no_user = rows - count
        self.told.bounded = clamp.messages(dict(zip(given, valid, strict=True)))

    def _stream(
        self,
        source: Source,
        types: Mapping[str, str],
        whole: Collection[str],
        given: dict[str, int],
    ) -> _Stream:
        names = {name: _found(source, name) or name for name in types}
        kinds = {name: _tidy_of(source, actual) for name, actual in names.items()}
        readers = {
            name: TextColumn(target, self.schema.formats.get(name, ""))
            for name, target in types.items()
            if _is_text(kinds[name]) and target in ARROW
        }
        fields = {
            name: ARROW[types[name]] if name in readers else kind or pa.string()
            for name, kind in kinds.items()
        }
        for name, kind in kinds.items():
            if kind is None:
                self.told.columns[name] = f"nothing of its type can be read as {types[name]}"
        made = [
            expression(f"c{k}", duck_type(kind), types[name], self.schema.formats.get(name, ""))
            for k, (name, kind) in enumerate(fields.items())
        ]

        def tidied(array: pa.Array, name: str) -> pa.Array:
            if types[name] in LISTS:
                self.told.lists[name] = self.told.lists.get(name, 0) + long_lists(decode(array))
            array = self._tidy(array, name, kinds[name], name in whole, given)
            return readers[name].values(decode(array)) if name in readers else array

        becoming = {names[name]: target for name, target in types.items()}

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                for arrays in ahead(source.batches(list(names.values()), becoming)):
                    yield pa.RecordBatch.from_arrays(
                        [tidied(array, name) for name, array in zip(names, arrays, strict=True)],
                        names=list(names),
                    )
            except DAMAGE as error:  # not raised within DuckDB, which would say something else
                self._failure = damage_error(source.name, error)

        return _Stream(
            pa.schema([(f"c{k}", kind) for k, kind in enumerate(fields.values())]),
            ", ".join(f"{sql} AS {quote(name)}" for name, sql in zip(names, made, strict=True)),
            all(sql == f"c{k}" for k, sql in enumerate(made))
            and not any(isinstance(k, pa.BaseExtensionType) for k in fields.values()),
            batches(),
        )

    def _stage(self, connection: duckdb.DuckDBPyConnection, stream: _Stream, first: bool) -> None:
        """Write the rows of a stream into `staged`."""
        batches = (
            pa.RecordBatch.from_arrays([decode(a) for a in b.columns], schema=stream.schema)
            for b in stream.batches
        )
        into = "CREATE OR REPLACE TEMP TABLE staged AS" if first else "INSERT INTO staged"
        connection.register("incoming", pa.RecordBatchReader.from_batches(stream.schema, batches))
        try:
            connection.execute(f"{into} SELECT {stream.select} FROM incoming")
        finally:
            connection.unregister("incoming")
        self._check_whole()

    def _check_whole(self) -> None:
        """Raise what was wrong with a file that could not be read to its end."""
        if self._failure is not None:
            raise self._failure

    def _tidy(
        self,
        array: pa.Array,
        name: str,
        kind: pa.DataType | None,
        whole: bool,
        given: dict[str, int],
    ) -> pa.Array:
        """Return an array as it goes into DuckDB, and count what it has."""
        given[name] += len(array) - array.null_count
        if kind is None:
            return pa.nulls(len(array), pa.string())
        if pa.types.is_dictionary(array.type) and _is_text(kind) and not whole:
            words = tidy_words(array, MOST_TEXT)
            if words is not None:
                return words
        array = tidy(array)
        if _is_text(kind):
            long = long_texts(array, MOST_TEXT)
            if long is not None and whole:  # two people could begin alike
                array = pc.if_else(long, pa.scalar(None, kind), array)
            elif long is not None:
                count = pc.sum(long).as_py() or 0
                if count:
                    self.told.cut[name] = self.told.cut.get(name, 0) + count
                array = pc.if_else(long, pc.utf8_slice_codeunits(array, 0, MOST_TEXT), array)
            if whole:  # a name that is empty is none
                empty = pc.equal(pc.binary_length(array), 0)
                array = pc.if_else(empty, pa.scalar(None, kind), array)
        return array

    # -- when a table is made ----------------------------------------------------------------------

    def _guess(self, declared: Declarations, user: str) -> Schema:
        """Return a schema: what is declared, and for the other columns what the first rows say."""
        said = declared.parsed()
        parts = parts_of(user) or ((user,) if declared.window else ())
        types: dict[str, str] = {}
        formats: dict[str, str] = {}
        actual: dict[str, str] = {}
        if declared.only:  # a file that lacks one of them does not fit
            actual = {name.lower(): name for name in declared.types}
            types = {name: said[name.lower()][0] for name in declared.types}
            formats = {n: said[n.lower()][1] for n in types if said[n.lower()][1]}
            there = sorted({n for s in self.sources for n in s.types if n.lower() not in actual})
            self._left_out = dict.fromkeys(there, "not in the schema")
        texts: dict[str, list[tuple[Source, str]]] = {}
        for source in _spread(self.sources):
            for name, found in self._types_in(source, said, declared.only).items():
                name_of = actual.setdefault(name.lower(), name)
                if found is None:
                    self._left_out[name] = f"{_raw_type(source, name)} is no type of a column"
                elif not found.type:
                    types.setdefault(name_of, "")
                    texts.setdefault(name_of, []).append((source, name))
                else:
                    known = types.get(name_of)
                    types[name_of] = wider(known, found.type) if known else found.type
                    if known in (None, found.type) and found.format:
                        formats[name_of] = found.format
        numbers = {name.lower() for name in declared.numbers()}
        self._guesses = _by_texts(texts, user, declared)
        check_dates(self._guesses, declared)
        for name, guessed in self._guesses.items():
            known = types[name]
            if guessed.type == "VARCHAR" and name.lower() in numbers:
                guessed = self._guesses[name] = Guess("DOUBLE")  # its bounds say so
            types[name] = wider(known, guessed.type) if known else guessed.type
            if not known and guessed.format:
                formats[name] = guessed.format
        for name in types:
            if declared.has_own_order(name) and not order_of(formats.get(name, "")):
                raise DataError(
                    f"{shown(name)} has no dates in text whose day or month comes first",
                    f"leave --dates {as_word(f'{name}={declared.order(name)}')} out",
                )
        separator = next((s.separator for s in self.sources if s.separator), "")
        if parts:
            types[composite_name(parts, declared.window)] = "VARCHAR"
        time = declared.time if declared.window else ""
        return Schema(
            types,
            formats,
            separator,
            declared.multiline,
            parts,
            declared.window,
            time,
            declared.nulls,
            declared.encoding or "",
            self._names,
            tuple(self._dropped),
            declared.skip,
            self._without_null(types, declared),
            self._moments(types, declared),
        )

    def _moments(self, types: Mapping[str, str], declared: Declarations) -> frozenset[str]:
        """Return the columns of moments: as declared, or by the schema of every source."""
        zoned, typed = declared.zoned(), {name.lower() for name in declared.given_types()}
        for name in {name for name, kind in types.items() if kind == "TIMESTAMP"}:
            raw = [
                kind
                for source in self.sources
                for other, kind in source.raw_types().items()
                if other.lower() == name.lower()
            ]
            moments = [pa.types.is_timestamp(kind) and kind.tz is not None for kind in raw]
            if moments and all(moments) and name.lower() not in typed:
                zoned |= {name.lower()}
        return frozenset(name for name in types if name.lower() in zoned)

    def _without_null(self, types: Iterable[str], declared: Declarations) -> frozenset[str]:
        """Return the columns that are NOT NULL: as declared, or in every source by its schema."""
        said = declared.not_null()
        sources = [{name.lower() for name in source.not_null} for source in self.sources]
        said |= set[str].intersection(*sources) if sources else set()
        if declared.window:  # who has none of these has no account
            said |= {
                self._asked.lower(),
                *map(str.lower, parts_of(self._asked)),
                declared.time.lower(),
            }
        return frozenset(name for name in types if name.lower() in said)

    def _types_in(
        self, source: Source, said: Mapping[str, tuple[str, str]], only: bool
    ) -> dict[str, Guess | None]:
        """Return what a source's columns are by what is said of them; without a type: a text."""
        raw, names = source.raw_types(), dict[str, str]()
        found: dict[str, Guess | None] = {}
        for name in source.types:
            first = names.setdefault(name.lower(), name)
            if first != name:
                self._left_out[name] = f"there is {shown(first)}"
        for lower, name in names.items():
            kind = source.types[name]
            if lower in said:
                found[name] = Guess(*said[lower])
            elif only:
                continue
            elif kind is None and source.open_ended:
                raise _nesting_error(source, name)
            elif kind is None:
                found[name] = None
            elif name in raw:
                stored = stored_type(kind, raw[name])
                found[name] = Guess(stored)
                if how := kept_otherwise(raw[name], stored):
                    self._kept[name] = how
            else:
                found[name] = Guess(source.declared.get(name, ""))
        return found

    def is_empty(self, number: int) -> bool:
        """Tell whether a source has no rows."""
        source = self.sources[number]
        columns = [next(iter(source.types), "")]
        return not any(len(arrays[0]) for arrays in source.batches(columns))

    def close(self) -> None:
        """Let go of the files."""
        self.sources = []


def _spread(sources: Sequence[Source]) -> Sequence[Source]:
    """Return the sources that are looked at: all of a few, some of many."""
    return sources[:: -(-len(sources) // LOOKED_AT)]


def _by_texts(
    columns: Mapping[str, list[tuple[Source, str]]], user: str, declared: Declarations
) -> dict[str, Guess]:
    """Return what columns are taken for, by the first texts of each source that has them."""
    first: dict[str, list[pa.Array]] = {name: [] for name in columns}
    words = set()
    sources = {id(source): source for places in columns.values() for source, _ in places}
    for source in sources.values():
        names = {
            name: there
            for name, places in columns.items()
            for other, there in places
            if other is source
        }
        for name, array in zip(names, _first_texts(source, list(names.values())), strict=True):
            first[name].append(array.cast(pa.string()))
            if names[name] in source.words:
                words.add(name)
    with scratch() as con:
        return {
            name: guess(
                con,
                pa.concat_arrays(arrays),
                TextHints(
                    name.lower() == user.lower(),
                    name in words,
                    all(source.separator in COMMA_FREE for source, _ in columns[name]),
                    declared.dates.get("", ""),
                    declared.order(name) if declared.has_own_order(name) else "",
                ),
            )
            for name, arrays in first.items()
        }


def _first_texts(source: Source, names: list[str]) -> list[pa.Array]:
    try:
        for arrays in source.batches(names):
            if len(arrays[0]):
                return [array.slice(0, FIRST) for array in arrays]
    except DAMAGE as error:
        raise damage_error(source.name, error) from None
    return [pa.nulls(0, pa.string()) for _ in names]


@dataclass
class _Stream:
    """The rows of one source.

    Attributes:
        schema: Of the columns, tidy.
        select: SQL that makes them columns of the types that are stored.
        is_direct: They are of these types already.
        batches: The rows, as far as they have not been taken yet; texts may have a dictionary.
    """

    schema: pa.Schema
    select: str
    is_direct: bool
    batches: Iterator[pa.RecordBatch]


def _fit(
    streams: list[_Stream], held: HeldRows, most: int, clamp: Clamp, lacking: LackingRows
) -> bool:
    """Hold what streams yield; return whether it was all, within `most` bytes."""
    for stream in streams:
        for batch in stream.batches:
            held.add(lacking.batch(clamp.batch(batch)))
            if held.nbytes > most:
                return False
    return True


def _again(held: HeldRows, stream: _Stream) -> _Stream:
    """Return rows that were held, in columns such as a stream has."""
    names = stream.schema.names
    first, *rest = (pa.RecordBatch.from_arrays(arrays, names) for arrays in held.batches())
    return _Stream(first.schema, stream.select, True, chain([first], rest))


def _is_text(kind: pa.DataType | None) -> bool:
    return kind is not None and (pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _raw_type(source: Source, name: str) -> str:
    raw = source.raw_types()
    return shown(raw[name]) if name in raw else "JSON"


def _found(source: Source, name: str) -> str | None:
    """Return what a source calls a column: in these letters, or else in any case."""
    if source.open_ended or name in source.types:
        return name
    return next((n for n in source.types if n.lower() == name.lower()), None)


def _nesting_error(source: Source, name: str) -> DataError:
    """Return that a source of objects has a list, or objects too deep, in a column."""
    file, word = shown(source.name), shown(name)
    if all(kind is None for kind in source.types.values()):
        made = f"SELECT unnest({word}, recursive := true) FROM '{file}'"
        hint = f"if they are the rows, take them out with DuckDB: COPY ({made}) TO 'rows.json'"
    else:
        items = f"LEFT JOIN LATERAL (SELECT unnest({word}) AS item) ON true"
        each = f"SELECT * FROM '{file}' {items}"
        hint = (
            f"--drop {as_word(name)} leaves it out; for a row of each item make one first, with "
            f"DuckDB: COPY ({each}) TO 'rows.json'"
        )
    return DataError(
        f"{file}: {word} has lists of objects or lists, or objects within more than 4 others", hint
    )


def _tidy_of(source: Source, name: str) -> pa.DataType | None:
    raw = source.raw_types()
    return tidy_type(raw[name], binary=True) if name in raw else pa.string()


# -- numbers are cut to the bounds that were declared of their column, each by itself --------------

Number = int | float | Decimal
_NUMBERS = re.compile("U?(TINY|SMALL|BIG|HUGE)?INT|FLOAT|DOUBLE|DECIMAL")
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
_DIGITS = 400  # more than a double has before its point and a DECIMAL behind it


def ends(type: str, bounds: tuple[float, float]) -> tuple[Number, Number] | None:
    """Return the least and the greatest value of a type within bounds; None if it has no numbers.

    Where none lies within, the least is above the greatest.

    >>> ends("BIGINT", (0.5, 7.5)), ends("DECIMAL(9,1)", (0, 0.25)), ends("VARCHAR", (0, 1))
    ((1, 7), (Decimal('0.0'), Decimal('0.2')), None)
    """
    low, high = bounds
    found: tuple[Number, Number]
    if not _NUMBERS.match(type):
        return None
    if type in INTEGER_TYPES:
        bits = _BITS[type.removeprefix("U")]
        least, most = (
            (0, 2**bits - 1) if type[0] == "U" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        )
        found = max(math.ceil(low), least), min(math.floor(high), most)
    elif type.startswith("DECIMAL"):
        width, scale = map(int, type[8:-1].split(","))
        with localcontext(prec=_DIGITS):
            unit = Decimal(1).scaleb(-scale)
            largest = (Decimal(10) ** width - 1) * unit
            found = (
                max(Decimal(low).quantize(unit, ROUND_CEILING) + 0, -largest),  # 0, never -0
                min(Decimal(high).quantize(unit, ROUND_FLOOR) + 0, largest),
            )
    elif type == "FLOAT":
        up, down = np.float32(np.inf), np.float32(-np.inf)
        first, last = np.float32(low), np.float32(high)
        found = (
            float(first if float(first) >= low else np.nextafter(first, up)),
            float(last if float(last) <= high else np.nextafter(last, down)),
        )
    else:
        found = float(low), float(high)
    return found


class Clamp:
    """Cuts rows on their way in, and counts what was outside.

    Args:
        bounds: Column to its bounds, in any case.
        types: Column to the type in which it is stored.

    Attributes:
        outside: Column to how many of its values were cut.

    Raises:
        ParameterError: No value of a column's type lies within its bounds.
    """

    def __init__(self, bounds: Mapping[str, tuple[float, float]], types: Mapping[str, str]) -> None:
        said = {name.lower(): both for name, both in bounds.items()}
        self._ends = {
            name: both
            for name, type in types.items()
            if name.lower() in said and (both := ends(type, said[name.lower()])) is not None
        }
        self._types, self._bounds = types, {name: said[name.lower()] for name in self._ends}
        self.outside = dict.fromkeys(self._ends, 0)
        for name, (least, most) in self._ends.items():
            if least > most:
                low, high = self._bounds[name]
                raise ParameterError(
                    f"bounds of {name} are {low:g}..{high:g}; no {types[name]} lies within"
                )

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with every number cut."""
        if not self._ends:
            return batch
        arrays = [
            self._cut(name, array) if name in self._ends else array
            for name, array in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)

    def _cut(self, name: str, array: pa.Array) -> pa.Array:
        for end, beyond in zip(self._ends[name], (pc.less, pc.greater), strict=True):
            exact = Decimal(end) if pa.types.is_decimal(array.type) else end
            limit = pa.scalar(exact, array.type)
            out = beyond(array, limit)
            if out.true_count:
                self.outside[name] += out.true_count
                array = pc.if_else(out, limit, array)
        return array

    def cut_staged(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Cut what lies in the table `staged`."""
        for name, both in self._ends.items():
            column = quote(name)
            for end, beyond in zip(both, "<>", strict=True):
                limit = f"CAST('{end}' AS {self._types[name]})"
                ((count,),) = connection.execute(
                    f"UPDATE staged SET {column} = {limit} "
                    f"WHERE {column} {beyond} {limit} AND NOT isnan(CAST({column} AS DOUBLE))"
                ).fetchall()
                self.outside[name] += int(count)

    def messages(self, values: Mapping[str, int]) -> list[str]:
        """Return in words what was cut, of so many values of each column."""
        said = []
        for name, count in self.outside.items():
            low, high = self._bounds[name]
            if count:
                share = f"{count:,} of {values[name]:,} values ({100 * count / values[name]:.2g} %)"
                said.append(
                    f"{shown(name)}: {share} were outside of the bounds {low:g} to {high:g}, "
                    "and are cut to them"
                )
        return said
