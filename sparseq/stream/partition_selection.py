"""Private partition selection: keys that enough users have, found by a threshold over noise.

A key is a value of one column, or a tuple of values of several; one text encodes each key.

Each user picks some of the user's own keys that are not known yet, and gives each the same weight;
the squares add up to 1. A key is released if its noised sum of weights is above T. Only a key that
some user has can be released. So a user pays delta for each picked key, as if no other user had it:
the chance that noise lifts the user's own weight above T. The squared norm is charged like any
other. A user who cannot pay both adds nothing (docs/theorems/found-keys.md).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparseq.base.errors import ParameterError
from sparseq.engine.contributions import Contributions
from sparseq.engine.protocol import USER
from sparseq.engine.reduction import Index, Reduction
from sparseq.ledger.accounts import Ints
from sparseq.ledger.notes import NoteTable
from sparseq.question.catalog import OTHER
from sparseq.question.plan import Kind, Measure, Query, Relation

DELTAS = NoteTable("found_deltas", {"release": "BIGINT", USER: "INTEGER", "units": "BIGINT"})
"""The delta that each user paid: private. These rows are the account."""
UNITS_PER_DELTA = 2**62
STEPS = 2**16
"""Lattice steps per weight of 1."""
MOST_KEYS, LONGEST = 256, 256
"""The most keys that a user can pick in one search, and the most characters of a key."""
_MARGIN = Fraction(2**40 + 1, 2**40)  # the error of erfc, and of its argument, is far below


@dataclass(frozen=True)
class Threshold:
    """The limit for a key's noised weight, and its cost to a user: all public.

    Attributes:
        steps: T, in steps of the lattice.
        deltas: The delta that a user with 0, 1, 2, … picked keys pays, in units.
    """

    steps: int
    deltas: tuple[int, ...]


def units_of_delta(delta: float) -> int:
    """Return a delta as whole units of an account, rounded down."""
    return math.floor(Fraction(delta) * UNITS_PER_DELTA)


def weight_of(picked: int) -> int:
    """Return the weight of each picked key, in steps: the squares add up to 1 at most.

    >>> weight_of(1), weight_of(4), 3 * weight_of(3) ** 2 <= STEPS**2
    (65536, 32768, True)
    """
    return math.isqrt(STEPS * STEPS // picked)


def chance_above(weight: int, threshold: int, sigma: float) -> int:
    """Return the chance that a weight and noise are above a threshold, in units, rounded up.

    Args:
        weight, threshold: The weight and the threshold, in steps.
        sigma: Standard deviation for the noise floor(Z + 1/2), Z ~ N(0, sigma²), in steps.
    """
    # above T: floor(Z + 1/2) >= T - w + 1, so Z >= T - w + 1/2
    tail = math.erfc((threshold - weight + 0.5) / (sigma * math.sqrt(2))) / 2
    return math.ceil(Fraction(tail) * _MARGIN * UNITS_PER_DELTA) + 1


def threshold_for(sigma: float, most: int, delta: float) -> Threshold:
    """Return the least threshold at which no user pays more than delta, for any picks.

    Args:
        sigma: Standard deviation of the noise, in steps.
        most: The most keys that a user can pick.
        delta: The delta for this search.

    Example:
        >>> threshold = threshold_for(10.0 * STEPS, 4, 1e-6)
        >>> round(threshold.steps / STEPS, 1)
        50.8
    """
    allowed = units_of_delta(delta)

    def deltas(steps: int) -> tuple[int, ...]:
        return (0, *(m * chance_above(weight_of(m), steps, sigma) for m in range(1, most + 1)))

    low, high = 0, STEPS + math.ceil(40 * sigma)
    if max(deltas(high)) > allowed:
        raise ParameterError(f"delta is {delta!r}; that is too little to find keys with")
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if max(deltas(middle)) <= allowed else (middle + 1, high)
    return Threshold(low, deltas(low))


@dataclass(frozen=True)
class Picks:
    """The keys that each user picked: private. One row per pick, in order of user.

    Attributes:
        keys: The texts that encode the keys (`FoundColumns`), in the order of their code points.
        users, places: The user of each pick, and the place of its key in `keys`.
    """

    keys: tuple[str, ...]
    users: Index
    places: NDArray[np.int64]

    def people(self) -> tuple[Index, NDArray[np.int64]]:
        """Return the users with picks, and the number of keys of each."""
        users, counts = np.unique(self.users, return_counts=True)
        return users.astype(np.int32), counts

    def only(self, users: Index) -> Picks:
        """Return the picks of some users."""
        some = np.isin(self.users, users)
        return Picks(self.keys, self.users[some], self.places[some])

    def contributions(self) -> Contributions:
        """Return the weights as contributions to one sum per key, in steps."""
        users, counts = self.people()
        weights = {int(m): weight_of(int(m)) for m in np.unique(counts)}
        own = np.array([weights[int(m)] for m in counts], np.int64)

        def totals(of: Picks) -> Ints:
            summed = np.zeros(len(self.keys), np.int64)
            np.add.at(summed, of.places, own[np.searchsorted(users, of.users)])
            return summed

        norms = counts * own * own
        return Contributions(
            [Reduction(users, norms, totals(self))], lambda some: [totals(self.only(some))]
        )


@dataclass(frozen=True)
class RowCounts:
    """The number of rows of each user of a range with each key: private.

    Attributes:
        texts: The texts that encode the keys.
        users, places, counts: The user, the place of the key in `texts`, and the number of rows.
    """

    texts: pa.Array
    users: Index
    places: NDArray[np.int64]
    counts: NDArray[np.int64]


def count_rows(batches: Iterable[pa.RecordBatch]) -> RowCounts:
    """Return the number of rows of each user with each key.

    Each batch has a column `USER` and one or more value columns. A row has no key if one of its
    values is NULL, too long, or equal to the label of the rest (`OTHER`).
    """
    kind = pa.dictionary(pa.int32(), pa.string())
    keys, users = [pa.array([], kind)], [np.zeros(0, np.int64)]
    for batch in batches:
        texts = encode_keys(batch.columns[1:])
        keys.append(texts.drop_null().dictionary_encode().cast(kind))
        users.append(batch.column(0).filter(texts.is_valid()).to_numpy().astype(np.int64))
    whole = pa.chunked_array(keys).unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else keys[0]
    pairs = np.concatenate(users) << 32 | whole.indices.to_numpy()
    pairs, counts = np.unique(pairs, return_counts=True)
    owners = (pairs >> 32).astype(np.int32)
    return RowCounts(whole.dictionary, owners, pairs & 0xFFFFFFFF, counts.astype(np.int64))


def encode_keys(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the text that encodes each row's key (`FoundColumns`); NULL where it has none.

    Example:
        >>> encode_keys([pa.array(["1:x", None]), pa.array([7, 8])]).to_pylist()
        ['3:1:x1:7', None]
    """
    texts = [_value_texts(column) for column in columns]
    if len(texts) == 1 and _is_text(columns[0].type):
        return texts[0]
    lengths = (pc.utf8_length(text).cast(pa.string()) for text in texts)
    parts = [
        part for length, text in zip(lengths, texts, strict=True) for part in (length, ":", text)
    ]
    return pc.binary_join_element_wise(*parts, "")


def _is_text(type: pa.DataType) -> bool:
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type))


def _value_texts(column: pa.Array) -> pa.Array:
    """Return values as texts, one text for equal values; NULL where a row must have no key."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if _is_text(column.type):
        texts = column.cast(pa.string())
        fits = pc.and_(pc.less_equal(pc.utf8_length(texts), LONGEST), pc.not_equal(texts, OTHER))
        return pc.if_else(fits, texts, None)
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.string())
    if pa.types.is_floating(column.type):  # -0 is 0
        zero = pa.scalar(0.0, column.type)
        column = pc.if_else(
            pc.is_finite(column), pc.add(column, zero), pa.scalar(None, column.type)
        )
    return column.cast(pa.string())


def pick_keys(tallies: Sequence[RowCounts], known: Sequence[str], most: int) -> Picks:
    """Return each user's picks: the user's own new keys with the most of the user's rows.

    Ties are broken by the keys' hashes, which depend on no user.

    Args:
        tallies: Row counts of disjoint ranges of users, ascending.
        known: Keys that were found before.
        most: The most keys that a user can pick.
    """
    texts = pc.unique(pa.chunked_array([t.texts for t in tallies], pa.string()))
    new = texts.filter(pc.invert(pc.is_in(texts, pa.array(known, pa.string()))))
    listed = new.take(pc.sort_indices(new))  # UTF-8 sorts like code points
    keys = listed.to_pylist()
    hashes = b"".join(hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest() for key in keys)
    words = np.frombuffer(hashes, ">u8").reshape(-1, 4)
    rank = np.empty(len(keys), np.int64)
    rank[np.lexsort(words.T[::-1])] = np.arange(len(keys))
    users, places, counts = _of_keys(tallies, listed)
    order = np.lexsort((rank[places], -counts, users))
    users, places = users[order], places[order]
    first = np.flatnonzero(np.diff(users, prepend=-1))
    turn = np.arange(len(users)) - np.repeat(first, np.diff([*first, len(users)]))
    kept = turn < most
    return Picks(tuple(keys), users[kept].astype(np.int32), places[kept])


def _of_keys(tallies: Sequence[RowCounts], keys: pa.Array) -> tuple[Index, Ints, Ints]:
    """Return the users, keys and row counts of all ranges of users."""
    users, places, counts = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)], []
    for tally in tallies:
        at = pc.fill_null(pc.index_in(tally.texts, keys), -1).to_numpy().astype(np.int64)
        own = at[tally.places]
        users.append(tally.users[own >= 0])
        places.append(own[own >= 0])
        counts.append(tally.counts[own >= 0])
    return np.concatenate(users), np.concatenate(places), np.concatenate([places[0], *counts])


def search_query(table: str, columns: Sequence[str]) -> Query:
    """Return a search as a query of the stream; no user's squared norm exceeds 1."""
    one = Measure(Kind.USERS, None, "keys", scale=1.0, step=1 / STEPS)
    said = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
    return Query(f"keys of {table}.{said}", Relation(f"FROM {table}"), (), (one,), None)
