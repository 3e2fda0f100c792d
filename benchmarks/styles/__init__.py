"""Questions in the styles of known collections, over four sets of rows: the share that is answered.

    python -m benchmarks.styles              answered of those that can be, by set of rows
    python -m benchmarks.styles --missing    the others, with their messages

`clicks` has web analytics as in ClickBench, `clinic` visits of patients as in the libraries of
OHDSI, `forum` posts as in Stack Exchange's data explorer, `subscriptions` what product teams ask:
cohorts, funnels, retention, sessions, revenue. Files are as in `benchmarks.written`. Fewer facts
are declared than there: categories and days, and hardly any bounds of numbers. The questions were
written before they were asked, and are not changed to suit the code that answers them.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks import written
from benchmarks.written import Question

HERE = Path(__file__).parent


def questions() -> list[Question]:
    """Return all questions; their categories are the names of the sets of rows.

    Example:
        >>> len(questions()) >= 150
        True
    """
    return written.questions(HERE)
