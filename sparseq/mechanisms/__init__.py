"""Randomness: mechanisms that add noise. Nothing here sees data."""

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
