"""Privacy filters: rules that stop an adaptive stream in time, and accounts that keep them.

    Filter(rule)                       one account: all users together
    IndividualFilter(rule, users)      one for each of n users: arrays in, mask out

    rule                one step is          guarantee                             source
    RdpRule             rho at one order     (alpha, rho)-RDP                      F&Z, Theorem 4.3
    RdpOrdersRule       rho at K orders      RDP at all of them                    F&Z, Remark 4.4
    ZcdpRule            rho                  rho-zCDP                              F&Z, Remark 4.4
    GdpRule             mu of a Gaussian     mu-GDP                                Smith & Thakurta
    PureDpRule          epsilon              (epsilon, delta)-DP                   F&Z, Theorem 4.8
    RenyiCurveRule      rho at K orders      RDP at one of them; (epsilon, delta)  Lécuyer, 3.3, 3.4
    ApproxZcdpRule      rho, delta           delta-approximate rho-zCDP            Whitehouse et al.
    RogersRule          epsilon              (epsilon, delta)-DP, as a baseline    F&Z, section 4.3

`would_admit(step)` asks; `admit(step)` charges the step if it fits. All sums are integers: budgets
are rounded down, charges up. A float means its exact value: 0.005 is slightly above 1/200, and fits
only 99 times into 0.5. `capacity(rule, step)` returns the number of times that a step fits a new
filter, and `compare(epsilon, delta, ...)` compares the rules.
"""

from sparseq.accounting.filters._additive import (
    ApproxZcdpRule,
    GdpRule,
    PureDpRule,
    RdpRule,
    ZcdpRule,
)
from sparseq.accounting.filters._compare import FilterComparison, compare
from sparseq.accounting.filters._filter import Filter, IndividualFilter, capacity
from sparseq.accounting.filters._renyi import RdpOrdersRule, RenyiCurveRule
from sparseq.accounting.filters._rogers import RogersRule
from sparseq.accounting.filters._rule import Rule

__all__ = [
    "ApproxZcdpRule",
    "Filter",
    "FilterComparison",
    "GdpRule",
    "IndividualFilter",
    "PureDpRule",
    "RdpOrdersRule",
    "RdpRule",
    "RenyiCurveRule",
    "RogersRule",
    "Rule",
    "ZcdpRule",
    "capacity",
    "compare",
]
