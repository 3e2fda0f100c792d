"""A refresh: measures what is new, once; panels hold the truth, add up, and cost nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from dashboards.shop import FIRST, board, sales, shop

import sparseq
from sparseq.accounting.charge import UNITS_PER_NORM
from sparseq.base.errors import ParameterError
from sparseq.dashboards.node_log import read_nodes
from sparseq.dashboards.panel_answers import answer_panels
from sparseq.dashboards.refresh import Refresh, cost_of_refresh, refresh
from sparseq.ledger.pots import Pot
from sparseq.store.curator import exact_sql

DAY = dt.timedelta(days=1)
Rows = dict[str, list[dict[str, object]]]


@pytest.fixture(scope="module")
def store() -> Iterator[sparseq.Store]:
    with shop() as found:
        refresh(found, board(), FIRST)
        refresh(found, board(), FIRST + DAY)
        yield found


def spent(store: sparseq.Store) -> list[int]:
    return [int(accounts.spent.sum()) for _, accounts in store.stream.pots.items()]


def shown(made: Refresh) -> Rows:
    return {one.title: one.answer.rows() for one in answer_panels(made.board, made.nodes)}


def test_a_second_refresh_measures_nothing_and_viewing_is_free(store: sparseq.Store) -> None:
    before, releases = spent(store), store.released
    again = refresh(store, board(), FIRST + DAY)
    assert (again.measured, again.releases) == (0, ())
    assert shown(again) == shown(again)
    assert (spent(store), store.released) == (before, releases)


def test_other_parts_of_the_budget_stay_as_they_are(store: sparseq.Store) -> None:
    (part,) = store.stream.pots.purposes
    paid = [int(accounts.spent.sum()) > 0 for pot, accounts in store.stream.pots.items()]
    assert sum(paid) == 1
    assert store.stream.pots[Pot(part.answers)].spent.sum() > 0


def test_the_panels_hold_the_truth(store: sparseq.Store) -> None:
    made = refresh(store, board(), FIRST + DAY)
    for panel in answer_panels(made.board, made.nodes):
        sql = next(p for p in board().panels if p.title == panel.title).sql(FIRST + DAY)
        exact = exact_sql(store, sql).to_pylist()
        keys = [k for k in exact[0] if k in ("kind", "day", "week")]
        truth = {tuple(str(row[k]) for k in keys): row for row in exact}
        for row in panel.answer.rows():
            own = truth.get(tuple(str(row[k]) for k in keys))
            for name in [n for n in exact[0] if n not in keys] if own else []:
                assert row[f"{name}_low"] <= own[name] <= row[f"{name}_high"], (panel.title, row)
                assert row[f"{name}_high"] - row[f"{name}_low"] < 0.8 * own[name]


def test_totals_equal_the_sums_of_their_parts(store: sparseq.Store) -> None:
    rows = shown(refresh(store, board(), FIRST + DAY))
    (whole,) = rows["all"]
    assert sum(row["n"] for row in rows["days"]) == pytest.approx(whole["n"])
    assert rows["days"][-1]["n"] == pytest.approx(rows["yesterday"][0]["n"])
    by_kind = {row["kind"]: row["n"] for row in rows["kinds"]}
    assert by_kind["a"] / whole["n"] == pytest.approx(whole["share"])


def test_a_morning_is_measured_in_one_release_of_all_numbers(store: sparseq.Store) -> None:
    nodes = read_nodes(store.stream.ledger, "shop")
    last = max(node.release for node in nodes)
    some = [(node.kind, node.first) for node in nodes if node.release == last]
    assert len(some) == 2
    assert {kind for kind, _ in some} == {"day"}
    answer = store.release(last)
    assert answer.arrow().column_names == ["node", "group", "measured", "sigma"]
    assert answer.facts.charge <= 2 * 1.25 + 1e-6
    assert answer.facts.series == "shop"


def test_a_restart_goes_on(tmp_path: object) -> None:
    path = f"{tmp_path}/s.sparseq"
    with sparseq.create(
        path,
        {"sales": sales(3000)},
        user="who",
        time="day",
        keys={"kind": ["a", "b"]},
        bounds={"v": (0, 10)},
        purposes=[sparseq.Purpose("shop", 0.5, 30, 20.0)],
    ) as store:
        first = shown(refresh(store, board(), FIRST))
    with sparseq.connect(path) as store:
        again = refresh(store, board(), FIRST)
        assert again.measured == 0
        assert shown(again) == first
        assert refresh(store, board(), FIRST + DAY).measured == 2


def test_a_week_is_not_combined_with_days_that_may_have_got_rows() -> None:
    table = sales(4000)
    panel = {
        "seven": "SELECT count(*) AS n FROM sales WHERE day >= :today - 3 AND day < :today",
        "weeks": "SELECT count(*) AS n FROM sales WHERE day >= :week - 7 AND day < :week",
    }
    sunday, monday = dt.date(2024, 3, 10), dt.date(2024, 3, 11)
    for since, weeks in ((sunday, 2), (dt.date(2024, 3, 5), 1), (None, 1)):
        with shop(table) as store:
            refresh(store, board(**panel), sunday - DAY)
            late = pa.table({n: table[n][:1] for n in table.column_names})
            late = late.set_column(1, "day", pa.array([sunday]))
            store.ingest(late, since=since)
            made = refresh(store, board(**panel), monday)
            assert sum(node.kind == "week" for node in made.nodes) == weeks


def test_a_week_gives_way_to_days_that_have_more_rows() -> None:
    table, monday = sales(4000), dt.date(2024, 3, 11)
    weeks = "SELECT count(*) AS n FROM sales WHERE day >= :week - 7 AND day < :week"
    days = "SELECT count(*) AS n FROM sales WHERE day >= :today - 5 AND day < :today"
    with shop(table) as store:
        first = refresh(store, board(weeks=weeks), monday)
        assert {node.kind for node in first.nodes} == {"week"}
        store.ingest(table.slice(0, 50))
        made = refresh(store, board(weeks=weeks, days=days), monday)
        assert sum(node.apart for node in made.nodes) == 5
        assert sum(node.kind == "week" for node in made.nodes) == 2  # measured again
        (whole,), (some,) = shown(made)["weeks"], shown(made)["days"]
        assert whole["n"] > some["n"]
        again = refresh(store, board(weeks=weeks, days=days), monday)
        assert again.measured == 0


def test_a_panel_with_another_key_measures_its_days_anew() -> None:
    one = {"n": "SELECT count(*) AS n FROM sales WHERE day = :yesterday"}
    two = one | {
        "kinds": "SELECT kind, count(*) AS n FROM sales WHERE day = :yesterday "
        "AND kind IN ('a', 'b') GROUP BY kind"
    }
    with shop(sales(2000)) as store:
        assert refresh(store, board(**one), FIRST).measured == 1
        made = refresh(store, board(**two), FIRST)
        assert made.measured == 1
        assert set(shown(made)) == {"n", "kinds"}
        assert refresh(store, board(**one), FIRST).measured == 0


def test_the_price_that_is_told_before_is_no_less_than_any_charge() -> None:
    with shop(sales(2000)) as store:
        for i in range(2):
            before = store.stream.pots[Pot(16)].spent.copy()
            nodes, most = cost_of_refresh(store, board(), FIRST + i * DAY)
            assert refresh(store, board(), FIRST + i * DAY).measured == nodes > 0
            paid = store.stream.pots[Pot(16)].spent - before
            assert 0 < paid.max() / UNITS_PER_NORM <= most
        assert cost_of_refresh(store, board(), FIRST + DAY) == (0, 0.0)


def test_late_rows_are_in_no_panel() -> None:
    table = sales(4000)
    with shop(table) as store:
        one = board(day="SELECT count(*) AS n FROM sales WHERE day = :yesterday")
        before = shown(refresh(store, one, FIRST))
        same_day = table.filter(pc.equal(table["day"], FIRST - DAY))
        store.ingest(pa.concat_tables([same_day] * 20))
        made = refresh(store, one, FIRST)
        assert made.measured == 0
        assert shown(made) == before


def test_the_mornings_come_to_an_end() -> None:
    with shop(sales(500), purposes=[sparseq.Purpose("shop", 0.5, 2, 20.0)]) as store:
        one = board(day="SELECT count(*) AS n FROM sales WHERE day = :yesterday")
        refresh(store, one, FIRST)
        refresh(store, one, FIRST + DAY)
        with pytest.raises(ParameterError, match="all 2 mornings of 'shop' are used up"):
            refresh(store, one, FIRST + 2 * DAY)
        assert refresh(store, one, FIRST).measured == 0


def test_a_dashboard_needs_a_part_of_its_own() -> None:
    with (
        shop(sales(500), purposes=()) as store,
        pytest.raises(ParameterError, match="'shop' has no part of the budget"),
    ):
        refresh(store, board(), FIRST)
    forecast = sparseq.Purpose("shop", 0.5, 30, 20.0, forecast=0.2)
    with (
        shop(sales(500), purposes=[forecast]) as store,
        pytest.raises(ParameterError, match="for a series with forecasts"),
    ):
        refresh(store, board(), FIRST)


def test_panels_read_no_account(store: sparseq.Store) -> None:
    made = refresh(store, board(), FIRST + DAY)
    before = shown(made)
    accounts = [some for _, some in store.stream.pots.items()]
    kept = [some.spent for some in accounts]
    try:
        for some in accounts:
            some.spent = np.zeros_like(some.spent)
        assert shown(made) == before
    finally:
        for some, own in zip(accounts, kept, strict=True):
            some.spent = own
