"""Bytes of files as lines of UTF-8: unpacked, decoded, and a list in JSON as a line for each item.

What is done to a stream is told by its beginning alone: a mark of UTF-16, how the header ends, a
bracket. After that each line, or item, is made of its own bytes.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.base.whole_files import asked_format

UNREADABLE = b"\xfc"
"""A byte that no UTF-8 has, in the place of what can't be decoded."""
MARKED = "sparseq.unreadable"
"""How `bytes.decode` deals with that; `encoded` writes it as `UNREADABLE`."""
_PIECE = 1 << 16
_WIDE = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_BLANK = b" \t\r\n"
_MORE = "there is more after the end of its list"
_OPENING, _CLOSING = list(b"[{"), list(b"]}")


class ByteStream(Protocol):
    """What bytes are read from."""

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


def _marked(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\udcfc", error.end


codecs.register_error(MARKED, _marked)


def encoded(text: str) -> bytes:
    """Return what was decoded in UTF-8.

    >>> encoded(b"P\\xe4d".decode("utf-8", MARKED)), encoded(b"P\\xe4d".decode("latin-1", MARKED))
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
                return encoded(text)


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
        self._depth, self._quoted, self._begun = 0, False, False

    def read(self, size: int, /) -> bytes:
        while data := self._stream.read(size):
            data, self._kept = self._kept + data, b""
            slashes = len(data) - len(data.rstrip(b"\\"))
            if slashes:  # what they stand before has not come yet
                data, self._kept = data[:-slashes], data[-slashes:]
            if data:
                return self._lines(data)
        if self._depth or self._quoted or self._kept.strip(_BLANK):
            raise OSError("its list has no end")
        return b""

    def _lines(self, data: bytes) -> bytes:
        """Return what comes next, with a line feed for each comma between two items."""
        if self._begun and not self._depth and data.strip(_BLANK):
            raise OSError(_MORE)
        a = np.frombuffer(data, np.uint8).copy()
        quotes = a == 34
        if b"\\" in data:
            quotes &= ~_escaped(a)
        within = np.logical_xor.accumulate(quotes) ^ self._quoted
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
        self._depth, self._quoted = int(depth[-1]), bool(within[-1])
        return a.tobytes()


def _escaped(a: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Tell which bytes a backslash stands before that is not itself written with one."""
    places = np.flatnonzero(a == 92)
    first = np.diff(places, prepend=-2) != 1
    starts = np.maximum.accumulate(np.where(first, places, 0))
    odd = places[(places - starts) % 2 == 0]
    escaped = np.zeros(len(a), np.bool_)
    escaped[odd[odd + 1 < len(a)] + 1] = True
    return escaped
