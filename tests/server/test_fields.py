"""What clients send is read, or refused with what is wrong: never another error."""

from __future__ import annotations

import ast
import contextlib
import json
import math
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparseq.server
from sparseq.base.errors import ParameterError
from sparseq.server.fields import (
    InputField,
    InputType,
    object_schema,
    pairs,
    read_json,
    read_object,
    read_texts,
)

FIELDS = {
    "sql": InputField(InputType.TEXT, 1, 50, needed=True),
    "last": InputField(InputType.WHOLE, 1, 1000, 20),
    "price": InputField(InputType.NUMBER, 0, over=True),
    "fresh": InputField(InputType.FLAG, default=False),
    "params": InputField(InputType.VALUES),
    "role": InputField(InputType.TEXT, choices=("a", "b")),
}
SQL = '"sql": "x"'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"sql": "\xff"}', "not JSON"),
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe{\0}\0", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("{}{}", "not JSON"),
        ("[" * 65 + "]" * 65, "too many lists"),
        ('{"a":' * 65 + "1" + "}" * 65, "too many lists"),
        ('{"sql": "a", "sql": "b"}', "'sql' is given twice"),
        (f'{{{SQL}, "last": NaN}}', "NaN"),
        (f'{{{SQL}, "price": -Infinity}}', "Infinity"),
        (f'{{{SQL}, "price": 1e999}}', "too large"),
        (f'{{{SQL}, "last": {"1" * 5000}}}', "5,000 digits"),
        (f'{{{SQL}, "price": 0.{"1" * 5000}}}', "5,002 digits"),
        (f'{{{SQL}, "last": {"1" * 299}}}', "last is 111"),
        (f'{{{SQL}, "last": 1.0}}', "last is 1.0"),
        (f'{{{SQL}, "last": true}}', "last is True"),
        (f'{{{SQL}, "last": "3"}}', "last is '3'"),
        (f'{{{SQL}, "last": [3]}}', "last is [3]"),
        (f'{{{SQL}, "last": 0}}', "from 1 to 1,000"),
        (f'{{{SQL}, "price": 0}}', "above 0"),
        (f'{{{SQL}, "price": true}}', "price is True"),
        (f'{{{SQL}, "fresh": 1}}', "fresh is 1"),
        (f'{{{SQL}, "params": "x"}}', "params is 'x'"),
        (f'{{{SQL}, "params": [[1]]}}', "has a list in it"),
        (f'{{{SQL}, "params": ["\\ud800"]}}', "characters that no text can have"),
        (f'{{{SQL}, "params": {{"\\udfff": 1}}}}', "characters that no text can have"),
        (f'{{{SQL}, "params": {[0] * 10_001}}}', "10,001 values"),
        (f'{{{SQL}, "role": "c"}}', "one of a, b"),
        (f'{{{SQL}, "lats": 1}}', "did you mean 'last'"),
        ('{"sql": "\\ud800"}', "characters that no text can have"),
        ('{"sql": "\\u0000"}', "no text can have"),
        ('{"sql": ""}', "from 1 to 50 letters"),
        ("{}", "sql is missing"),
        ("[1]", "not a JSON object"),
        ('{"\\ud800": 1}', "no field '\\ud800'"),
        ("null", "not a JSON object"),
    ],
)
def test_json_that_is_refused(text: bytes | str, said: str) -> None:
    with pytest.raises(ParameterError) as found:
        read_object(FIELDS, read_json(text))
    assert said in str(found.value)
    str(found.value).encode()
    assert len(str(found.value)) < 400


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("sql=x&sql=y", "'sql' is given twice"),
        ("sql=x&last=abc", "last is 'abc'"),
        ("sql=x&last=" + "1" * 5000, "last is '111"),
        ("sql=x&last=1e3", "last is '1e3'"),
        ("sql=x&last=%D9%A3", "last is '٣'"),
        ("sql=x&last=+3", "last is ' 3'"),
        ("sql=x&last=-1", "last is -1"),
        ("sql=x&price=nan", "price is 'nan'"),
        ("sql=x&price=inf", "price is 'inf'"),
        ("sql=x&price=1e999", "price is too large"),
        ("sql=x&price=1_0", "price is '1_0'"),
        ("sql=x&fresh=yes", "fresh is 'yes'"),
        ("sql=%FF", "can't be read"),
        ("sql=%00", "no text can have"),
        ("sql=x&a=b", "no field 'a'"),
        ("", "sql is missing"),
        ("&".join(f"a{k}=1" for k in range(30)), "can't be read"),
    ],
)
def test_queries_that_are_refused(query: str, said: str) -> None:
    with pytest.raises(ParameterError) as found:
        read_texts(FIELDS, pairs(query.encode()))
    assert said in str(found.value)


def test_what_is_read() -> None:
    given = {"sql": "é\n", "last": 7, "price": 2, "fresh": True, "params": [1, None, "a", 2.5]}
    read = read_object(FIELDS, read_json(json.dumps(given)))
    assert read == given | {"role": None}
    assert isinstance(read["price"], float)
    assert read_texts(FIELDS, pairs("sql=%C3%A9%0A&last=7&price=2.5e1&fresh=1&role=")) == {
        "sql": "é\n",
        "last": 7,
        "price": 25.0,
        "fresh": True,
        "params": None,
        "role": None,
    }
    assert read_object(FIELDS, {"sql": "x", "last": None})["last"] == 20


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def checked(read: dict[str, Any]) -> None:
    """What was read is what the fields say."""
    assert set(read) == set(FIELDS)
    assert 1 <= len(read["sql"].encode()) <= 200
    assert type(read["last"]) is int
    assert 1 <= read["last"] <= 1000
    assert read["price"] is None or (0 < read["price"] < math.inf)
    assert type(read["fresh"]) is bool
    assert read["role"] in (None, "a", "b")
    json.dumps(read, allow_nan=False).encode()


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from([*FIELDS, "other"]), ANY))
def test_any_json_is_read_or_refused(given: dict[str, Any]) -> None:
    with contextlib.suppress(ParameterError):
        checked(read_object(FIELDS, read_json(json.dumps(given))))


@settings(max_examples=300)
@given(st.lists(st.tuples(st.sampled_from(list(FIELDS)), st.text(st.characters(codec="utf-8")))))
def test_any_query_is_read_or_refused(given: list[tuple[str, str]]) -> None:
    with contextlib.suppress(ParameterError):
        checked(read_texts(FIELDS, pairs(urlencode(given))))


@settings(max_examples=300)
@given(st.binary() | st.text(st.characters()))
def test_any_bytes_are_read_or_refused(data: bytes | str) -> None:
    for read in (read_json, pairs):
        with contextlib.suppress(ParameterError):
            read(data)


def test_a_schema_says_the_same() -> None:
    found = object_schema(FIELDS)
    assert found["required"] == ["sql"]
    assert found["properties"]["last"] == {"type": "integer", "minimum": 1, "maximum": 1000}
    assert found["properties"]["price"] == {"type": "number", "exclusiveMinimum": 0}
    assert found["properties"]["role"]["enum"] == ["a", "b"]


RAW = {"query_params", "path_params", "loads", "parse_qs", "parse_qsl", "form", "json"}


def test_nothing_else_reads_what_clients_send() -> None:
    """Of HTTP and of agents: no `int`, `float` or JSON beside the schema."""
    folder = Path(sparseq.server.__file__).parent
    allowed = {
        "endpoints.py": {"path_params", "form"},  # where the schema is applied
        "page_parts.py": {"float"},  # of a choice
        "pages.py": {"path_params"},  # of a static file's name
        "app.py": {"int"},  # of a truth, for Prometheus
        "mcp.py": {"loads"},  # of what was just written
    }
    for path in [folder / "mcp.py", *(folder / "http").glob("*.py")]:
        tree = ast.parse(path.read_text("utf-8"))
        called = [n.func for n in ast.walk(tree) if isinstance(n, ast.Call)]
        used = {f.id for f in called if isinstance(f, ast.Name)} & {"int", "float"}
        used |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)} & RAW
        assert used <= allowed.get(path.name, set()), path.name
