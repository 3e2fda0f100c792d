"""Regions of rows that meet a condition: an algebra of comparable predicates.

A region gives the possible values of some expressions over a row, and lists the texts of further,
opaque conditions; a row lies in it if all of these hold. It is sound or silent: two regions are
disjoint, or equal, only if that follows from the values alone, for any rows. Values are totally
ordered as the engine orders them (NaN is the greatest number), and NULL is a separate value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

from sparseq.language.conditions import read
from sparseq.language.expression_tree import Term
from sparseq.language.value_sets import Spans, Texts, Values

_ALIASED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")+\"\.(\"(?:[^\"]|\"\")+\")")


@dataclass(frozen=True)
class Region:
    """Rows in which expressions have some values, and conditions hold.

    Attributes:
        values: The values of each expression, in a spelling that is equal for equal expressions. A
            missing expression may have any value.
        conditions: Texts of further conditions, which are opaque.
    """

    values: Mapping[str, Values] = field(default_factory=dict)
    conditions: frozenset[str] = frozenset()

    def both(self, other: Region) -> Region:
        """Return the rows in both regions."""
        values = dict(self.values)
        for name, some in other.values.items():
            values[name] = values[name].both(some) if name in values else some
        return Region(values, self.conditions | other.conditions)

    @property
    def empty(self) -> bool:
        """True if no row can lie in the region."""
        return not all(self.values.values())

    @property
    def key(self) -> str:
        """A text that equal regions share."""
        listed = {name: _spell(values) for name, values in self.values.items()}
        return repr((sorted(listed.items()), sorted(self.conditions)))


def region_of(conditions: Iterable[Term]) -> Region:
    """Return the rows for which all of the conditions are true."""
    return reduce(Region.both, map(_region, conditions), Region())


def last_place(values: Values | None) -> float:
    """Return the last value that an expression can have; infinite: unlimited or unordered."""
    if values is None or not isinstance(values.known, Spans):
        return math.inf
    return values.known.ends[1]


def letters(term: Term) -> str:
    """Return a text that identifies an expression, for any alias of its table.

    Example:
        >>> from sparseq.language.column_id import ColumnId
        >>> from sparseq.language.types import BIGINT
        >>> own = Term(BIGINT, '"e"."n"', column=ColumnId("t", "n"))
        >>> letters(own) == letters(Term(BIGINT, '"x"."n"'))
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
    return Region({letters(one.of): one.true for one in reading.said.values()})


def _spell(values: Values) -> str:
    places = values.known
    if isinstance(places, Texts):
        return repr((sorted(places.listed), places.but, values.null))
    return repr((places.spans, values.null))
