"""Values of JSON in a text, by a path that is a constant and checked before a row is read."""

from __future__ import annotations

from sparseq.language import types as T
from sparseq.language.functions.function import FunctionTable
from sparseq.language.types import Family

X = Family.TEXT
FUNCTIONS = FunctionTable()
_add = FUNCTIONS.add


_IF_VALID = "CASE WHEN json_valid({0}) THEN "
for _name, _gives, _sql, _meaning in (
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
    _add(
        _name,
        f"{_name}({{0}}, {{1}})",
        (X, X),
        _gives,
        f"{_IF_VALID}{_sql} END",
        f"{_meaning}; NULL if there is none, or the text is not JSON",
        fixed=(1,),
        samples=(("'$.a'",), ("'$.a[0].b'",), ("'$'",)),
    )
_add("json_valid", "json_valid({0})", (X,), T.BOOLEAN, "json_valid({0})", "whether it is JSON")
