"""Values and intervals on arrays of the functions of numbers, and of casts and choices."""

from __future__ import annotations

import numpy as np

from sparseq.language import interval_arithmetic as I
from sparseq.language.functions import overloads

FORMS = {
    "greatest": I.GREATEST,
    "least": I.LEAST,
    "either": I.EITHER,
    "to integer": I.rising_rule(np.rint),
    "to decimal": I.rising_rule_to_digits(I.round_to),
}
"""SQL forms besides functions: choices among any number of values, and casts."""


def rule_of(name: str, arguments: int) -> I.ArrayRule | None:
    """Return the values and intervals of a function of `arguments` numbers; None if it has none.

    Example:
        >>> rule_of("abs", 1) is I.ABSOLUTE, rule_of("length", 1)
        (True, None)
    """
    rules = (f.rule for f in overloads(name) if len(f.takes) == arguments)
    return FORMS.get(name) or next((rule for rule in rules if rule is not None), None)
