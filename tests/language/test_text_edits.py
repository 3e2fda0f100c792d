"""Functions that edit a text, on its characters and not on its bytes; long results are cut."""

from __future__ import annotations

import pytest
from language.one_value import Argument, text, value, whole

from sparseq.language.functions.texts import MAX_TEXT


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("reverse", (text("日本"),), "本日"),
        ("md5", (text(""),), "d41d8cd98f00b204e9800998ecf8427e"),
        ("split_part", (text("a,b"), text(","), whole(-1)), "b"),
        ("split_part", (text("a,b"), text(","), whole(2**40)), ""),
        ("parts", (text("a b c"), text(" ")), 3),
        ("replace", (text("aXa"), text("a"), text("bb")), "bbXbb"),
        ("translate", (text("abc"), text("ab"), text("x")), "xc"),
        ("lpad", (text("7"), whole(3), text("0")), "007"),
        ("lpad", (text("7"), whole(3), text("")), None),
        ("rpad", (text("abc"), whole(-1), text("x")), ""),
        ("levenshtein", (text("kitten"), text("sitting")), 3),
        ("repeat", (text("ab"), whole(2)), "abab"),
        ("repeat", (text("ab"), whole(-1)), ""),
        ("initcap", (text("o'neil été"),), "O'Neil Été"),
        ("chr", (whole(8364),), "€"),
        ("chr", (whole(0xD800),), None),
        ("ascii", (text("€"),), 8364),
    ],
)
def test_values(name: str, arguments: tuple[Argument, ...], expected: object) -> None:
    assert value(name, *arguments) == expected


def test_no_text_grows_beyond_the_limit() -> None:
    assert value("repeat", text("ab"), whole(2**62)) == "ab" * (MAX_TEXT // 2)
    assert len(value("rpad", text("x"), whole(2**62), text("é"))) == MAX_TEXT
    assert len(value("replace", text("x" * 900), text("x"), text("yy"))) == MAX_TEXT
