"""Messages of PostgreSQL's protocol 3.0 as bytes: splitting a stream, reading and writing.

Pure functions over bytes; no sockets. Any bytes raise `WireError` or nothing. The protocol:
PostgreSQL 15's documentation, chapter 55.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sparseq.pgwire.wire_errors import PROTOCOL_VIOLATION, TOO_LARGE, WireError

MOST_AT_START = 10_000
"""The most bytes of a packet before authentication."""
MOST_AFTER = 1 << 20
"""The most bytes of a message after authentication."""
VERSION = 3 << 16
_TLS, _GSS, _CANCEL = 80877103, 80877104, 80877102
_HEAD = 5


@dataclass(frozen=True)
class Startup:
    """The first packet: the user and the database. `minor` is the minor version of protocol 3."""

    parameters: Mapping[str, str]
    minor: int = 0


@dataclass(frozen=True)
class TlsRequest:
    """The client requests TLS."""


@dataclass(frozen=True)
class GssRequest:
    """The client requests GSSAPI, which is not supported."""


@dataclass(frozen=True)
class Cancel:
    """A request to cancel another connection's statement, with its process and its secret."""

    process: int
    secret: int


Packet = Startup | TlsRequest | GssRequest | Cancel


@dataclass(frozen=True)
class SimpleQuery:
    """Q: statements to run, by the simple protocol."""

    text: str


@dataclass(frozen=True)
class Parse:
    """P: a statement to prepare, with the known types of its parameters."""

    name: str
    text: str
    types: tuple[int, ...] = ()


@dataclass(frozen=True)
class Bind:
    """B: make a portal from a prepared statement and values. Formats: 0 text, 1 binary."""

    portal: str
    statement: str
    formats: tuple[int, ...] = ()
    values: tuple[bytes | None, ...] = ()
    result_formats: tuple[int, ...] = ()


@dataclass(frozen=True)
class Describe:
    """D: describe the result of a statement (S) or a portal (P)."""

    kind: str
    name: str


@dataclass(frozen=True)
class Execute:
    """E: run a portal; 0 rows: all of them."""

    portal: str
    rows: int = 0


@dataclass(frozen=True)
class Close:
    """C: close a statement (S) or a portal (P)."""

    kind: str
    name: str


@dataclass(frozen=True)
class Sasl:
    """p: a step of authentication, which the server knows."""

    data: bytes


@dataclass(frozen=True)
class Flush:
    """H: send all pending messages."""


@dataclass(frozen=True)
class Sync:
    """S: the end of a series of messages."""


@dataclass(frozen=True)
class Terminate:
    """X: end of the connection."""


@dataclass(frozen=True)
class Copy:
    """d, c or f: rows that a client sends. The server never requests them, so they are ignored."""

    kind: str
    data: bytes = b""


@dataclass(frozen=True)
class FunctionCall:
    """F: a call of a function by its number."""

    data: bytes = b""


Message = (
    SimpleQuery
    | Parse
    | Bind
    | Describe
    | Execute
    | Close
    | Sasl
    | Flush
    | Sync
    | Terminate
    | Copy
    | FunctionCall
)


class Frames:
    """A buffer that splits received bytes into messages, for any fragmentation.

    Example:
        >>> frames = Frames()
        >>> frames.feed(b"S"), list(frames.messages())
        (None, [])
        >>> frames.feed(bytes([0, 0, 0, 4])), list(frames.messages())
        (None, [Sync()])
    """

    def __init__(self) -> None:
        self._bytes = bytearray()
        self.most = MOST_AT_START

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._bytes += data

    def __len__(self) -> int:
        """Return the number of bytes that belong to no message yet."""
        return len(self._bytes)

    def packet(self) -> Packet | None:
        """Return the start-up packet; None: it is incomplete.

        Raises:
            WireError: The bytes are no such message.
        """
        body = self._cut(0)
        return None if body is None else read_packet(body)

    def messages(self) -> Iterator[Message]:
        """Yield the complete messages.

        Raises:
            WireError: A message is invalid; later messages can still be read.
        """
        while True:
            kind = bytes(self._bytes[:1])
            body = self._cut(1)
            if body is None:
                return
            yield read_message(kind, body)

    def _cut(self, skip: int) -> bytes | None:
        if len(self._bytes) < skip + 4:
            return None
        length = int.from_bytes(self._bytes[skip : skip + 4], "big", signed=True)
        if length < 4 or length > self.most:
            raise WireError(
                TOO_LARGE if length > self.most else PROTOCOL_VIOLATION,
                f"a message says that it has {length:,} bytes; 4 to {self.most:,} are taken",
                fatal=True,
            )
        if len(self._bytes) < skip + length:
            return None
        body = bytes(self._bytes[skip + 4 : skip + length])
        del self._bytes[: skip + length]
        return body


class _Body:
    """The fields of one message, read one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._data):
            raise WireError(PROTOCOL_VIOLATION, "a message is shorter than it says", fatal=True)
        part = self._data[self._at : end]
        self._at = end
        return part

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big", signed=True)

    def numbers(self, width: int) -> tuple[int, ...]:
        count = self.number(2)
        return tuple(self.number(width) for _ in range(count & 0xFFFF))

    def text(self) -> str:
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise WireError(PROTOCOL_VIOLATION, "a text in a message has no end", fatal=True)
        part = self.take(end - self._at)
        self._at += 1
        return utf8(part)

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def end(self) -> None:
        if self._at != len(self._data):
            raise WireError(PROTOCOL_VIOLATION, "a message is longer than it says", fatal=True)


def utf8(data: bytes) -> str:
    """Return bytes as text.

    Raises:
        WireError: The bytes are not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise WireError("22021", "a text is not UTF-8", "SET client_encoding = 'UTF8'") from None


def read_packet(data: bytes) -> Packet:
    """Read a start-up packet without its length.

    Raises:
        WireError: The bytes are no such message.
    """
    body = _Body(data)
    code = body.number(4)
    if code == _CANCEL:
        cancel = Cancel(body.number(4), body.number(4))
        body.end()
        return cancel
    if code in (_TLS, _GSS):
        body.end()
        return TlsRequest() if code == _TLS else GssRequest()
    if code >> 16 != 3:
        problem = f"protocol {code >> 16}.{code & 0xFFFF} is not spoken here, only 3.0"
        raise WireError("0A000", problem, fatal=True)
    parameters = {}
    while name := body.text():
        parameters[name] = body.text()
    body.end()
    return Startup(parameters, code & 0xFFFF)


def read_message(kind: bytes, data: bytes) -> Message:
    """Read one message without its length.

    Raises:
        WireError: The bytes are no such message.
    """
    body = _Body(data)
    message = _read(kind, body)
    body.end()
    return message


def _read(kind: bytes, body: _Body) -> Message:
    match kind:
        case b"Q":
            return SimpleQuery(body.text())
        case b"P":
            return Parse(body.text(), body.text(), body.numbers(4))
        case b"B":
            return _read_bind(body)
        case b"D" | b"C":
            which = body.take(1)
            if which not in (b"S", b"P"):
                problem = f"{which!r} is neither a statement nor a portal"
                raise WireError(PROTOCOL_VIOLATION, problem, fatal=True)
            made = Describe if kind == b"D" else Close
            return made(which.decode(), body.text())
        case b"E":
            return Execute(body.text(), body.number(4))
        case b"p":
            return Sasl(body.rest())
        case b"H":
            return Flush()
        case b"S":
            return Sync()
        case b"X":
            return Terminate()
        case b"d" | b"c" | b"f":
            return Copy(kind.decode(), body.rest())
        case b"F":
            return FunctionCall(body.rest())
    raise WireError(PROTOCOL_VIOLATION, f"there is no message {kind!r}", fatal=True)


def _read_bind(body: _Body) -> Bind:
    portal, statement, formats = body.text(), body.text(), body.numbers(2)
    values: list[bytes | None] = []
    for _ in range(body.number(2) & 0xFFFF):
        length = body.number(4)
        values.append(None if length == -1 else body.take(length))
    bound = Bind(portal, statement, formats, tuple(values), body.numbers(2))
    if {*bound.formats, *bound.result_formats} - {0, 1}:
        raise WireError(PROTOCOL_VIOLATION, "formats are 0 (text) and 1 (binary)")
    if len(bound.formats) not in (0, 1, len(values)):
        raise WireError(PROTOCOL_VIOLATION, "as many formats as parameters, or one")
    return bound


def write_packet(packet: Packet) -> bytes:
    """Return the bytes of a start-up packet from a client.

    Example:
        >>> write_packet(TlsRequest())
        b'\\x00\\x00\\x00\\x08\\x04\\xd2\\x16/'
    """
    match packet:
        case Startup(parameters, minor):
            words = "".join(f"{name}\0{value}\0" for name, value in parameters.items())
            body = struct.pack("!i", VERSION + minor) + words.encode() + b"\0"
        case Cancel(process, secret):
            body = struct.pack("!iii", _CANCEL, process, secret)
        case TlsRequest() | GssRequest():
            body = struct.pack("!i", _TLS if isinstance(packet, TlsRequest) else _GSS)
    return struct.pack("!i", len(body) + 4) + body


def write_message(message: Message) -> bytes:
    """Return the bytes of a message from a client.

    Example:
        >>> write_message(SimpleQuery("SELECT 1"))
        b'Q\\x00\\x00\\x00\\rSELECT 1\\x00'
    """
    match message:
        case SimpleQuery(text):
            return frame(b"Q", _text(text))
        case Parse(name, text, types):
            return frame(b"P", _text(name) + _text(text) + _ints("i", types))
        case Bind(portal, statement, formats, values, results):
            body = _text(portal) + _text(statement) + _ints("h", formats)
            return frame(b"B", body + _values(values) + _ints("h", results))
        case Describe(kind, name) | Close(kind, name):
            letter = b"D" if isinstance(message, Describe) else b"C"
            return frame(letter, kind.encode() + _text(name))
        case Execute(portal, rows):
            return frame(b"E", _text(portal) + struct.pack("!i", rows))
        case Copy(kind, data):
            return frame(kind.encode(), data)
        case Sasl(data) | FunctionCall(data):
            return frame(b"p" if isinstance(message, Sasl) else b"F", data)
        case Flush() | Sync() | Terminate():
            return frame({Flush: b"H", Sync: b"S", Terminate: b"X"}[type(message)])


def frame(kind: bytes, body: bytes = b"") -> bytes:
    """Return a message of a kind, with its length."""
    return kind + struct.pack("!i", len(body) + 4) + body


def _text(text: str) -> bytes:
    return text.encode() + b"\0"


def _ints(format: str, numbers: Sequence[int]) -> bytes:
    return struct.pack(f"!H{len(numbers)}{format}", len(numbers), *numbers)


def _values(values: Sequence[bytes | None]) -> bytes:
    parts = [struct.pack("!H", len(values))]
    for value in values:
        parts.append(NULL if value is None else struct.pack("!i", len(value)) + value)
    return b"".join(parts)


NULL = struct.pack("!i", -1)
