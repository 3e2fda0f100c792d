"""Lines of JSON that are read together have the values that the JSON reader gives each alone."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pyarrow as pa
import pytest
from sampled import one_in

from sparseq.load import json_layout
from sparseq.load.json_lines import JsonFile

STRINGS = [
    '""',
    '"a"',
    '"née"',
    '"null"',
    '"7"',
    '"a, b: {c}"',
    '"x\\ty"',
    '"a\\"b"',
    '"\\u0041"',
    '"a\x7fb"',
    '"tab\there"',
    '"�"',
    '"' + "x" * 300 + '"',
]
WHOLE = [
    "0",
    "-0",
    "7",
    "-7",
    "007",
    "+7",
    "1_0",
    "123456789012345678",
    "1234567890123456789",
    "18446744073709551615",
    "18446744073709551616",
    "-",
    "--1",
    "1-",
    "- 1",
]
NUMBERS = [
    "0.0",
    "-0.0",
    "1.0",
    "1.50",
    "0.5",
    "0.05",
    "0.001",
    "0.0001",
    "0.00000012",
    "18.40",
    "0.1234567890123456",
    "123456789012345.6",
    "0.30000000000000004",
    "1.",
    ".5",
    "1..2",
    "1.2.3",
    "1e5",
    "1E-5",
    "-1.5",
    "9" * 30 + ".5",
    "9" * 400 + ".5",
    "0" * 3 + ".5",
    "1.-5",
    "NaN",
    "Infinity",
]
WORDS = ["true", "false", "null", "nul", "True", "trueish", "", "[1]", '{"a": 1}', "1 2"]
VALUES = {"a": WHOLE, "b": STRINGS, "c": NUMBERS, "d": [*WORDS, *WHOLE[:3], *STRINGS[:3]]}
USUAL = {"a": ["7", "12"], "b": ['"x"', '""'], "c": ["0.5", "1.5"], "d": ["true", "null", "3"]}
ODD = [
    "",
    "  ",
    "7",
    "null",
    "[]",
    "{}",
    '{"a": 7}',
    '{"b": "x", "a": 7}',
    '{"a": 1, "a": 2}',
    "{",
    '{"a": 7, "b": "x", "c": 1.5, "d": true',
    'x{"a": 7, "b": "x", "c": 1.5, "d": true}',
    '{"a": 7, "b": "x", "c": 1.5, "d": true},',
    '{"a": 7, "b": x", "c": "1.5, "d": true}',
    '{"a": 7,  "b": "x", "c": 1.5, "d": true}',
    '{"a": 7, "B": "x", "c": 1.5, "d": true}',
    '{"a": 7, "b": "x", "c": 1.5, "d": true} {}',
    '{"a": 7, "b": "x, "c": 1.5", "d": true}',
    '{"a": 7, "b": "x", "c": 1.5, "d": true, "e": 1}',
]
COLUMNS = ["a", "b", "c", "d", "e"]


def line(rng: random.Random, odd: float, spaces: str) -> str:
    if rng.random() < odd / 4:
        return rng.choice(ODD)
    parts = []
    for key, usual in USUAL.items():
        value = rng.choice(VALUES[key] if rng.random() < odd else usual)
        parts.append(f'"{key}":{spaces}{value}')
    return "{" + f",{spaces}".join(parts) + "}"


def values(
    path: Path,
    lines: list[str],
    types: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    together: bool,
) -> list[list[object]]:
    path.write_text("".join(f"{text}\n" for text in lines))
    with monkeypatch.context() as context:
        if not together:
            context.setattr(json_layout, "layout_of", lambda line: None)
        (arrays,) = JsonFile(path).batches(COLUMNS, types)
    return [array.to_pylist() for array in arrays]


@pytest.mark.parametrize(
    ("target", "spaces"),
    one_in(3, itertools.product(["", "VARCHAR", "DOUBLE", "DECIMAL(18,3)"], ["", " "])),
)
def test_together_or_alone_a_line_has_the_same_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, spaces: str
) -> None:
    rng = random.Random(7)
    types = dict.fromkeys(COLUMNS, target) if target else {}
    path = tmp_path / "rows.jsonl"
    for odd in (0.0, 0.01, 0.1, 0.5):
        for count in (1, 2, 5, 300):
            lines = [line(rng, 0.0, spaces), *(line(rng, odd, spaces) for _ in range(count))]
            found = values(path, lines, types, monkeypatch, together=True)
            expected = values(path, lines, types, monkeypatch, together=False)
            if target == "DOUBLE":  # the same numbers, which may be written with more digits
                found[2], expected[2] = (
                    [repr(float(x)) if x and _is_number(x) else x for x in column]
                    for column in (found[2], expected[2])
                )
            assert found == expected


def _is_number(text: object) -> bool:
    try:
        float(str(text))
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("key", one_in(2, VALUES))
def test_each_value_after_usual_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    for value in [*STRINGS, *WHOLE, *NUMBERS, *WORDS]:
        usual = {k: v[0] for k, v in USUAL.items()}
        lines = [
            "{" + ", ".join(f'"{k}": {v}' for k, v in row.items()) + "}"
            for row in (usual, usual | {key: value}, usual)
        ]
        together, alone = (
            values(tmp_path / "rows.jsonl", lines, {}, monkeypatch, t) for t in (True, False)
        )
        assert together == alone, value


def test_most_lines_need_no_reader_of_json() -> None:
    lines = [
        f'{{"user": {k}, "day": "2024-01-05", "amount": {k}.25, "ok": null}}' for k in range(99)
    ]
    asked: list[str] = []

    def otherwise(texts: pa.Array) -> list[pa.Array]:
        asked.extend(texts.to_pylist())
        return [pa.array(["alone"] * len(texts))]

    lines[40] = lines[40].replace("{", "{ ")
    lines[50] = ""
    text = "".join(f"{line}\n" for line in lines).encode()
    (users,) = json_layout.read(text, ["user"], {}, otherwise)
    assert users.to_pylist() == [str(k) if k != 40 else "40" for k in range(99) if k != 50]
    assert not asked  # written in another way, but together with those that are
    lines[60] = lines[60].replace("2024-01-05", "2024\\u002d01-05")
    (users,) = json_layout.read("".join(f"{k}\n" for k in lines).encode(), ["user"], {}, otherwise)
    assert users.to_pylist()[58:61] == ["59", "alone", "61"]
    assert asked == [lines[60]]


def test_something_behind_the_last_string(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ['{"b":"x"}', '{"b":"x"}}', '{"b":"x"},', ' {"b":"x"}', '{"b":"y"} ', '{"b":"z"}']
    found, alone = (
        values(tmp_path / "rows.jsonl", lines, {}, monkeypatch, together)
        for together in (True, False)
    )
    assert found == alone
    assert found[1] == ["x", None, None, "x", "y", "z"]
