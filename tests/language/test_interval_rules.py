"""Values and intervals of functions of numbers, by name."""

from __future__ import annotations

import numpy as np

from sparseq.language import interval_arithmetic as I
from sparseq.language.functions import FUNCTIONS
from sparseq.language.interval_rules import FORMS, rule_of


def test_overloads_with_equally_many_arguments_share_a_rule() -> None:
    for f in FUNCTIONS:
        if f.rule is not None:
            assert rule_of(f.name, len(f.takes)) is f.rule


def test_casts_and_choices_have_rules() -> None:
    assert {name: rule_of(name, 2) for name in FORMS} == FORMS
    low, high = I.lies_in(
        FORMS["greatest"], (np.array([1.0]), np.array([4.0])), (np.array([2.0]), np.array([3.0]))
    )[:2]
    assert (low.tolist(), high.tolist()) == ([2.0], [4.0])


def test_text_has_none() -> None:
    assert rule_of("upper", 1) is None
    assert rule_of("length", 1) is None
