"""Private SGD: gradients of random samples, in Rényi differential privacy; and its reports."""

from typing import TYPE_CHECKING

from sparseq.base.lazy_names import lazy

if TYPE_CHECKING:
    from sparseq.networks.sgd.descent import PrivateSGD, SgdResult
    from sparseq.networks.sgd.policies import SpendLess, SpendMore

__all__ = ["PrivateSGD", "SgdResult", "SpendLess", "SpendMore"]

__getattr__ = lazy(
    __name__,
    dict.fromkeys(("PrivateSGD", "SgdResult"), "sparseq.networks.sgd.descent")
    | dict.fromkeys(("SpendLess", "SpendMore"), "sparseq.networks.sgd.policies"),
)
