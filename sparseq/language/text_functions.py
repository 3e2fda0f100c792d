"""Further functions of text, for the table: parts, patterns, hashes, and JSON in a text.

Patterns, formats and paths are constants, and are checked before any row is read. RE2 takes time
linear in the text, and the results of replacements are truncated.
"""

from __future__ import annotations

from collections.abc import Callable

from sparseq.language import types as T
from sparseq.language.types import Family

X, Z = Family.TEXT, Family.INTEGER
MAX_TEXT = 1000
"""The most characters of a text that a query builds by joining; longer texts are truncated."""


def add_text_functions(add: Callable[..., None]) -> None:
    """Add the functions of text to the table.

    Args:
        add: Takes the fields of a `sparseq.language.functions.Function`, in order.
    """
    for name in ("reverse", "md5", "sha256"):
        add(
            name,
            f"{name}({{0}})",
            (X,),
            T.TEXT,
            f"{name}({{0}})",
            "in reverse order" if name == "reverse" else "the hash, in hexadecimal digits",
        )
    add(
        "split_part",
        "split_part({0}, {1}, {2})",
        (X, X, Z),
        T.TEXT,
        "split_part({0}, {1}, CAST(greatest(least({2}, 1000), -1000) AS INTEGER))",
        "the part with this number between separators; '' if there is none",
        fixed=(2,),
        samples=(("1",), ("-1",), ("0",), ("99999",)),
    )
    add(
        "parts",
        "len(string_split({0}, {1}))",
        (X, X),
        T.integer(0, 2**32),
        "len(string_split({0}, {1}))",
        "the number of parts between separators",
        fixed=(1,),
        samples=(("' '",), ("''",)),
    )
    add(
        "replace",
        "replace({0}, {1}, {2})",
        (X, X, X),
        T.TEXT,
        f"left(replace({{0}}, {{1}}, left({{2}}, 100)), {MAX_TEXT})",
        f"the second is replaced by the first 100 characters of the third; cut to {MAX_TEXT:,}",
        fixed=(1, 2),
        samples=(("'a'", "'bb'"), ("''", "'x'"), ("'x'", "''")),
    )
    add(
        "translate",
        "translate({0}, {1}, {2})",
        (X, X, X),
        T.TEXT,
        "translate({0}, {1}, {2})",
        "replaces each character of the second by the one of the third at its position",
        fixed=(1, 2),
        samples=(("'xé'", "'y'"), ("''", "'x'")),
    )
    for name in ("lpad", "rpad"):
        add(
            name,
            f"{name}({{0}}, {{1}}, {{2}})",
            (X, Z, X),
            T.TEXT,
            f"{name}({{0}}, CAST(greatest(least({{1}}, {MAX_TEXT}), 0) AS INTEGER), "
            "nullif({2}, ''))",
            f"padded or cut to this number of characters, at most {MAX_TEXT:,}",
            fixed=(1, 2),
            samples=(("3", "'é'"), ("-1", "' '"), ("99999", "'ab'"), ("2", "''")),
        )
    add(
        "levenshtein",
        "levenshtein({0}, {1})",
        (X, X),
        T.integer(0, 100),
        "levenshtein(left({0}, 100), left({1}, 100))",
        "the number of edits between the first 100 characters of both",
    )
    add(
        "repeat",
        "repeat({0}, {1})",
        (X, Z),
        T.TEXT,
        f"left(repeat(left({{0}}, {MAX_TEXT}), CASE WHEN {{1}} IS NOT NULL THEN CAST(greatest("
        f"least({{1}}, {MAX_TEXT} // greatest(length({{0}}), 1) + 1), 0) AS BIGINT) END), "
        f"{MAX_TEXT})",
        f"repeated this number of times, and cut to {MAX_TEXT:,} characters",
    )
    add(
        "initcap",
        "initcap({0})",
        (X,),
        T.TEXT,
        "array_to_string(list_transform(regexp_extract_all({0}, "
        "'[\\p{{L}}\\p{{N}}]+|[^\\p{{L}}\\p{{N}}]+'), "
        "lambda w: upper(left(w, 1)) || lower(substring(w, 2))), '')",
        "each word (letters and digits) begins with a capital",
    )
    add(
        "chr",
        "chr({0})",
        (Z,),
        T.TEXT,
        "chr(CAST(CASE WHEN {0} BETWEEN 0 AND 55295 OR {0} BETWEEN 57344 AND 1114111 THEN {0} END "
        "AS INTEGER))",
        "the character with this code; NULL if there is none",
    )
    add(
        "ascii",
        "ascii({0})",
        (X,),
        T.integer(0, 2**21),
        "ascii({0})",
        "the code of its first character",
    )
    for name in ("regexp_matches", "regexp_full_match"):
        add(
            name,
            f"{name}({{0}}, {{1}})",
            (X, X),
            T.BOOLEAN,
            f"{name}({{0}}, {{1}})",
            "by the rules of RE2; the expression is a constant",
            fixed=(1,),
            samples=(("'x+'",), ("'(é|a).*'",), ("''",)),
        )
    add(
        "regexp_extract",
        "regexp_extract({0}, {1}, {2})",
        (X, X, Z),
        T.TEXT,
        "regexp_extract({0}, {1}, CAST(greatest(least({2}, 9), 0) AS INTEGER))",
        "the group of the first match; '' if there is none",
        fixed=(1, 2),
        samples=(("'(x)(.)'", "1"), ("'x'", "9"), ("''", "-1")),
    )
    for name, option in (("regexp_replace", ""), ("regexp_replace all", ", 'g'")):
        add(
            name,
            f"regexp_replace({{0}}, {{1}}, {{2}}{option})",
            (X, X, X),
            T.TEXT,
            f"left(regexp_replace({{0}}, {{1}}, left({{2}}, 100){option}), {MAX_TEXT})",
            f"cut to {MAX_TEXT:,} characters",
            fixed=(1, 2),
            samples=(("'x+'", "'yy'"), ("''", "'é'"), ("'(.)'", "'\\\\1\\\\1'")),
        )

    # -- JSON in a text

    json = "CASE WHEN json_valid({0}) THEN "
    for name, gives, sql, meaning in (
        ("json_extract_string", T.TEXT, "json_extract_string({0}, {1})", "a value, as text"),
        ("json_extract", T.TEXT, "CAST(json_extract({0}, {1}) AS VARCHAR)", "a value, as JSON"),
        (
            "json_array_length",
            T.integer(0, 2**32),
            "CAST(json_array_length({0}, {1}) AS BIGINT)",
            "the length of a list; 0 for other values",
        ),
        ("json_exists", T.BOOLEAN, "json_exists({0}, {1})", "whether there is a value there"),
        ("json_type", T.TEXT, "json_type({0}, {1})", "the type, such as VARCHAR, ARRAY, BOOLEAN"),
    ):
        add(
            name,
            f"{name}({{0}}, {{1}})",
            (X, X),
            gives,
            f"{json}{sql} END",
            f"{meaning}; NULL if there is none, or the text is not JSON",
            fixed=(1,),
            samples=(("'$.a'",), ("'$.a[0].b'",), ("'$'",)),
        )
    add("json_valid", "json_valid({0})", (X,), T.BOOLEAN, "json_valid({0})", "whether it is JSON")
