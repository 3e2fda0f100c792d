"""Arrays of non-negative integers as few bytes: the format of one release's charges.

A constant array is one number. Otherwise each number takes two bytes if all have at most 11
significant bits, as charges have (the upper half of a float32, with its exponent counted from 1,
which is exact), or else the 1, 2, 4 or 8 bytes that the largest number needs. If a long array has
mostly a few different values, as counts do, these values are listed: a number is its index in the
list, in one byte, or in one bit if there are two values; the other numbers follow, in two bytes
each. A sorted set of users is written as the gaps between them, in one byte each if few are large
(gaps of 255 or more: repeated 255 bytes, then the remainder), or as a bitmap if that is shorter.
The byte order is little-endian throughout.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.base.errors import StoreError
from sparseq.compiled import compiled, halves, looked_up, worthwhile

_HEAD = struct.Struct("<cqq")  # width, length, constant (or first user)
_DROPPED = np.uint32(13)  # bits of a float32 that 11 significant bits do not use
_BLOCK = 1 << 14  # numbers in one block, so that intermediate results stay in cache
_BIAS = np.uint32(126 << 10)  # so that 1 has the code 1 << 10, and the code 0 is free for 0
_WIDTHS = {b"1": "<u1", b"2": "<u2", b"4": "<u4", b"8": "<u8"}
_ALIGNED = 32  # offset of the codes in a buffer: the head fits before them
_USERS = 2**31  # one more than the largest index
_FULL = 255  # this byte means that a gap continues; also the maximum of listed values
_MANY = 1 << 12  # from this length on, listing the frequent values saves space


def pack(numbers: NDArray[np.int64]) -> bytes | memoryview:
    """Return `numbers`, all >= 0, as bytes.

    Example:
        >>> len(pack(np.full(1000, 7))), unpack(pack(np.array([1, 300]))).tolist()
        (17, [1, 300])

    Raises:
        ValueError: A number is negative; packed, it would read as another number.
    """
    if len(numbers) == 0:
        return _HEAD.pack(b"=", 0, 0)
    low, high, short = _looked_over(numbers)
    if low < 0:
        raise ValueError("only numbers of at least 0 can be packed")
    if low == high:
        return _HEAD.pack(b"=", len(numbers), low)
    width = next(w for w in _WIDTHS if high < 256 ** int(w))
    by_code = high >= 2**16 and short is not None
    plain = len(numbers) * (2 if by_code else int(width))
    if short is not None and len(numbers) >= _MANY and (high >= 256 or high - low == 1):
        listed = _encode_frequent(short[_ALIGNED:].view("<u2"), plain * 9 // 10)
        if listed is not None:
            return listed
    if by_code and short is not None:
        _HEAD.pack_into(short.data, _ALIGNED - _HEAD.size, b"h", len(numbers), 0)
        return short.data[_ALIGNED - _HEAD.size :]
    return b"".join((_HEAD.pack(width, len(numbers), 0), numbers.astype(_WIDTHS[width]).data))


def unpack(data: bytes) -> NDArray[np.int64]:
    """Return the numbers that `pack` was given.

    Raises:
        StoreError: The bytes are not what `pack` writes.
    """
    width, length, constant = _head(data, b"=1248hd")
    if width == b"=":
        return np.full(length, constant, np.int64)
    if width == b"d":
        return _lengthen(_decode_frequent(data, length, constant))
    if width == b"h":
        return _lengthen(np.frombuffer(_body(data, length * 2), "<u2"))
    numbers = np.frombuffer(_body(data, length * int(width)), _WIDTHS[width]).astype(np.int64)
    if int(numbers.min(initial=0)) < 0:
        raise _damage_error()
    return numbers


def _looked_over(numbers: NDArray[np.int64]) -> tuple[int, int, NDArray[np.uint8] | None]:
    """Return the minimum, the maximum, and all numbers in 16 bits each, after room for the head.

    The last is None if a number has more than 11 significant bits, or is 2**53 or more.
    """
    if worthwhile(len(numbers), loads=False):
        short = np.empty(_ALIGNED + 2 * len(numbers), np.uint8)
        shorten, seen, codes = compiled().shorten, [], short[_ALIGNED:].view("<u2")
        halves(len(numbers), lambda p: seen.append(shorten(numbers[p], codes[p])))
        lows, highs, whole = zip(*seen, strict=True)
        return min(lows), max(highs), short if all(whole) else None
    low, high = int(numbers.min()), int(numbers.max())
    return low, high, _shorten(numbers) if low >= 0 else None


def _shorten(numbers: NDArray[np.int64]) -> NDArray[np.uint8] | None:
    short = np.empty(_ALIGNED + 2 * len(numbers), np.uint8)
    codes = short[_ALIGNED:].view("<u2")
    for start in range(0, len(numbers), _BLOCK):
        block = numbers[start : start + _BLOCK]
        lowest = np.maximum(block & -block, 1)
        # the highest and the lowest set bit are too far apart
        if np.any((block >> 11) >= lowest) or np.any(block >> 53):
            return None
        bits = block.astype(np.float32).view(np.uint32)
        # only 0 is below the bias
        codes[start : start + _BLOCK] = np.maximum(bits >> _DROPPED, _BIAS) - _BIAS
    return short


def _encode_frequent(codes: NDArray[np.uint16], most_bytes: int) -> bytes | None:
    """Return codes as indices into a list of the most frequent ones, then the other codes.

    Return None if that takes more bytes.
    """
    counts = np.zeros(1 << 16, np.int64)
    if worthwhile(len(codes), loads=False):
        compiled().tally(codes, counts)
    else:
        counts = np.bincount(codes, minlength=1 << 16)
    kinds = np.flatnonzero(counts)
    most = np.sort(kinds[np.argsort(-counts[kinds], kind="stable")[:_FULL]])
    beyond = len(codes) - int(counts[most].sum())
    if len(kinds) > 2 and len(codes) + 2 * beyond > most_bytes:
        return None
    place = np.full(1 << 16, _FULL, np.uint8)
    place[most] = np.arange(len(most))
    places = looked_up(place, codes)
    head = _HEAD.pack(b"d", len(codes), len(most)) + most.astype("<u2").tobytes()
    if len(kinds) == 2:
        return head + np.packbits(places).tobytes()
    others = codes[places == _FULL] if beyond else codes[:0]
    return b"".join((head, places.data, others.tobytes()))


def _decode_frequent(data: bytes, length: int, kinds: int) -> NDArray[np.uint16]:
    """Return the codes that `_encode_frequent` was given."""
    if not 2 <= kinds <= _FULL:
        raise _damage_error()
    rest = memoryview(data)[_HEAD.size :]
    size = -(-length // 8) if kinds == 2 else length
    if len(rest) < 2 * kinds + size:
        raise _damage_error()
    most = np.frombuffer(rest[: 2 * kinds], "<u2")
    places = np.frombuffer(rest[2 * kinds : 2 * kinds + size], np.uint8)
    if kinds == 2:
        places = np.unpackbits(places, count=length)
    beyond = places == _FULL
    body = _body(data, 2 * (kinds + int(beyond.sum())) + size)
    others = np.frombuffer(body[2 * kinds + size :], "<u2")
    if np.any((places >= kinds) & ~beyond):
        raise _damage_error()
    codes = np.append(most, np.zeros(1, "<u2"))[np.minimum(places, kinds)]
    codes[beyond] = others
    return codes


def _lengthen(codes: NDArray[np.uint16]) -> NDArray[np.int64]:
    bits = (codes.astype(np.uint32) + _BIAS) << _DROPPED
    numbers = bits.view(np.float32).astype(np.int64)
    numbers[codes == 0] = 0
    return numbers


def pack_set(users: NDArray[np.int32]) -> bytes:
    """Return a strictly ascending array of users as bytes.

    Example:
        >>> unpack_set(pack_set(np.array([2, 3, 900], np.int32))).tolist()
        [2, 3, 900]
    """
    if len(users) == 0:
        return _HEAD.pack(b"=", 0, 0)
    first, span = int(users[0]), int(users[-1]) - int(users[0]) + 1
    if span == len(users):
        return _HEAD.pack(b"=", len(users), first)
    gaps = np.diff(users)
    gap = int(gaps.max())
    width = next(w for w in _WIDTHS if gap < 256 ** int(w))
    most = len(users) + span // _FULL  # an upper bound, if each gap takes whole bytes
    if span // 8 < min(len(users) * int(width), most):
        bits = np.zeros(span, bool)
        bits[users - first] = True
        return _HEAD.pack(b"b", span, first) + np.packbits(bits).tobytes()
    if width != b"1" and most < len(users) * int(width):
        return _HEAD.pack(b"g", len(users), first) + _gaps_in_bytes(gaps)
    return _HEAD.pack(width, len(users), first) + gaps.astype(_WIDTHS[width]).tobytes()


def _gaps_in_bytes(gaps: NDArray[np.int32]) -> bytes:
    """Return each gap as bytes of 255, one per whole 255, and then the remainder."""
    large = np.flatnonzero(gaps >= _FULL)
    data = (gaps % _FULL).astype(np.uint8)
    return np.insert(data, np.repeat(large, gaps[large] // _FULL), _FULL).tobytes()


def _gaps_of_bytes(data: memoryview, length: int) -> NDArray[np.int64]:
    steps = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(steps != _FULL)
    if len(ends) != length or ends[-1] != len(steps) - 1:
        raise _damage_error()
    return np.diff(np.cumsum(steps, dtype=np.int64)[ends], prepend=0)


def unpack_set(data: bytes) -> NDArray[np.int32]:
    """Return the users that `pack_set` was given.

    Raises:
        StoreError: The bytes are not what `pack_set` writes.
    """
    width, length, first = _head(data, b"=bg1248")
    if first + length > _USERS:
        raise _damage_error()
    if width == b"=":
        return np.arange(first, first + length, dtype=np.int32)
    if width == b"b":
        bits = np.unpackbits(np.frombuffer(_body(data, -(-length // 8)), np.uint8), count=length)
        return (np.flatnonzero(bits) + first).astype(np.int32)
    gaps: NDArray[Any]
    if width == b"g":
        gaps = _gaps_of_bytes(memoryview(data)[_HEAD.size :], length - 1)
    else:
        gaps = np.frombuffer(_body(data, (length - 1) * int(width)), _WIDTHS[width])
    users = np.concatenate(([first], first + np.cumsum(gaps, dtype=np.int64)))
    if np.any(np.diff(users) <= 0) or users[-1] >= _USERS:
        raise _damage_error()
    return users.astype(np.int32)


def _head(data: bytes, kinds: bytes) -> tuple[bytes, int, int]:
    if len(data) < _HEAD.size or data[:1] not in kinds:
        raise _damage_error()
    width, length, constant = _HEAD.unpack_from(data)
    least = 1 if width != b"=" else 0
    if not (least <= length <= _USERS and constant >= 0):
        raise _damage_error()
    if width == b"=":
        _body(data, 0)
    return width, length, constant


def _body(data: bytes, size: int) -> memoryview:
    if len(data) != _HEAD.size + size:
        raise StoreError("the ledger holds an entry that was cut short", "restore a copy")
    return memoryview(data)[_HEAD.size :]


def _damage_error() -> StoreError:
    return StoreError("the ledger holds an entry that it did not write", "restore a copy")
