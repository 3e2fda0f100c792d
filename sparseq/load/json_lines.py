"""JSON Lines as a source: a row for each object, a column for each key.

Lines of JSON that are written alike become columns in a few passes over their bytes.

Who writes JSON Lines writes every line in the same way: the same keys, in the same order, with the
same spaces; only the values differ. Where no backslash is, quotes alone say what is a string, so
that the lines are a table whose separator is the quote:

    {"user":7,"day":"2024-01-05"}     {  user  :7,  day  :  2024-01-05  }

Some columns are the same in every line, some are strings, and some are another value with what
stands around it. A line is read so only if that is what the JSON reader makes of it
(`sources.JsonFile`): no control character, and each value that is no string either a word or a
number without exponent that would be written so again. All other lines go to the JSON reader, one
by one; both are the same function of a line (`tests/load/test_objects.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from sparseq.engine._duckdb.connection import scratch
from sparseq.load.file_sources import FIRST, NO_TYPES, PART, TextColumns, one_array
from sparseq.load.text_lines import (
    UNREADABLE,
    Lines,
    map_ahead,
    open_json,
    texts_of,
    unify,
    unreadable,
)
from sparseq.load.tidy import list_of

# -- lines of JSON that are written alike become columns in a few passes over their bytes ----------

Reader = Callable[[pa.Array], list[pa.Array]]
Mask = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
_WAYS = 4
"""In so many ways the lines of a chunk may be written, besides odd ones."""
_WORDS = {b"t"[0]: "true", b"f"[0]: "false", b"n"[0]: "null"}
_ZERO, _NINE, _MINUS, _POINT = b"09-."
_WHOLE, _DIGITS, _LONGEST = 18, 15, 40  # careful: others go the long way
"""Numbers of so many digits are written as they were read: whole ones, others, those for DOUBLE."""
_SCALAR = rb"-?[0-9]+(?:\.[0-9]+)?|true|false|null"
_BETWEEN = re.compile(rb"( *: *)(?:(" + _SCALAR + rb")( *[,}] *))?")
_AROUND = b" :,}"
"""Characters around a value that is no string."""


@dataclass(frozen=True)
class Layout:
    """The form of flat objects: a line is its blocks, with a value between each two.

    Attributes:
        keys: In their order, no two alike.
        columns: Between which quotes each value is.
        around: How many bytes of its blocks are there too: before it, after it.
        blocks: What stands before the first value, between two, and after the last.
        count: How many columns quotes make of a line.
    """

    keys: tuple[str, ...]
    columns: tuple[int, ...]
    around: tuple[tuple[int, int], ...]
    blocks: tuple[bytes, ...]
    count: int


def layout_of(line: bytes) -> Layout | None:
    """Return how an object is written; None if it is none, or not flat.

    >>> layout_of(b'{"a": 1, "b": "x"}').blocks
    (b'{"a": ', b', "b": "', b'"}')
    >>> layout_of(b'{"a": [1]}')
    """
    first, *rest = line.split(b'"')
    if not re.fullmatch(rb" *\{ *", first) or b"\\" in line:
        return None
    keys: list[str] = []
    columns, around, blocks, block, at, end = [], [], [], first, 0, b""
    while at + 1 < len(rest):
        between = _BETWEEN.fullmatch(rest[at + 1])
        if between is None or rest[at].decode() in keys:
            return None
        keys.append(rest[at].decode())
        block += b'"%s"%s' % (rest[at], between[1])
        if between[2]:
            end = between[3]
            columns.append(at + 2)
            around.append((len(between[1]), len(end)))
            blocks.append(block)
            block, at = end, at + 2
        elif at + 3 < len(rest):
            end = rest[at + 3]
            columns.append(at + 3)
            around.append((0, 0))
            blocks.append(block + b'"')
            block, at = b'"' + end, at + 4
        else:
            return None
        if not re.fullmatch(rb" *, *" if at < len(rest) else rb" *\} *", end):
            return None
    if not at or at != len(rest):
        return None
    return Layout(tuple(keys), tuple(columns), tuple(around), (*blocks, block), len(rest) + 1)


def read(
    chunk: bytes, columns: Sequence[str], types: Mapping[str, str], otherwise: Reader, ways: int = 0
) -> list[pa.Array]:
    """Return the values of some keys in whole lines of UTF-8, as texts, in the lines' order.

    Args:
        chunk: The lines; blank ones have no row.
        columns: The keys.
        types: What they become.
        otherwise: Reads lines that are not written alike, none of which is blank.
        ways: How many were tried before.
    """
    layout = layout_of(chunk[: chunk.find(b"\n")]) if ways < _WAYS else None
    found = _alike(chunk, layout, columns, types) if layout else None
    if found is None:
        lines = texts_of(chunk)
        return otherwise(lines.filter(pc.not_equal(pc.ascii_trim_whitespace(lines), "")))
    arrays, odd = found
    if not odd.any():
        return arrays
    lines = texts_of(chunk).filter(pa.array(odd))
    blank = pc.equal(pc.ascii_trim_whitespace(lines), "").to_numpy(zero_copy_only=False)
    left = b"".join(f"{line}\n".encode() for line in lines.filter(pa.array(~blank)).to_pylist())
    if left:
        more = read(left, columns, types, otherwise, ways + 1)
        arrays = [pa.concat_arrays([a, b.cast(a.type)]) for a, b in zip(arrays, more, strict=True)]
    rows = np.delete(odd, np.flatnonzero(odd)[blank])
    place = np.where(rows, np.count_nonzero(~rows) + np.cumsum(rows), np.cumsum(~rows)) - 1
    return [a.take(pa.array(place)) for a in arrays]


def _alike(
    chunk: bytes, layout: Layout, columns: Sequence[str], types: Mapping[str, str]
) -> tuple[list[pa.Array], Mask] | None:
    """Return the values in lines that are written in a way, and which lines are not."""
    a = np.frombuffer(chunk, np.uint8)
    ends = np.flatnonzero(a == 10).astype(np.int32)
    if np.count_nonzero(a < 32) != len(ends):
        return None
    table = _table(chunk, layout) if b"\\" not in chunk else None
    odd = np.zeros(len(ends), np.bool_)
    if table is None:
        odd = _has_other_quotes(a, ends, layout.count - 1)
        if odd.all():
            return None
        chunk = b"".join(
            f"{t}\n".encode() for t in texts_of(chunk).filter(pa.array(~odd)).to_pylist()
        )
        a, table = np.frombuffer(chunk, np.uint8), _table(chunk, layout) or []
        ends = np.flatnonzero(a == 10).astype(np.int32)
    bad = _otherwise_between(a, ends, layout, table)
    values = {}
    for key, texts, (before, after) in zip(layout.keys, table, layout.around, strict=True):
        if before:
            bare, other = _bare(texts, before, after)
            bad |= other | _odd(bare, types.get(key, ""))
            texts = _without_null(bare)
        values[key] = texts
    odd[np.flatnonzero(~odd)[bad]] = True
    if 8 * np.count_nonzero(~odd) < len(odd):  # not worth it
        return None
    nothing = pa.nulls(len(bad), pa.string())
    arrays = [values.get(c, nothing) for c in columns]
    return [a.filter(pa.array(~bad)) for a in arrays] if bad.any() else arrays, odd


def _has_other_quotes(a: Bytes, ends: NDArray[np.int32], count: int) -> Mask:
    """Tell which lines have not so many quotes, or a backslash."""
    quotes = np.searchsorted(np.flatnonzero(a == 34), ends)
    odd = np.asarray(np.diff(quotes, prepend=0) != count)
    odd[np.searchsorted(ends, np.flatnonzero(a == 92))] = True
    return odd


def _otherwise_between(
    a: Bytes, ends: NDArray[np.int32], layout: Layout, table: list[pa.Array]
) -> Mask:
    """Tell which lines have something else than the blocks around their values.

    All have the blocks' number of quotes. So where every block is in its place, no value has one.
    """
    place = np.append(np.int32(0), ends[:-1] + 1)
    bad = np.zeros(len(ends), np.bool_)
    for k, block in enumerate(layout.blocks):
        bad |= ~_is_at(a, place, block)
        place = place + np.int32(len(block))
        if k < len(table):
            found = _Texts(table[k])
            place += found.ends - found.begins - np.int32(sum(layout.around[k]))
    bad |= place != ends
    return bad


def _is_at(a: Bytes, places: NDArray[np.int32], text: bytes) -> Mask:
    """Tell at which places a text is."""
    so, at = places + np.int32(len(text)) <= len(a), 0
    places = np.where(so, places, 0) if not so.all() else places
    for size in (8, 4, 2, 1):
        if not so.any():
            break
        words = np.ndarray((len(a) - size + 1,), f"u{size}", a, strides=(1,))
        while len(text) - at >= size:
            so &= words[places + np.int32(at)] == np.frombuffer(text, f"u{size}", 1, at)
            at += size
    return so


def _table(chunk: bytes, layout: Layout) -> list[pa.Array] | None:
    """Return what is between some of the quotes; None if a line has more of them, or fewer."""
    names = [str(k) for k in range(layout.count)]
    used = [names[k] for k in layout.columns]
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(chunk),
            read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=len(chunk) + 1),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter='"', quote_char=False, double_quote=False, ignore_empty_lines=False
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(used, pa.string()),
                include_columns=used,
                check_utf8=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    return [pa.concat_arrays(c.chunks) for c in table.columns]


class _Texts:
    """Texts as bytes, and where each begins and ends."""

    def __init__(self, texts: pa.Array) -> None:
        _, offsets, data = texts.buffers()
        ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        self.begins, self.ends = ends[:-1], ends[1:]
        used = np.frombuffer(data or b"", np.uint8)[: ends[-1]]
        self.bytes = np.append(used, b"\0") if not len(used) else used

    def at(self, places: NDArray[np.int32]) -> NDArray[np.uint8]:
        """Return the bytes at some places; those at the ends for places that are beyond."""
        return self.bytes.take(places, mode="clip")


def _bare(texts: pa.Array, before: int, after: int) -> tuple[pa.Array, Mask]:
    """Return values without what stands around them, and which can't be told from it."""
    found = _Texts(texts)
    data = found.bytes.tobytes().translate(None, _AROUND)
    odd = found.ends - found.begins <= before + after
    if odd.any() or len(data) + (before + after) * len(texts) != found.ends[-1]:
        size = f"{{{before}}}", f"{{{after}}}"
        around = "[ :,}]"
        fits = pc.match_substring_regex(texts, f"^{around}{size[0]}[^ :,}}]+{around}{size[1]}$")
        other = pc.if_else(fits, texts, " " * before + "0" + " " * after)
        return _bare(other, before, after)[0], ~fits.to_numpy(zero_copy_only=False)
    cut = np.arange(len(texts) + 1) * (before + after)
    offsets = (np.append(np.int32(0), found.ends) - cut).astype(np.int32)
    buffers = pa.py_buffer(offsets), pa.py_buffer(data)
    return pa.StringArray.from_buffers(len(texts), *buffers), odd


def _without_null(texts: pa.Array) -> pa.Array:
    null = pc.equal(texts, "null") if b"n" in _Texts(texts).bytes.tobytes() else None
    return texts if null is None else pc.if_else(null, pa.scalar(None, pa.string()), texts)


def _odd(texts: pa.Array, target: str) -> Mask:
    """Tell which texts are neither words nor numbers of JSON, or would be written otherwise."""
    first = _Texts(texts)
    letter = first.at(first.begins)
    number = ~np.isin(letter, list(_WORDS)) if (letter > _NINE).any() else letter == letter
    if number.all():
        return _odd_numbers(_Texts(texts), target)
    odd = ~number
    for word in _WORDS.values():
        odd &= pc.not_equal(texts, word).to_numpy(zero_copy_only=False)
    if number.any():
        odd[number] = _odd_numbers(_Texts(texts.filter(pa.array(number))), target)
    return odd


def _odd_numbers(found: _Texts, target: str) -> Mask:
    """Tell which texts are no numbers of JSON, or would be written otherwise.

    A number with a point is a double there, and is written as that double is. What becomes a DOUBLE
    is the same one before and after; whole numbers in a column of texts have no point.
    """
    minus = (found.at(found.begins) == _MINUS) & (found.ends > found.begins)
    begins, ends = found.begins + minus, found.ends
    size, lead, second = ends - begins, found.at(begins), found.at(begins + 1)
    odd = (size < 1) | (lead < _ZERO) | (lead > _NINE)
    odd |= (lead == _ZERO) & np.where(size > 1, second != _POINT, minus)
    other = (found.bytes < _ZERO) | (found.bytes > _NINE)
    other[found.begins[minus]] = False
    places = np.flatnonzero(other)
    if not len(places) or not found.ends[-1]:
        return np.asarray(odd | (size > _WHOLE))
    rows = np.searchsorted(ends, places, "right")
    odd[rows[(found.bytes[places] != _POINT) | (places + 1 == ends[rows])]] = True
    odd[rows[1:][rows[1:] == rows[:-1]]] = True  # two points
    point = np.zeros(len(odd), np.bool_)
    point[rows] = True
    odd |= size > np.where(point, _LONGEST, _WHOLE)
    if target != "DOUBLE":
        last = found.at(ends - 1) == _ZERO
        if target != "VARCHAR":
            last &= found.at(ends - 2) != _POINT
        small = (lead == _ZERO) & (found.at(begins + 2) == _ZERO) & (found.at(begins + 3) == _ZERO)
        odd |= point & (last | (size > _DIGITS + 1) | (small & (size > 3)))
    return np.asarray(odd)


# -- JSON Lines as a source: a row for each object, a column for each key --------------------------

DEEPEST = 4
"""So many objects within each other are looked into."""


class JsonFile(TextColumns):
    """JSON Lines: an object a line. What is no object is a row without values."""

    open_ended = True

    def __init__(self, path: Path) -> None:
        self.name, self._path, self.left_out, self.unreadable = path.name, path, 0, 0
        open_json(path).read(1)

    @cached_property
    def types(self) -> dict[str, pa.DataType | None]:
        """The keys of the first lines, in their order; None for lists of lists or objects, and for
        objects too deep.

        What an object within has is called by both keys: `patient.id`. A key that has a point, or
        a quote, has quotes within it: `patient."a.b"`.
        """
        return {
            k: None if seen <= {list, dict} and k not in self.declared else pa.string()
            for k, seen in self.seen.items()
        }

    @cached_property
    def declared(self) -> dict[str, str]:  # type: ignore[override]
        """See `Source`: lists of texts, numbers or truths, by those in the first lines."""
        lists = [key for key, kinds in self.seen.items() if kinds == {list}]
        found = {key: list_of(self._inside[key]) for key in lists}
        return {key: kind for key, kind in found.items() if kind}

    @cached_property
    def seen(self) -> dict[str, set[type]]:
        """Types of the values of the first lines, by key, but for nulls."""
        seen: dict[str, set[type]] = {}
        self._inside: dict[str, set[type]] = {}
        decode = json.JSONDecoder().decode
        for line in next(self._chunks(), b"").split(b"\n", FIRST)[:FIRST]:
            try:
                values = decode(line.decode())
            except (ValueError, RecursionError):
                continue
            for key, value in _leaves(values):
                kinds = seen.setdefault(key, set())
                if value is not None and value != {}:
                    kinds.add(type(value))
                if isinstance(value, list):
                    self._inside.setdefault(key, set()).update(map(type, value))
        return {key: k or {str} for key, k in seen.items() if key and (k or not _within(key, seen))}

    @cached_property
    def words(self) -> Collection[str]:  # type: ignore[override]
        """See `Source`: what is a string in the first lines."""
        return {key for key, kinds in self.seen.items() if str in kinds}

    def _chunks(self) -> Iterator[bytes]:
        lines = Lines(open_json(self._path))
        for chunk in lines:
            chunk = unify(chunk)
            self.unreadable += unreadable(chunk)
            yield chunk.replace(b"\xfe", b"\r").replace(UNREADABLE, _REPLACEMENT)
            self.left_out += lines.too_long
            lines.too_long = 0

    def batches(
        self, columns: Sequence[str], types: Mapping[str, str] = NO_TYPES
    ) -> Iterator[list[pa.Array]]:
        """See `Source`."""
        self.left_out = self.unreadable = 0
        sql, paths = _extract(columns, types)
        with scratch() as con:
            alone = Lock()

            def one_by_one(lines: pa.Array) -> list[pa.Array]:
                parts = pa.table({"line": lines}).to_batches(max_chunksize=PART)
                with alone:
                    con.register("lines", pa.Table.from_batches(parts, _LINES))
                    table = con.sql(sql, params=paths).to_arrow_table()
                return [one_array(c) for c in table.columns]

            yield from map_ahead(lambda c: read(c, columns, types, one_by_one), self._chunks())


_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()
_LINES = pa.schema({"line": pa.string()})


def _leaves(values: Any, within: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield what an object has, by key, and what those within it have."""
    for key, value in values.items() if isinstance(values, dict) else ():
        if isinstance(value, dict) and value and depth < DEEPEST:
            yield from _leaves(value, f"{within}{_part(key)}.", depth + 1)
        else:
            yield within + _part(key) if within else key, value


def _part(key: str) -> str:
    """Return a key as a part of several."""
    return json.dumps(key, ensure_ascii=False) if {'"', "."} & set(key) else key


def _within(key: str, seen: Collection[str]) -> bool:
    """Tell whether an object under a key has something."""
    return any(other.startswith((f"{key}.", f"{_part(key)}.")) for other in seen)


def _extract(columns: Sequence[str], types: Mapping[str, str]) -> tuple[str, dict[str, list[str]]]:
    """Return SQL for some values of the objects that `lines` are, and its parameters."""
    texts = [c for c in columns if types.get(c) == "VARCHAR"]
    paths = list(dict.fromkeys(pointer for c in columns for pointer in _pointers(c)))

    def value(column: str) -> str:
        places = [paths.index(pointer) + 1 for pointer in _pointers(column)]
        text, kind = (
            f"coalesce({', '.join(f'{of}[{at}]' for at in places)})" for of in ("found", "kinds")
        )
        return _spell(text, kind) if column in texts else text

    kinds = ", json_type(object, $paths) AS kinds" if texts else ""
    return (
        f"SELECT {', '.join(map(value, columns))} FROM "
        f"(SELECT json_extract_string(object, $paths) AS found{kinds} FROM "
        "(SELECT CASE WHEN json_valid(line) THEN line END AS object FROM lines))",
        {"paths": paths},
    )


def _pointers(column: str) -> list[str]:
    """Return where a column is in an object: under that key, or within the object before a point.

    >>> _pointers("a.b"), _pointers("a"), _pointers('a."b.c"')
    (['/a.b', '/a/b'], ['/a'], ['/a."b.c"', '/a/b.c'])
    """
    key = _pointer(column)
    if '"' not in column:
        return list(dict.fromkeys([key, key.replace(".", "/")]))
    parts = re.findall(r'(?:^|\.)("(?:[^"\\]|\\.)*"|[^."]*)(?=\.|$)', column)
    try:
        names = [json.loads(part) if part[:1] == '"' else part for part in parts]
    except ValueError:
        return [key]
    whole = ".".join(parts) == column
    return list(dict.fromkeys([key, *["".join(map(_pointer, names))] * whole]))


def _pointer(key: str) -> str:
    return "/" + key.replace("~", "~0").replace("/", "~1")


def _spell(text: str, kind: str) -> str:
    """Return SQL for a value of JSON as text: whole numbers have no point, however written."""
    number = f"TRY_CAST({text} AS DOUBLE)"
    return (
        f"CASE WHEN {kind} = 'DOUBLE' AND abs({number}) < 1e18 AND {number} = trunc({number}) "
        f"THEN CAST(TRY_CAST({number} AS BIGINT) AS VARCHAR) ELSE {text} END"
    )
