"""Texts written in the usual way become values in one pass: fast, and never another value.

`convert.from_text` says what a text is in a type, for every text. Almost all files have whole
numbers of digits, numbers with a point and ISO 8601 dates, and Arrow reads these several times
faster. It is asked only where it can't have another opinion: all of the texts are of the characters
and lengths below, and it takes all of them. Else, nothing of it is used.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.engine.tidy import in_our_years

_SIGNS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), b"0123456789-"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), b"0123456789"),
    "DOUBLE": b"0123456789-.",
    "DATE": b"0123456789-",
    "TIMESTAMP": b"0123456789-:T ",
}
_LENGTHS = {"DATE": (10,), "TIMESTAMP": (10, 19)}
ARROW = {
    "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INTEGER": pa.int32(), "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(), "USMALLINT": pa.uint16(), "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(), "DOUBLE": pa.float64(), "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
}  # fmt: skip
"""The types that this module knows, as Arrow has them."""


def usual(texts: pa.Array, target: str) -> pa.Array | None:
    """Return texts in a type of `ARROW`, or None where one of them may be written otherwise.

    >>> usual(pa.array(["7", None, "-12"]), "BIGINT").to_pylist()
    [7, None, -12]
    >>> usual(pa.array(["7", "8.0"]), "BIGINT")
    """
    ends, data = _buffers(texts)
    if len(ends) and not _among(data[ends[0] : ends[-1]], _SIGNS[target]):
        return None
    lengths = _LENGTHS.get(target)
    if lengths and not np.isin(np.diff(ends), (0, *lengths)).all():
        return None
    try:
        values = texts.cast(ARROW[target])
    except pa.ArrowInvalid:
        return None
    return values if not lengths or in_our_years(values) else None


def _buffers(texts: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return where texts end, from where the first begins, and their characters."""
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    _, offsets, data = texts.buffers()
    if offsets is None or data is None or not len(texts):
        return np.zeros(0, np.int64), np.zeros(0, np.uint8)
    ends = np.frombuffer(offsets, width)[texts.offset : texts.offset + len(texts) + 1]
    return ends.astype(np.int64), np.frombuffer(data, np.uint8)


def _among(data: NDArray[np.uint8], signs: bytes) -> bool:
    return not data.tobytes().translate(None, signs)
