"""The options of a question: one table, and every way to ask takes all of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_type_hints

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparseq
from sparseq.base.errors import ParameterError
from sparseq.cli.sql import sql
from sparseq.pgwire.pg_settings import Settings
from sparseq.question.plan import KNOBS, OPTIONS, Option, Options, OptionWords
from sparseq.server.fields import OPTION_FIELDS
from sparseq.server.http.question_endpoints import TAKES
from sparseq.server.mcp import TOOLS

PAGE = Path(__file__).parents[2] / "docs" / "options.md"
VALUES = {"interval": "alike", "at_least_useful": True, "columns": "plain"}
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


def test_columns_are_what_is_shown_and_nothing_else(tmp_path: Path) -> None:
    """Another choice of them is the same question: free; and drawn with intervals all the same."""
    rows = pa.table({"who": range(99), "kind": ["a", "b", "a"] * 33})
    con = sparseq.create(None, {"t": rows}, user="who", seed=1, keys={"kind": ["a", "b"]})
    text, shown = 'SELECT kind, count(*) AS "N" FROM t GROUP BY 1', ["kind", "N"]
    for columns, more in (
        ("plain", []),
        ("error", ["N_error"]),
        ("interval", ["N_error", "N_low", "N_high"]),
    ):
        answer = con.sql(text, columns=columns)
        assert answer.arrow().column_names == [*shown, *more] == list(answer["a"])
        assert pl.DataFrame(answer).columns == answer.df().columns.tolist() == [*shown, *more]
        assert answer.facts.release == con.released == 1
        assert answer.values == shown
        answer.to_parquet(tmp_path / "a.parquet")
        assert pq.read_schema(tmp_path / "a.parquet").names == [*shown, *more]
    assert con.release(1).arrow().column_names == [*shown, *more]
    cells = [con.sql(text, columns=one).texts().rows[0][1] for one in ("plain", "error")]
    assert (" " in cells[0], " ± " in cells[1]) == (False, True)


def row(name: str, one: Option) -> str:
    kind = "a number, or a share such as 2%" if one.share else "a number"
    if one.choices:
        kind = " or ".join(f"`{choice}`" for choice in one.choices)
    return f"| `{name}` | {'on' if one.is_flag else kind} | {one.about} | {one.usual} |"


def test_the_page_is_the_table() -> None:
    rows = re.findall(r"^\| `.*$", PAGE.read_text(), re.MULTILINE)
    assert rows == [row(name, one) for name, one in OPTIONS.items()]
