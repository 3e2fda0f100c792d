"""Questions that are asked again and again are found in the history, and proposed."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from dashboards.shop import FIRST, sales, shop

from sparseq.dashboards import found_workload
from sparseq.dashboards.common_cells import board_of
from sparseq.dashboards.dashboard_file import Dashboard
from sparseq.dashboards.found_workload import find_workload, shape_of

DAY = dt.timedelta(days=1)


def test_a_shape_is_a_question_up_to_moving_dates() -> None:
    sql = "SELECT count(*) FROM t\n WHERE day >= DATE '2024-02-23' AND day < '2024-03-01'"
    assert shape_of(sql, dt.date(2024, 3, 1)) == (
        "SELECT count(*) FROM t WHERE day >= :today - 7 AND day < :today"
    )
    assert shape_of("SELECT 1 FROM t WHERE x = '2024-99-99'", FIRST).endswith("'2024-99-99'")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A store that was asked two questions on six mornings, and another one once."""
    store = shop(sales(500))
    days: dict[int, dt.date] = {}
    for i in range(6):
        day = FIRST + i * DAY
        for sql in (
            "SELECT kind, count(*) AS n FROM sales WHERE day >= DATE '{}' AND day < DATE '{}' "
            "AND kind IN ('a', 'b') GROUP BY kind",
            "SELECT avg(v) AS m FROM sales WHERE day >= DATE '{}' AND day < DATE '{}'",
        ):
            answer = store.sql(sql.format(day - 7 * DAY, day))
            days[answer.facts.release] = day
    days[store.sql("SELECT count(*) AS n FROM sales").facts.release] = FIRST
    real = type(store).releases

    def dated(self: Any) -> list[Any]:
        found = real(self)
        for one in found:
            at = dt.datetime.combine(days[one.id], dt.time(8))
            object.__setattr__(one, "released_at", at)
        return found

    monkeypatch.setattr(type(store), "releases", dated)
    yield store
    store.close()


def test_what_a_dashboard_can_answer_is_proposed(asked: Any) -> None:
    before = asked.released
    found = find_workload(asked)
    (panel,) = found.panels  # an average is none
    assert panel.sql == (
        "SELECT kind, count(*) AS n FROM sales WHERE day >= :today - 7 AND day < :today "
        "AND kind IN ('a', 'b') GROUP BY kind"
    )
    assert (panel.days, panel.asked, panel.last) == (6, 6, FIRST + 5 * DAY)
    assert 0 < panel.cost <= 1.3126
    assert found.cost == panel.cost
    assert found.board_cost == pytest.approx(1.25 + 0.75 / 7)
    assert asked.released == before


def test_the_proposal_is_a_dashboard(asked: Any, tmp_path: Any) -> None:
    path = tmp_path / "found.toml"
    path.write_text(find_workload(asked).toml())
    dashboard = Dashboard.read(path)
    assert len(board_of(asked, dashboard, FIRST).panels) == 1


def test_four_days_are_too_few(asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found_workload, "LEAST_DAYS", 7)
    assert find_workload(asked).panels == ()
