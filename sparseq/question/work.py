"""The work of reading a question's rows: public, from its text and the tables' columns."""

from __future__ import annotations

from sparseq.language.work import MANY_STEPS, MOST_STEPS, steps_of
from sparseq.question.plan import Query

_LETTERS = 8  # letters per step, for SQL without a term


def steps_of_row(query: Query) -> int:
    """Return the most steps that reading one row of a question takes."""
    found = query.derived.get("steps")
    if found is None:
        cells = [domain.position for domain in query.domains]
        cells += [cell for m in query.measures for cell in (m.value, m.bin) if cell is not None]
        terms = [*query.relation.conditions, *(c.term for c in cells if c.term is not None)]
        found = sum(map(steps_of, terms))
        found += sum(1 + len(c.sql) // _LETTERS for c in cells if c.term is None)
        query.derived["steps"] = found
    return int(found)


def is_slow(query: Query) -> bool:
    """Tell whether reading one row may take more than `MOST_STEPS`."""
    return steps_of_row(query) > MOST_STEPS


def is_very_slow(query: Query) -> bool:
    """Tell whether reading one row may take more than `MANY_STEPS`."""
    return steps_of_row(query) > MANY_STEPS
