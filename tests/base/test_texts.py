"""What comes from data can't command a terminal, hide, or forge a line."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from sparseq.base.texts import MOST_SHOWN, shown

ANY = st.text(st.characters(exclude_categories=()), max_size=300)


@given(ANY)
def test_nothing_hidden_is_left_and_the_length_is_bounded(text: str) -> None:
    safe = shown(text)
    assert len(safe) <= MOST_SHOWN
    assert safe.splitlines() in ([], [safe])
    assert not {"Cc", "Cf", "Cs", "Zl", "Zp"} & {unicodedata.category(c) for c in safe}
    safe.encode("utf-8")


@given(st.text(st.characters(categories=["L", "N", "P", "Zs"]), max_size=MOST_SHOWN))
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert shown(text) == text


def test_every_control_character_is_spelled() -> None:
    for code in [*range(32), *range(127, 160), 0x200B, 0x2028, 0x202E, 0x2066, 0xFEFF]:
        assert shown(f"a{chr(code)}b").isprintable()
        assert chr(code) not in shown(f"a{chr(code)}b")


def test_all_of_a_long_text_on_demand() -> None:
    assert shown("x" * 1000, None) == "x" * 1000
    assert shown("\x1b" * 1000, 10) == "\\x1b\\x1b\\…"
