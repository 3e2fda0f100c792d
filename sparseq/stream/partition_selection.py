"""Privately found keys: which values of columns enough people have, from a threshold over noise.

A key is a value of one column, or a tuple of values of several; one text stands for each.

Each person picks some of their own keys that are not known yet, and gives each the same weight;
the squares add up to 1. A key whose noised sum of weights is above T is released. Only keys that
somebody has can be, so the chance that noise alone lifts a person's own weight over T is what the
person pays into an account of delta, for each picked key as if nobody else had it; the squared norm
is paid like any other. Whoever can't pay both adds nothing (docs/theorems/found-keys.md).

One comparison of a sparse vector as the mechanism of a step: has a count reached a limit?

Users enter the count once and stay, so a run with Laplace noise of scale b costs a user 1/(2b²) of
zCDP, in the step that it enters in: docs/theorems/watch.md. That is what a plan of sigma b charges
for a contribution of 1.
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
from sparseq.engine.contributions import Contributions, Index, Reduction
from sparseq.engine.protocol import USER
from sparseq.ledger.accounts import Ints
from sparseq.ledger.notes import NoteTable
from sparseq.mechanisms import AboveThreshold, Entropy, LaplaceSparseVector
from sparseq.sql.catalog import OTHER
from sparseq.sql.plan import Kind, Measure, Plan, Query, Relation

# -- privately found keys --------------------------------------------------------------------------

DELTAS = NoteTable("found_deltas", {"release": "BIGINT", USER: "INTEGER", "units": "BIGINT"})
"""Delta that each person paid: private. It is the account."""
UNITS_PER_DELTA = 2**62
STEPS = 2**16
"""Of the lattice, to a weight of 1."""
MOST_KEYS, LONGEST = 256, 256
"""Keys that a person can pick in one search; characters of a key."""
_MARGIN = Fraction(2**40 + 1, 2**40)  # the error of erfc, and of its argument, is far below


@dataclass(frozen=True)
class Threshold:
    """The limit for a key's noised weight, and its cost to a person: all public.

    Attributes:
        steps: T, in steps of the lattice.
        deltas: What a person pays of delta who picks 0, 1, 2, … keys, in units.
    """

    steps: int
    deltas: tuple[int, ...]


def units_of_delta(delta: float) -> int:
    """Return a delta as whole units of an account, rounded down."""
    return math.floor(Fraction(delta) * UNITS_PER_DELTA)


def weight_of(picked: int) -> int:
    """Return the weight of each of so many keys, in steps: their squares add up to 1 at most.

    >>> weight_of(1), weight_of(4), 3 * weight_of(3) ** 2 <= STEPS**2
    (65536, 32768, True)
    """
    return math.isqrt(STEPS * STEPS // picked)


def chance_above(weight: int, threshold: int, sigma: float) -> int:
    """Return the chance that a weight and noise are above a threshold, in units, rounded up.

    Args:
        weight, threshold: In steps.
        sigma: Of the noise floor(Z + 1/2), Z ~ N(0, sigma²), in steps.
    """
    # above T: floor(Z + 1/2) >= T - w + 1, so Z >= T - w + 1/2
    tail = math.erfc((threshold - weight + 0.5) / (sigma * math.sqrt(2))) / 2
    return math.ceil(Fraction(tail) * _MARGIN * UNITS_PER_DELTA) + 1


def threshold_for(sigma: float, most: int, delta: float) -> Threshold:
    """Return the least threshold at which nobody pays more than delta, whatever they pick.

    Args:
        sigma: Of the noise, in steps.
        most: Keys that a person can pick.
        delta: For this search.

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
    """The keys that each person has picked: private. Row by row, in order of person.

    Attributes:
        keys: The texts that stand for them (`FoundColumns`), in the order of their code points.
        users, places: Who, and which of the keys.
    """

    keys: tuple[str, ...]
    users: Index
    places: NDArray[np.int64]

    def people(self) -> tuple[Index, NDArray[np.int64]]:
        """Return who has picked, and how many keys each."""
        users, counts = np.unique(self.users, return_counts=True)
        return users.astype(np.int32), counts

    def only(self, users: Index) -> Picks:
        """Return the picks of some people."""
        some = np.isin(self.users, users)
        return Picks(self.keys, self.users[some], self.places[some])

    def contributions(self) -> Contributions:
        """Return the weights as contributions to a sum for each key, in steps."""
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
    """The number of rows that each person of a range has of each key: private.

    Attributes:
        texts: Stand for the keys.
        users, places, counts: Who, which of the texts, and how many rows.
    """

    texts: pa.Array
    users: Index
    places: NDArray[np.int64]
    counts: NDArray[np.int64]


def count_rows(batches: Iterable[pa.RecordBatch]) -> RowCounts:
    """Return how many rows each person has of each key, of rows of `USER` and one or more values.

    A row that lacks a value, or has one that is too long or the name of the rest, has no key.
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
    """Return the text that stands for each row's key (`FoundColumns`); NULL where it has none.

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
    """Return values as texts, one text for equal values; NULL where a row is to have no key."""
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
    """Return what each person picks of their own new keys: those with the most of their rows.

    Of as many rows, the order is that of the keys' hashes, which is nobody's.

    Args:
        tallies: Of disjoint ranges of people, ascending.
        known: Keys that were found before.
        most: That a person can pick.
    """
    texts = pc.unique(pa.chunked_array([t.texts for t in tallies], pa.string()))
    new = texts.filter(pc.invert(pc.is_in(texts, pa.array(known, pa.string()))))
    listed = new.take(pc.sort_indices(new))  # in UTF-8 as by code points
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
    """Return who has rows of keys, of which, and how many: of all ranges of people."""
    users, places, counts = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)], []
    for tally in tallies:
        at = pc.fill_null(pc.index_in(tally.texts, keys), -1).to_numpy().astype(np.int64)
        own = at[tally.places]
        users.append(tally.users[own >= 0])
        places.append(own[own >= 0])
        counts.append(tally.counts[own >= 0])
    return np.concatenate(users), np.concatenate(places), np.concatenate([places[0], *counts])


def search_query(table: str, columns: Sequence[str]) -> Query:
    """Return what is asked by a search, as the stream knows it: nobody pays more than 1."""
    one = Measure(Kind.USERS, None, "keys", scale=1.0, step=1 / STEPS)
    said = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
    return Query(f"keys of {table}.{said}", Relation(f"FROM {table}"), (), (one,), None)


# -- one comparison of a sparse vector as the mechanism of a step ----------------------------------


@dataclass
class Comparison:
    """A `Mechanism` that tells whether so many have entered; it is called once.

    Attributes:
        limit: In users.
        noise: z of the run, None if it is still to be drawn. Secret.
        counted: Who has entered, in lattice steps. Private.
        fired: What is released.
    """

    limit: int
    noise: int | None = None
    counted: int = 0
    fired: bool = False

    def __call__(self, plan: Plan, sums: Sequence[Ints], entropy: Entropy) -> list[Ints]:
        """Add those who enter now, draw z if it is the run's first, compare."""
        (noise,) = plan.noise
        one, scale = round(1 / noise.granularity), noise.lattice_sigma
        design = LaplaceSparseVector(one, scale, scale, entering=True)
        vector = AboveThreshold(design, self.limit * one, entropy, self.noise)
        self.counted += int(sums[0][0])
        self.fired = vector.above(self.counted)
        self.noise = vector.noise
        return [np.array([one if self.fired else 0])]
