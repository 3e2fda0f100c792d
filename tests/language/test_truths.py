"""Functions of truth values, in three-valued logic."""

from __future__ import annotations

import itertools

from language.one_value import truth, value

KNOWN = (True, False, None)


def test_and_or_are_the_minimum_and_the_maximum_with_null_between() -> None:
    rank = {False: 0, None: 1, True: 2}
    for a, b in itertools.product(KNOWN, KNOWN):
        assert value("and", truth(a), truth(b)) == min(a, b, key=lambda x: rank[x])
        assert value("or", truth(a), truth(b)) == max(a, b, key=lambda x: rank[x])


def test_not_and_is() -> None:
    assert [value("not", truth(a)) for a in KNOWN] == [False, True, None]
    assert [value("is true", truth(a)) for a in KNOWN] == [True, False, False]
    assert [value("is false", truth(a)) for a in KNOWN] == [False, True, False]
