"""`plan`: the table, the one line that it recommends, and whom it refuses."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_runs import output, run

import sparseq
from checks.stores import IN_OR_OUT
from sparseq.cli.plan import as_plain, as_text, line
from sparseq.cli.purpose_text import PurposeText, purpose_of
from sparseq.ledger.purposes import Purpose
from sparseq.series.planning.plan_strategies import targets_of
from sparseq.series.planning.verdict import FORECAST, PLAIN, STRATEGY, Method, Verdict

DAYS = np.datetime64("2024-01-01") + np.arange(30)


def written_visits(folder: Path) -> Path:
    rng = np.random.default_rng(4)
    rates = np.concatenate([np.full(400, 0.03), np.full(10, 0.6)])
    day, who = np.nonzero(rng.random((30, 410)) < rates)
    path = folder / "visits.parquet"
    pq.write_table(pa.table({"who": who, "day": pa.array(DAYS[day])}), path)
    return path


def written_query(folder: Path) -> Path:
    path = folder / "daily.sql"
    path.write_text("SELECT count(DISTINCT who) AS n FROM visits WHERE day = :day")
    return path


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    return written_visits(tmp_path)


@pytest.fixture
def query(tmp_path: Path) -> Path:
    return written_query(tmp_path)


def asked(source: Path, query: Path, *more: object) -> list[object]:
    period = ("--from", "2024-01-01", "--to", "2024-01-30")
    return ["plan", source, "--queries", query, *period, *more]


METHODS = [PLAIN, FORECAST, STRATEGY]


def series_of(*words: object) -> list[dict]:
    """What `plan` finds, as JSON."""
    return json.loads(output(*words, "--format", "json"))["series"]


@pytest.fixture(scope="module")
def by_default(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict, bytes]:
    """What `plan` finds for the visits by default: as text, as JSON, and its picture."""
    folder = tmp_path_factory.mktemp("default")
    words = asked(written_visits(folder), written_query(folder), "--user", "who")
    (found,) = series_of(*words, "--plot", folder / "plan.png")
    return output(*words), found, (folder / "plan.png").read_bytes()


@pytest.fixture(scope="module")
def on_half(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """The methods that `plan` finds for the visits on half of every budget."""
    folder = tmp_path_factory.mktemp("half")
    words = asked(written_visits(folder), written_query(folder), "--user", "who", "--share", "50%")
    (found,) = series_of(*words)
    return found["methods"]


def test_the_table(by_default: tuple[str, dict, bytes], golden: Callable[[str, str], None]) -> None:
    golden("plan", by_default[0])


def test_json_has_the_same_plan_and_a_picture_is_drawn(by_default: tuple[str, dict, bytes]) -> None:
    text, found, picture = by_default
    assert (found["name"], found["ticks"]) == ("daily", 30)
    assert [m["method"] for m in found["methods"]] == METHODS
    assert found["recommended"] in found["methods"]
    assert found["recommended"]["line"] in text
    assert max(found["recommended"]["ratios"]) < 0.95
    assert found["methods"][0]["ratios"] == [1, 1, 1]
    assert found["methods"][0]["errors"] == pytest.approx([(30 / 0.6) ** 0.5], rel=0.01)
    assert found["mean"] < found["root_mean_square"]
    assert found["publish_0"] is False
    assert picture.startswith(b"\x89PNG")


@pytest.mark.parametrize("method", METHODS)
def test_its_line_is_what_create_takes_and_its_errors_are_those_of_the_series(
    visits: Path, query: Path, on_half: list[dict], method: str
) -> None:
    """Word by word, for `create --for` and for `purpose add`; the monitor then needs no option."""
    (planned,) = [m for m in on_half if m["method"] == method]
    made, later = visits.with_name("made.sparseq"), visits.with_name("later.sparseq")
    output("create", made, visits, "--user", "who", "--seed", "3", "--for", planned["line"])
    output("create", later, visits, "--user", "who", "--seed", "3")
    output("purpose", "add", later, planned["line"])
    told = {k: v for k, v in planned["purpose"].items() if k not in ("came", "least")}
    for path in (made, later):
        (kept,) = json.loads(output("purpose", "list", path, "--format", "json"))
        assert {k: kept[k] for k in told} == {
            k: pytest.approx(v) if isinstance(v, float) else v for k, v in told.items()
        }
    text = output(
        "monitor",
        made,
        query,
        "--over",
        "day",
        "--from",
        "2024-01-01",
        "--to",
        "2024-01-30",
        "--quiet",
    )
    ours = "corrected" if method == FORECAST else "answer"
    rows = [r for r in csv.DictReader(text.splitlines()) if r["estimate"] == ours]
    table = pq.read_table(visits)
    days, who = table["day"].to_numpy(), table["who"].to_numpy()
    truth = np.array([len(np.unique(who[days == day])) for day in DAYS])
    off = np.array([float(r["value"]) for r in rows]) - truth
    assert np.sqrt(np.mean(off**2)) == pytest.approx(planned["errors"][0], rel=0.4)
    assert np.mean(np.abs(off) <= [float(r["error"]) for r in rows]) >= 0.85


@pytest.mark.deep
def test_series_share_what_is_for_them(visits: Path, query: Path) -> None:
    """The noise of all ticks grows with the root of the share."""
    other = query.with_name("other.sql")
    other.write_text(query.read_text())
    (whole,) = series_of(*asked(visits, query, "--user", "who", "--share", "80%"))
    both = series_of(*asked(visits, query, "--user", "who", "--share", "80%", "--queries", other))
    assert [one["name"] for one in both] == ["daily", "other"]
    for one in both:
        assert one["recommended"]["purpose"]["share"] == 0.4
        assert one["methods"][0]["errors"][0] == pytest.approx(
            whole["methods"][0]["errors"][0] * 2**0.5, rel=0.01
        )
    lines = [one["recommended"]["line"] for one in both]
    output(
        "create",
        visits.with_name("s.sparseq"),
        visits,
        "--user",
        "who",
        "--for",
        lines[0],
        "--for",
        lines[1],
        "--for",
        "questions=20%",
    )


def test_two_series_of_one_name_are_refused(visits: Path, query: Path) -> None:
    """As by the monitor: one of them would have no plan, and the other half of what is for both."""
    (query.parent / "more").mkdir()
    other = query.parent / "more" / query.name
    other.write_text(query.read_text())
    refused = run(*asked(visits, query, "--user", "who", "--queries", other))
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "'daily'" in refused.stderr


def test_a_plan_is_for_the_ticks_and_the_level_that_are_said(visits: Path, query: Path) -> None:
    (found,) = series_of(
        *asked(visits, query, "--user", "who", "--horizon", "60", "--kappa", "0.1")
    )
    assert found["ticks"] == found["recommended"]["purpose"]["ticks"] == 60
    assert "ticks=60" in found["recommended"]["line"]
    assert found["methods"][0]["errors"] == pytest.approx([(60 / 0.6 / 0.2) ** 0.5], rel=0.01)


def test_a_stores_data_must_be_declared_historical(
    visits: Path, query: Path, by_default: tuple[str, dict, bytes]
) -> None:
    path = visits.with_name("s.sparseq")
    sparseq.create(path, str(visits), user="who", seed=1, purposes=IN_OR_OUT).close()
    refused = run(*asked(path, query))
    assert refused.exit_code == 2
    assert "sparseq curator plan" in refused.stderr
    assert "PRIVATE" not in refused.stdout
    done = run("curator", *asked(path, query, "--format", "json"))
    assert "Exact, uncharged facts" in done.stderr
    (told,) = json.loads(done.stdout)["series"]
    assert told["ticks"] == 30
    assert told == by_default[1]
    with sparseq.connect(path) as store:
        assert store.releases() == []


def test_a_private_store_is_planned_for_once_it_is_charged(visits: Path, query: Path) -> None:
    path = visits.with_name("s.sparseq")
    sparseq.create(path, str(visits), user="who", seed=1, purposes=IN_OR_OUT).close()
    done = run(*asked(path, query, "--charged", "5", "--format", "json"))
    assert done.exit_code == 0
    assert "Exact" not in done.stderr
    assert "pays up to 3.2 of a budget of 20 (16.0%), as much as 3.2 counts" in done.stderr
    (told,) = json.loads(done.stdout)["series"]
    plain, *others = told["methods"]
    assert (plain["method"], [m["method"] for m in others]) == (PLAIN, [FORECAST])
    assert told["recommended"]["ratios"][-1] <= 0.95
    assert all(m["ratios"][:2] == [None, None] for m in others), "nobody knows when people come"
    assert all(m["purpose"]["off"] == 1 for m in others), "so the forecast may be wholly off"
    with sparseq.connect(path) as store:
        assert len(store.releases()) == 1
        assert 0 < store.stream.accounts.spent.max() <= 3.2 * 2**24 * 1.01
    output("purpose", "add", path, told["recommended"]["line"])
    refused = run(*asked(path, query, "--charged", "1"))
    assert refused.exit_code == 2
    assert "to plan would take 80 of a budget of 20" in refused.stderr
    assert "at least 2.0" in refused.stderr
    other = query.with_name("other.sql")
    other.write_text(query.read_text())
    for more in (("--horizon", "60"), ("--target", "week"), ("--queries", other)):
        refused = run(*asked(path, query, "--charged", "5", *more))
        assert refused.exit_code == 2
        assert "over the ticks that there are" in refused.stderr
    with sparseq.connect(path) as store:
        assert len(store.releases()) == 2, "planning, and the part"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "the user column of FILE is not known"),
        (["--user", "who", "--plot", "plan.pdf"], "has a suffix that is not known"),
        (["--user", "nobody"], "has no column 'nobody'"),
        (["--user", "who", "--share", "100%"], "not in the range"),
        (["--user", "who", "--share", "60"], "'60' is 6000 %"),
        (["--user", "who", "--target", "week", "--plot", "plan.png"], "errors of single ticks"),
    ],
)
def test_bad_input_is_told(visits: Path, query: Path, more: list[str], message: str) -> None:
    failed = run(*asked(visits, query, *more))
    assert failed.exit_code in (2, 6)
    assert failed.stdout == ""
    assert message in failed.stderr


def test_a_series_has_one_number(visits: Path, query: Path) -> None:
    query.write_text("SELECT count(*) AS n, count(DISTINCT who) AS m FROM visits WHERE day = :day")
    failed = run(*asked(visits, query, "--user", "who"))
    assert failed.exit_code == 2
    assert "daily has several numbers for each group" in failed.stderr


def test_where_0_would_do_as_well_a_line_says_so(visits: Path, query: Path) -> None:
    query.write_text("SELECT count(DISTINCT who) AS n FROM visits WHERE day = :day AND who < 5")
    text = output(*asked(visits, query, "--user", "who"))
    assert "daily: publishing 0 at every tick would do as well: the error would be 0." in text
    assert "two of kappa 0.5 tell as much as one of 1" in text
    (found,) = series_of(*asked(visits, query, "--user", "who"))
    assert found["publish_0"] is True


# -- the line ------------------------------------------------------------------------------------

PLAINLY = Method(PLAIN, Purpose("daily_buyers", 0.6, 546), (30.2,))
BETTER = Method(
    FORECAST,
    Purpose("daily_buyers", 0.6, 546, 24.22, forecast=0.05, cap=0.1, off=0.46),
    (5.3,),
    (0.25, 0.23, 0.23),
)
TAPS = Method(
    STRATEGY,
    Purpose("daily_buyers", 0.6, 546, 40.0, strategy="news:0.08,28,1", left_out=0.023),
    (7.1,),
    (0.3, 0.31, 0.28),
)


def verdict_of(*methods: Method) -> Verdict:
    return Verdict((PLAINLY, *methods), (43.2, 55.5), targets_of("day"), None)


def test_the_line_is_what_create_takes() -> None:
    assert line(PLAINLY) == "daily_buyers=60%,ticks=546"
    assert line(BETTER) == ("daily_buyers=60%,ticks=546,counts=24.22,forecast=5%,cap=10%,off=0.46")
    assert line(TAPS) == (
        "daily_buyers=60%,ticks=546,counts=40,strategy=news:0.08,28,1,left-out=2.3%"
    )
    text = as_text(verdict_of(BETTER, TAPS))
    assert text.splitlines()[:6] == [
        "daily_buyers, 546 ticks on 60% of every budget; a value is 43.2 on average",
        "",
        f"  {line(BETTER)}",
        "",
        f"Use it so: sparseq create … --for {line(BETTER)}",
        f"or, later: sparseq purpose add STORE {line(BETTER)}",
    ]


@pytest.mark.parametrize(
    "purpose",
    [
        PLAINLY.purpose,
        BETTER.purpose,
        TAPS.purpose,
        replace(BETTER.purpose, share=1 / 3, counts=2.5, season=7, cap=0.35, off=8.0),
        replace(PLAINLY.purpose, name="a.b-c_1", share=0.001, counts=1001.5),
    ],
)
def test_a_line_is_read_as_it_was_written(purpose: Purpose) -> None:
    read = purpose_of(PurposeText().convert(line(Method(PLAIN, purpose, (1.0,))), None, None))
    assert replace(read, share=purpose.share) == purpose
    assert read.share == pytest.approx(purpose.share, rel=1e-9)


def test_what_would_have_been_worse_in_one_half_is_not_recommended() -> None:
    """As it would have been chosen on the first half; the table tells all of it."""
    misled = replace(BETTER, ratios=(0.25, 1.63, 0.23))
    text = as_text(verdict_of(misled))
    assert f"--for {line(PLAINLY)}\n" in text
    assert "Plain assumes nothing: nobody is ever out" in text
    rows = {
        row.split()[0]: row.split()
        for row in text.splitlines()
        if " 546.00 " in row or " 24.22 " in row or row.startswith("plain")
    }
    assert rows["forecast"][-3:] == ["0.25", "1.63", "0.23"]
    assert rows["plain"][-1] == "recommended"
    hardly = replace(BETTER, ratios=(0.5, 0.981, 0.5))
    assert verdict_of(hardly).recommended is PLAINLY
    just = replace(BETTER, ratios=(0.5, 0.98, 0.5))
    assert verdict_of(just).recommended is just
    assert verdict_of(just, TAPS).recommended is TAPS, "the largest ratio counts"
    plain = as_plain(verdict_of(misled, TAPS))
    assert plain["recommended"]["line"] == line(TAPS)
    assert [m["method"] for m in plain["methods"]] == METHODS


def test_what_intervals_rest_on_is_said() -> None:
    assert "forecasts that are off by 46%, as they were in the second half" in as_text(
        verdict_of(BETTER)
    )
    assert "room for 1.4 times what is missing in these data" in as_text(verdict_of(TAPS))


@pytest.mark.deep
def test_strategies_are_planned_for_what_people_look_at(visits: Path, query: Path) -> None:
    words = asked(visits, query, "--user", "who", "--target", "day,total:2")
    text, (found,) = output(*words), series_of(*words)
    assert "error of day  error of total" in text
    plain, best = found["methods"]
    assert best["method"] == STRATEGY, "forecasts are for single ticks"
    room = best["purpose"]["left_out"]  # too wide an interval to be recommended
    assert (found["recommended"] == best) == (room <= 0.4)
    ratio = [b / a for a, b in zip(plain["errors"], best["errors"], strict=True)]
    assert best["ratios"][2] == pytest.approx(((ratio[0] ** 2 + 2 * ratio[1] ** 2) / 3) ** 0.5)
    assert (best["purpose"]["strategy"] in text) == (room <= 0.4)
    assert ("left-out=" in best["line"]) == (best["purpose"]["left_out"] > 0)


def test_what_can_not_be_planned_for_is_said(visits: Path, query: Path) -> None:
    result = run(*asked(visits, query, "--user", "who", "--target", "year"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "nothing to plan for" in result.stderr


def heavy(folder: Path, rows: int) -> Path:
    """Write a year of visits of 900 users, with 1 to 4 each, and of one with many."""
    rng = np.random.default_rng(1)
    who = np.append(np.repeat(np.arange(900), rng.integers(1, 5, 900)), np.full(rows, 900))
    day = np.datetime64("2024-01-01") + rng.integers(0, 364, len(who))
    pq.write_table(pa.table({"who": who, "day": pa.array(day)}), folder / "year.parquet")
    return folder / "year.parquet"


def test_one_user_with_many_rows_is_a_reason_and_a_limit_on_rows_is_tried(tmp_path: Path) -> None:
    query = tmp_path / "weekly.sql"
    query.write_text("SELECT count(*) AS n FROM visits WHERE day >= :week AND day < :next_week")
    more = ("--user", "who", "--table", "visits", "--time", "day", "--every", "1w")
    period = ("--from", "2024-01-01", "--to", "2024-12-23")
    arguments = ["plan", heavy(tmp_path, 1_500), "--queries", query, *period, *more]
    told = output(*arguments)
    assert "forecast is not recommended: " in told
    assert "strategy is not recommended: " in told
    assert "1 user has more than 4 rows: 1,500." in told
    assert "--most rows=4 --for weekly=60%,ticks=52,counts=" in told
    kept = json.loads(output(*arguments, "--format", "json"))
    (cut,) = kept["with_most"]["series"]
    assert kept["with_most"]["rows"] == 4
    assert cut["recommended"]["method"] == FORECAST
    assert cut["recommended"]["errors"][0] < 0.5 * kept["series"][0]["recommended"]["errors"][0]
    assert kept["series"][0]["recommended"]["method"] == PLAIN
    limited = json.loads(output(*arguments, "--most", "rows=4", "--format", "json"))
    assert limited["series"] == kept["with_most"]["series"]
    assert limited["with_most"] is None


def test_users_with_about_equally_many_rows_need_no_limit(tmp_path: Path) -> None:
    query = tmp_path / "weekly.sql"
    query.write_text("SELECT count(*) AS n FROM visits WHERE day >= :week AND day < :next_week")
    more = ("--user", "who", "--table", "visits", "--time", "day", "--every", "1w")
    period = ("--from", "2024-01-01", "--to", "2024-12-23")
    told = output("plan", heavy(tmp_path, 5), "--queries", query, *period, *more)
    assert "--most" not in told
