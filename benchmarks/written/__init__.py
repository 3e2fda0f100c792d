"""Questions as people who know SQL write them, over a small town: the share that is answered.

    python -m benchmarks.written              answered of those that can be, by category
    python -m benchmarks.written --missing    the others, with their messages

One .sql file is a category. A question is a title, `-- never: …` with the reason if nobody could
answer it, `-- within: x` if quantiles are read from bins, `-- is: …` if plain DuckDB needs another
text, or has no row for a group that exists here, and the SQL. The questions were written before the
code that answers them, and are not changed to suit it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        category, title: Its category, and its subject.
        sql: Its text.
        plain: The text for plain DuckDB, mostly the same as `sql`.
        never: The reason why nobody can answer it; "" otherwise.
        within: Largest distance of a number from the true one, in addition to rounding.
    """

    category: str
    title: str
    sql: str
    plain: str
    never: str = ""
    within: float = 0.0


def questions(folder: Path = HERE) -> list[Question]:
    """Return all questions of a folder, by category.

    Example:
        >>> len(questions()) >= 500
        True
    """
    found = []
    for path in sorted(folder.glob("*.sql")):
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
