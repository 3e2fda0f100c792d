"""Lines of JSON in one format become columns in a few passes over their bytes.

Programs usually write every line of JSON Lines in the same format: the same keys, in the same
order, with the same spaces; only the values differ. If there is no backslash, quotes alone delimit
strings, so the lines are a table whose separator is the quote:

    {"user":7,"day":"2024-01-05"}     {  user  :7,  day  :  2024-01-05  }

Some columns are the same in every line, some are strings, and some are another value with the
characters around it. A line takes this way only if the JSON reader gives the same result
(`file_sources.JsonFile`): no control character, and each value that is not a string is either a
word or a number without exponent in its canonical spelling. All other lines go to the JSON reader,
one by one; both are the same function of a line (`tests/load/test_objects.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from sparseq.load.text_lines import texts_of

Reader = Callable[[pa.Array], list[pa.Array]]
Mask = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
_WAYS = 4
"""The maximum number of formats of lines in a chunk; other lines are read one by one."""
_WORDS = {b"t"[0]: "true", b"f"[0]: "false", b"n"[0]: "null"}
_ZERO, _NINE, _MINUS, _POINT = b"09-."
_WHOLE, _DIGITS, _LONGEST = 18, 15, 40  # conservative: others are read one by one
"""Numbers with at most this number of digits keep their spelling: integers, others, and those for
DOUBLE.
"""
_SCALAR = rb"-?[0-9]+(?:\.[0-9]+)?|true|false|null"
_BETWEEN = re.compile(rb"( *: *)(?:(" + _SCALAR + rb")( *[,}] *))?")
_AROUND = b" :,}"
"""Characters around a value that is not a string."""


@dataclass(frozen=True)
class Layout:
    """The format of flat objects: a line is its blocks, with a value between each two.

    Attributes:
        keys: The keys in order; all are different.
        columns: The index of each value in the table that quotes make.
        around: The number of bytes of the blocks in the same column, before and after the value.
        blocks: The text before the first value, between two values, and after the last.
        count: The number of columns that quotes make of a line.
    """

    keys: tuple[str, ...]
    columns: tuple[int, ...]
    around: tuple[tuple[int, int], ...]
    blocks: tuple[bytes, ...]
    count: int


def layout_of(line: bytes) -> Layout | None:
    """Return the format of an object; None if it is not an object, or not flat.

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
        types: The types of the stored columns.
        otherwise: Reads lines in other formats; none is blank.
        ways: The number of formats tried so far.
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
    """Return the values of lines in a format, and a mask of the other lines."""
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
    if 8 * np.count_nonzero(~odd) < len(odd):  # the format has too few lines
        return None
    nothing = pa.nulls(len(bad), pa.string())
    arrays = [values.get(c, nothing) for c in columns]
    return [a.filter(pa.array(~bad)) for a in arrays] if bad.any() else arrays, odd


def _has_other_quotes(a: Bytes, ends: NDArray[np.int32], count: int) -> Mask:
    """Return a mask of lines with another number of quotes, or with a backslash."""
    quotes = np.searchsorted(np.flatnonzero(a == 34), ends)
    odd = np.asarray(np.diff(quotes, prepend=0) != count)
    odd[np.searchsorted(ends, np.flatnonzero(a == 92))] = True
    return odd


def _otherwise_between(
    a: Bytes, ends: NDArray[np.int32], layout: Layout, table: list[pa.Array]
) -> Mask:
    """Return a mask of lines that differ from the blocks around their values.

    All lines have the blocks' number of quotes. So if every block is in its place, no value has a
    quote.
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
    """Return a mask of the places where a text stands."""
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
    """Return the parts between some of the quotes; None if the numbers of quotes differ."""
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
    """Texts as bytes, with the start and the end of each."""

    def __init__(self, texts: pa.Array) -> None:
        _, offsets, data = texts.buffers()
        ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        self.begins, self.ends = ends[:-1], ends[1:]
        used = np.frombuffer(data or b"", np.uint8)[: ends[-1]]
        self.bytes = np.append(used, b"\0") if not len(used) else used

    def at(self, places: NDArray[np.int32]) -> NDArray[np.uint8]:
        """Return the bytes at some places; for places beyond the end, the last ones."""
        return self.bytes.take(places, mode="clip")


def _bare(texts: pa.Array, before: int, after: int) -> tuple[pa.Array, Mask]:
    """Return values without the characters around them, and a mask of ambiguous ones."""
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
    """Return a mask of texts that are neither words nor numbers of JSON, or not in canonical
    spelling.
    """
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
    """Return a mask of texts that are not numbers of JSON, or not in canonical spelling.

    A number with a point is a double in JSON, and is written as that double is. The DOUBLE is the
    same before and after; an integer in a column of texts has no point.
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
