"""Values of JSON in a text: a text that is no JSON gives NULL and never an error."""

from __future__ import annotations

import pytest
from language.one_value import text, value

from sparseq.language.functions.json_texts import FUNCTIONS

HELD = text('{"a": [{"b": "x"}, 2], "t": true}')


@pytest.mark.parametrize(
    ("name", "path", "expected"),
    [
        ("json_extract_string", "$.a[0].b", "x"),
        ("json_extract", "$.a[0]", '{"b":"x"}'),
        ("json_extract", "$.none", None),
        ("json_array_length", "$.a", 2),
        ("json_array_length", "$.t", 0),
        ("json_exists", "$.none", False),
        ("json_type", "$.t", "BOOLEAN"),
    ],
)
def test_values(name: str, path: str, expected: object) -> None:
    assert value(name, HELD, text(path)) == expected


@pytest.mark.parametrize("broken", ["", "{", "{'a': 1}", "nul"])
def test_what_is_no_json_is_null(broken: str) -> None:
    assert value("json_valid", text(broken)) is False
    names = {f.name for f in FUNCTIONS} - {"json_valid"}
    assert {value(name, text(broken), text("$.a")) for name in names} == {None}
