"""LIKE and ILIKE with a constant pattern, in time linear in the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from sparseq.language import types as T
from sparseq.language.expression_tree import Term, call, constant


def like(value: Term, signs: Sequence[tuple[str, bool]], any_case: bool, negated: bool) -> Term:
    """Return LIKE with a constant pattern, in time proportional to the text.

    DuckDB tries every place for every %, so a pattern such as '%a_%b_%c' could take time in the
    order of the text's length to the power of the number of %. A regular expression of RE2 takes
    linear time.

    Args:
        value: A text.
        signs: The pattern's characters, and whether each is a wildcard, % or _.
        any_case: Match as ILIKE does.
        negated: Return NOT LIKE.
    """
    if any_case:
        value, signs = (
            call("lower", "lower({0})", T.TEXT, value),
            [(c.lower(), w) for c, w in signs],
        )
    escaped = any(c in "%_" and not wild for c, wild in signs)
    if not escaped and len({c for c, wild in signs if wild}) < 2:
        quoted = constant("".join(c for c, _ in signs), T.TEXT)
        done = call("like", "({0} LIKE {1})", T.BOOLEAN, value, quoted)
    else:
        text = ""
        for (c, wild), same in groupby(signs):
            one = "." if wild else re.escape(c)
            text += ".*" if wild and c == "%" else one * len(list(same))
        matched = "regexp_full_match({0}, {1}, 's')"
        done = call("like", matched, T.BOOLEAN, value, constant(text, T.TEXT))
    return call("not", "(NOT {0})", T.BOOLEAN, done) if negated else done
