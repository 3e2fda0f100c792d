"""The common cells of panels, and what is refused with the way out."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from dashboards.shop import FIRST, board, sales, shop

from sparseq.accounting import Budget, Price
from sparseq.base.errors import QueryRefused
from sparseq.dashboards.common_cells import board_of
from sparseq.dashboards.panel_answers import answer_panels
from sparseq.dashboards.refresh import refresh
from sparseq.question.plan import Noise, Plan

_FREE = Noise(1.0, 1.0, 1.0, 1.0, Price.of(1.0, 1.0, Budget(0.5, 1.0)))
AND = "day >= :today - 7 AND day < :today"


@pytest.fixture(scope="module")
def store():
    with shop(sales(500)) as found:
        yield found


def test_numbers_and_groups_are_shared(store) -> None:
    found = board_of(store, board(), FIRST)
    assert len(found.numbers) == 2
    assert found.groups == 3  # a, b, all other
    assert found.group_names[-1] == "all other"


def test_unions_are_days_and_groups(store) -> None:
    found = board_of(store, board(), FIRST)
    by_title = {one.panel.title: one for one in found.panels}
    ((yesterday,),) = by_title["yesterday"].unions
    today = (FIRST - dt.date(1970, 1, 1)).days
    assert (yesterday.days, yesterday.groups) == (frozenset([today - 1]), None)
    kinds, _ = by_title["kinds"].unions
    assert [one.groups for one in kinds] == [frozenset([0]), frozenset([1])]
    assert all(one.days == frozenset(range(today - 14, today)) for one in kinds)
    whole, _, _, _ = (*by_title["all"].unions, None)[:4]
    assert whole[0].groups in (None, frozenset([0]))


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (f"SELECT count(DISTINCT who) AS n FROM sales WHERE {AND}", "no count of rows"),
        (f"SELECT avg(v) AS m FROM sales WHERE {AND}", "no sum over rows"),
        (f"SELECT median(v) AS m FROM sales WHERE {AND}", "no sum over rows"),
        ("SELECT count(*) AS n FROM sales WHERE day < :today", "no first day"),
        ("SELECT count(*) AS n FROM sales WHERE day = :today", "days that are not complete"),
        ("SELECT count(*) AS n FROM sales WHERE day = DATE '2019-01-01'", "no day of the last"),
        (f"SELECT count(*) AS n FROM sales WHERE {AND} AND v > 3", "neither the time nor a key"),
        (f"SELECT count(*) AS n FROM sales WHERE {AND} AND kind = 'a'", "neither the time nor a"),
        ("SELECT nothing FROM sales", "nothing"),
    ],
)
def test_other_panels_are_refused_with_the_way_out(store, sql: str, why: str) -> None:
    with pytest.raises(QueryRefused, match=why) as refused:
        board_of(store, board(bad=sql), FIRST)
    assert "the panel 'bad'" in refused.value.message
    assert refused.value.hint


def test_a_condition_may_be_part_of_the_number(store) -> None:
    sql = f"SELECT count(*) FILTER (WHERE v > 3) AS n, count(*) AS m FROM sales WHERE {AND}"
    assert len(board_of(store, board(some=sql), FIRST).numbers) == 2


def test_a_key_of_another_panel_may_be_a_condition(store) -> None:
    by = f"SELECT kind, count(*) AS n FROM sales WHERE {AND} GROUP BY kind"
    one = f"SELECT count(*) AS n FROM sales WHERE {AND} AND kind = 'a'"
    found = board_of(store, board(by=by, one=one), FIRST)
    assert len(found.numbers) == 1
    assert found.panels[1].unions[0][0].groups == frozenset([0])


def test_a_key_may_have_many_values() -> None:
    table = sales(3000)
    names = [f"k{i}" for i in range(40)]
    many = pa.array([names[i % 47] if i % 47 < 40 else None for i in range(len(table))])
    table = table.set_column(2, "kind", many)
    by = f"SELECT kind, count(*) AS n FROM sales WHERE {AND} GROUP BY kind"
    with shop(table, keys={"kind": names}) as store:
        assert board_of(store, board(by=by), FIRST).groups == 42  # and NULL, and all other
        made = refresh(store, board(by=by), FIRST)
        (panel,) = answer_panels(made.board, made.nodes)
        assert len(panel.answer.rows()) == 41
        (number,) = made.board.numbers
        day = made.nodes[0].first
        asked = made.board.node(number, day, day)
        cells = store.stream.engine.cells(Plan(asked, (_FREE,), 0.05), 2000)
        rows = zip(table["day"].to_pylist(), many.to_pylist(), strict=True)
        there = {kind for at, kind in rows if (at - dt.date(1970, 1, 1)).days == day}
        places = {40 if kind is None else names.index(kind) for kind in there}
        assert set(cells.coordinates.tolist()) == places
