"""The source of the noise's random bytes.

Privacy rests on bytes that nobody can predict: `SYSTEM_ENTROPY`, the operating system's generator,
is the default everywhere. `SeededEntropy` makes tests and simulations repeatable and gives **no
privacy at all**: anyone with the seed can subtract the noise. Its `seeded` attribute is True, so
that its users can report it.
"""

from __future__ import annotations

import hashlib
import os
from typing import Protocol

import numpy as np

from sparseq.base.errors import ParameterError


class Entropy(Protocol):
    """A source of uniform, independent random bytes; `seeded` says that it can be predicted."""

    @property
    def seeded(self) -> bool:
        """True when the bytes can be predicted: noise made from them is not private."""
        ...

    def __call__(self, n_bytes: int) -> bytes:
        """Return the next `n_bytes` bytes."""
        ...


class OSEntropy:
    """The operating system's cryptographic generator (`os.urandom`).

    >>> len(OSEntropy()(5))
    5
    """

    seeded: bool = False

    def __call__(self, n_bytes: int) -> bytes:
        return os.urandom(n_bytes)


class SeededEntropy:
    """A repeatable stream of bytes for tests and simulations only: its noise is not private.

    The bytes are those of NumPy's SFC64 bit generator, whose stream NumPy keeps the same across
    versions and platforms. The stream does not depend on the sizes of the calls.

    Raises `ParameterError` when `seed` is not an integer of at least 0.

    >>> stream, same = SeededEntropy(7), SeededEntropy(7)
    >>> stream(3) + stream(10) == same(13)
    True
    """

    seeded: bool = True

    def __init__(self, seed: int) -> None:
        self._generator = np.random.SFC64(_whole("seed", seed))
        self._left = b""

    def __call__(self, n_bytes: int) -> bytes:
        missing = n_bytes - len(self._left)
        if missing > 0:
            words = self._generator.random_raw(-(-missing // 8)).astype("<u8", copy=False)
            self._left += words.tobytes()
        out, self._left = self._left[:n_bytes], self._left[n_bytes:]
        return out


def for_release(seed: int, release: int, part: str = "") -> SeededEntropy:
    """Return the bytes of a seeded store for one release; for simulations of the store as well.

    A release with several noised parts has one stream for each.

    >>> for_release(1, 2)(4) == for_release(1, 2)(4) != for_release(1, 3)(4)
    True
    """
    text = f"{_whole('seed', seed)}/{_whole('release', release)}" + (f"/{part}" if part else "")
    digest = hashlib.sha256(text.encode()).digest()
    return SeededEntropy(int.from_bytes(digest[:16], "big"))


def _whole(name: str, value: int) -> int:
    if not isinstance(value, (int, np.integer)) or value < 0:
        raise ParameterError(f"{name} is {value!r}; it must be an integer of at least 0")
    return int(value)


SYSTEM_ENTROPY: Entropy = OSEntropy()
