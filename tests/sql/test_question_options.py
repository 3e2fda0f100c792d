"""The options of a question: one table, and every way to ask takes all of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_type_hints

import pyarrow as pa
import pytest

import sparseq
from sparseq.base.errors import ParameterError
from sparseq.cli.sql import sql
from sparseq.pgwire.pg_settings import Settings
from sparseq.server.fields import OPTION_FIELDS
from sparseq.server.http.store_endpoints import TAKES
from sparseq.server.mcp import TOOLS
from sparseq.sql.plan import KNOBS, OPTIONS, Option, Options, OptionWords

PAGE = Path(__file__).parents[2] / "docs" / "options.md"
VALUES = {"interval": "alike", "at_least_useful": True}
"""A value of each option that is no number."""


def value(name: str) -> object:
    return VALUES.get(name, 0.5)


def test_every_way_to_ask_takes_every_option() -> None:
    flags = {o for p in sql.params for o in p.opts}
    assert {f"--{name.replace('_', '-')}" for name in OPTIONS} <= flags
    assert OPTIONS.keys() <= TAKES.keys()
    assert OPTIONS.keys() <= TOOLS["ask"].takes.keys()
    assert get_type_hints(OptionWords).keys() == OPTIONS.keys()
    assert get_type_hints(OptionWords) == get_type_hints(Options)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_the_same_however_it_is_said(name: str) -> None:
    wanted = Options(**{name: value(name)})  # type: ignore[arg-type]
    settings = Settings("ada")
    settings.set(f"sparseq.{name}", "on" if value(name) is True else str(value(name)))
    assert settings.options() == wanted == Options.of(**{name: value(name)})
    assert OPTION_FIELDS[name].read(name, value(name)) == value(name)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_wrong_value_is_refused_in_its_name(name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        Options(**{name: "wide"})  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=name):
        OPTION_FIELDS[name].read(name, [])


def test_knobs_exclude_each_other() -> None:
    for name in KNOBS[1:]:
        with pytest.raises(ParameterError, match="same knob"):
            Options(**{KNOBS[0]: 0.5, name: 0.5})


def test_an_option_that_there_is_not_is_told_with_the_nearest() -> None:
    con = sparseq.create(None, {"t": pa.table({"who": [1]})}, user="who", seed=1)
    with pytest.raises(TypeError, match="did you mean 'precision'"):
        con.sql("SELECT count(*) FROM t", precison=0.1)  # type: ignore[call-arg]


def row(name: str, one: Option) -> str:
    kind = "a number, or a share such as 2%" if one.share else "a number"
    if one.choices:
        kind = " or ".join(f"`{choice}`" for choice in one.choices)
    return f"| `{name}` | {'on' if one.is_flag else kind} | {one.about} | {one.usual} |"


def test_the_page_is_the_table() -> None:
    rows = re.findall(r"^\| `.*$", PAGE.read_text(), re.MULTILINE)
    assert rows == [row(name, one) for name, one in OPTIONS.items()]
