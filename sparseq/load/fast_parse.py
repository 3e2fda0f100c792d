"""Fast conversion of texts in the usual spelling, with the same results as the general rule.

`convert.from_text` defines the value of every text in a type. Almost all files have integers of
digits, numbers with a point and ISO 8601 dates, and Arrow reads these several times faster. Arrow's
result is used only if it must be the same: all texts have the characters and lengths below, and
Arrow accepts them all. Otherwise it is discarded.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparseq.base._duckdb.connection import scratch
from sparseq.load.convert import from_text
from sparseq.load.tidy import in_our_years

_SIGNS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), b"0123456789-"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), b"0123456789"),
    "DOUBLE": b"0123456789-.",
    "DATE": b"0123456789-",
    "TIMESTAMP": b"0123456789-:T ",
}
FEW = 8
"""If at most one text in this number is unusual, the unusual ones are read separately."""
_LENGTHS = {"DATE": (10,), "TIMESTAMP": (10, 19)}
ARROW = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
}
"""The types that this module handles, as Arrow types."""


def usual(texts: pa.Array, target: str) -> pa.Array | None:
    """Return texts in a type of `ARROW`, or None if any may be unusual.

    >>> usual(pa.array(["7", None, "-12"]), "BIGINT").to_pylist()
    [7, None, -12]
    >>> usual(pa.array(["7", "8.0"]), "BIGINT")
    """
    ends, data = _buffers(texts)
    if len(ends) and data[ends[0] : ends[-1]].tobytes().translate(None, _SIGNS[target]):
        return None
    lengths = _LENGTHS.get(target)
    if lengths and not np.isin(np.diff(ends), (0, *lengths)).all():
        return None
    try:
        values = texts.cast(ARROW[target])
    except pa.ArrowInvalid:
        return None
    return values if not lengths or in_our_years(values) else None


def unusual(texts: pa.Array, target: str) -> NDArray[np.bool_]:
    """Return a mask of texts with other characters, or another length.

    >>> unusual(pa.array(["7", "8.0", None]), "BIGINT").tolist()
    [False, True, False]
    """
    ends, data = _buffers(texts)
    odd = np.zeros(len(texts), np.bool_)
    if len(ends):
        known = np.zeros(256, np.bool_)
        known[list(_SIGNS[target])] = True
        places = np.flatnonzero(~known[data[: ends[-1]]])
        odd[np.searchsorted(ends, places[places >= ends[0]], "right") - 1] = True
        if target in _LENGTHS:
            odd |= ~np.isin(np.diff(ends), (0, *_LENGTHS[target]))
    return odd


def iso(texts: pa.Array, format: str) -> pa.Array | None:
    """Return days in ISO 8601; None if any may not match the format.

    >>> iso(pa.array(["05/01/2024", None]), "%d/%m/%Y").to_pylist()
    ['2024-01-05', None]
    """
    form = format.replace("%Y", "YYYY").replace("%m", "MM").replace("%d", "DD")
    if sorted(form.translate({ord(c): "" for c in "/.-"})) != sorted("YYYYMMDD"):
        return None
    days = texts.drop_null()
    ends, data = _buffers(days)
    if len(form) != 10 or not (np.diff(ends) == 10).all():
        return None
    written = data[ends[0] : ends[-1]].reshape(-1, 10) if len(ends) else data.reshape(-1, 10)
    made = np.full_like(written, b"-"[0])
    for part in ("YYYY", "MM", "DD"):
        made[:, "YYYY-MM-DD".index(part) :][:, : len(part)] = written[:, form.index(part) :][
            :, : len(part)
        ]
    digits = made[:, [0, 1, 2, 3, 5, 6, 8, 9]]
    between = [k for k, sign in enumerate(form) if sign in "/.-"]
    signs = np.frombuffer(form.encode(), np.uint8)[between]
    if ((digits < 48) | (digits > 57)).any() or (written[:, between] != signs).any():
        return None
    ends = np.arange(len(days) + 1, dtype=np.int32) * np.int32(10)
    found = pa.StringArray.from_buffers(len(days), pa.py_buffer(ends), pa.py_buffer(made.tobytes()))
    if not texts.null_count:
        return found
    return pc.replace_with_mask(texts.cast(pa.string()), texts.is_valid(), found)


def _buffers(texts: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the ends of the texts, relative to the start of the first, and their characters."""
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    _, offsets, data = texts.buffers()
    if offsets is None or data is None or not len(texts):
        return np.zeros(0, np.int64), np.zeros(0, np.uint8)
    ends = np.frombuffer(offsets, width)[texts.offset : texts.offset + len(texts) + 1]
    return ends.astype(np.int64), np.frombuffer(data, np.uint8)


class TextColumn:
    """Converts texts to a type: `convert.from_text`, or `usual` where possible."""

    def __init__(self, target: str, format: str) -> None:
        self._target, self._format = target, format

    def values(self, texts: pa.Array) -> pa.Array:
        """Return the values of texts as an array of `ARROW`'s type; NULL for invalid texts."""
        plain = iso(texts, self._format) if self._format else texts
        found = None if plain is None else usual(plain, self._target)
        if found is not None:
            return found
        odd = None if self._format else unusual(texts, self._target)
        if odd is None or not 0 < odd.sum() * FEW < len(odd):
            return self._slowly(texts)
        mask = pa.array(odd)
        found = usual(pc.if_else(mask, pa.scalar(None, texts.type), texts), self._target)
        if found is None:
            return self._slowly(texts)
        return pc.replace_with_mask(found, mask, self._slowly(texts.filter(mask)))

    def _slowly(self, texts: pa.Array) -> pa.Array:
        with scratch() as con:
            con.register("texts", pa.table({"x": texts}))
            sql = from_text("x", self._target, self._format)
            table = con.sql(f"SELECT {sql} AS x FROM texts").to_arrow_table()
        return pa.concat_arrays(table.column(0).chunks).cast(ARROW[self._target])
