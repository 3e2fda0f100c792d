"""Regular expressions: constants, checked before a row is read; RE2 takes linear time."""

from __future__ import annotations

from sparseq.language import types as T
from sparseq.language.functions.function import FunctionTable
from sparseq.language.functions.texts import MAX_TEXT
from sparseq.language.types import Family

Z, X = Family.INTEGER, Family.TEXT
FUNCTIONS = FunctionTable()
_add = FUNCTIONS.add


for _name in ("regexp_matches", "regexp_full_match"):
    _add(
        _name,
        f"{_name}({{0}}, {{1}})",
        (X, X),
        T.BOOLEAN,
        f"{_name}({{0}}, {{1}})",
        "by the rules of RE2; the expression is a constant",
        fixed=(1,),
        samples=(("'x+'",), ("'(é|a).*'",), ("''",)),
    )
_add(
    "regexp_extract",
    "regexp_extract({0}, {1}, {2})",
    (X, X, Z),
    T.TEXT,
    "regexp_extract({0}, {1}, CAST(greatest(least({2}, 9), 0) AS INTEGER))",
    "the group of the first match; '' if there is none",
    fixed=(1, 2),
    samples=(("'(x)(.)'", "1"), ("'x'", "9"), ("''", "-1")),
)
for _name, _option in (("regexp_replace", ""), ("regexp_replace all", ", 'g'")):
    _add(
        _name,
        f"regexp_replace({{0}}, {{1}}, {{2}}{_option})",
        (X, X, X),
        T.TEXT,
        f"left(regexp_replace({{0}}, {{1}}, left({{2}}, 100){_option}), {MAX_TEXT})",
        f"cut to {MAX_TEXT:,} characters",
        fixed=(1, 2),
        samples=(("'x+'", "'yy'"), ("''", "'é'"), ("'(.)'", "'\\\\1\\\\1'")),
    )
