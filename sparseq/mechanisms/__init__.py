"""Randomness: mechanisms that add noise. Nothing here sees data."""

from typing import TYPE_CHECKING

from sparseq.base.lazy_names import lazy

if TYPE_CHECKING:
    from sparseq.mechanisms.entropy import SYSTEM_ENTROPY, Entropy, OSEntropy, SeededEntropy
    from sparseq.mechanisms.gaussian import MAX_SIGMA, MIN_SIGMA, rounded_gaussian
    from sparseq.mechanisms.laplace import discrete_laplace, laplace_rdp
    from sparseq.mechanisms.quantile import Quantiles, Ranks
    from sparseq.mechanisms.randomized_response import RandomizedResponse
    from sparseq.mechanisms.sparse_vector import (
        AboveThreshold,
        GaussianSparseVector,
        LaplaceSparseVector,
    )
    from sparseq.mechanisms.toeplitz_counter import ToeplitzCounter
    from sparseq.mechanisms.tree_counter import TreeCounter

__all__ = [
    "MAX_SIGMA",
    "MIN_SIGMA",
    "SYSTEM_ENTROPY",
    "AboveThreshold",
    "Entropy",
    "GaussianSparseVector",
    "LaplaceSparseVector",
    "OSEntropy",
    "Quantiles",
    "RandomizedResponse",
    "Ranks",
    "SeededEntropy",
    "ToeplitzCounter",
    "TreeCounter",
    "discrete_laplace",
    "laplace_rdp",
    "rounded_gaussian",
]
__getattr__ = lazy(
    __name__,
    {
        "AboveThreshold": "sparseq.mechanisms.sparse_vector",
        "Entropy": "sparseq.mechanisms.entropy",
        "GaussianSparseVector": "sparseq.mechanisms.sparse_vector",
        "LaplaceSparseVector": "sparseq.mechanisms.sparse_vector",
        "MAX_SIGMA": "sparseq.mechanisms.gaussian",
        "MIN_SIGMA": "sparseq.mechanisms.gaussian",
        "OSEntropy": "sparseq.mechanisms.entropy",
        "Quantiles": "sparseq.mechanisms.quantile",
        "RandomizedResponse": "sparseq.mechanisms.randomized_response",
        "Ranks": "sparseq.mechanisms.quantile",
        "SYSTEM_ENTROPY": "sparseq.mechanisms.entropy",
        "SeededEntropy": "sparseq.mechanisms.entropy",
        "ToeplitzCounter": "sparseq.mechanisms.toeplitz_counter",
        "TreeCounter": "sparseq.mechanisms.tree_counter",
        "discrete_laplace": "sparseq.mechanisms.laplace",
        "laplace_rdp": "sparseq.mechanisms.laplace",
        "rounded_gaussian": "sparseq.mechanisms.gaussian",
    },
)
