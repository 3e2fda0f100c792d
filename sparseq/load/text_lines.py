"""Text files as chunks of lines, each line read by itself: nothing in one changes another.

A line ends at a line feed (a carriage return before it goes), and nowhere else. A separator between
quotes is part of a value; a quote that is not closed ends with its line. Only where the curator has
said that values may have several lines does a quote reach beyond its line.

Chunks come out *plain*: UTF-8 without quotes, in which a separator separates. What would not be
plain is spelled with bytes that no UTF-8 has, and put back when values are made (`restore`):

    0xFF  a separator within a value
    0xFE  a carriage return within a value
    0xFD  a line feed within a value
    0xFC  bytes that are no text: a value with one is NULL (`restore`)

Almost all lines are dealt with by a few passes over a whole chunk, and the odd ones alone by
`fields_of`, which is the definition; both are the same function of a line
(`tests/load/test_lines.py`).

Bytes of files as lines of UTF-8: unpacked, decoded, and a list in JSON as a line for each item.

What is done to a stream is told by its beginning alone: a mark of UTF-16, how the header ends, a
bracket. After that each line, or item, is made of its own bytes.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparseq.base.whole_files import asked_format
from sparseq.compiled import bits_as

# -- bytes of files as lines of UTF-8 --------------------------------------------------------------

UNREADABLE = b"\xfc"
"""A byte that no UTF-8 has, in the place of what can't be decoded."""
MARKED = "sparseq.unreadable"
"""The error handler for them of `bytes.decode`; `encode` writes it as `UNREADABLE`."""
_PIECE = 1 << 16
_GUESSED_FROM = 1 << 20  # bytes
_WIDE = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_BLANK = b" \t\r\n"
_OPENS = re.compile(rb'(^|[,;|\t])"')
_MORE = "there is more after the end of its list"
_OPENING, _CLOSING = list(b"[{"), list(b"]}")


class ByteStream(Protocol):
    """A source of bytes."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, at most so many; none at the end."""


class ResumedStream:
    """A stream, some of which was read already."""

    def __init__(self, data: bytes, stream: ByteStream) -> None:
        self._data, self._stream = data, stream

    def read(self, size: int, /) -> bytes:
        """See `ByteStream`; what was read already comes first, all of it."""
        data, self._data = self._data, b""
        return data or self._stream.read(size)


def _mark(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\udcfc", error.end


codecs.register_error(MARKED, _mark)


def encode(text: str) -> bytes:
    """Return what was decoded in UTF-8.

    >>> encode(b"P\\xe4d".decode("utf-8", MARKED)), encode(b"P\\xe4d".decode("latin-1", MARKED))
    (b'P\\xfcd', b'P\\xc3\\xa4d')
    """
    return text.encode("utf-8", "surrogateescape")


def open_text(path: Path, encoding: str = "") -> ByteStream:
    """Open a text file, unpacked if need be, by its name as it is; what is marked UTF-16 as UTF-8.

    Args:
        path: Of the file.
        encoding: One of a byte a character, as which it is declared; "": UTF-8.

    A damaged file raises `OSError` here or when it is read.
    """
    file = open(path, "rb")  # noqa: SIM115 - closed with the stream
    packed = asked_format(path)[1]
    stream: ByteStream = file
    if packed:
        stream = pa.CompressedInputStream(pa.PythonFile(file, "r"), packed)
    head = stream.read(_PIECE)
    rest = ResumedStream(head, stream)
    encoding = _WIDE.get(head[:2], encoding)
    return _Utf8Stream(rest, encoding) if encoding else rest


@dataclass(frozen=True)
class Letters:
    """Lines of the first parts of text files, by what their letters beyond ASCII are written in.

    Attributes:
        utf8: Lines that are UTF-8.
        odd: Lines that are not.
        lacks: Such a line has a byte that is no letter of cp1252.
        open_quotes: How many lines have an odd number of quotes, one of which opens a value.
    """

    utf8: int = 0
    odd: int = 0
    lacks: bool = False
    open_quotes: int = 0

    @classmethod
    def of(cls, path: Path, frame: int = 1) -> Letters:
        """Count in a file; a line of its frame, the first ones, counts as two."""
        utf8 = odd = quotes = 0
        lacks = False
        for k, line in enumerate(_first_part(path).splitlines()):
            if b'"' in line and line.count(b'"') % 2 and _OPENS.search(line):
                quotes += 1
            if line.isascii():
                continue
            weight = 2 if k < frame else 1
            try:
                line.decode()
                utf8 += weight
            except UnicodeDecodeError:
                odd += weight
                lacks |= re.search(rb"[\x81\x8d\x8f\x90\x9d]", line) is not None
        return cls(utf8, odd, lacks, quotes)

    def __add__(self, other: Letters) -> Letters:
        return Letters(
            self.utf8 + other.utf8,
            self.odd + other.odd,
            self.lacks or other.lacks,
            self.open_quotes + other.open_quotes,
        )

    @property
    def encoding(self) -> str:
        """The encoding of a new table's files: "" for UTF-8, where any letter shows that; else
        cp1252, which Windows writes in the west of Europe, or Latin-1, which has all bytes.

        One odd line is an odd line, and no other encoding.

        >>> Letters(utf8=1, odd=9).encoding, Letters(odd=1).encoding, Letters(odd=2).encoding
        ('', '', 'cp1252')
        """
        if self.utf8 or self.odd < 2:
            return ""
        return "iso8859-1" if self.lacks else "cp1252"


def _first_part(path: Path) -> bytes:
    """Return whole lines of the beginning of a text file."""
    file, head = open_text(path), b""
    while len(head) < _GUESSED_FROM and (more := file.read(_PIECE)):
        head += more
    return head if len(head) < _GUESSED_FROM else head[: head.rfind(b"\n") + 1]


class _Utf8Stream:
    """An encoding as UTF-8; what can't be decoded becomes `UNREADABLE`, each by itself."""

    def __init__(self, stream: ByteStream, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)(MARKED)

    def read(self, size: int, /) -> bytes:
        while True:
            data = self._stream.read(size)
            text = self._decoder.decode(data, final=not data)
            if text or not data:
                return encode(text)


def with_line_feeds(stream: ByteStream) -> ByteStream:
    """Return a stream whose lines end with line feeds: those of old Macs end with returns.

    How the header ends says how all lines do.

    >>> import io
    >>> with_line_feeds(io.BytesIO(b"who,day\\rann,1\\r")).read(99)
    b'who,day\\nann,1\\n'
    """
    head = stream.read(_PIECE)
    if head.endswith(b"\r"):
        head += stream.read(1)
    begun = head.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")
    ends = re.match(rb'(?:[^\r\n"]++|"[^"]*+")*+(\r\n|\n|\r)', begun)
    rest = ResumedStream(head, stream)
    return _Returns(rest) if ends and ends[1] == b"\r" else rest


class _Returns:
    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        return self._stream.read(size).replace(b"\r", b"\n")


def open_json(path: Path) -> ByteStream:
    """Open a file of JSON objects as lines: an object each; a list has a line for every item.

    A list that is torn raises `OSError` when it is read to its end.
    """
    stream = open_text(path)
    if asked_format(path)[0] != "json":
        return stream
    head = b""
    while more := stream.read(_PIECE):
        head += more
        if head.removeprefix(codecs.BOM_UTF8).strip(_BLANK):
            break
    body = head.removeprefix(codecs.BOM_UTF8).lstrip(_BLANK)
    rest = ResumedStream(head, stream)
    return _Items(ResumedStream(body, stream)) if body.startswith(b"[") else rest


class _Items:
    """The items of a list as lines. Brackets and quotes say where each ends, and nothing else."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream, self._kept = stream, b""
        self._depth, self._read_quoted_value, self._begun = 0, False, False

    def read(self, size: int, /) -> bytes:
        while data := self._stream.read(size):
            data, self._kept = self._kept + data, b""
            slashes = len(data) - len(data.rstrip(b"\\"))
            if slashes:  # what they stand before has not come yet
                data, self._kept = data[:-slashes], data[-slashes:]
            if data:
                return self._lines(data)
        if self._depth or self._read_quoted_value or self._kept.strip(_BLANK):
            raise OSError("its list has no end")
        return b""

    def _lines(self, data: bytes) -> bytes:
        """Return what comes next, with a line feed for each comma between two items."""
        if self._begun and not self._depth and data.strip(_BLANK):
            raise OSError(_MORE)
        a = np.frombuffer(data, np.uint8).copy()
        quotes = a == 34
        if b"\\" in data:
            quotes &= ~_is_escaped(a)
        within = np.logical_xor.accumulate(quotes) ^ self._read_quoted_value
        outside = ~(within | quotes)
        steps = np.where(np.isin(a, _OPENING), 1, 0) - np.isin(a, _CLOSING)
        depth = self._depth + np.cumsum(np.where(outside, steps, 0))
        after = depth == 0
        if after[:-1].any() and bytes(a[1:][after[:-1]]).strip(_BLANK):
            raise OSError(_MORE)
        a[(a == 10) | (a == 13)] = 32
        a[(depth == 1) & outside & (a == 44)] = 10
        ends = after & (a == 93)
        a[ends] = 10
        if not self._begun:
            a[0], self._begun = 32, True
        self._depth, self._read_quoted_value = int(depth[-1]), bool(within[-1])
        return a.tobytes()


def _is_escaped(a: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Tell which bytes a backslash stands before that is not itself written with one."""
    places = np.flatnonzero(a == 92)
    first = np.diff(places, prepend=-2) != 1
    starts = np.maximum.accumulate(np.where(first, places, 0))
    odd = places[(places - starts) % 2 == 0]
    escaped = np.zeros(len(a), np.bool_)
    escaped[odd[odd + 1 < len(a)] + 1] = True
    return escaped


# -- text files as chunks of lines, each line read by itself: nothing in one changes another -------

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
        """Number of lines left out because they are too long."""

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

    Whatever is replaced is replaced within its line: no line feed is part of a longer character.
    What is no text, NUL too, is `UNREADABLE`.
    """
    if not chunk.isascii():
        # In lines that were joined, 0xFD is a line feed.
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
    """Return UTF-8, with `UNREADABLE` for what is none."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return encode(data.decode("utf-8", MARKED))
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
            value, start = _read_quoted_value(line, start + 1, separator)
        else:
            end = line.find(separator, start)
            end = len(line) if end < 0 else end
            value, start = line[start:end], end
        fields.append(value)
        if start >= len(line):
            return fields
        start += 1


def _read_quoted_value(line: bytes, start: int, separator: bytes) -> tuple[bytes, int]:
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


def unquote(chunk: bytes, separator: bytes) -> bytes:
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


def fit(chunk: bytes, separator: bytes, count: int) -> tuple[bytes, int]:
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


def restore(column: Any, separator: bytes) -> Any:
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

    >>> unreadable(unify(b"a,b\\n\\xe4,c\\n"))
    1
    """
    return sum(UNREADABLE in line for line in chunk.split(_LINE_FEED)) if UNREADABLE in chunk else 0


# -- ahead of who uses it: what comes next is made while the last one is used ----------------------

Item = TypeVar("Item")
Made = TypeVar("Made")


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """Return the items in their order, each made in another thread while the one before is used.

    Whatever making one raises is raised in its place. Who stops early waits for the one that is
    being made.

    >>> list(ahead(range(3)))
    [0, 1, 2]
    """
    making, end = iter(items), object()
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, making, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, making, end)
            yield item  # type: ignore[misc]


def map_ahead(
    make: Callable[[Item], Made], items: Iterable[Item], threads: int = 2
) -> Iterator[Made]:
    """Return what is made of each item, in their order, so many being made at once.

    >>> list(map_ahead(str, range(3)))
    ['0', '1', '2']
    """
    making = iter(items)
    for first in making:  # alone: nobody may want more
        yield make(first)
        break
    with ThreadPoolExecutor(threads) as pool:
        coming: deque[Future[Made]] = deque()
        for item in making:
            coming.append(pool.submit(make, item))
            if len(coming) > threads:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()
