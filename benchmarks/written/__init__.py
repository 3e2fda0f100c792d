"""Questions as people who know SQL write them, over a small town: which of them are answered?

    python -m benchmarks.written              answered of those that can be, by category
    python -m benchmarks.written --missing    those that are not, and what the message says

One .sql file is a category. A question is a title, `-- never: …` where nobody could answer it,
with the reason, `-- within: x` where quantiles are read off bins, `-- is: …` where plain DuckDB
writes it otherwise, or has no row for a group that is one here, and the SQL. The questions came
before the code that answers them, and are not changed to suit it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        category, title: Where it is, and what it asks.
        sql: Its text.
        plain: What plain DuckDB is asked instead, the same as `sql` mostly.
        never: Why nobody can answer it; "" where somebody could.
        within: How far a number may lie from the true one, beside rounding.
    """

    category: str
    title: str
    sql: str
    plain: str
    never: str = ""
    within: float = 0.0


def questions() -> list[Question]:
    """Return all questions, by category.

    Example:
        >>> len(questions()) >= 500
        True
    """
    found = []
    for path in sorted(HERE.glob("*.sql")):
        found += [_question(path.stem, block) for block in path.read_text().strip().split("\n\n")]
    return found


def _question(category: str, block: str) -> Question:
    title, *lines = block.splitlines()
    marks = {}
    while lines[0].startswith("-- "):
        mark, _, value = lines.pop(0).removeprefix("-- ").partition(": ")
        marks[mark] = value
    sql = "\n".join(lines)
    return Question(
        category,
        title.removeprefix("-- "),
        sql,
        marks.get("is", sql),
        marks.get("never", ""),
        float(marks.get("within", 0)),
    )
