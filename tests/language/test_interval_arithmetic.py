"""The facts of every rule on arrays hold for numbers of all kinds."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sparseq.language.functions import FUNCTIONS
from sparseq.language.interval_arithmetic import ArrayRule, lies_in
from sparseq.language.interval_rules import FORMS

NUMBERS = (-40.0, -7.0, -2.5, -1.0, -0.5, 0.0, 0.25, 1.0, 3.0, 9.75, 1e6)
WHOLE = tuple(x for x in NUMBERS if x == int(x))
RULES: dict[tuple[str, int], ArrayRule] = {
    (f.name, len(f.takes)): f.rule for f in FUNCTIONS if f.rule is not None
}
RULES |= {(name, 2): FORMS[name] for name in ("greatest", "least")}
DIGITS = (("round", 2), ("trunc", 2))
"""Their second argument is a number of decimals, not a number like the first."""


def values(rule: ArrayRule, number: int, of: tuple[float, ...], digits: bool) -> np.ndarray:
    """Return the values of a rule for all numbers."""
    second = (-2.0, 0.0, 2.0) if digits else of
    listed = [of, *[second] * (number - 1)]
    with np.errstate(all="ignore"):
        return rule.value(*(np.array(column) for column in zip(*product(*listed), strict=True)))


@pytest.mark.parametrize(("name", "number"), RULES)
def test_facts_of_a_rule_hold(name: str, number: int) -> None:
    rule, digits = RULES[name, number], (name, number) in DIGITS
    all_of, of_whole = (values(rule, number, of, digits) for of in (NUMBERS, WHOLE))
    assert not rule.finite or np.isfinite(all_of).all()
    assert not rule.keeps_whole or (of_whole == np.trunc(of_whole)).all()
    is_whole = bool((all_of == np.trunc(all_of)).all())
    assert rule.makes_whole == is_whole, "a rule that makes whole numbers says so"


@pytest.mark.parametrize(("name", "number"), RULES)
def test_values_lie_in_the_interval(name: str, number: int) -> None:
    rule, digits = RULES[name, number], (name, number) in DIGITS
    spans = [(a, b) for a in NUMBERS[::2] for b in NUMBERS[::2] if a <= b]
    second = [(d, d) for d in (-2.0, 0.0, 2.0)] if digits else spans
    for box in product(spans, *[second] * (number - 1)):
        low, high = lies_in(rule, *box)
        inside = [
            tuple(x for x in ((-2.0, 0.0, 2.0) if digits and i else NUMBERS) if a <= x <= b)
            for i, (a, b) in enumerate(box)
        ]
        with np.errstate(all="ignore"):
            points = (np.array(c) for c in zip(*product(*inside), strict=True))
            found = rule.value(*points)
        some = found[np.isfinite(found)]
        slack = 1e-9 * np.maximum(np.abs(some), 1.0)
        assert ((some >= low - slack) | np.isnan(low)).all(), (box, low, high)
        assert ((some <= high + slack) | np.isnan(high)).all(), (box, low, high)
