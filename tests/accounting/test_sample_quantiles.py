"""Quantiles of columns have NumPy's bits."""

from __future__ import annotations

import numpy as np
import pytest

from sparseq.accounting.pilots.posterior import SAMPLES
from sparseq.accounting.pilots.sample_quantiles import SampleColumns


@pytest.mark.parametrize("size", [2, 3, 7, 150, SAMPLES])
def test_quantiles_have_numpys_bits(size: int) -> None:
    draw = np.random.default_rng(size)
    for scale in (0.0, 1.0, 8.0):
        samples = draw.lognormal(sigma=scale, size=(size, 40)) * (draw.random((size, 40)) < 0.8)
        columns = SampleColumns(samples)
        assert columns.medians().tobytes() == np.median(samples, axis=0).tobytes()
        levels = (0.0, 0.1, 0.3, 0.5, 0.9, 0.999)
        expected = np.quantile(samples, levels, axis=0)
        assert np.array(columns.quantiles(levels)).tobytes() == expected.tobytes()
