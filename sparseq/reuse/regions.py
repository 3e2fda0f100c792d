"""Regions of rows that a condition holds for: the algebra on predicates, made to be compared.

A region says of some expressions over a row which values they may have, and lists the conditions of
which nothing is known but their text; a row lies in it if all of that holds. Sound or silent: two
regions are told apart, or said to be equal, only where that follows from the values alone, whatever
the rows are. Values are totally ordered as the engine orders them (NaN is the greatest number), and
NULL is a value of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

from sparseq.language.expression_tree import Term
from sparseq.language.instants import read
from sparseq.language.value_sets import Spans, Texts, Values

_ALIASED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")+\"\.(\"(?:[^\"]|\"\")+\")")


@dataclass(frozen=True)
class Region:
    """Rows in which expressions have some values, and conditions hold.

    Attributes:
        values: By expression, in letters that are the same for the same expression. One that is
            not there may have any value.
        conditions: Texts of conditions of which nothing else is known.
    """

    values: Mapping[str, Values] = field(default_factory=dict)
    conditions: frozenset[str] = frozenset()

    def both(self, other: Region) -> Region:
        """Return the rows in both."""
        values = dict(self.values)
        for name, some in other.values.items():
            values[name] = values[name].both(some) if name in values else some
        return Region(values, self.conditions | other.conditions)

    @property
    def empty(self) -> bool:
        """No row can lie in it."""
        return not all(self.values.values())

    @property
    def key(self) -> str:
        """A text that equal regions share."""
        listed = {name: _spelled(values) for name, values in self.values.items()}
        return repr((sorted(listed.items()), sorted(self.conditions)))


def region_of(conditions: Iterable[Term]) -> Region:
    """Return the rows for which all of the conditions are true."""
    return reduce(Region.both, map(_region, conditions), Region())


def last_place(values: Values | None) -> float:
    """Return the last place that an expression can have; infinite: any, or it has no order."""
    if values is None or not isinstance(values.known, Spans):
        return math.inf
    return values.known.ends[1]


def letters(term: Term) -> str:
    """Return a text that stands for an expression, whatever its table is called in the query.

    Example:
        >>> from sparseq.language.types import BIGINT
        >>> letters(Term(BIGINT, '"e"."n"', column="n")) == letters(Term(BIGINT, '"x"."n"'))
        True
    """
    return bare(term.sql)


def bare(sql: str) -> str:
    """Return SQL over one table without the table's name before its columns."""
    return _ALIASED.sub(lambda found: f"~.{found[1]}" if found[1] else found[0], sql)


def _region(condition: Term) -> Region:
    if condition.function == "and":
        return region_of(condition.arguments)
    reading = read(condition)
    if not reading.exact:
        return Region(conditions=frozenset([letters(condition)]))
    return Region({letters(said.of): said.true for said in reading.said.values()})


def _spelled(values: Values) -> str:
    known = values.known
    if isinstance(known, Texts):
        return repr((sorted(known.listed), known.but, values.null))
    return repr((known.spans, values.null))
