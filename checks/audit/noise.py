"""Is the noise what the answer says? A test that may look after every answer.

Each released integer less the exact sum is a rounded Gaussian of the stated sigma. The test bets
that it is one of some other sigma: the product of likelihood ratios, averaged over the
alternatives, is a martingale if the noise is right, so it ever exceeds 10^6 with a chance of at
most 10^-6 (Ville 1939).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import special

from checks.audit.comparison import Finding
from checks.audit.seams import Seen

ALTERNATIVES = np.array([0.5, 0.7, 0.8, 0.9, 1.1, 1.25, 1.5, 2.0])
LIMIT = 1e6


class NoiseTest:
    """Bets against the noise of everything that was released."""

    def __init__(self) -> None:
        self.logs = np.zeros(len(ALTERNATIVES))
        self.values = 0

    @property
    def evidence(self) -> float:
        """The bet's wealth: at most 10^6, but for a chance of 10^-6, if the noise is right."""
        return float(np.exp(min(special.logsumexp(self.logs) - np.log(len(self.logs)), 700)))

    def take(self, seen: Seen) -> Iterator[Finding]:
        """Bet on what one store released; yield a finding once there is evidence."""
        for step in seen.steps:
            if not step.gaussian:
                continue
            for (_, sigma, granularity), out, total in zip(
                step.noise, step.released, step.sums, strict=True
            ):
                self.values += len(out)
                self._bet((out - total).astype(np.float64), sigma / granularity)
        if self.evidence > LIMIT:
            best = float(ALTERNATIVES[int(np.argmax(self.logs))])
            self.logs[:] = 0
            yield Finding(
                "noise", f"after {self.values} values: about {best:g} of the sigma that is stated"
            )

    def _bet(self, noise: np.ndarray, sigma: float) -> None:
        right = _log_mass(noise, sigma)
        for i, factor in enumerate(ALTERNATIVES):
            self.logs[i] += float(np.sum(_log_mass(noise, sigma * factor) - right))


def _log_mass(noise: np.ndarray, sigma: float) -> np.ndarray:
    """Return the log of the chance that a rounded Gaussian is each of these integers."""
    if sigma > 1000:  # a cell is so narrow that its mass is its density
        return -0.5 * (noise / sigma) ** 2 - np.log(sigma)
    low, high = (np.abs(noise) - 0.5) / sigma, (np.abs(noise) + 0.5) / sigma
    above, beyond = special.log_ndtr(-low), special.log_ndtr(-high)
    return above + np.log1p(-np.exp(np.minimum(beyond - above, -1e-12))) + 0.5 * np.log(2 * np.pi)
