"""Rows of files, or of tables in memory, on their way into a store; each is independent.

The table's schema and the row alone decide its reading (`read_schema`, `convert`). A value
that does not fit its column is NULL. A row without a user is left out, and so is a row with NULL in
a NOT NULL column. So neighbouring files, one without a user's rows, have the same other rows. Only
a file's frame can be wrong (`file_sources`): then nothing of the file is loaded, and the error is
public.

The numbers of values that did not fit are private, for the curator: see `Intake`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from sparseq.base._duckdb.connection import scratch
from sparseq.base.errors import DataError, ParameterError, did_you_mean
from sparseq.base.sql_text import quote
from sparseq.base.texts import shown
from sparseq.language.types import LISTS
from sparseq.load.clamp import Clamp
from sparseq.load.column_report import ColumnRead, as_word, check_dates, said_of
from sparseq.load.composite_identifier import CompositeFile, composite_name, parts_of
from sparseq.load.convert import MOST_TEXT, expression
from sparseq.load.fast_parse import ARROW, TextColumn
from sparseq.load.file_sources import DAMAGE, FIRST, RenamedSource, TextForm, damage_error
from sparseq.load.held_rows import HeldRows, decode
from sparseq.load.intake import Intake
from sparseq.load.lacking_rows import LackingRows
from sparseq.load.open_sources import SourceList, open_sources
from sparseq.load.read_ahead import ahead
from sparseq.load.read_schema import NAME, Declarations, Schema, fit_name
from sparseq.load.reading_progress import tell_rows
from sparseq.load.source import Source
from sparseq.load.text_streams import Letters
from sparseq.load.tidy import (
    duck_type,
    kept_otherwise,
    long_lists,
    long_texts,
    stored_type,
    tidy,
    tidy_type,
    tidy_words,
)
from sparseq.load.type_guesses import Guess, TextHints, guess, order_of, wider
from sparseq.question.catalog import INTEGER_TYPES


def _opened_first(
    source: Any, wanted: Sequence[str], declared: Declarations
) -> tuple[SourceList, Declarations]:
    """Return the sources of a new table, and declarations with the encoding of its text."""
    form = TextForm(
        "",
        declared.multiline,
        declared.nulls,
        declared.encoding,
        declared.skip,
        declared.escape,
        True,
        tuple(wanted),
        True,
    )
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
    """Return the new names of columns by their names in files, and the columns that are not stored.

    A name that a column can't have is changed to a valid one. Two columns may then have one name.

    Raises:
        DataError: A column with that name exists already.
        ParameterError: Two columns get one name.
    """
    there = list(dict.fromkeys(name for one in sources for name in one.types))
    lower = {name.lower() for name in there}
    dropped = tuple(name.lower() for name in declared.drop if name.lower() in lower)
    said = {old.lower(): new for old, new in declared.rename.items()}
    names = {name: said[name.lower()] for name in there if name.lower() in said}
    if len({new.lower() for new in names.values()}) < len(names):
        raise ParameterError("two columns get the same name", "give each its own name")
    taken = [n for n in there if n not in names and n.lower() not in dropped]
    for old, new in names.items():
        if new.lower() in {n.lower() for n in taken}:
            raise DataError(
                f"there is already a column {new!r}; {old!r} can't get the same name",
                "--rename both",
            )
    for name in there:
        if name in taken and not NAME.fullmatch(name):
            names[name] = fit_name(name, [*taken, *names.values()])
    return names, dropped


_WHOLE = INTEGER_TYPES | {"BOOLEAN", "VARCHAR", "FLOAT", "DOUBLE", "UUID"}
"""Types that contain every value of a source's column of that type."""
COMMA_FREE = (";", "\t", "|")
"""Separators that allow values with a decimal comma."""
LOOKED_AT = 16
"""The approximate number of files of a table from which the types of text columns are guessed."""


class IncomingRows:
    """Rows from files or from memory.

    Args:
        source: The argument of `open_sources`: places of files, or a table in memory.
        schema: The schema of the table. None: a table is being created, and `declared` and the
            first rows decide.
        declared: The curator's declarations.
        user: The column of identifiers, if types are guessed.
        bounds: Bounds of columns, to which numbers are cut; None: those that are declared.
        since: A column of dates or times, and the first day to load; None: all rows.
        refuse_lost: Refuse a file all of whose lines are left out: its format is wrong. That
            depends on rows, so it is for the curator alone, and not for a folder's files.

    Raises:
        DataError: A file is missing, of an unknown kind, or without header or schema.
        ParameterError: A declared type is invalid.
    """

    def __init__(
        self,
        source: Any,
        schema: Schema | None = None,
        declared: Declarations | None = None,
        user: str = "",
        bounds: Mapping[str, tuple[float, float]] | None = None,
        since: tuple[str, dt.date] | None = None,
        refuse_lost: bool = True,
    ) -> None:
        self._refuse_lost = refuse_lost
        declared = declared or Declarations()
        if not user:  # a public table: its rows belong to no user's window
            declared = replace(declared, window="", time="")
        self._declared = declared
        self._since, self._known, self._asked = since, schema is not None, user
        parts = parts_of(user) or ((user,) if declared.window else ())
        whom = parts or ((user,) if user else ())
        if schema:
            wanted = [schema.in_files(name) for name in schema.types]
            form = TextForm(
                schema.separator,
                schema.multiline,
                schema.nulls,
                schema.encoding,
                schema.skip,
                schema.escape,
                people=tuple(map(schema.in_files, whom)),
            )
            found = open_sources(source, wanted, form)
            names, dropped = schema.names, schema.dropped
        else:
            there = {new.lower(): old for old, new in declared.rename.items()}
            wanted = [there.get(n.lower(), n) for n in whom]
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
        """The file of each source; None for a source that is no file."""
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
        """The column that identifies users, if a table is being created."""

    def facts(self) -> list[str]:
        """Return messages about columns that are changed or not read: public."""
        said = [fact for column in self.columns() if (fact := column.fact())]
        if self.schema.encoding and self._declared.encoding is None:
            said.append(f"text files as {self.schema.encoding}: a guess; --csv encoding=… sets it")
        return said

    def columns(self) -> list[ColumnRead]:
        """Return the reading of each column of the files, if a table is being created: public."""
        schema, declared, found = self.schema, self._declared, list[ColumnRead]()
        renamed = {old.lower() for old in declared.rename}
        typed = {name.lower() for name in declared.given_types()}
        for name, kind in schema.types.items():
            there, format = schema.in_files(name), schema.formats.get(name, "")
            said, own = [], []
            if schema.user and name == composite_name(schema.user, schema.window):
                there, own = " ".join(schema.user), ["identifies the user of a row"]
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
        """Report columns of files that are not read, because the table does not have them."""
        known = {name.lower() for name in (*types, *self.schema.types, *self.schema.user)}
        try:
            there = [name for source in _spread(self.sources) for name in source.types]
        except DAMAGE:  # the next read reports it
            return []
        more = dict.fromkeys(n for n in there if n.lower() not in known)
        return [f"columns that the table does not have: {', '.join(map(shown, more))}"] * bool(more)

    def usable(self) -> dict[str, str]:
        """Return the columns that a store can hold, with their stored types."""
        return dict(self.schema.types)

    def check_people(self, table: str, time: str = "", linked: bool = False) -> None:
        """Check that a new table has the column that identifies users, and that of time.

        Args:
            table: The name of the table.
            time: The column of the time.
            linked: True if a link identifies users.

        Raises:
            DataError: A column is missing.
        """
        there = {name.lower() for name in self.schema.types}
        if not linked and self.user.lower() not in there:
            raise DataError(
                f"{table} has no column {shown(self._asked)!r}; it has "
                f"{', '.join(map(shown, self.schema.types)) or 'none'}",
                "--user names the column that identifies the user of a row, or --link a key that "
                "leads there; --csv skip=N passes over N lines before the header"
                if there or not any(source.open_ended for source in self.sources)
                else "in JSON, write one object per line, or a list of objects",
            )
        if time and time.lower() == self.user.lower():
            raise ParameterError(
                f"{shown(time)} can't be both the user and the time of a row",
                "--user and --time name two columns",
            )
        if time and time.lower() not in there:
            raise DataError(
                f"{table} has no column {shown(time)!r}; it has "
                f"{', '.join(map(shown, self.schema.types))}",
                did_you_mean(time, self.schema.types) or "--time names a column of dates or times",
            )

    def check_public(self, table: str, ways: Mapping[tuple[str, ...], str]) -> None:
        """Check that a new public table has no column that identifies a user, or leads to one.

        Args:
            table: The name of the table.
            ways: Columns, or groups of columns, with the key that they lead by (`KeyChains.ways`).

        Raises:
            ParameterError: The table has one: everybody would see its rows without noise.
        """
        actual = {name.lower(): name for name in self.schema.types}
        for columns, key in ways.items():
            named = [actual.get(column.lower()) for column in columns]
            if not all(named):
                continue
            whom = ", ".join(shown(name) for name in named if name)
            how = f"leads by {shown(key)} to the user whom" if key else "says whom"
            raise ParameterError(
                f"{table} is declared public, and has {whom}, which {how} a row is about",
                "each row would be shown without noise, and reveal data of that user: load it "
                f"without --public, or remove {whom} from its file; --really-public {table} "
                "allows everybody to see every row",
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
        """Read all rows, as columns of given types, into memory or into the table `staged`.

        Args:
            connection: The store's.
            types: The type of each column.
            user: The column of users' identifiers.
            most: The maximum number of bytes in memory. Larger inputs go to the temporary table
                `staged`, and so do rows that DuckDB has to convert. 0: all rows do.
            keys: Columns by which rows find their user: like the user column, whole or NULL.

        Returns:
            Return the rows; None: they are in `staged`.

        Raises:
            DataError: A file lacks a column, or can't be read to its end.
        """
        for source in self.sources:
            for name in types:
                if _found(source, name) is None and not source.open_ended:
                    raise DataError(  # the line that the file has instead may be a row
                        f"{shown(source.name)} has no column {shown(name)!r}",
                        "every file of the table needs a header, and "
                        f"{', '.join(map(shown, types))}",
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
        """Delete rows of an earlier day than the first one to load, or without a day, from
        `staged`.
        """
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
        """Count the values that did not fit: `given` values of each column, `kept` valid ones."""
        self.told.rows = rows = rows + lacking.rows
        self.told.null = {name: count for name, count in lacking.null.items() if count}
        valid = [n + more for n, more in zip(kept, lacking.valid.values(), strict=True)]
        self.told.lines = sum(s.left_out for s in self.sources)
        self.told.unreadable = sum(s.unreadable for s in self.sources)
        self.told.short = sum(s.short for s in self.sources)
        self.told.torn = sum(s.torn for s in self.sources)
        for name, count in zip(given, valid, strict=True):
            if given[name] > (known := count):
                self.told.no_value[name] = given[name] - known
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
            if (
                types[name] == "TIMESTAMP"
                and name not in self.schema.zoned
                and _is_text(kinds[name])
            ):
                texts = decode(array)
                offset = pc.match_substring_regex(texts, _OFFSET)
                moved = pc.and_not(offset, pc.match_substring_regex(texts, _NO_OFFSET))
                _add(self.told.moved, name, pc.sum(moved))
            if name not in readers:
                return array
            values = readers[name].values(decode(array))
            if "%y" in self.schema.formats.get(name, ""):
                _add(self.told.centuries, name, pc.sum(pc.greater_equal(pc.year(values), 2000)))
            return values

        becoming = {names[name]: target for name, target in types.items()}

        def batches() -> Iterator[pa.RecordBatch]:
            rows = 0
            try:
                for arrays in ahead(source.batches(list(names.values()), becoming)):
                    rows += len(arrays[0]) if arrays else 0
                    tell_rows(source.name, rows)
                    yield pa.RecordBatch.from_arrays(
                        [tidied(array, name) for name, array in zip(names, arrays, strict=True)],
                        names=list(names),
                    )
            except DAMAGE as error:  # not raised within DuckDB, which would report something else
                self._failure = damage_error(source.name, error)
            lost = source.left_out + source.torn
            if self._refuse_lost and lost and not rows and self._failure is None:
                self._failure = DataError(
                    f"{shown(source.name)}: all of its {lost:,} lines were left out (for the "
                    "curator only): too long, or with other values than the header has names",
                    r"--csv escape=\\ if quotes are written with a backslash; or check the header",
                )

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
        """Raise the error of a file that could not be read to its end."""
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
        """Return an array in the form for DuckDB, and count its values."""
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
            if long is not None and whole:  # two users' identifiers could begin with the same text
                array = pc.if_else(long, pa.scalar(None, kind), array)
            elif long is not None:
                count = pc.sum(long).as_py() or 0
                if count:
                    self.told.cut[name] = self.told.cut.get(name, 0) + count
                array = pc.if_else(long, pc.utf8_slice_codeunits(array, 0, MOST_TEXT), array)
            if whole:  # an empty identifier counts as missing
                empty = pc.equal(pc.binary_length(array), 0)
                array = pc.if_else(empty, pa.scalar(None, kind), array)
        return array

    # Guesses for a new table.

    def _guess(self, declared: Declarations, user: str) -> Schema:
        """Return a schema: the declarations, and for other columns a guess from the first rows."""
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
                    self._left_out[name] = (
                        f"{_raw_type(source, name)} can't be the type of a column"
                    )
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
                # its bounds show that it is a number
                guessed = self._guesses[name] = Guess("DOUBLE")
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
            declared.escape,
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

    def _without_null(self, types: Mapping[str, str], declared: Declarations) -> frozenset[str]:
        """Return the columns that are NOT NULL: as declared, or in every source by its schema.

        A source's declaration holds for types whose values can all be stored: a database's
        `infinity` is a date that is not NULL, but NULL here.
        """
        said = declared.not_null()
        held = {
            name.lower() for name, kind in types.items() if kind in _WHOLE or name == self._asked
        }
        sources = [{name.lower() for name in one.not_null} & held for one in self.sources]
        said |= set[str].intersection(*sources) if sources else set()
        if declared.window:  # a user without any of these has no account
            said |= {
                self._asked.lower(),
                *map(str.lower, parts_of(self._asked)),
                declared.time.lower(),
            }
        return frozenset(name for name in types if name.lower() in said)

    def _types_in(
        self, source: Source, said: Mapping[str, tuple[str, str]], only: bool
    ) -> dict[str, Guess | None]:
        """Return the types of a source's columns by the declarations; a column without a type is
        text.
        """
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
        """Close the files."""
        self.sources = []


def _spread(sources: Sequence[Source]) -> Sequence[Source]:
    """Return the sources to sample: all of a few, some of many."""
    return sources[:: -(-len(sources) // LOOKED_AT)]


def _by_texts(
    columns: Mapping[str, list[tuple[Source, str]]], user: str, declared: Declarations
) -> dict[str, Guess]:
    """Return guesses for columns from the first texts of each source that has them."""
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
        schema: The tidy schema of the columns.
        select: SQL that converts them to the stored types.
        is_direct: True if they have the stored types already.
        batches: The rows that are not read yet; texts may have a dictionary.
    """

    schema: pa.Schema
    select: str
    is_direct: bool
    batches: Iterator[pa.RecordBatch]


def _fit(
    streams: list[_Stream], held: HeldRows, most: int, clamp: Clamp, lacking: LackingRows
) -> bool:
    """Hold rows of streams; return whether all fitted within `most` bytes."""
    for stream in streams:
        for batch in stream.batches:
            held.add(lacking.batch(clamp.batch(batch)))
            if held.nbytes > most:
                return False
    return True


def _again(held: HeldRows, stream: _Stream) -> _Stream:
    """Return held rows, in columns such as a stream has."""
    names = stream.schema.names
    first, *rest = (pa.RecordBatch.from_arrays(arrays, names) for arrays in held.batches())
    return _Stream(first.schema, stream.select, True, chain([first], rest))


_OFFSET = r":\d\d(\.\d+)? ?[+-]\d\d(:?\d\d)?\s*$"
_NO_OFFSET = r"[+-]00(:?00)?\s*$"


def _add(counts: dict[str, int], name: str, more: pa.Scalar) -> None:
    if found := more.as_py():
        counts[name] = counts.get(name, 0) + found


def _is_text(kind: pa.DataType | None) -> bool:
    return kind is not None and (pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _raw_type(source: Source, name: str) -> str:
    raw = source.raw_types()
    return shown(raw[name]) if name in raw else "JSON"


def _found(source: Source, name: str) -> str | None:
    """Return a source's name of a column: in this spelling, or else in any case."""
    if source.open_ended or name in source.types:
        return name
    return next((n for n in source.types if n.lower() == name.lower()), None)


def _nesting_error(source: Source, name: str) -> DataError:
    """Return the error for a list, or objects too deep, in a column of a source of objects."""
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
        f"{file}: {word} has lists of objects or lists, or objects nested more than 4 levels deep",
        hint,
    )


def _tidy_of(source: Source, name: str) -> pa.DataType | None:
    raw = source.raw_types()
    return tidy_type(raw[name], binary=True) if name in raw else pa.string()
