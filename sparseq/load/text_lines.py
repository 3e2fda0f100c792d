"""Text files as chunks of lines, each line read by itself: nothing in one changes another.

A line ends at a line feed (a carriage return before it goes), and nowhere else. A separator between
quotes is part of a value; a quote that is not closed ends with its line. Only where the curator has
said that values may have several lines does a quote reach beyond its line.

Chunks come out *plain*: UTF-8 without quotes, in which a separator separates. What would not be
plain is spelled with bytes that no UTF-8 has, and put back when values are made (`restored`):

    0xFF  a separator within a value
    0xFE  a carriage return within a value
    0xFD  a line feed within a value
    0xFC  bytes that are no text: a value with one is NULL (`restored`)

Almost all lines are dealt with by a few passes over a whole chunk, and the odd ones alone by
`fields_of`, which is the definition; both are the same function of a line
(`tests/engine/test_lines.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparseq.compiled import bits_as
from sparseq.load.unpack import MARKED, UNREADABLE, ByteStream, encoded

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
        stream: What to read.
        multiline: A line feed between quotes ends no line.
        size: Bytes that are read at once.
    """

    def __init__(self, stream: ByteStream, multiline: bool = False, size: int = CHUNK) -> None:
        self._stream, self._multiline, self._size = stream, multiline, size
        self.too_long = 0
        """How many lines were left out because they are too long."""

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
            yield self._without_long(rest + _LINE_FEED)

    def _unfinished(self, rest: bytes, data: bytes, skipping: bool) -> tuple[bytes, bool, bytes]:
        """Return what is kept of a line without an end, whether it is too long, and whole lines."""
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
        """Return where the last line feed outside of quotes ends; 0 if there is none."""
        a = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero((a == 10) & ~_within(a))
        return int(ends[-1]) + 1 if len(ends) else 0

    def _without_long(self, chunk: bytes) -> bytes:
        """Return whole lines without those that are too long."""
        kept, first, start = [], 0, 0
        if self._multiline:
            chunk = _joined(chunk)
        while len(chunk) - start > LONGEST_LINE + 1:
            end = chunk.rfind(_LINE_FEED, start, start + LONGEST_LINE + 1)
            if end >= 0:
                start = end + 1
                continue
            kept.append(chunk[first:start])
            first = start = chunk.find(_LINE_FEED, start) + 1
            self.too_long += 1
        return b"".join([*kept, chunk[first:]]) if kept else chunk


def unified(chunk: bytes, multiline: bool = False) -> bytes:
    """Return whole lines in UTF-8 without NUL, byte order marks and carriage returns.

    Whatever is replaced is replaced within its line: no line feed is part of a longer character.
    What is no text, NUL too, is `UNREADABLE`.
    """
    if not chunk.isascii():
        # In lines that were joined, 0xFD is a line feed.
        parts = chunk.split(_FEED) if multiline else [chunk]
        chunk = _FEED.join(map(_repaired, parts))
        if MARK in chunk:
            chunk = chunk.removeprefix(MARK).replace(_LINE_FEED + MARK, _LINE_FEED)
    if b"\0" in chunk:
        chunk = chunk.replace(b"\0", UNREADABLE)
    if b"\r" in chunk:
        chunk = chunk.replace(b"\r\n", _LINE_FEED).replace(b"\r", _RETURN)
    return chunk


def _repaired(data: bytes) -> bytes:
    """Return UTF-8, with `UNREADABLE` for what is none."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return encoded(data.decode("utf-8", MARKED))
    return data


def fields_of(line: bytes, separator: bytes) -> list[bytes]:
    """Return a line's values: the definition of how a line is read.

    A value that begins with a quote goes on to the next quote that a separator or the end of the
    line follows, or else to the end of the line. Two quotes in it are one. Other quotes are
    characters like any other.

    >>> fields_of(b'a,"b,""c","d",5" pipe', b",")
    [b'a', b'b,"c', b'd', b'5" pipe']
    >>> fields_of(b'a,"b,c', b","), fields_of(b'"a"b,c",d', b",")
    ([b'a', b'b,c'], [b'a"b,c', b'd'])
    """
    fields, start = [], 0
    while True:
        if line[start : start + 1] == _QUOTE:
            value, start = _quoted(line, start + 1, separator)
        else:
            end = line.find(separator, start)
            end = len(line) if end < 0 else end
            value, start = line[start:end], end
        fields.append(value)
        if start >= len(line):
            return fields
        start += 1


def _quoted(line: bytes, start: int, separator: bytes) -> tuple[bytes, int]:
    """Return the value whose opening quote is before `start`, and where it ends."""
    parts: list[bytes] = []
    while (quote := line.find(_QUOTE, start)) >= 0:
        follows = line[quote + 1 : quote + 2]
        if follows in (b"", separator):
            return b"".join([*parts, line[start:quote]]), quote + 1
        parts.append(line[start : quote + 1])
        start = quote + (2 if follows == _QUOTE else 1)
    return b"".join([*parts, line[start:]]), len(line)


def is_regular(chunk: bytes, separator: bytes) -> bool:
    """Tell whether every quote opens or closes a value, or is one of two within one.

    Then every reader of such files reads them alike, if values have no line feeds.
    """
    return not len(_irregular(np.frombuffer(chunk, np.uint8), separator[0]))


def unquoted(chunk: bytes, separator: bytes) -> bytes:
    """Return whole lines as plain ones (see above); as many, in the same order."""
    if _QUOTE not in chunk:
        return chunk
    a = np.frombuffer(chunk, np.uint8)
    odd = _irregular(a, separator[0])
    if len(odd):
        # An irregular line is left empty for the passes over all, and put in afterwards.
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
    if len(uneven):  # else every line begins at an even place
        place -= np.repeat(before - counts, counts)
    neighbour = quotes + np.where(place & 1, 1, -1)  # behind what closes, before what opens
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
    keep[twice] = True  # two quotes in a value are one
    return bytes(a[keep].tobytes())


def _within(a: Bytes) -> NDArray[np.bool_]:
    """Tell which bytes have an odd number of quotes before them."""
    quotes = bits_as(a == 34, np.bool_, np.uint8)
    return bits_as(np.cumsum(quotes, dtype=np.uint8) & 1, np.uint8, np.bool_)


def _joined(chunk: bytes) -> bytes:
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
    # Each text is one byte shorter than the way to the next: the line feeds are taken out.
    offsets = np.concatenate([[0], ends - np.arange(len(ends))]).astype(np.int32)
    texts = pa.py_buffer(chunk.replace(_LINE_FEED, b""))
    return pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), texts)


def with_lines(chunk: bytes, numbers: NDArray[np.int64], lines: list[bytes]) -> bytes:
    """Return whole lines, those of some numbers (ascending) replaced."""
    ends = _ends(np.frombuffer(chunk, np.uint8))
    parts, start = [], 0
    for number, line in zip(numbers.tolist(), lines, strict=True):
        first = int(ends[number - 1]) + 1 if number else 0
        parts += [chunk[start:first], line]
        start = int(ends[number])
    return b"".join([*parts, chunk[start:]])


def fitted(chunk: bytes, separator: bytes, count: int) -> tuple[bytes, int]:
    """Return plain lines of `count` values each, and how many were left out.

    A line with fewer has no values in their place, and further values that are empty are dropped.
    A line with more is left out: nobody can tell which of its values is which.
    """
    a = np.frombuffer(chunk, np.uint8)
    starts = np.concatenate([[0], _ends(a)[:-1] + 1])
    found = np.add.reduceat((a == separator[0]).astype(np.int32), starts) + 1
    odd = np.flatnonzero(found != count)
    lines, left_out = [], 0
    ends = _ends(a)
    for k in odd:
        line = chunk[starts[k] : ends[k]]
        if found[k] < count:
            line += separator * int(count - found[k]) if line else b""
        else:
            values = line.split(separator)
            extra = any(values[count:])
            left_out += extra
            line = b"" if extra else separator.join(values[:count])
        lines.append(line)
    return with_lines(chunk, odd, lines), left_out


def restored(column: Any, separator: bytes) -> Any:
    """Return a column of binary values with what plain lines spell otherwise put back."""
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
    """Tell whether something in plain lines is spelled otherwise."""
    return any(spelled in chunk for spelled in (_SEPARATOR, _RETURN, _FEED, UNREADABLE))


def unreadable(chunk: bytes) -> int:
    """Return how many of the lines have bytes that are no text.

    >>> unreadable(unified(b"a,b\\n\\xe4,c\\n"))
    1
    """
    return sum(UNREADABLE in line for line in chunk.split(_LINE_FEED)) if UNREADABLE in chunk else 0
