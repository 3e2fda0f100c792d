"""`plan`: the table, what it recommends, and whom it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparseq
from conftest import output, run
from sparseq.cli.plan import advice
from sparseq.monitor.plan import Candidate, PlanSearch
from sparseq.monitor.simulate import BudgetSplit

DAYS = np.datetime64("2024-01-01") + np.arange(30)


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    rng = np.random.default_rng(4)
    rates = np.concatenate([np.full(400, 0.03), np.full(10, 0.6)])
    day, who = np.nonzero(rng.random((30, 410)) < rates)
    path = tmp_path / "visits.parquet"
    pq.write_table(pa.table({"who": who, "day": pa.array(DAYS[day])}), path)
    return path


@pytest.fixture
def query(tmp_path: Path) -> Path:
    path = tmp_path / "daily.sql"
    path.write_text("SELECT count(DISTINCT who) AS n FROM visits WHERE day = :day")
    return path


def asked(source: Path, query: Path, *more: object) -> list[object]:
    period = ("--from", "2024-01-01", "--to", "2024-01-30")
    return ["plan", source, "--queries", query, *period, *more]


def test_the_table(visits: Path, query: Path, golden: Callable[[str, str], None]) -> None:
    golden("plan", output(*asked(visits, query, "--user", "who")))


def test_json_has_the_same_plan_and_a_picture_is_drawn(visits: Path, query: Path) -> None:
    picture = visits.with_name("plan.png")
    found = json.loads(
        output(*asked(visits, query, "--user", "who", "--format", "json", "--plot", picture))
    )
    assert found["series"] == ["daily"]
    assert found["rows"][0]["worst_case"]
    assert found["rows"][0]["norm_budget"] == 30
    assert found["recommended"] in found["rows"]
    assert found["recommended"]["relative"] < 0.95
    assert found["hindsight"] < 1
    assert found["sizes"][0]["mean"] < found["sizes"][0]["root_mean_square"]
    assert found["publish_0"] == []
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_what_is_recommended_can_be_followed(visits: Path, query: Path) -> None:
    found = json.loads(output(*asked(visits, query, "--user", "who", "--format", "json")))
    best = found["recommended"]
    with sparseq.create(
        None, str(visits), user="who", norm_budget=best["norm_budget"],
        reserves={"forecast": best["forecast"]}, seed=1,
     in_or_out=True) as store:  # fmt: skip
        lowered = store.lower("SELECT count(DISTINCT who) AS n FROM visits")
        assert store.explain(lowered).noise[0].sigma == pytest.approx(best["sigma"][0])


def test_with_a_watch_the_table_and_the_advice_say_so(visits: Path, query: Path) -> None:
    text = output(*asked(visits, query, "--user", "who", "--reserve=watch=10%", "--no-forecast"))
    head, _, worst, *rows = text.splitlines()[3:]
    assert head.split()[:2] == ["norm_budget", "watch"]
    assert worst.split()[:2] == ["30.00", "–"]
    assert all(row.split()[1] == "10%" for row in rows[: rows.index("")])
    assert "--reserve watch=10%" in text
    assert "sparseq monitor … --alarm-below 90% --horizon 30" in text
    found = json.loads(
        output(*asked(visits, query, "--user", "who", "--format", "json", "--reserve", "watch"))
    )
    best = found["recommended"]
    assert best["others"] == 0.05
    with sparseq.create(
        None, str(visits), user="who", norm_budget=best["norm_budget"],
        reserves={"watch": best["others"], "forecast": best["forecast"]}, seed=1,
     in_or_out=True) as store:  # fmt: skip
        lowered = store.lower("SELECT count(DISTINCT who) AS n FROM visits")
        assert store.explain(lowered).noise[0].sigma == pytest.approx(best["sigma"][0])


def test_a_stores_data_must_be_declared_historical(visits: Path, query: Path) -> None:
    path = visits.with_name("s.sparseq")
    sparseq.create(path, str(visits), user="who", seed=1, in_or_out=True).close()
    refused = run(*asked(path, query))
    assert refused.exit_code == 2
    assert "sparseq curator plan" in refused.stderr
    assert "PRIVATE" not in refused.stdout
    done = run("curator", *asked(path, query, "--format", "json"))
    assert "Exact, uncharged facts" in done.stderr
    told = json.loads(done.stdout)
    former = run(*asked(path, query, "--historical", "--format", "json"))
    assert "plan STORE --historical is now curator plan STORE" in former.stderr
    assert former.stdout == done.stdout
    assert told["ticks"] == 30
    with sparseq.connect(path) as store:
        assert store.releases() == []


def test_a_private_store_is_planned_for_once_it_is_charged(visits: Path, query: Path) -> None:
    path = visits.with_name("s.sparseq")
    sparseq.create(path, str(visits), user="who", seed=1, in_or_out=True).close()
    done = run(*asked(path, query, "--charged", "5", "--format", "json"))
    assert done.exit_code == 0
    assert "Exact" not in done.stderr
    assert "pays up to 3.2 of a budget of 20 (16.0%), as for 3.2 counts" in done.stderr
    told = json.loads(done.stdout)
    assert told["rows"][0]["worst_case"]
    assert all(row["forecast"] == 0 for row in told["rows"])
    with sparseq.connect(path) as store:
        assert len(store.releases()) == 1
        assert 0 < store.stream.accounts.spent.max() <= 3.2 * 2**24 * 1.01
    refused = run(*asked(path, query, "--charged", "1"))
    assert refused.exit_code == 2
    assert "to plan would take 80 of a budget of 20" in refused.stderr
    assert "at least 2.0" in refused.stderr
    refused = run(*asked(path, query, "--charged", "5", "--horizon", "60"))
    assert refused.exit_code == 2
    assert "over the ticks that there are" in refused.stderr


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "the user column of FILE is not known"),
        (["--user", "who", "--plot", "plan.pdf"], "has a suffix that is not known"),
        (["--user", "nobody"], "has no column 'nobody'"),
        (["--user", "who", "--reserve=watch=90%"], "leaves too little"),
    ],
)
def test_bad_input_is_told(visits: Path, query: Path, more: list[str], message: str) -> None:
    failed = run(*asked(visits, query, *more))
    assert failed.exit_code in (2, 6)
    assert message in failed.stderr


def test_where_0_would_do_as_well_a_line_says_so(visits: Path, query: Path) -> None:
    query.write_text("SELECT count(DISTINCT who) AS n FROM visits WHERE day = :day AND who < 5")
    text = output(*asked(visits, query, "--user", "who"))
    assert "daily: publishing 0 at every tick would do as well." in text
    assert "two of kappa 0.5 tell as much as one of 1" in text


def test_the_advice_is_what_create_and_monitor_take() -> None:
    setting = BudgetSplit(24.22, 0.05, cap=0.1)
    better = Candidate(setting, False, (4.9,), 0.02, (5.0,), (1.8,), (5.3,), 0.23, 0.26)
    worst = Candidate(BudgetSplit(546.0), True, (23.4,), 0.0, (23.4,), (0.0,), (23.4,), 1.0, 1.0)
    assert advice(PlanSearch(0.5, 546, (worst, better))).splitlines() == [
        "Recommended, 0.23 times the error of the worst case:",
        "  sparseq create … --norm-budget 24.22 --reserve forecast=5%",
        "  sparseq monitor … --forecast --horizon 546 --forecast-cap 10%",
    ]
    assert "--in-or-out --norm-budget 546" in advice(PlanSearch(0.5, 546, (worst,)))
    seen = advice(PlanSearch(0.5, 546, (worst, better), hindsight=0.25))
    assert seen.endswith("run on the second, 0.25 times.")
    misled = advice(PlanSearch(0.5, 546, (worst, better), hindsight=1.63))
    assert "the second would have had 1.63 times its error" in misled
    assert "--norm-budget 546" in misled
    watched = replace(better, setting=BudgetSplit(24.22, 0.05, 0.05, cap=0.1))
    assert advice(PlanSearch(0.5, 546, (worst, watched))).splitlines()[1:] == [
        "  sparseq create … --norm-budget 24.22 --reserve watch=5%,forecast=5%",
        "  sparseq monitor … --alarm-below 90% --forecast --horizon 546 --forecast-cap 10%",
    ]


@pytest.mark.deep
def test_strategies_are_planned_for_what_people_look_at(visits: Path, query: Path) -> None:
    line = asked(visits, query, "--user", "who", "--for", "day,total:2")
    text = output(*line)
    assert "daily, strategies for day, total: root mean squares" in text
    assert text.rstrip().splitlines()[-1].startswith("  sparseq monitor … --strategy ")
    found = json.loads(output(*line, "--format", "json"))["strategies"]
    assert [target["weight"] for target in found["targets"]] == [1.0, 2.0]
    assert found["recommended"] == min(found["rows"], key=lambda row: row["relative"])
    assert found["recommended"]["strategy"] in text
    assert ("--left-out" in text) == ("left out lack" in text) == (found["lacking"] > 0)


def test_what_strategies_can_not_be_planned_for_is_said(visits: Path, query: Path) -> None:
    line = asked(visits, query, "--user", "who", "--for")
    for more, says in (
        (("year",), "nothing to plan for"),
        (("day", "--queries", query), "plans for one series"),
    ):
        result = run(*line, *more)
        assert (result.exit_code, result.stdout) == (2, "")
        assert says in result.stderr
