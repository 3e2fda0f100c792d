"""docs/sql.md: every example is answered, or refused where it says so; the functions are all."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import sqlglot
from sampled import one_in
from sqlglot import exp

from benchmarks.written.check import exact
from sparseq.answers.answer import columns_of
from sparseq.base.errors import QueryRefused
from sparseq.sql import allowed_words as allowed
from sparseq.sql.parse import Dialect
from sparseq.store.store import Store

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "sql.md").read_text()
EXAMPLES = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
REFUSED = "-- refused\n"
_FUNCTIONS = PAGE.split("These functions, and no others:")[1].split("\n\n")[1]
CALLS = re.findall(r"`([^`]+)`", _FUNCTIONS)
# what the parser makes of other spellings of the functions that are listed
OTHER_SPELLINGS = {
    exp.DateSub,
    exp.DateTrunc,
    exp.TsOrDsAdd,
    exp.TsOrDsDiff,
    exp.TsOrDsToDate,
    exp.Date,
    exp.MakeInterval,
    exp.Any,
    exp.Bracket,
    exp.Explode,  # of lists, which this shop has none of
}


@pytest.fixture(scope="module")
def con() -> Store:
    """The store that the page's Python makes."""
    return store_of_the_page()


def store_of_the_page(more: str = "", path: Path | None = None) -> Store:
    """The store that the page's Python makes; `more`: arguments of `create`."""
    (script,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    names: dict[str, Store] = {}
    assert script.count("user=") == 1
    here = Path.cwd()
    os.chdir(ROOT)
    try:
        script = script.replace("None", repr(path and str(path)), 1)
        made = script.replace("user=", f"{more}user=", 1)
        exec(made, names)
    finally:
        os.chdir(here)
    return names["con"]


@pytest.mark.parametrize("example", one_in(2, [e for e in EXAMPLES if not e.startswith(REFUSED)]))
def test_examples_are_answered(example: str, con: Store) -> None:
    answer = con.sql(example)
    assert any(name.endswith("_error") for name in answer.arrow().column_names)


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.startswith(REFUSED)])
def test_what_is_marked_is_refused(example: str, con: Store) -> None:
    with pytest.raises(QueryRefused) as refused:
        con.sql(example.removeprefix(REFUSED))
    assert refused.value.hint


@pytest.mark.parametrize("call", one_in(3, CALLS))
def test_functions_are_answered(call: str, con: Store) -> None:
    con.sql(
        f"SELECT count(*) AS n FROM purchases JOIN sizes USING (quantity) WHERE ({call}) IS NULL"
    )


def test_the_list_of_functions_is_whole() -> None:
    parsed = [sqlglot.parse_one(call, dialect=Dialect) for call in CALLS]
    kinds = {type(node) for tree in parsed for node in tree.walk()}
    assert set(allowed._SCALARS) - set(allowed._OPERATORS) - OTHER_SPELLINGS <= kinds
    named = {tree.name.lower() for tree in parsed if isinstance(tree, exp.Anonymous)}
    listed = {call.partition("(")[0] for call in CALLS}
    assert named | listed >= allowed._NAMED - allowed.BINNED


def test_the_page_has_examples_of_both_kinds() -> None:
    assert len(EXAMPLES) >= 20
    assert sum(e.startswith(REFUSED) for e in EXAMPLES) >= 5


def test_the_truth_lies_in_the_intervals_of_all_examples() -> None:
    """Of a new store with one seed; 95 % each, so that one in twenty may miss."""
    seeded = store_of_the_page("seed=4, ")
    assert seeded.seed == 4
    asked = [e for e in EXAMPLES if not e.startswith(REFUSED)]
    missed = [e for e in asked if not holds_the_truth(seeded, e)]
    assert len(asked) >= 20
    assert len(missed) <= 1, missed


def holds_the_truth(con: Store, example: str) -> bool:
    """Tell whether all values of an answer's intervals do; what is exact is known to no analyst."""
    truth, table = exact(con, example), con.sql(example).arrow()
    for name in columns_of(table):
        if name + "_low" not in table.column_names:
            continue
        ends = zip(table[name + "_low"], truth[name], table[name + "_high"], strict=True)
        for low, value, high in (tuple(x.as_py() for x in row) for row in ends):
            if None not in (low, value, high) and not low <= value <= high:
                return False
    return True
