"""Sources of random bytes: the system's, and the seeded stream for tests and simulations."""

import numpy as np
import pytest

from sparseq.base.errors import ParameterError
from sparseq.mechanisms import SYSTEM_ENTROPY, Entropy, OSEntropy, SeededEntropy


def test_system_entropy_is_the_operating_systems_and_says_it_is_not_seeded() -> None:
    assert isinstance(SYSTEM_ENTROPY, OSEntropy)
    assert SYSTEM_ENTROPY.seeded is False
    assert len(SYSTEM_ENTROPY(33)) == 33
    assert SYSTEM_ENTROPY(32) != SYSTEM_ENTROPY(32)  # equal with probability 2^-256


def test_seeded_entropy_says_so() -> None:
    source: Entropy = SeededEntropy(0)
    assert source.seeded is True


def test_same_seed_same_bytes_other_seed_other_bytes() -> None:
    assert SeededEntropy(3)(1000) == SeededEntropy(3)(1000)
    assert SeededEntropy(3)(1000) != SeededEntropy(4)(1000)
    assert SeededEntropy(np.int64(3))(10) == SeededEntropy(3)(10)


def test_the_stream_never_changes() -> None:
    """A golden value: recorded simulations stay repeatable."""
    assert SeededEntropy(2021)(16).hex() == "b5436f746637deed4c1ebc9511be30b0"


def test_how_the_stream_is_cut_makes_no_difference() -> None:
    whole, cut = SeededEntropy(9), SeededEntropy(9)
    pieces = b"".join(cut(n) for n in (1, 0, 7, 8, 9, 100, 3))
    assert pieces == whole(128)


@pytest.mark.parametrize("seed", [-1, 1.5, None, "x"])
def test_a_seed_is_a_natural_number(seed: object) -> None:
    with pytest.raises(ParameterError, match=r"seed is .*; it must be an integer of at least 0"):
        SeededEntropy(seed)  # type: ignore[arg-type]
