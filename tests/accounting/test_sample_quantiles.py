"""Quantiles of columns have NumPy's bits."""

from __future__ import annotations

import numpy as np
import pytest

from sparseq.accounting.pilots.posterior import SAMPLES
from sparseq.accounting.pilots.sample_quantiles import SampleColumns, median, quantiles


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


@pytest.mark.parametrize("size", [1, 2, 3, 8, 601])
def test_a_median_has_numpys_bits(size: int) -> None:
    samples = np.random.default_rng(size).lognormal(size=size)
    assert median(samples) == np.median(samples)
    assert np.isnan(median(np.append(samples, np.nan)))


@pytest.mark.parametrize("size", [1, 2, 3, 8, 150, SAMPLES])
def test_quantiles_of_one_column_have_numpys_bits(size: int) -> None:
    samples = np.random.default_rng(size).lognormal(size=size)
    levels = np.concatenate([(np.arange(150) + 0.5) / 150, [0.0, 0.025, 0.1, 0.5, 0.9, 1.0]])
    assert quantiles(samples, levels).tobytes() == np.quantile(samples, levels).tobytes()
