"""A sum over a Poisson sample of the users with Gaussian noise: priced and drawn by one object.

The price of a sampled step (Mironov, Talwar & Zhang 2019) is for a sample in which each user takes
part by an independent coin, whose outcome stays secret. Shuffled or fixed-size batches at that
price are a common mistake: they cost more. Here `curve` and `release` read the same three numbers,
and the coin is exact: 32 fresh bits per user from the operating system, compared with an integer.
An empty or large sample is not reported, and the noise is added either way.

**Why the price holds** (add/remove one user). Given all other users' coins, the integer sum is s
without user i, and s + v_i with probability q, so that the noised sum is the sampled Gaussian's
pair, moved by s; the divergence of a mixture over s is no larger (joint quasi-convexity), in either
direction. |v_i| is at most the priced norm, by integers: a user whose square, as the engine gives
it, is above it is left out of the step, like a drawn user whose gradient is not finite. Noise is
floor(Z + 1/2) in lattice steps, a post-processing of the Gaussian mechanism; sums that overflow
wrap around, which is another post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparseq.accounting import rdp
from sparseq.base.errors import ParameterError
from sparseq.engine.reduction import Index, Ints
from sparseq.mechanisms import rounded_gaussian
from sparseq.mechanisms.entropy import Entropy
from sparseq.question.plan import DENSE_NORM_STEPS
from sparseq.training.accountant import checked_clip, clipped
from sparseq.training.protocol import Floats, GradientEngine

CHANCES = 2**32
LEAST_NOISE = 0.25
"""Least sigma / clip: below, a step costs a drawn user more than 8 in zCDP."""
_NOISE_BITS = 40  # bits of sigma in lattice steps: room for 2**23 full gradients in int64
_AIM = 1 - 2.0**-10
"""Factor of gradients, a little below the price: room for the roundings of engines."""
_CURVE_ERROR = 1 + 2e-12  # of `rdp.subsampled_gaussian`
_DOWN = 1 - 2.0**-50  # covers the roundings of noise / share and noise · clip


@dataclass(frozen=True)
class SampledGaussian:
    """One step of a run.

    Attributes:
        chance: Each user is drawn with probability chance / 2**32, exactly.
        noise: The noise's deviation as a multiple of `clip`.
        clip: No user's vector counts for more.

    Example:
        >>> from sparseq.mechanisms import SYSTEM_ENTROPY
        >>> step = SampledGaussian.of(0.25, noise=1.0)
        >>> step.sampling, step.drawn(8, SYSTEM_ENTROPY).shape
        (0.25, (8,))
        >>> step.curve([2.0, 8.0]).round(4)
        array([0.102 , 2.4188])
    """

    chance: int
    noise: float
    clip: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.chance <= CHANCES:
            raise ParameterError(f"chance is {self.chance}; it must be from 1 to 2**32")
        checked_clip(self.clip)
        if not LEAST_NOISE <= self.noise <= 2.0**30:
            raise ParameterError(
                f"noise is {self.noise!r} times the clip; it must be in [{LEAST_NOISE}, 2**30]",
                "less noise gives no privacy",
            )

    @classmethod
    def of(cls, sampling: float, noise: float, clip: float = 1.0) -> SampledGaussian:
        """Return the step whose rate is nearest to `sampling`, in (0, 1]."""
        if not 0 < sampling <= 1:
            raise ParameterError(
                f"sampling is {sampling!r}; it must be in (0, 1]",
                "it is each user's probability of being drawn for a step",
            )
        return cls(max(round(sampling * CHANCES), 1), noise, clip)

    @property
    def sampling(self) -> float:
        """The rate: of the draw and of the price."""
        return self.chance / CHANCES

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, in the gradient's unit."""
        return self.noise * self.clip

    @property
    def lattice(self) -> float:
        """The lattice step, a power of two."""
        return math.ldexp(1.0, math.frexp(self.sigma)[1] - _NOISE_BITS)

    def curve(self, orders: ArrayLike, share: float = 1.0) -> Floats:
        """Return the RDP of the step for a user whose limit is share · clip, rounded up."""
        if share == 0:
            return np.zeros(np.shape(orders))
        curve = rdp.subsampled_gaussian(self.sampling, self.noise / share * _DOWN, orders)
        return np.asarray(curve * _CURVE_ERROR)

    def drawn(self, users: int, entropy: Entropy) -> NDArray[np.bool_]:
        """Return a mask of the sample: one coin per user. Private."""
        words = np.frombuffer(entropy(4 * users), dtype="<u4", count=users)
        return np.asarray(words.astype(np.uint64) < np.uint64(self.chance))

    def release(
        self,
        engine: GradientEngine,
        params: Floats,
        everybody: Index,
        entropy: Entropy,
        limits: Floats | None = None,
    ) -> Floats:
        """Return the noised sum over a fresh sample.

        Args:
            engine: Computes the vectors; with `of` it is given the sample only.
            params: Parameters, public.
            everybody: The engine's users, ascending.
            entropy: Entropy of coins and noise.
            limits: Limit of each of `everybody`, at most `clip`: a function of the user's own data
                and of earlier releases. Private.

        Raises:
            ParameterError: The engine breaks its promises.
        """
        in_it = self.drawn(len(everybody), entropy)
        if limits is not None:
            in_it &= limits > 0
        users = everybody[in_it]
        most = np.full(len(users), self.clip) if limits is None else limits[in_it]
        while True:
            sums, fits = self._sum(engine, params, users, most)
            if fits.all():
                break
            users, most = users[fits], most[fits]
        noise = rounded_gaussian(self.sigma / self.lattice, engine.coordinates, entropy)
        with np.errstate(over="ignore"):
            return np.asarray((sums + noise) * self.lattice, np.float64)

    def _sum(
        self, engine: GradientEngine, params: Floats, users: Index, limits: Floats
    ) -> tuple[Ints, NDArray[np.bool_]]:
        """Return the sum over some users, and a mask of the users within their limits."""
        unit = self.lattice * DENSE_NORM_STEPS
        caps = np.floor((limits / unit) ** 2 * _DOWN)
        aims = np.sqrt(np.maximum(caps - 1, 0.0)) * (unit * _AIM)
        sums = np.zeros(engine.coordinates, np.int64)
        fits, seen = np.ones(len(users), np.bool_), np.zeros(len(users), np.int64)
        for batch in only(engine, users):
            place = np.searchsorted(users, batch.users)
            inside = np.zeros(len(batch.users), np.bool_)
            known = np.flatnonzero(place < len(users))
            inside[known] = users[place[known]] == batch.users[known]
            place = place[inside]
            seen += np.bincount(place, minlength=len(users))
            with np.errstate(all="ignore"):  # a warning would reveal someone's record
                own = np.zeros(len(inside))
                own[inside] = aims[place]
                pulled = clipped(engine, params, batch, own, self.lattice)
            sums += pulled.sums
            if pulled.squares[~inside].any():
                raise ParameterError(
                    "the engine's sum contains contributions of users who were not drawn",
                    "give it `of(users)`, see sparseq.training.protocol.Sampling",
                )
            fits[place] = pulled.squares[inside] <= caps[place]
        if (seen > 1).any():
            raise ParameterError("the engine has a user twice", "a user is in one batch, once")
        return sums, fits


def only(engine: GradientEngine, users: Index) -> Iterable[Any]:
    """Return the engine's batches of some users, or all batches if it has no `of`."""
    some: Callable[[Index], Iterable[Any]] | None = getattr(engine, "of", None)
    return engine.batches() if some is None else some(users)


def all_users(engine: GradientEngine) -> Index:
    """Return all users of an engine, ascending.

    Raises:
        ParameterError: A user is in two batches.
    """
    users = np.concatenate([np.zeros(0, np.int32), *(batch.users for batch in engine.batches())])
    ordered = np.sort(users)
    if (ordered[1:] == ordered[:-1]).any():
        raise ParameterError("the engine has a user twice", "a user is in one batch, once")
    return ordered
