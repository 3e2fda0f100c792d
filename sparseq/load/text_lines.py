"""Text files as chunks of lines; each line is independent of the others.

A line ends only at a line feed (a carriage return before it is removed). A separator between quotes
is part of a value; a quote that is not closed ends with its line. A quoted value extends over a
line's end only if the curator has declared that values may have several lines.

Chunks are *plain*: UTF-8 without quotes, in which a separator always separates. Other bytes are
replaced by bytes that UTF-8 never uses, and restored when values are made (`restore`):

    0xFF  a separator within a value
    0xFE  a carriage return within a value
    0xFD  a line feed within a value
    0xFC  bytes that are no text: a value with one is NULL (`restore`)

A few passes over a whole chunk handle almost all lines; only unusual ones go through `fields_of`,
which is the definition. Both are the same function of a line (`tests/load/test_text_lines.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparseq.compiled import bits_as
from sparseq.load.text_streams import MARKED, UNREADABLE, ByteStream, encode

LONGEST_LINE = 1 << 20
"""A line of more bytes than this is left out."""
CHUNK = 1 << 23
_QUOTE, _LINE_FEED = b'"', b"\n"
_SEPARATOR, _RETURN, _FEED = b"\xff", b"\xfe", b"\xfd"
MARK = b"\xef\xbb\xbf"
"""A byte order mark."""
Bytes = NDArray[np.uint8]


class Lines:
    """The lines of a stream, in chunks of whole lines.

    Args:
        stream: The stream to read.
        multiline: True if a line feed between quotes ends no line.
        size: The number of bytes per read.
    """

    def __init__(self, stream: ByteStream, multiline: bool = False, size: int = CHUNK) -> None:
        self._stream, self._multiline, self._size = stream, multiline, size
        self.too_long = 0
        """Number of lines left out because they are too long."""
        self.last_is_open = False
        """True if the chunk is only the last line, without a line feed: it may be torn off."""

    def __iter__(self) -> Iterator[bytes]:
        rest, skipping = b"", False
        while data := self._stream.read(self._size):
            end = self._last_end(rest + data) if self._multiline else data.rfind(_LINE_FEED) + 1
            if self._multiline:
                data, rest = rest + data, b""
            if end == 0 or skipping:
                rest, skipping, whole = self._unfinished(rest, data, skipping)
            else:
                whole, rest = rest + data[:end], data[end:]
            if whole:
                yield self._without_long(whole)
        if rest and not skipping:
            self.last_is_open = True
            yield self._without_long(rest + _LINE_FEED)

    def _unfinished(self, rest: bytes, data: bytes, skipping: bool) -> tuple[bytes, bool, bytes]:
        """Return the rest of a line without an end, whether it is too long, and whole lines."""
        if skipping:
            start = data.find(_LINE_FEED) + 1
            if not start:
                return b"", True, b""
            end = data.rfind(_LINE_FEED) + 1
            return data[end:], False, data[start:end]
        rest += data
        if len(rest) <= 2 * LONGEST_LINE:
            return rest, False, b""
        self.too_long += 1
        return b"", True, b""

    def _last_end(self, data: bytes) -> int:
        """Return the end of the last line feed outside of quotes; 0 if there is none."""
        a = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero((a == 10) & ~_within(a))
        return int(ends[-1]) + 1 if len(ends) else 0

    def _without_long(self, chunk: bytes) -> bytes:
        """Return whole lines without those that are too long."""
        kept, first, start = [], 0, 0
        if self._multiline:
            chunk = _join(chunk)
        while len(chunk) - start > LONGEST_LINE + 1:
            end = chunk.rfind(_LINE_FEED, start, start + LONGEST_LINE + 1)
            if end >= 0:
                start = end + 1
                continue
            kept.append(chunk[first:start])
            first = start = chunk.find(_LINE_FEED, start) + 1
            self.too_long += 1
        return b"".join([*kept, chunk[first:]]) if kept else chunk


def unify(chunk: bytes, multiline: bool = False) -> bytes:
    """Return whole lines in UTF-8 without NUL, byte order marks and carriage returns.

    Each replacement is within one line: no line feed is part of a longer character. Bytes that are
    not text, including NUL, become `UNREADABLE`.
    """
    if not chunk.isascii():
        # In joined lines, 0xFD stands for a line feed.
        parts = chunk.split(_FEED) if multiline else [chunk]
        chunk = _FEED.join(map(_repair, parts))
        if MARK in chunk:
            chunk = chunk.removeprefix(MARK).replace(_LINE_FEED + MARK, _LINE_FEED)
    if b"\0" in chunk:
        chunk = chunk.replace(b"\0", UNREADABLE)
    if b"\r" in chunk:
        chunk = chunk.replace(b"\r\n", _LINE_FEED).replace(b"\r", _RETURN)
    return chunk


def _repair(data: bytes) -> bytes:
    """Return UTF-8, with `UNREADABLE` for invalid bytes."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return encode(data.decode("utf-8", MARKED))
    return data


def fields_of(line: bytes, separator: bytes) -> list[bytes]:
    """Return a line's values: the definition of the reading of a line.

    A value that begins with a quote extends to the next quote before a separator or the end of the
    line, or else to the end of the line. Two quotes in it mean one. Other quotes are ordinary
    characters.

    >>> fields_of(b'a,"b,""c","d",5" pipe', b",")
    [b'a', b'b,"c', b'd', b'5" pipe']
    >>> fields_of(b'a,"b,c', b","), fields_of(b'"a"b,c",d', b",")
    ([b'a', b'b,c'], [b'a"b,c', b'd'])
    """
    fields, start = [], 0
    while True:
        if line[start : start + 1] == _QUOTE:
            value, start = _read_quoted_value(line, start + 1, separator)
        else:
            end = line.find(separator, start)
            end = len(line) if end < 0 else end
            value, start = line[start:end], end
        fields.append(value)
        if start >= len(line):
            return fields
        start += 1


def escaped_fields(line: bytes, separator: bytes, escape: bytes) -> list[bytes]:
    r"""Return the values of a line in which quotes, separators and escapes are escaped.

    An escape before another character is an ordinary character.

    >>> escaped_fields(rb'1,"say \"hi\", you",a\,b,\N', b",", b"\\")
    [b'1', b'say "hi", you', b'a,b', b'\\N']
    """
    fields, value, at, quoted = [], bytearray(), 0, line[:1] == _QUOTE
    at += quoted
    while at < len(line):
        one, follows = line[at : at + 1], line[at + 1 : at + 2]
        if one == escape and follows in (escape, _QUOTE, separator) and follows:
            value += follows
            at += 1
        elif quoted and one == _QUOTE and follows == _QUOTE:
            value += one
            at += 1
        elif quoted and one == _QUOTE and follows in (b"", separator):
            quoted = False
        elif one == separator and not quoted:
            fields.append(bytes(value))
            value, quoted = bytearray(), follows == _QUOTE
            at += quoted
        else:
            value += one
        at += 1
    return [*fields, bytes(value)]


def without_escapes(chunk: bytes, separator: bytes, escape: bytes) -> bytes:
    """Return whole lines as plain ones (`unquote`), if values are written with escapes."""
    a = np.frombuffer(chunk, np.uint8)
    lines = _ends(a)
    starts = np.concatenate([[0], lines[:-1] + 1])
    odd = np.unique(np.searchsorted(lines, np.flatnonzero(a == escape[0])))
    spelled = [
        separator.join(
            f.replace(separator, _SEPARATOR)
            for f in escaped_fields(chunk[starts[k] : lines[k]], separator, escape)
        )
        for k in odd
    ]
    plain = unquote(with_lines(chunk, odd, [b""] * len(odd)), separator)
    return with_lines(plain, odd, spelled)


def _read_quoted_value(line: bytes, start: int, separator: bytes) -> tuple[bytes, int]:
    """Return the value whose opening quote is before `start`, and its end."""
    parts: list[bytes] = []
    while (quote := line.find(_QUOTE, start)) >= 0:
        follows = line[quote + 1 : quote + 2]
        if follows in (b"", separator):
            return b"".join([*parts, line[start:quote]]), quote + 1
        parts.append(line[start : quote + 1])
        start = quote + (2 if follows == _QUOTE else 1)
    return b"".join([*parts, line[start:]]), len(line)


def is_regular(chunk: bytes, separator: bytes) -> bool:
    """Tell whether every quote opens or closes a value, or is one of two within a value.

    Then every reader of such files gives the same values, if they have no line feeds.
    """
    return not len(_irregular(np.frombuffer(chunk, np.uint8), separator[0]))


def unquote(chunk: bytes, separator: bytes) -> bytes:
    """Return whole lines as plain ones (see above): the same number, in the same order."""
    if _QUOTE not in chunk:
        return chunk
    a = np.frombuffer(chunk, np.uint8)
    odd = _irregular(a, separator[0])
    if len(odd):
        # An irregular line is left empty in the passes over all lines, and inserted afterwards.
        lines = _ends(a)
        starts = np.concatenate([[0], lines[:-1] + 1])
        spelled = [
            separator.join(
                f.replace(separator, _SEPARATOR)
                for f in fields_of(chunk[starts[k] : lines[k]], separator)
            )
            for k in odd
        ]
        chunk = with_lines(chunk, odd, [b""] * len(odd))
        return with_lines(_without_quotes(chunk, separator), odd, spelled)
    return _without_quotes(chunk, separator)


def _irregular(a: Bytes, separator: int) -> NDArray[np.int64]:
    """Return the lines in which a quote neither opens or closes a value nor is one of two."""
    ends, quotes = _ends(a), np.flatnonzero(a == 34)
    before = np.searchsorted(quotes, ends)
    counts = np.diff(before, prepend=0)
    uneven = np.flatnonzero(counts & 1)
    place = np.arange(len(quotes))
    if len(uneven):  # else every line begins at an even position
        place -= np.repeat(before - counts, counts)
    neighbour = quotes + np.where(place & 1, 1, -1)  # after a closing quote, before an opening one
    beside = np.where(neighbour < 0, 10, a[np.clip(neighbour, 0, len(a) - 1)])
    bad = quotes[(beside != separator) & (beside != 10) & (beside != 34)]
    return np.union1d(uneven, np.searchsorted(ends, bad))


def _without_quotes(chunk: bytes, separator: bytes) -> bytes:
    """Return regular lines without their quotes."""
    a = np.frombuffer(chunk, np.uint8).copy()
    quotes = np.flatnonzero(a == 34)
    if not len(quotes):
        return chunk
    a[(a == separator[0]) & _within(a)] = _SEPARATOR[0]
    closing, opening = quotes[1:-1:2], quotes[2::2]
    twice = opening[opening == closing + 1]
    if not len(twice):
        return a.tobytes().translate(None, _QUOTE)
    keep = a != 34
    keep[twice] = True  # two quotes in a value mean one
    return bytes(a[keep].tobytes())


def _within(a: Bytes) -> NDArray[np.bool_]:
    """Return a mask of bytes with an odd number of quotes before them."""
    quotes = bits_as(a == 34, np.bool_, np.uint8)
    return bits_as(np.cumsum(quotes, dtype=np.uint8) & 1, np.uint8, np.bool_)


def _join(chunk: bytes) -> bytes:
    """Return records of several lines as one line each."""
    chunk = chunk.replace(_FEED, UNREADABLE)
    a = np.frombuffer(chunk, np.uint8).copy()
    a[:-1][(a[:-1] == 10) & _within(a)[:-1]] = _FEED[0]
    return a.tobytes()


def _ends(a: Bytes) -> NDArray[np.int64]:
    return np.flatnonzero(a == 10)


def texts_of(chunk: bytes) -> pa.StringArray:
    """Return whole lines of UTF-8 as an array, without their ends.

    >>> texts_of(b"a\\n\\nb\\n").to_pylist()
    ['a', '', 'b']
    """
    ends = _ends(np.frombuffer(chunk, np.uint8))
    # Each text is one byte shorter than the distance to the next: the line feeds are removed.
    offsets = np.concatenate([[0], ends - np.arange(len(ends))]).astype(np.int32)
    texts = pa.py_buffer(chunk.replace(_LINE_FEED, b""))
    return pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), texts)


def with_lines(chunk: bytes, numbers: NDArray[np.int64], lines: list[bytes]) -> bytes:
    """Return whole lines, with the lines of some numbers (ascending) replaced."""
    ends = _ends(np.frombuffer(chunk, np.uint8))
    parts, start = [], 0
    for number, line in zip(numbers.tolist(), lines, strict=True):
        first = int(ends[number - 1]) + 1 if number else 0
        parts += [chunk[start:first], line]
        start = int(ends[number])
    return b"".join([*parts, chunk[start:]])


def fit(chunk: bytes, separator: bytes, count: int) -> tuple[bytes, int, int]:
    """Return plain lines of `count` values each, the number left out, and the number of short ones.

    A line with fewer values gets empty ones, and further values that are empty are dropped. A line
    with more values is left out, because the columns of its values are unknown.
    """
    a = np.frombuffer(chunk, np.uint8)
    starts = np.concatenate([[0], _ends(a)[:-1] + 1])
    found = np.add.reduceat((a == separator[0]).astype(np.int32), starts) + 1
    odd = np.flatnonzero(found != count)
    lines, left_out, short = [], 0, 0
    ends = _ends(a)
    for k in odd:
        line = chunk[starts[k] : ends[k]]
        if found[k] < count:
            short += bool(line)
            line += separator * int(count - found[k]) if line else b""
        else:
            values = line.split(separator)
            extra = any(values[count:])
            left_out += extra
            line = b"" if extra else separator.join(values[:count])
        lines.append(line)
    return with_lines(chunk, odd, lines), left_out, short


def restore(column: Any, separator: bytes) -> Any:
    """Return a column of binary values with the replaced bytes of plain lines restored."""
    data = column.buffers()[2]
    found = b"" if data is None else data.to_pybytes()
    if UNREADABLE in found:
        column = pc.if_else(
            pc.match_substring(column, UNREADABLE), pa.scalar(None, column.type), column
        )
    for spelled, written in ((_SEPARATOR, separator), (_RETURN, b"\r"), (_FEED, b"\n")):
        if spelled in found:
            column = pc.replace_substring(column, spelled, written)
    return column


def has_spelled(chunk: bytes) -> bool:
    """Tell whether plain lines contain replaced bytes."""
    return any(spelled in chunk for spelled in (_SEPARATOR, _RETURN, _FEED, UNREADABLE))


def unreadable(chunk: bytes) -> int:
    """Return the number of lines with bytes that are not text.

    >>> unreadable(unify(b"a,b\\n\\xe4,c\\n"))
    1
    """
    return sum(UNREADABLE in line for line in chunk.split(_LINE_FEED)) if UNREADABLE in chunk else 0
