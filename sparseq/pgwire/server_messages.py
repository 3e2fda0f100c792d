"""Messages that the server sends, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sparseq.pgwire.messages import NULL, frame
from sparseq.pgwire.wire_errors import WireError

PARSED, BOUND, CLOSED = frame(b"1"), frame(b"2"), frame(b"3")
NO_DATA, EMPTY, SUSPENDED = frame(b"n"), frame(b"I"), frame(b"s")
AUTHENTICATED = frame(b"R", struct.pack("!i", 0))
COPY_DONE = frame(b"c")


@dataclass(frozen=True)
class Field:
    """A column of a result for a client; `size` in bytes, -1 if it varies."""

    name: str
    oid: int
    size: int


def sasl(step: int, data: bytes) -> bytes:
    """Authentication: 10 offers mechanisms, 11 continues, 12 ends."""
    return frame(b"R", struct.pack("!i", step) + data)


def parameter(name: str, value: str) -> bytes:
    """ParameterStatus: a setting reported to clients."""
    return frame(b"S", _safe_text(name) + _safe_text(value))


def key(process: int, secret: int) -> bytes:
    """BackendKeyData: the process and the secret for cancelling."""
    return frame(b"K", struct.pack("!ii", process, secret))


def negotiate(options: Sequence[str]) -> bytes:
    """NegotiateProtocolVersion: version 3.0 is supported, and none of these options."""
    return frame(b"v", struct.pack("!ii", 0, len(options)) + b"".join(map(_safe_text, options)))


def ready(state: bytes) -> bytes:
    """ReadyForQuery: I idle, T in a transaction, E in one that failed."""
    return frame(b"Z", state)


def error(failure: WireError) -> bytes:
    """ErrorResponse.

    Example:
        >>> error(WireError("42601", "no"))
        b'E\\x00\\x00\\x00\\x1eSERROR\\x00VERROR\\x00C42601\\x00Mno\\x00\\x00'
    """
    severity = "FATAL" if failure.fatal else "ERROR"
    return frame(b"E", _fields(severity, failure))


def notice(message: str, hint: str = "", *, code: str = "00000", severity: str = "NOTICE") -> bytes:
    """NoticeResponse."""
    return frame(b"N", _fields(severity, WireError(code, message, hint)))


def _fields(severity: str, error: WireError) -> bytes:
    parts = [("S", severity), ("V", severity), ("C", error.code), ("M", error.message)]
    if error.hint:
        parts.append(("H", error.hint))
    if error.position:
        parts.append(("P", str(error.position)))
    return b"".join(kind.encode() + _safe_text(text) for kind, text in parts) + b"\0"


def parameter_types(oids: Sequence[int]) -> bytes:
    """ParameterDescription."""
    return frame(b"t", struct.pack(f"!H{len(oids)}i", len(oids), *oids))


def row_description(fields: Sequence[Field], formats: Sequence[int]) -> bytes:
    """RowDescription; one format a field."""
    parts = [struct.pack("!H", len(fields))]
    for field, format in zip(fields, formats, strict=True):
        parts.append(_safe_text(field.name))
        parts.append(struct.pack("!ihihih", 0, 0, field.oid, field.size, -1, format))
    return frame(b"T", b"".join(parts))


def data_row(values: Iterable[bytes | None]) -> bytes:
    """DataRow."""
    cells = [NULL if v is None else struct.pack("!i", len(v)) + v for v in values]
    return frame(b"D", struct.pack("!H", len(cells)) + b"".join(cells))


def complete(tag: str) -> bytes:
    """CommandComplete."""
    return frame(b"C", _safe_text(tag))


def copy_out(columns: int, format: int) -> bytes:
    """CopyOutResponse: 0 text, 1 binary."""
    return frame(b"H", struct.pack(f"!bH{columns}h", format, columns, *[format] * columns))


def copy_data(data: bytes) -> bytes:
    """CopyData."""
    return frame(b"d", data)


def _safe_text(text: str) -> bytes:
    return text.replace("\0", "").encode(errors="replace") + b"\0"
