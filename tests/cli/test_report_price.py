"""A report says its price before it asks; repeated questions become series."""

from __future__ import annotations

import csv
import datetime as dt
import doctest
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from command_runs import output, run

from data.hospital import write
from sparseq import connect
from sparseq.cli import report_price

MONDAY = dt.date(2024, 1, 1)
REPORT = """
store = "ward.sparseq"
[[part]]
heading = "Patients"
sql = "SELECT count(DISTINCT who) AS patients FROM visits"
[[part]]
heading = "By ward"
sql = "SELECT ward, count(*) AS visits FROM visits WHERE ward IN ('a', 'b') GROUP BY ward"
[[part]]
sql = "SELECT avg(cost) AS cost FROM visits"
[[part]]
heading = "All visits"
sql = "SELECT count(*) AS visits FROM visits"
"""


def weeks(folder: Path, number: int, people: int) -> list[Path]:
    """Write a file of visits for each of some weeks."""
    random, paths = np.random.default_rng(1), []
    for k in range(number):
        who = random.integers(0, people, people // 4)
        lines = [
            f"p{w},{MONDAY + dt.timedelta(days=7 * k + int(w) % 7)},{'ab'[w % 2]},{w % 90}"
            for w in who.tolist()
        ]
        paths.append(folder / f"week-{k}.csv")
        paths[-1].write_text("\n".join(["who,day,ward,cost", *lines]) + "\n")
    return paths


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of the first week, and the report beside it; the other weeks are files."""
    monkeypatch.chdir(tmp_path)
    first, *_ = weeks(tmp_path, 4, 2_000)
    output(
        "create",
        "ward.sparseq",
        first,
        "--table",
        "visits",
        "--user",
        "who",
        "--time",
        "day",
        "--bounds",
        "cost=0..90",
        "--seed",
        "1",
        "--for",
        "questions,answers=30",
    )
    (tmp_path / "weekly.toml").write_text(REPORT)
    return tmp_path / "ward.sparseq"


def test_docstring_examples() -> None:
    assert doctest.testmod(report_price).failed == 0


def test_a_dry_run_says_the_price_and_asks_nothing(ward: Path) -> None:
    said = run("report", "weekly.toml", "--dry-run")
    assert said.exit_code == 0
    assert "4 of 4 questions are asked" in said.stderr
    assert "counts for 100 % now" in said.stderr
    assert json.loads(output("budget", ward, "--format", "json"))["releases"] == 0
    assert not Path("weekly.html").exists()


def test_the_price_is_what_is_charged_and_what_is_left_is_as_was_said(ward: Path) -> None:
    said = run("report", "weekly.toml").stderr
    told = float(re.search(r"price +([\d.]+) of ", said)[1])  # type: ignore[index]
    with connect(ward) as con:
        charged = sum(con.release(k).facts.charge for k in range(1, con.released + 1))
        promise = con.promise
        assert promise.course is not None
        assert promise.begun is not None
        used = 1 - promise.course.least_left / promise.begun.least
    assert charged <= told
    assert charged >= 0.8 * told  # an answer may follow from one before it
    after = float(re.search(r"used now,\s+(\d+) %", said)[1])  # type: ignore[index]
    assert after == pytest.approx(100 * used, abs=5)
    again = run("report", "weekly.toml").stderr
    assert "all of its questions are read back: nothing is charged" in again


def test_repeated_questions_are_refused_before_they_fade_and_become_series(ward: Path) -> None:
    """In a later week of four questions a person in all of them would count for less than 90 %."""
    assert "were asked before" not in run("report", "weekly.toml").stderr
    widths = [ward_width(ward)]
    refused = None
    for week in (1, 2, 3):
        output("ingest", ward, f"week-{week}.csv")
        before = json.loads(output("budget", ward, "--format", "json"))["releases"]
        done = run("report", "weekly.toml")
        assert "4 of them were asked before, of earlier rows" in done.stderr
        if done.exit_code:
            refused = done
            assert json.loads(output("budget", ward, "--format", "json"))["releases"] == before
            break
        widths.append(ward_width(ward))
    assert refused is not None
    assert "use the budget up" in refused.stderr
    assert max(widths) <= 1.5 * widths[0]
    commands = [line.strip() for line in refused.stderr.splitlines() if "sparseq " in line]
    adds = [c for c in commands if c.startswith("sparseq purpose add")]
    assert adds == ["sparseq purpose add ward.sparseq patients=16%,ticks=52"]
    plans = [c for c in commands if c.startswith("sparseq curator plan")]
    assert [re.findall(r"(\w+)\.sql", c) for c in plans] == [
        ["by_ward"],
        ["part_3_1"],  # an average is a quotient of two series
        ["part_3_2"],
        ["all_visits"],
    ]
    output(*shlex.split(adds[0])[1:])
    assert run("report", "weekly.toml", "--anyway").exit_code == 0


def ward_width(ward: Path) -> float:
    """Return the half-width of the latest answer about patients."""
    with connect(ward) as con:
        answer = con.sql("SELECT count(DISTINCT who) AS patients FROM visits").arrow()
        return float(answer["patients_error"][0].as_py())


@pytest.mark.parametrize(
    "people", [2_000, pytest.param(40_000, marks=pytest.mark.deep)], ids=["few", "many"]
)
def test_the_series_is_as_exact_in_week_26_as_in_week_1(
    people: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that a refused report prints makes it so."""
    monkeypatch.chdir(tmp_path)
    files = weeks(tmp_path, 26, people)
    output(
        "create",
        "ward.sparseq",
        *files,
        "--table",
        "visits",
        "--user",
        "who",
        "--time",
        "day",
        "--seed",
        "1",
    )
    output("purpose", "add", "ward.sparseq", "patients=20%,ticks=52")
    (tmp_path / "patients.sql").write_text(
        "SELECT count(DISTINCT who) AS patients FROM visits WHERE day >= :week AND day < :next_week"
    )
    last = MONDAY + dt.timedelta(weeks=25)
    output(
        "monitor",
        "ward.sparseq",
        "patients.sql",
        "--every",
        "1w",
        "--from",
        MONDAY.isoformat(),
        "--to",
        last.isoformat(),
        "--output",
        "weekly.csv",
        "--quiet",
    )
    with open("weekly.csv", encoding="utf-8") as file:
        errors = [float(row["error"]) for row in csv.DictReader(file)]
    assert len(errors) == 26
    assert errors[25] <= 1.5 * errors[0]
    (tmp_path / "weekly.toml").write_text(
        'store = "ward.sparseq"\n[[part]]\nseries = "weekly.csv"\n'
    )
    assert run("report", "weekly.toml").exit_code == 0
    assert Path("weekly.html").is_file()


@pytest.mark.deep
def test_the_tutorials_hospital_stays_as_exact_for_26_weeks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weekly report of four questions is refused before it fades.

    The command that the refusal prints, with the plan made on last year's data, makes series whose
    half-widths in week 26 are at most 1.5 times those in week 1.
    """
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    files = hospital_weeks(tmp_path, 26)
    config = ["--config", ROOT / "data" / "hospital.toml"]
    output("create", "ward.sparseq", files[0], *config, "--seed", "1")
    (tmp_path / "weekly.toml").write_text(HOSPITAL)
    widths_now: list[float] = []
    for k, path in enumerate(files):
        if k:
            output("ingest", "ward.sparseq", path)
        done = run("report", "weekly.toml")
        if done.exit_code:
            break
        widths_now.append(patients_width())
    assert done.exit_code, "26 reports were answered: compare their widths"
    assert 1 <= k <= 8
    assert max(widths_now) <= 1.5 * widths_now[0]  # nobody counted for less
    commands = [line.strip() for line in done.stderr.splitlines() if "sparseq " in line]
    (add,) = [c for c in commands if c.startswith("sparseq purpose add")]
    plans = [c for c in commands if c.startswith("sparseq curator plan")]
    (monitor,) = [c for c in commands if c.startswith("sparseq monitor")]
    for name, select in SERIES.items():
        (tmp_path / f"{name}.sql").write_text(f"{select[0]} WHERE {WEEK} {select[1]}")
    output("create", "last-year.sparseq", "visits-2023.csv", *config)
    output(*shlex.split(add)[1:])
    for plan in plans:
        asked = plan.replace("ward.sparseq", "last-year.sparseq").partition("  #")[0]
        for end in ("2023-01-02", "2023-12-25"):
            asked = asked.replace("MONDAY", end, 1)
        said = output(*shlex.split(asked)[1:])
        (words,) = re.findall(r"sparseq purpose add STORE (\S+)", said)
        output("purpose", "add", "ward.sparseq", words)
    for path in files[k + 1 :]:
        output("ingest", "ward.sparseq", path)
    asked = monitor.replace("MONDAY", "2024-01-01", 1)
    output(*shlex.split(asked)[1:], "--to", "2024-06-24", "--quiet")
    with open("weekly.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    widths: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["estimate"] == "answer":
            widths.setdefault((row["series"], row["ward"]), []).append(float(row["error"]))
    assert {series for series, _ in widths} == set(SERIES)
    for name, found in widths.items():
        assert len(found) == 26, name
        assert found[25] <= 1.5 * found[0], name


ROOT = Path(__file__).parents[2]
WEEK = "day >= :week AND day < :next_week"
SERIES = {
    "patients": ("SELECT count(DISTINCT patient) AS patients FROM visits", ""),
    "visits_by_ward": ("SELECT ward, count(*) AS visits FROM visits", "GROUP BY ward"),
    "average_cost_1": ("SELECT sum(cost) AS cost FROM visits", ""),
    "average_cost_2": ("SELECT count(*) AS visits FROM visits", ""),
    "all_visits": ("SELECT count(*) AS visits FROM visits", ""),
}
HOSPITAL = """
store = "ward.sparseq"
[[part]]
heading = "Patients"
sql = "SELECT count(DISTINCT patient) AS patients FROM visits"
[[part]]
heading = "Visits by ward"
sql = "SELECT ward, count(*) AS visits FROM visits GROUP BY ward"
[[part]]
heading = "Average cost"
sql = "SELECT avg(cost) AS cost FROM visits"
[[part]]
heading = "All visits"
sql = "SELECT count(*) AS visits FROM visits"
"""


def hospital_weeks(folder: Path, number: int) -> list[Path]:
    """Write the first weeks of the export of 2024, each with its title."""
    title, header, *lines = (folder / "visits-2024.csv").read_text("utf-8").splitlines()
    found: dict[int, list[str]] = {}
    for line in lines:
        day = dt.datetime.strptime(line.split(";")[1], "%d.%m.%Y").date()
        found.setdefault((day - MONDAY).days // 7, []).append(line)
    paths = [folder / f"visits-week-{k}.csv" for k in range(number)]
    for k, path in enumerate(paths):
        path.write_text("\n".join([title, header, *found[k]]) + "\n", "utf-8")
    return paths


def patients_width() -> float:
    """Return the half-width of the last report's first answer, without a charge."""
    with connect("ward.sparseq") as con:
        answer = con.sql("SELECT count(DISTINCT patient) AS patients FROM visits")
        assert answer.facts.repeated
        return float(next(iter(answer))["patients_error"])
