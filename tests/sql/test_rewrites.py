"""Every rule that rewrites a question keeps its meaning: as plain DuckDB answers it, or refused."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from differential import Kind, Pair
from rewrite_cases import CASES, pair_of, worlds

from sparseq.sql.select_rules import RULES

MANY = 45
"""Questions of a rule in each world in the deep tests; else one, in every third world."""


@pytest.fixture(scope="module")
def pairs() -> Iterator[dict[str, Pair]]:
    made = {name: pair_of(name) for name in worlds()}
    yield made
    for pair in made.values():
        pair.close()


def _check(pairs: dict[str, Pair], rule: str, times: int, step: int = 1) -> Counter[Kind]:
    """Ask a rule's questions in each `step`-th world; return what became of them."""
    found, different = Counter[Kind](), []
    for world, pair in list(pairs.items())[list(CASES).index(rule) % step :: step]:
        rng = random.Random(f"{rule} {world}")
        for _ in range(times):
            sql = CASES[rule](rng)
            outcome = pair.ask(sql)
            found[outcome.kind] += 1
            if not outcome.agrees:
                different.append(f"{world}: {sql}\n    {outcome.said}")
    assert different == [], "\n".join(different)
    return found


@pytest.mark.parametrize("rule", CASES)
def test_a_rewriting_keeps_the_meaning(pairs: dict[str, Pair], rule: str) -> None:
    _check(pairs, rule, 1, step=3)


@pytest.mark.deep
@pytest.mark.parametrize("rule", CASES)
def test_many_rewritings_keep_the_meaning(pairs: dict[str, Pair], rule: str) -> None:
    """Of 300 questions of each rule most are answered, not refused."""
    found = _check(pairs, rule, MANY)
    assert found.total() >= 300
    assert found[Kind.EQUAL] + found[Kind.NOTED] > found.total() / 3, found


def test_every_rule_has_questions() -> None:
    assert {rule.__name__ for rule in RULES} <= CASES.keys()
