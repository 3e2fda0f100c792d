"""Accounts: spent and budget of all users, Algorithm 2's filter in integers.

Source: Feldman & Zrnic (2021), Algorithm 2 with the filter of Theorem 4.3, for zCDP (all orders at
once: every charge is a multiple of alpha, so one budget of squared norm stands for every order).

User i is active at t iff spent_i + charge_i <= norm_budget_i. Whether i is active depends on i's
own rows and on what was asked, so the rest of Theorem 4.5 applies: the released stream is
kappa-zCDP. Charges are rounded up, budgets down, and spent never exceeds a budget, by induction:
only `charge` adds to spent, and only what the filter let through (`stream/release_charges.py`).

Departures: people who were ever left out of a query, and the first release of each: private.

User i is first left out of release t where Algorithm 2's filter says no to i for the first time in
the pot of queries. The filter looks at i's own charges and budget, and the charges at i's own rows
and at what was asked, which was chosen from past releases. So whether, and when, i is first left
out is a function of i's own data and of past releases, of nothing of anybody else's: it may be
asked about like any column of i's rows.

The journal writes each first time in the transaction of its release.

Arrays of non-negative integers as few bytes: how one release's charges are written down.

A constant array is one number. Otherwise each number takes two bytes if all have at most 11
significant bits, as charges have (the upper half of a float32, with its exponent counted from 1,
which is exact), or else the 1, 2, 4 or 8 bytes that the largest needs. Where most of many are of
few kinds, as with counts, these are listed: a number is its place in the list, in one byte, or in
one bit if there are two kinds; the others follow, in two bytes each. A sorted set of users is
written as the gaps between them, in one byte each where few are large (a gap is as many 255s as go
into it, and the rest), or as a bitmap where that is shorter. Little-endian throughout.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.base.errors import StoreError
from sparseq.compiled import compiled, halves, looked_up, select, worthwhile

# -- accounts: spent and budget of all users, Algorithm 2's filter in integers ---------------------

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Person:
    """Somebody who has an account: the index, and whether the identifier was erased."""

    user: int
    erased: bool


class Accounts:
    """Spent and budget of every user, in ledger units (int64).

    Args:
        budgets: One a user, in ledger units.
        halt: Corollary 4.7's variant: a user who would once have overdrawn stays out. What was
            left in the account is then charged, so that the account itself remembers.

    Attributes:
        same_budget: Everybody's budget, if it is the same.

    Example:
        >>> accounts = Accounts(np.array([10, 10]))
        >>> accounts.charge(np.array([0], np.int32), np.array([4])); accounts.spent.tolist()
        [4, 0]
    """

    def __init__(self, budgets: Ints, halt: bool = False) -> None:
        self.budgets = np.zeros(0, np.int64)
        self.spent = np.zeros(0, np.int64)
        self.halt = halt
        self._held: Ints | None = None  # by everybody, for all that holds something
        self._held_for: dict[str, tuple[Index, Ints]] = {}
        self.same_budget: int | None = None
        self.add_users(budgets)

    def __len__(self) -> int:
        return len(self.budgets)

    def left(self, users: Index) -> Ints:
        """Return what each of `users` can still spend."""
        at = _as_slice(users)
        budgets = self.budgets[at] if self.same_budget is None else self.same_budget
        left: Ints = budgets - self.spent[at]
        return left if self._held is None else left - self._held[at]

    def hold(self, name: str, users: Index, units: Ints) -> None:
        """Hold back what some people are going to be charged, in place of what `name` held.

        Nobody else can spend it. Whoever charges it lets go of it first.

        Example:
            >>> accounts = Accounts(np.array([10, 10]))
            >>> accounts.hold("series", np.array([1], np.int32), np.array([4]))
            >>> accounts.left(np.array([0, 1], np.int32)).tolist()
            [10, 6]
        """
        if self._held is None:
            self._held = np.zeros(len(self.budgets), np.int64)
        before = self._held_for.get(name)
        if before is not None:
            self._held[before[0]] -= before[1]
        self._held[users] += units
        self._held_for[name] = users, units

    def charge(self, users: Index, charges: Ints) -> None:
        """Add charges that the filter has let through; users are distinct and ascend."""
        at = _as_slice(users)
        if isinstance(at, slice):
            spent = self.spent[at]  # a view
            halves(len(users), lambda p: np.add(spent[p], charges[p], out=spent[p]))
        elif self._by_loop(users):
            compiled().add_at(users, charges, self.spent)
        else:
            np.add.at(self.spent, users, charges)  # half the time of +=, and it checks bounds

    def _by_loop(self, users: Index) -> bool:
        """Tell whether the compiled loops are the quickest way to these users' entries.

        They check no bounds, so it is done here.
        """
        if not worthwhile(len(users)):
            return False
        return int(users[0]) >= 0 and int(users[-1]) < len(self.spent)

    def add_users(self, budgets: Ints) -> None:
        """Open accounts for new users, with nothing spent."""
        self.budgets = np.concatenate([self.budgets, budgets])
        self.spent = np.concatenate([self.spent, np.zeros(len(budgets), np.int64)])
        if self._held is not None:
            self._held = np.concatenate([self._held, np.zeros(len(budgets), np.int64)])
        self._look()

    def grant(self, users: Index, units: Ints) -> None:
        """Give users more to spend; they are distinct."""
        self.budgets[users] += units
        self._look()

    def _look(self) -> None:
        same = len(self.budgets) > 0 and bool(np.all(self.budgets == self.budgets[0]))
        self.same_budget = int(self.budgets[0]) if same else None


def _as_slice(users: Index) -> Index | slice:
    """Return ascending users as a slice where they have no gaps: much the faster index."""
    if len(users) and int(users[-1]) - int(users[0]) + 1 == len(users):
        return slice(int(users[0]), int(users[-1]) + 1)
    return users


# -- departures ------------------------------------------------------------------------------------


class Departures:
    """The release that each user was first left out of; 0: none so far.

    Example:
        >>> departures = Departures()
        >>> departures.add_users(3)
        >>> left_out = np.array([0, 2], np.int32)
        >>> departures.add(7, departures.new(left_out[:1]))
        >>> departures.new(left_out).tolist(), departures.first.tolist()
        ([2], [7, 0, 0])
        >>> departures.between(1, 7).tolist()
        [0]
    """

    def __init__(self) -> None:
        self.first: Ints = np.zeros(0, np.int64)
        self._here = np.zeros(0, np.bool_)  # first == 0, in an eighth of the memory
        self._releases: list[int] = []  # those that somebody was first left out of, ascending
        self._users: list[Index] = []

    def add_users(self, users: int) -> None:
        """Make room for new users, who have not been left out of anything."""
        self.first = np.concatenate([self.first, np.zeros(users, np.int64)])
        self._here = np.concatenate([self._here, np.ones(users, np.bool_)])

    def new(self, left_out: Index) -> Index:
        """Return those of `left_out` who have not been left out before."""
        return select(left_out, self._here[left_out])

    def add(self, release: int, users: Index) -> None:
        """Remember a release, later than all before, as the first that `users` were left out of."""
        if len(users):
            self.first[users] = release
            self._here[users] = False
            self._releases.append(release)
            self._users.append(users)

    def between(self, first: int, last: int) -> Index:
        """Return who was first left out of one of the releases `first` to `last`, ascending."""
        start, stop = bisect_left(self._releases, first), bisect_right(self._releases, last)
        if start == stop:
            return np.zeros(0, np.int32)
        return np.sort(np.concatenate(self._users[start:stop]))


# -- arrays of non-negative integers as few bytes: how one release's charges are written down ------

_HEAD = struct.Struct("<cqq")  # width, length, constant (or first user)
_DROPPED = np.uint32(13)  # bits of a float32 that 11 significant bits leave unused
_BLOCK = 1 << 14  # numbers at a time: what is made of them on the way stays in cache
_BIAS = np.uint32(126 << 10)  # so that 1 has the code 1 << 10, and 0 is free for 0
_WIDTHS = {b"1": "<u1", b"2": "<u2", b"4": "<u4", b"8": "<u8"}
_ALIGNED = 32  # where codes begin in a buffer: the head fits in before them
_USERS = 2**31  # what an index can tell apart
_FULL = 255  # a byte that a gap goes on after; kinds that are listed, at most
_MANY = 1 << 12  # numbers from which it pays to list their kinds


def pack(numbers: NDArray[np.int64]) -> bytes | memoryview:
    """Return `numbers`, all >= 0, as bytes.

    Example:
        >>> len(pack(np.full(1000, 7))), unpack(pack(np.array([1, 300]))).tolist()
        (17, [1, 300])

    Raises:
        ValueError: A number is negative; written down, it would read as another.
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
    """Return the lowest, the highest, and each number as 16 bits, after room for the head.

    The last is None if one has too many significant bits; one of 2**53 or more counts as having
    too many, whatever its bits.
    """
    if worthwhile(len(numbers)):
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
        # highest and lowest set bit are too far apart
        if np.any((block >> 11) >= lowest) or np.any(block >> 53):
            return None
        bits = block.astype(np.float32).view(np.uint32)
        # 0 alone is below the bias
        codes[start : start + _BLOCK] = np.maximum(bits >> _DROPPED, _BIAS) - _BIAS
    return short


def _encode_frequent(codes: NDArray[np.uint16], most_bytes: int) -> bytes | None:
    """Return codes as places among the most frequent ones, and what is not among them.

    None: that takes more bytes.
    """
    counts = np.zeros(1 << 16, np.int64)
    if worthwhile(len(codes)):
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
    most = len(users) + span // _FULL  # bytes, one by one
    if span // 8 < min(len(users) * int(width), most):
        bits = np.zeros(span, bool)
        bits[users - first] = True
        return _HEAD.pack(b"b", span, first) + np.packbits(bits).tobytes()
    if width != b"1" and most < len(users) * int(width):
        return _HEAD.pack(b"g", len(users), first) + _gaps_in_bytes(gaps)
    return _HEAD.pack(width, len(users), first) + gaps.astype(_WIDTHS[width]).tobytes()


def _gaps_in_bytes(gaps: NDArray[np.int32]) -> bytes:
    """Return each gap as as many 255s as go into it, and the rest."""
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
