"""Pure maths of the privacy account: no data, no I/O, no clock, no randomness.

Budget                          kappa and norm_budget, and their guarantee
Price, sigma_for_scale, ...     price of a contribution, in exact integers
simultaneous_bound, ...         error bounds of an answer
gdp, zcdp                       conversions to (epsilon, delta)
rdp                             Rényi curves of mechanisms, composition, conversions
"""

from typing import TYPE_CHECKING

from sparseq.base.lazy_names import lazy

if TYPE_CHECKING:
    from sparseq.accounting import gdp, rdp, zcdp
    from sparseq.accounting.accuracy import (
        comparison_bound,
        corollary_bound,
        sigma_for_accuracy,
        simultaneous_bound,
    )
    from sparseq.accounting.budget import Budget
    from sparseq.accounting.charge import (
        MAX_CHARGE,
        MAX_SQUARED_NORM,
        UNITS_PER_NORM,
        Price,
        add_charges,
        budget_units,
        round_up,
        sigma_for_price,
        sigma_for_scale,
    )

__all__ = [
    "MAX_CHARGE",
    "MAX_SQUARED_NORM",
    "UNITS_PER_NORM",
    "Budget",
    "Price",
    "add_charges",
    "budget_units",
    "comparison_bound",
    "corollary_bound",
    "gdp",
    "rdp",
    "round_up",
    "sigma_for_accuracy",
    "sigma_for_price",
    "sigma_for_scale",
    "simultaneous_bound",
    "zcdp",
]
__getattr__ = lazy(
    __name__,
    {
        "Budget": "sparseq.accounting.budget",
        "MAX_CHARGE": "sparseq.accounting.charge",
        "MAX_SQUARED_NORM": "sparseq.accounting.charge",
        "Price": "sparseq.accounting.charge",
        "UNITS_PER_NORM": "sparseq.accounting.charge",
        "add_charges": "sparseq.accounting.charge",
        "budget_units": "sparseq.accounting.charge",
        "comparison_bound": "sparseq.accounting.accuracy",
        "corollary_bound": "sparseq.accounting.accuracy",
        "round_up": "sparseq.accounting.charge",
        "sigma_for_accuracy": "sparseq.accounting.accuracy",
        "sigma_for_price": "sparseq.accounting.charge",
        "sigma_for_scale": "sparseq.accounting.charge",
        "simultaneous_bound": "sparseq.accounting.accuracy",
    },
)
