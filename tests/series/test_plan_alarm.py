"""The alarm of a series that is no longer like the data that it was planned on."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import sparseq
from sparseq.cli.app import sparseq as command
from sparseq.series.method_series import CORRECTED
from sparseq.series.plan_alarm import FAR, PlanAlarm, window_length
from sparseq.series.series_rows import Row, as_table, schema_of

START = dt.date(2024, 1, 1)
LOW, HIGH = 10.0, 30.0
SAID = "n: the last 2 ticks have 61 on average, and the plan was made for 10 to 30"


def part(ticks: int = 8) -> sparseq.Purpose:
    return sparseq.Purpose("n", 0.4, ticks, strategy="window:2", seen=(LOW, HIGH))


def row(tick: int, value: float | None, error: float | None = 1.0, estimate: str = "answer") -> Row:
    day = START + dt.timedelta(tick)
    return Row("n", day, "n", value, error, estimate=estimate)


@given(
    st.lists(
        st.tuples(st.floats(LOW / FAR, HIGH * FAR), st.floats(0, 50), st.floats(-1, 1)), max_size=40
    )
)
def test_where_intervals_hold_it_is_silent_as_long_as_the_truth_is_near(
    ticks: list[tuple[float, float, float]],
) -> None:
    series = PlanAlarm(part())
    for t, (truth, error, off) in enumerate(ticks):
        assert series.check([row(t, truth + off * error, error + 1e-9)]) == ""


def test_it_is_said_once_and_again_when_the_series_has_come_back_and_left() -> None:
    series = PlanAlarm(part())
    values = [20, 20, 60, 62, 64, 66, 20, 20, 20, 1, 1]
    found = [series.check([row(t, v)]) for t, v in enumerate(values)]
    assert [bool(said) for said in found] == [t in (3, 10) for t in range(len(values))]
    assert found[3] == SAID
    assert "have 1 on average" in found[10]


def test_groups_are_added_up_and_what_is_about_everybody_counts() -> None:
    series = PlanAlarm(part())
    for t in range(3):
        groups = [row(t, 25.0), row(t, 36.0)]
        assert bool(series.check([*groups, row(t, None), Row("other", t, "n", 1e9, 1.0)])) == (
            t == 1
        )
    series = PlanAlarm(part())
    for t in range(3):
        assert series.check([row(t, 61.0), row(t, 20.0, estimate=CORRECTED)]) == ""
    assert series.check([row(3, 61.0, error=None)]) == ""  # nothing is known of it


def test_after_a_restart_it_goes_on_from_the_file() -> None:
    rows = [row(t, v) for t, v in enumerate([20.0, 20.0, 60.0])]
    table = as_table(rows, schema_of([], dates=True))
    assert PlanAlarm(part(), table).check([row(3, 62.0)]) == SAID
    told = as_table([*rows, row(3, 62.0)], schema_of([], dates=True))
    assert PlanAlarm(part(), told).check([row(4, 64.0)]) == ""


@pytest.mark.parametrize(("ticks", "window"), [(1, 1), (4, 1), (52, 13), (112, 28), (10**6, 28)])
def test_a_window_is_a_quarter_of_what_is_planned_and_28_at_most(ticks: int, window: int) -> None:
    assert window_length(ticks) == window


def test_the_monitor_says_it_and_ends_with_7(tmp_path: Path) -> None:
    """900 people a day as planned, then 2,700."""
    days = [START + dt.timedelta(d) for d in range(24) for _ in range(900 * (3 if d >= 12 else 1))]
    who = np.concatenate([np.arange(900 * (3 if d >= 12 else 1)) for d in range(24)])
    pq.write_table(pa.table({"who": who, "day": days}), tmp_path / "visits.parquet")
    query, store = tmp_path / "visitors.sql", str(tmp_path / "s.sparseq")
    query.write_text("SELECT count(DISTINCT who) AS n FROM visits WHERE day = :day")

    def run(*words: object) -> tuple[int, str]:
        done = CliRunner().invoke(command, [str(word) for word in words])
        return done.exit_code, " ".join(done.output.split())

    said = "visitors=60%,ticks=24,seen=900..900"
    code, _ = run(
        "create",
        store,
        tmp_path / "visits.parquet",
        "--user",
        "who",
        "--time",
        "day",
        "--for",
        said,
        "--seed",
        1,
    )
    assert code == 0
    asked = ("monitor", store, query, "--from", START, "--output", tmp_path / "n.csv")
    code, text = run(*asked, "--to", START + dt.timedelta(11))
    assert (code, "ALARM" in text) == (0, False)
    code, text = run(*asked, "--to", START + dt.timedelta(20))
    assert code == 7
    assert text.count("ALARM: visitors: the last 6 ticks have") == 1
    assert "the plan was made for 900 to 900. Its ± may be too small: plan anew" in text
    code, text = run(*asked, "--to", START + dt.timedelta(23))
    assert (code, "ALARM" in text) == (0, False)
