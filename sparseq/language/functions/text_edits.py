"""Functions that edit or measure a text: separators, replacement, padding, hashes and codes."""

from __future__ import annotations

from sparseq.language import types as T
from sparseq.language.functions.function import FunctionTable
from sparseq.language.functions.texts import MAX_TEXT
from sparseq.language.types import Family

Z, X = Family.INTEGER, Family.TEXT
FUNCTIONS = FunctionTable()
_add = FUNCTIONS.add


for _name in ("reverse", "md5", "sha256"):
    _add(
        _name,
        f"{_name}({{0}})",
        (X,),
        T.TEXT,
        f"{_name}({{0}})",
        "in reverse order" if _name == "reverse" else "the hash, in hexadecimal digits",
    )
_add(
    "split_part",
    "split_part({0}, {1}, {2})",
    (X, X, Z),
    T.TEXT,
    "split_part({0}, {1}, CAST(greatest(least({2}, 1000), -1000) AS INTEGER))",
    "the part with this number between separators; '' if there is none",
    fixed=(2,),
    samples=(("1",), ("-1",), ("0",), ("99999",)),
)
_add(
    "parts",
    "len(string_split({0}, {1}))",
    (X, X),
    T.integer(0, 2**32),
    "len(string_split({0}, {1}))",
    "the number of parts between separators",
    fixed=(1,),
    samples=(("' '",), ("''",)),
)
_add(
    "replace",
    "replace({0}, {1}, {2})",
    (X, X, X),
    T.TEXT,
    f"left(replace({{0}}, {{1}}, left({{2}}, 100)), {MAX_TEXT})",
    f"the second is replaced by the first 100 characters of the third; cut to {MAX_TEXT:,}",
    fixed=(1, 2),
    samples=(("'a'", "'bb'"), ("''", "'x'"), ("'x'", "''")),
)
_add(
    "translate",
    "translate({0}, {1}, {2})",
    (X, X, X),
    T.TEXT,
    "translate({0}, {1}, {2})",
    "replaces each character of the second by the one of the third at its position",
    fixed=(1, 2),
    samples=(("'xé'", "'y'"), ("''", "'x'")),
)
for _name in ("lpad", "rpad"):
    _add(
        _name,
        f"{_name}({{0}}, {{1}}, {{2}})",
        (X, Z, X),
        T.TEXT,
        f"{_name}({{0}}, CAST(greatest(least({{1}}, {MAX_TEXT}), 0) AS INTEGER), "
        "nullif({2}, ''))",
        f"padded or cut to this number of characters, at most {MAX_TEXT:,}",
        fixed=(1, 2),
        samples=(("3", "'é'"), ("-1", "' '"), ("99999", "'ab'"), ("2", "''")),
    )
_add(
    "levenshtein",
    "levenshtein({0}, {1})",
    (X, X),
    T.integer(0, 100),
    "levenshtein(left({0}, 100), left({1}, 100))",
    "the number of edits between the first 100 characters of both",
)
_add(
    "repeat",
    "repeat({0}, {1})",
    (X, Z),
    T.TEXT,
    f"left(repeat(left({{0}}, {MAX_TEXT}), CASE WHEN {{1}} IS NOT NULL THEN CAST(greatest("
    f"least({{1}}, {MAX_TEXT} // greatest(length({{0}}), 1) + 1), 0) AS BIGINT) END), "
    f"{MAX_TEXT})",
    f"repeated this number of times, and cut to {MAX_TEXT:,} characters",
)
_add(
    "initcap",
    "initcap({0})",
    (X,),
    T.TEXT,
    "array_to_string(list_transform(regexp_extract_all({0}, "
    "'[\\p{{L}}\\p{{N}}]+|[^\\p{{L}}\\p{{N}}]+'), "
    "lambda w: upper(left(w, 1)) || lower(substring(w, 2))), '')",
    "each word (letters and digits) begins with a capital",
)
_add(
    "chr",
    "chr({0})",
    (Z,),
    T.TEXT,
    "chr(CAST(CASE WHEN {0} BETWEEN 0 AND 55295 OR {0} BETWEEN 57344 AND 1114111 THEN {0} END "
    "AS INTEGER))",
    "the character with this code; NULL if there is none",
)
_add(
    "ascii",
    "ascii({0})",
    (X,),
    T.integer(0, 2**21),
    "ascii({0})",
    "the code of its first character",
)
