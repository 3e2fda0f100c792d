"""The work of a term on one row: a public number, computed from its functions.

A plain operation is one step. A function whose work grows with the length of a text, or with a
number, counts with its maximum for typical texts in tables, or for texts that a query builds. Steps
decide where a question is evaluated, and never its answer: `MOST_STEPS` steps on 10 million rows
take about one second of a processor.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparseq.language.expression_tree import Term

MOST_STEPS = 200
"""The most steps per row of a short evaluation."""
MANY_STEPS = 1_000
"""Steps per row from which an evaluation is so long that no noise may be drawn before it."""
_OF_TEXT = 200
STEPS: Mapping[str, int] = {
    "levenshtein": 10_000,
    **dict.fromkeys(("repeat", "lpad", "rpad", "replace"), 1_000),
    **dict.fromkeys(("md5", "sha256", "initcap", "reverse", "translate"), _OF_TEXT),
    **dict.fromkeys(("split_part", "parts", "like", "strftime", "strptime"), _OF_TEXT),
    **dict.fromkeys(("regexp_matches", "regexp_full_match", "regexp_extract"), 5 * _OF_TEXT),
    **dict.fromkeys(("regexp_replace", "regexp_replace all"), 5 * _OF_TEXT),
    **dict.fromkeys(("json_extract_string", "json_extract", "json_exists"), 5 * _OF_TEXT),
    **dict.fromkeys(("json_array_length", "json_type", "json_valid"), 5 * _OF_TEXT),
}
"""Steps by function name; all other functions take one."""


def steps_of(term: Term) -> int:
    """Return the maximum number of steps of a term on one row.

    Example:
        >>> from sparseq.language import types as T
        >>> from sparseq.language.expression_tree import call, column
        >>> name = column("name", T.TEXT)
        >>> steps_of(call("lower", "lower({0})", T.TEXT, name))
        2
        >>> steps_of(call("levenshtein", "levenshtein({0}, {1})", T.BIGINT, name, name))
        10002
    """
    steps, left = 0, [term]
    while left:
        one = left.pop()
        steps += STEPS.get(one.function, 1)
        left += one.arguments
    return steps
