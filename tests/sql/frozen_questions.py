"""A fixed list of questions, each with the store that it is asked of.

Those that people wrote (benchmarks/written, pairs.sql, TPC-H), traps, hostile ones, random ones of
the grammar of test_subquery_expressions.py, and generated.sql: 500 of grammar.py, one a line, which
hypothesis would need a minute to make. No question looks at the clock.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import shop
import test_against_duckdb
import test_hostile
import test_subquery_expressions
import tpch_rows
import traps

import sparseq
from benchmarks import tpch, written
from benchmarks.written import town

CLOCK = re.compile(r"\b(current_\w+|today\(|now\(|localtime\w*|get_current_\w+)", re.IGNORECASE)
SUBQUERIES = 300
OPEN_ORDER = ("written b9dbe193b3", "written fda9bd6163", "written 3f52ba8c1c")
"""Questions that leave the order of some rows of their answer open."""


@dataclass(frozen=True)
class Frozen:
    """One question.

    Attributes:
        family: Where it is from, which says the store that it is asked of.
        sql: Its text.
    """

    family: str
    sql: str

    @property
    def id(self) -> str:
        """A text that tells it from all others, and does not change as the list grows."""
        told = hashlib.sha256(self.sql.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{self.family} {told[:10]}"

    def is_one_in(self, step: int) -> bool:
        """Tell whether it belongs to a sample of about one question in `step`."""
        return int(self.id.split()[1], 16) % step == 0


def _generated() -> Iterator[str]:
    yield from (Path(__file__).parent / "generated.sql").read_text().splitlines()


def _subqueries() -> Iterator[str]:
    rng = random.Random(52)
    for _ in range(SUBQUERIES):
        yield test_subquery_expressions.question(rng)


QUESTIONS: dict[str, Callable[[], Iterator[str]]] = {
    "written": lambda: (q.sql for q in written.questions()),
    "pairs": lambda: (asked for asked, _ in test_against_duckdb.PAIRS.values()),
    "traps": lambda: (trap.sql for trap in traps.traps()[::2]),
    "hostile": lambda: iter(test_hostile.QUERIES.values()),
    "tpch": lambda: iter(tpch.queries().values()),
    "generated": _generated,
    "subqueries": _subqueries,
}
"""Of each family, its questions."""
STORES: dict[str, Callable[[], sparseq.Store]] = {
    "written": lambda: town.store(found=True),
    "pairs": shop.store,
    "traps": traps.store,
    "hostile": test_hostile.store,
    "tpch": tpch_rows.store,
    "generated": shop.store,
    "subqueries": lambda: test_subquery_expressions.pair.__wrapped__("plain").store,
}
"""Of each family, what its questions are asked of."""


@cache
def questions(family: str) -> list[Frozen]:
    """Return the questions of a family, each once."""
    asked = dict.fromkeys(sql for sql in QUESTIONS[family]() if not CLOCK.search(sql))
    found = [Frozen(family, sql) for sql in asked]
    return [question for question in found if question.id not in OPEN_ORDER]
