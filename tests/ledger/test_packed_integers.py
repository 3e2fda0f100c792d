"""Arrays as bytes: they come back as they were, take little room, and damage is told."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparseq.base.errors import StoreError
from sparseq.ledger.packed_integers import pack, pack_set, unpack, unpack_set

HEAD = 17
many = settings(derandomize=True, deadline=None, max_examples=120)
numbers = st.lists(
    st.one_of(
        st.integers(0, 3),
        st.sampled_from([255, 256, 2**16 - 1, 2**16, 2**32 - 1, 2**32, 2**62, 2**63 - 1]),
        st.integers(0, 2**63 - 1),
    ),
    max_size=50,
)
users = st.sets(
    st.one_of(st.integers(0, 40), st.integers(0, 70_000), st.integers(0, 2**31 - 1)), max_size=60
)


@many
@given(values=numbers)
@example(values=[])
@example(values=[0] * 100)
@example(values=[0, 2**63 - 1])
def test_numbers_come_back(values: list[int]) -> None:
    back = unpack(pack(np.array(values, np.int64)))
    assert back.dtype == np.int64
    assert back.tolist() == values


@many
@given(chosen=users)
@example(chosen=set())
@example(chosen={0})
@example(chosen={0, 2**31 - 1})
@example(chosen=set(range(0, 100, 3)))
@example(chosen=set(range(0, 40_000, 777)))
@example(chosen={*range(0, 9000, 90), 9255, 9510, 9764, 10_020, 20_220})
def test_sets_of_users_come_back(chosen: set[int]) -> None:
    back = unpack_set(pack_set(np.array(sorted(chosen), np.int32)))
    assert back.dtype == np.int32
    assert back.tolist() == sorted(chosen)


@pytest.mark.parametrize(
    ("values", "size"),
    [
        ([], 0),
        ([7] * 1000, 0),
        ([0, 255], 2),
        ([0, 256], 4),
        ([1, 2**16 + 1], 8),
        ([1, 2**32 + 1], 16),
        ([1, 2**32], 4),
        ([0, 1] * 2500, 2 * 2 + 625),  # a bit each, and the two
        ([9, 2**40] * 2500, 2 * 2 + 625),
        ([1, 256, 2**40] * 2000, 2 * 3 + 6000),  # a byte each
        ([*range(1, 301), *[2**20] * 9700], 2 * 255 + 10_000 + 2 * 46),  # two more for the rare
        ([k * k % 65_521 for k in range(5000)], 10_000),  # of too many kinds
        ([5, 200, 7] * 2000, 6000),
    ],
)
def test_numbers_take_the_bytes_of_the_largest(values: list[int], size: int) -> None:
    assert len(pack(np.array(values, np.int64))) == HEAD + size


@pytest.mark.parametrize(
    ("chosen", "size"),
    [
        (range(1000), 0),
        (range(10**9, 10**9 + 1000), 0),
        (range(0, 2000, 2), 250),  # a bitmap
        (range(0, 100_000, 100), 999),  # gaps of one byte
        (range(0, 1_000_000, 1000), 2 * 999),
        ([*range(0, 100_000, 100), 200_000], 999 + 393),  # the last gap is 392 times 255, and 140
    ],
)
def test_users_take_as_few_bytes_as_ranges_bitmaps_or_gaps(chosen: range, size: int) -> None:
    assert len(pack_set(np.array(chosen, np.int32))) == HEAD + size


def test_a_negative_number_is_never_written() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        pack(np.array([5, -1]))


@many
@given(
    kinds=st.lists(st.integers(0, 2**11 - 1), min_size=2, max_size=400, unique=True),
    up=st.integers(0, 40),
    seed=st.integers(0, 9),
    length=st.sampled_from([4096, 5003, 9000]),
)
def test_many_of_few_kinds_come_back(kinds: list[int], up: int, seed: int, length: int) -> None:
    """Some kinds are frequent, the others rare; cut short and lengthened it is told."""
    rng = np.random.default_rng(seed)
    places = np.minimum(rng.geometric(0.1, length), len(kinds)) - 1
    values = np.array(kinds, np.int64)[places] << up
    data = bytes(pack(values))
    assert unpack(data).tolist() == values.tolist()
    for damaged in (data[:-1], data + b"x"):
        with pytest.raises(StoreError, match="ledger"):
            unpack(damaged)


@many
@given(values=numbers.filter(bool), cut=st.integers(1, 400), more=st.binary(min_size=1, max_size=9))
def test_an_entry_cut_short_or_lengthened_is_told(values: list[int], cut: int, more: bytes) -> None:
    data = bytes(pack(np.array(values, np.int64)))
    for damaged in (data[: max(len(data) - cut, 0)], data + more):
        with pytest.raises(StoreError, match="ledger"):
            unpack(damaged)


@many
@given(chosen=users.filter(bool), cut=st.integers(1, 400), more=st.binary(min_size=1, max_size=9))
def test_a_set_cut_short_or_lengthened_is_told(chosen: set[int], cut: int, more: bytes) -> None:
    data = pack_set(np.array(sorted(chosen), np.int32))
    for damaged in (data[: max(len(data) - cut, 0)], data + more):
        with pytest.raises(StoreError, match="ledger"):
            unpack_set(damaged)


@many
@given(chosen=users, at=st.integers(0, 300), bits=st.integers(1, 255))
def test_a_damaged_set_is_told_or_still_a_set_of_users(
    chosen: set[int], at: int, bits: int
) -> None:
    data = bytearray(pack_set(np.array(sorted(chosen), np.int32)))
    data[at % len(data)] ^= bits
    if int.from_bytes(data[1:9], "little") > 10**6:
        return  # a long range: true to form, and large
    try:
        back = unpack_set(bytes(data)).astype(np.int64)
    except StoreError:
        return
    assert np.all(np.diff(back) > 0)
    assert len(back) == 0 or (back[0] >= 0 and back[-1] < 2**31)


@many
@given(values=numbers, at=st.integers(0, 300), bits=st.integers(1, 255))
def test_damaged_numbers_are_told_or_still_at_least_0(
    values: list[int], at: int, bits: int
) -> None:
    data = bytearray(pack(np.array(values, np.int64)))
    data[at % len(data)] ^= bits
    if int.from_bytes(data[1:9], "little") > 10**6:
        return
    try:
        back = unpack(bytes(data))
    except StoreError:
        return
    assert back.min(initial=0) >= 0
