"""Bytes of files as lines of UTF-8: unpacked, decoded, and a list in JSON as one line per item.

Only the beginning of a stream decides its conversion: a mark of UTF-16, the end of the header, a
bracket. After that each line, or item, depends only on its own bytes.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.base.file_formats import asked_format

UNREADABLE = b"\xfc"
"""A byte that UTF-8 never uses, in place of bytes that can't be decoded."""
MARKED = "sparseq.unreadable"
"""The error handler of `bytes.decode` for them; `encode` writes it as `UNREADABLE`."""
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
        """Return the next bytes, at most this number; none at the end."""


class ResumedStream:
    """A stream that was partly read already."""

    def __init__(self, data: bytes, stream: ByteStream) -> None:
        self._data, self._stream = data, stream

    def read(self, size: int, /) -> bytes:
        """See `ByteStream`; the first call returns all bytes from earlier reads."""
        data, self._data = self._data, b""
        return data or self._stream.read(size)


def _mark(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\udcfc", error.end


codecs.register_error(MARKED, _mark)


def encode(text: str) -> bytes:
    """Return decoded text in UTF-8.

    >>> encode(b"P\\xe4d".decode("utf-8", MARKED)), encode(b"P\\xe4d".decode("latin-1", MARKED))
    (b'P\\xfcd', b'P\\xc3\\xa4d')
    """
    return text.encode("utf-8", "surrogateescape")


def open_text(path: Path, encoding: str = "") -> ByteStream:
    """Open a text file, unpack it if its name says so, and convert UTF-16 with a mark to UTF-8.

    Args:
        path: The path of the file.
        encoding: The declared encoding, with one byte per character; "": UTF-8.

    A damaged file raises `OSError` here or during the read.
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
    """Counts of lines in the first parts of text files, by the encoding of letters beyond ASCII.

    Attributes:
        utf8: Lines that are UTF-8.
        odd: Lines that are not.
        lacks: True if such a line has a byte that is no letter of cp1252.
        open_quotes: The number of lines with an odd number of quotes, including an opening one.
    """

    utf8: int = 0
    odd: int = 0
    lacks: bool = False
    open_quotes: int = 0

    @classmethod
    def of(cls, path: Path, frame: int = 1) -> Letters:
        """Return the counts of a file, in which each of the first `frame` lines counts twice."""
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
        """The encoding of a new table's files: "" for UTF-8, if any letter shows it; else cp1252,
        the encoding of Windows in western Europe, or Latin-1, which has all bytes.

        A single line in another encoding does not change the encoding.

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
    """A stream converted to UTF-8; each byte that can't be decoded becomes `UNREADABLE`."""

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

    The end of the header decides for all lines.

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
    """Open a file of JSON objects as lines: one object each; a list has one line per item.

    A torn list raises `OSError` at its end.
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
    """The items of a list as lines. Only brackets and quotes decide where each ends."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream, self._kept = stream, b""
        self._depth, self._read_quoted_value, self._begun = 0, False, False

    def read(self, size: int, /) -> bytes:
        while data := self._stream.read(size):
            data, self._kept = self._kept + data, b""
            slashes = len(data) - len(data.rstrip(b"\\"))
            if slashes:  # the character after them has not come yet
                data, self._kept = data[:-slashes], data[-slashes:]
            if data:
                return self._lines(data)
        if self._depth or self._read_quoted_value or self._kept.strip(_BLANK):
            raise OSError("its list has no end")
        return b""

    def _lines(self, data: bytes) -> bytes:
        """Return the next bytes, with a line feed for each comma between two items."""
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
    """Return a mask of bytes after a backslash that is not itself escaped."""
    places = np.flatnonzero(a == 92)
    first = np.diff(places, prepend=-2) != 1
    starts = np.maximum.accumulate(np.where(first, places, 0))
    odd = places[(places - starts) % 2 == 0]
    escaped = np.zeros(len(a), np.bool_)
    escaped[odd[odd + 1 < len(a)] + 1] = True
    return escaped
