"""`sparseq monitor`: files, restarts, and what is said when something is wrong."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import signal
import zipfile
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_runs import output, run
from sampled import one_in

import sparseq
from sparseq.accounting import simultaneous_bound
from sparseq.accounting.strategies import Strategy
from sparseq.base.errors import ParameterError
from sparseq.cli.purpose_text import PurposeText, purpose_of
from sparseq.ledger.purposes import Purpose
from sparseq.series import QueryText, Ticks
from sparseq.series.folder import Folder
from sparseq.series.method_series import StrategySeries
from sparseq.series.methods.strategy_series import CorrelatedSeries
from sparseq.series.ticks import moment

VISITORS = "SELECT count(DISTINCT who) AS visitors FROM visits WHERE day = :day"
PAGES = (
    "SELECT page, count(*) AS n FROM visits WHERE day >= :day AND day < :next_day "
    "AND seconds > :least GROUP BY page"
)


@pytest.fixture
def queries(tmp_path: Path) -> tuple[Path, Path]:
    folder = tmp_path / "queries"
    folder.mkdir()
    (folder / "visitors.sql").write_text(VISITORS)
    (folder / "pages.sql").write_text(PAGES)
    return folder / "visitors.sql", folder / "pages.sql"


def test_a_series_in_a_file(store: Path, queries: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "series.parquet"
    line = (
        "monitor",
        store,
        *queries,
        "--from",
        "2024-01-01",
        "--param",
        "least=3",
        "--output",
        out,
    )
    first = run(*line, "--over", "day", "--to", "2024-01-04")
    assert (first.exit_code, first.stdout) == (0, "")
    assert "4 ticks answered" in first.stderr
    assert "NOT PRIVATE" in first.stderr
    assert pq.read_table(out).num_rows == 4 * (1 + 4)
    again = run(*line, "--to", "2024-01-10", "--quiet")
    assert (again.exit_code, again.output) == (0, "")
    assert pq.read_table(out).num_rows == 10 * (1 + 4)
    assert len(output("history", store, "--all", "--format", "csv").splitlines()) == 21


def test_without_a_file_it_is_csv(store: Path, queries: tuple[Path, Path]) -> None:
    line = ("monitor", store, queries[0], "--from", "2024-01-01", "--to", "2024-01-02")
    text = output(*line)
    assert text.splitlines()[0].startswith("series,tick,estimate,column,value,error")
    assert [row.split(",")[1] for row in text.splitlines()[1:]] == ["2024-01-01", "2024-01-02"]
    assert output(*line) == text


@pytest.mark.parametrize(
    ("more", "code", "says"),
    one_in(
        2,
        [
            (["--from", "soon"], 2, "'soon' is not a date"),
            (["--from", "2024-01-02", "--to", "2024-01-01"], 2, "before the first"),
            (["--from", "2999-01-01"], 2, "has not ended yet"),
            (["--from", "2024-01-01", "--every", "1y"], 2, "not a length of time"),
            (["--from", "2024-01-01", "--to", "2024-01-02", "--every", "1h"], 2, "no times"),
            (["--from", "2024-01-01", "--to", "2024-01-02", "--over", "dya"], 2, "no such column"),
            (["--from", "2024-01-01", "--to", "2024-01-02", "--over", "page"], 2, "VARCHAR"),
            (["--from", "2024-01-01", "--to", "2024-01-02", "--param", "x"], 2, "name=value"),
            (["--from", "2024-01-01", "--to", "2024-01-02"], 2, ":least"),
            (["--from", "2024-01-01", "--to", "2024-01-02", "--param", "least='; x"], 3, ""),
            (
                ["--from", "2024-01-01", "--to", "2024-01-02", "--param", "least=1", "-ox"],
                2,
                "kind",
            ),
        ],
    ),
)
def test_what_is_wrong_is_said_and_nothing_is_asked(
    store: Path, queries: tuple[Path, Path], more: list[str], code: int, says: str
) -> None:
    result = run("monitor", store, queries[1], *more)
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr
    assert output("history", store, "--format", "json").strip() == "[]"


def test_following_a_folder(store: Path, queries: tuple[Path, Path], tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    head = "who,day,page,seconds,late\n"
    (inbox / "2024-01-11.csv").write_text(head + "u1,2024-01-11,home,3.5,false\n")
    (inbox / "2024-01-12.csv").write_text("SECRET,x\n1,2\n")
    (inbox / "2024-01-12a.csv").write_text(head + "u2,2024-01-12,SECRET,x,false\n")
    (inbox / "2024-01-12b.csv").write_text(head + "u2,2024-01-12,cart,1.5,false\n")
    out = tmp_path / "series.csv"
    line = (
        "monitor",
        store,
        queries[0],
        "--from",
        "2024-01-10",
        "--follow",
        inbox,
        "--once",
        "--settle",
        "0",
        "--output",
        out,
    )
    result = run(*line, "--table", "visits")
    assert (result.exit_code, result.stdout) == (6, "")
    assert "2024-01-12.csv is set aside" in result.stderr
    assert "SECRET" not in result.output
    reason = (inbox / "rejected" / "2024-01-12.csv.reason.txt").read_text()
    assert "no column 'who'" in reason
    assert "SECRET" not in reason

    def answered() -> list[str]:
        return [r.split(",")[1] for r in out.read_text().splitlines()[1:]]

    assert answered() == ["2024-01-10", "2024-01-11"]
    again = run(*line, "--table", "visits", "--quiet")
    assert (again.exit_code, again.output) == (6, "")  # it still waits
    unknown = run(*line, "--table", "visits", "--skip", "2024-01-13.csv")
    assert unknown.exit_code == 2
    assert "those that do: 2024-01-12.csv" in unknown.stderr
    skipped = run(*line, "--table", "visits", "--quiet", "--skip", "2024-01-12.csv")
    assert (skipped.exit_code, skipped.output) == (0, "")
    assert answered() == ["2024-01-10", "2024-01-11", "2024-01-12"]
    assert run(*line).exit_code == 3  # which table?


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_between_two_steps(
    store: Path,
    queries: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    code: int,
) -> None:
    asked, out = [], tmp_path / "series.csv"
    ask = sparseq.Store.ask

    def interrupted(*args: Any, **more: Any) -> Any:
        asked.append(args)
        if len(asked) == 2:
            os.kill(os.getpid(), number)
        return ask(*args, **more)

    monkeypatch.setattr(sparseq.Store, "ask", interrupted)
    before = signal.getsignal(number)
    line = ("monitor", store, queries[0], "--from", "2024-01-01", "--to", "2024-01-10", "-o", out)
    result = run(*line)
    assert (result.exit_code, result.stdout) == (code, "")
    assert "goes on from here" in result.stderr
    assert len(out.read_text().splitlines()) == 3
    assert signal.getsignal(number) == before
    assert run(*line).exit_code == 0
    assert len(out.read_text().splitlines()) == 11
    assert len(asked) == 10


def test_waiting_for_files_ends_at_a_signal(
    store: Path, queries: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    names = Folder._names

    def interrupted(self: Folder) -> list[str]:
        os.kill(os.getpid(), signal.SIGTERM)
        return names(self)

    monkeypatch.setattr(Folder, "_names", interrupted)
    line = ("monitor", store, queries[0], "--from", "2024-01-10", "--follow", inbox)
    assert run(*line, "--table", "visits").exit_code == 143


def test_two_files_of_one_name(store: Path, queries: tuple[Path, Path]) -> None:
    result = run("monitor", store, queries[0], queries[0], "--from", "2024-01-01")
    assert result.exit_code == 2
    assert "two series would be called 'visitors'" in result.stderr


def test_derived_series(store: Path, queries: tuple[Path, Path], tmp_path: Path) -> None:
    line = ("monitor", store, *queries, "--param", "least=1", "--from", "2024-01-01")
    for kind in ("parquet", "csv", "jsonl"):
        out = tmp_path / f"series.{kind}"
        assert run(*line, "--to", "2024-01-10", "--output", out, "--quiet").exit_code == 0
    made = tmp_path / "derived.parquet"
    assert run("derive", tmp_path / "series.parquet", "--output", made).exit_code == 0
    rows = pq.read_table(made).to_pylist()
    answers = pq.read_table(tmp_path / "series.parquet").to_pylist()
    totals = [r for r in rows if r["derived"] == "running_total"]
    for of in (("visitors", None), ("pages", "home"), ("pages", None)):
        ticks = [r["value"] for r in answers if (r["series"], r["page"]) == of]
        total = [r["value"] for r in totals if (r["series"], r["page"]) == of]
        assert len(total) == len(ticks) == 10
        assert total[-1] == sum(ticks)
    assert {r["derived"] for r in rows} == {"running_total", "week_sum", "week_mean", "week_change"}
    text = output("derive", tmp_path / "series.parquet")
    assert output("derive", tmp_path / "series.csv") == text
    assert output("derive", tmp_path / "series.jsonl") == text
    assert len(text.splitlines()) == 1 + len(rows)
    for end in ("md", "html", "xlsx"):
        to = ("--output", tmp_path / f"made.{end}", "--title", "Visits <by week>")
        assert run("derive", tmp_path / "series.csv", *to).exit_code == 0
    page = (tmp_path / "made.html").read_text()
    assert page.count("<tr>") == 1 + len(rows)
    assert "Visits &lt;by week&gt;" in page
    marked = (tmp_path / "made.md").read_text()
    assert marked.startswith("## Visits")
    assert marked.count("\n| ") == 2 + len(rows)
    with zipfile.ZipFile(tmp_path / "made.xlsx") as book:
        assert book.read("xl/worksheets/sheet1.xml").count(b"<row ") == 1 + len(rows)
    result = run(*line, "--output", tmp_path / "series.xlsx")
    assert result.exit_code == 2
    assert "sparseq derive" in result.stderr
    assert run("derive", queries[0]).exit_code == 2
    for text in ("a\n1\n", ""):
        (tmp_path / "x.csv").write_text(text)
        assert run("derive", tmp_path / "x.csv").exit_code == 4


def store_of(
    path: Path, days: int, *parts: Purpose, people: int = 30, in_or_out: bool = False
) -> Path:
    """A store of people who come every day; half of every budget is for what parts there are."""
    at = np.repeat(np.datetime64("2024-01-01") + np.arange(days), people)
    visits = pa.table({"who": np.tile(np.arange(people), days), "day": at})
    sparseq.create(
        path,
        {"visits": visits},
        user="who",
        seed=2,
        purposes=[sparseq.Questions(in_or_out=in_or_out), *parts],
    ).close()
    return path


def test_a_series_with_a_strategy(queries: tuple[Path, Path], tmp_path: Path) -> None:
    """Its file says so, goes on without being told, and `derive` has the wider ± of its sums."""
    part = Purpose("visitors", 0.5, 10, 10.0, strategy="news:0.5,3")
    path, out = store_of(tmp_path / "s.sparseq", 10, part), tmp_path / "series.csv"
    line = ("monitor", path, queries[0], "--over", "day", "--from", "2024-01-01", "--output", out)
    run(*line, "--to", "2024-01-06", "--quiet")
    again = run(*line, "--to", "2024-01-10", "--quiet")
    assert (again.exit_code, again.output) == (0, "")
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["strategy"] for row in rows] == [Strategy.of("news:0.5,3").text] * 10
    sigma = [float(row["sigma"]) for row in rows]
    assert sigma[:2] == pytest.approx([20**0.5, 20**0.5 * 1.25**0.5])
    total = [
        r
        for r in csv.DictReader(output("derive", out).splitlines())
        if r["derived"] == "running_total"
    ]
    expected = 1.96 * 20**0.5 * np.sqrt(Strategy.of("news:0.5,3").variance(10, 10))
    assert [float(r["error"]) for r in total] == pytest.approx(expected.tolist(), rel=0.02)
    other = run("purpose", "add", path, "visitors=10%,ticks=10,strategy=sqrt")
    assert other.exit_code == 2
    assert "two series are called 'visitors'" in other.stderr


def test_a_series_goes_on_by_the_method_that_it_was_begun_with(
    queries: tuple[Path, Path], tmp_path: Path
) -> None:
    """One without a part, that was begun under a strategy."""
    path = store_of(tmp_path / "s.sparseq", 4, in_or_out=True)
    days = Ticks(moment("2024-01-01"), "1d", moment("2024-01-02"))
    with sparseq.connect(path) as store:
        begun = StrategySeries(store, "visitors", QueryText.of(VISITORS), days, taps="1,-0.5")
        values = [row.value for tick in days for row in begun.rows(tick)]
        with pytest.raises(ParameterError, match="taps are fixed before the first tick"):
            CorrelatedSeries(store, "visitors", "sqrt")
    line = ("monitor", path, queries[0], "--over", "day", "--from", "2024-01-01", "--quiet")
    rows = list(csv.DictReader(output(*line, "--to", "2024-01-04").splitlines()))
    assert [row["strategy"] for row in rows] == [Strategy.of("1,-0.5").text] * 4
    assert [float(row["value"]) for row in rows[:2]] == values
    with sparseq.connect(path) as store:
        assert store.released == 4


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_room_for_people_who_are_left_out(
    queries: tuple[Path, Path], tmp_path: Path, kind: str
) -> None:
    """The file says how much it is, and sums of ticks have room for the sum of it."""
    made = []
    for k, left_out in enumerate((0.0, 0.8)):
        part = Purpose("visitors", 0.5, 10, 10.0, strategy="1,-0.5", left_out=left_out)
        path, out = store_of(tmp_path / f"{k}.sparseq", 5, part), tmp_path / f"series_{k}.{kind}"
        line = (
            "monitor",
            path,
            queries[0],
            "--over",
            "day",
            "--from",
            "2024-01-01",
            "--to",
            "2024-01-05",
            "--quiet",
            "--output",
            out,
        )
        assert run(*line).exit_code == 0
        rows = csv.DictReader(output("derive", out).splitlines())
        made.append([float(r["error"]) for r in rows if r["derived"] == "running_total"])
    if kind == "csv":
        lacking = [float(r["left_out"]) for r in csv.DictReader(out.read_text().splitlines())]
    else:
        lacking = pq.read_table(out)["left_out"].to_pylist()
    assert lacking[-1] > 0
    wider = [b - a for a, b in zip(*made, strict=True)]
    assert wider == pytest.approx(np.cumsum(lacking).tolist())


def test_a_file_that_lacks_ticks_of_a_strategy_is_not_derived_from(
    queries: tuple[Path, Path], tmp_path: Path
) -> None:
    part = Purpose("visitors", 0.5, 6, 6.0, strategy="news")
    path, out = store_of(tmp_path / "s.sparseq", 1, part, people=1), tmp_path / "series.csv"
    line = ("monitor", path, queries[0], "--over", "day", "--from", "2024-01-01", "--output", out)
    run(*line, "--to", "2024-01-06", "--quiet")
    head, _, *rows = out.read_text().splitlines()
    out.write_text("\n".join([head, *rows]) + "\n")
    result = run("derive", out)
    assert result.exit_code != 0
    assert "ticks of a series with a strategy are missing" in result.stderr


def test_a_series_that_would_take_most_of_what_is_for_questions_is_refused(
    queries: tuple[Path, Path], tmp_path: Path
) -> None:
    """Before its first tick, with what to do instead; with --anyway it is asked."""
    path, out = store_of(tmp_path / "s.sparseq", 40), tmp_path / "series.csv"
    line = ("monitor", path, queries[0], "--over", "day", "--from", "2024-01-01", "--output", out)
    refused = run(*line, "--to", "2024-02-09")
    assert (refused.exit_code, refused.stdout) == (3, "")
    assert "40 ticks of visitors would take " in refused.stderr
    assert "sparseq purpose add STORE visitors=40%,ticks=40" in refused.stderr
    assert "or say --anyway" in refused.stderr
    assert run(*line, "--to", "2024-02-09", "--quiet").exit_code == 3
    assert output("history", path, "--format", "json").strip() == "[]"
    assert not out.exists()
    few = run(*line, "--to", "2024-01-03")  # three questions are not most of them
    assert few.exit_code == 0
    assert len(out.read_text().splitlines()) == 1 + 3
    asked = run(*line, "--to", "2024-02-09", "--anyway")
    assert asked.exit_code == 0, asked.stderr
    assert len(out.read_text().splitlines()) == 1 + 40


def test_a_series_with_a_part_is_asked_and_leaves_questions_alone(
    queries: tuple[Path, Path], tmp_path: Path
) -> None:
    path, out = store_of(tmp_path / "s.sparseq", 40), tmp_path / "series.csv"
    line = (
        "monitor",
        path,
        queries[0],
        "--over",
        "day",
        "--from",
        "2024-01-01",
        "--output",
        out,
        "--to",
        "2024-02-09",
    )
    assert run(*line).exit_code == 3
    (hint,) = re.findall(r"sparseq purpose add STORE (\S+?)[,;]? ", run(*line).stderr)
    output("purpose", "add", path, hint)
    before = json.loads(output("budget", path, "--format", "json"))["weighted"]
    done = run(*line)
    assert done.exit_code == 0, done.stderr
    rows = list(csv.DictReader(out.read_text().splitlines()))
    with sparseq.connect(path) as store:
        (part,) = store.promise.purposes
    assert len(rows) == part.ticks == 40
    sigmas = [float(row["sigma"]) for row in rows]
    assert max(sigmas) == pytest.approx(min(sigmas), rel=1e-9), "it has enough for all of them"
    assert sigmas == pytest.approx([part.budget().sigma_0] * 40, rel=1e-3)
    half = NormalDist().inv_cdf(0.975) * sigmas[0]  # the count is rounded, its ends outwards
    assert {float(row["error"]) for row in rows} <= {math.ceil(half), math.ceil(half + 0.5)}
    after = json.loads(output("budget", path, "--format", "json"))["weighted"]
    assert after == before, "questions have what they had"


def test_a_part_is_for_so_many_ticks(queries: tuple[Path, Path], tmp_path: Path) -> None:
    path = store_of(tmp_path / "s.sparseq", 10, Purpose("visitors", 0.5, 4))
    line = ("monitor", path, queries[0], "--over", "day", "--from", "2024-01-01")
    refused = run(*line, "--to", "2024-01-10")
    assert (refused.exit_code, refused.stdout) == (3, "")
    assert "visitors has a part of the budget for 4 ticks, and 10 are asked for" in refused.stderr
    assert len(output(*line, "--to", "2024-01-04").splitlines()) == 1 + 4


def test_ticks_of_a_part_that_are_answered_count(
    queries: tuple[Path, Path], tmp_path: Path
) -> None:
    """A part for four ticks is not for four and four, one run after the other."""
    path = store_of(tmp_path / "s.sparseq", 10, Purpose("visitors", 0.5, 4))
    line = ("monitor", path, queries[0], "--over", "day", "--from", "2024-01-01", "--quiet")
    assert len(output(*line, "--to", "2024-01-03").splitlines()) == 1 + 3
    assert len(output(*line, "--to", "2024-01-04").splitlines()) == 1 + 4
    over = run(*line, "--to", "2024-01-08")
    assert (over.exit_code, over.stdout) == (3, "")
    assert "visitors has a part of the budget for 4 ticks" in over.stderr


def test_a_plain_series_is_as_wide_as_its_noise_or_refused(
    queries: tuple[Path, Path], tmp_path: Path
) -> None:
    """A count of people is; one of rows is refused before its first tick, with what to do instead.

    With --anyway it is asked, and what was begun is continued without a word.
    """
    parts = [Purpose("visitors", 0.25, 8), Purpose("rows", 0.25, 8)]
    path, out = store_of(tmp_path / "s.sparseq", 8, *parts, people=300), tmp_path / "people.csv"
    line = ("monitor", path, queries[0], "--over", "day", "--from", "2024-01-01", "--to")
    run(*line, "2024-01-08", "--output", out, "--quiet")
    with out.open() as file:
        ticks = list(csv.DictReader(file))
    assert len(ticks) == 8
    for tick in ticks:
        assert float(tick["error"]) <= 1.3 * simultaneous_bound(float(tick["sigma"]), 1, 0.05)
    rows = queries[0].with_name("rows.sql")
    rows.write_text("SELECT count(*) AS n FROM visits WHERE day = :day")
    line = ("monitor", path, rows, "--over", "day", "--from", "2024-01-01", "--to")
    refused = run(*line, "2024-01-08")
    assert (refused.exit_code, refused.stdout) == (3, "")
    assert "its ± could be several times the bound of its noise" in refused.stderr
    assert "sparseq curator plan STORE --queries rows.sql" in refused.stderr
    assert "--share 25%" in refused.stderr
    assert len(json.loads(output("history", path, "--format", "json"))) == 8
    assert run(*line, "2024-01-02", "--anyway").exit_code == 0
    assert run(*line, "2024-01-03").exit_code == 0


@pytest.mark.parametrize("parted", [False, True])
def test_what_error_is_to_be_expected_is_said_before_the_first_tick(
    queries: tuple[Path, Path], tmp_path: Path, parted: bool
) -> None:
    parts = [Purpose("visitors", 0.5, 5)] if parted else []
    path = store_of(tmp_path / "s.sparseq", 5, *parts)
    line = (
        "monitor",
        path,
        queries[0],
        "--over",
        "day",
        "--from",
        "2024-01-01",
        "--to",
        "2024-01-05",
    )
    done = run(*line)
    found = [
        re.fullmatch(r"visitors: expected ± (\S+) for the next tick(.*)", text)
        for text in done.stderr.splitlines()
    ]
    (said,) = [match for match in found if match]
    (first, *_) = csv.DictReader(done.stdout.splitlines())
    assert float(said[1]) == pytest.approx(float(first["error"]), rel=0.25)
    assert ("of what the store has for questions" in said[2]) == (not parted)
    assert "expected" not in run(*line, "--quiet").stderr


@pytest.mark.parametrize("method", ["", "forecast=20%,cap=40%", "strategy=1,-0.5"])
def test_the_error_that_is_expected_is_that_of_the_series_method(
    queries: tuple[Path, Path], tmp_path: Path, method: str
) -> None:
    said = f"visitors=50%,ticks=5,{method}".rstrip(",")
    given = purpose_of(PurposeText().convert(said, None, None))
    path = store_of(tmp_path / "s.sparseq", 5, given)
    done = run(
        "monitor", path, queries[0], "--over", "day", "--from", "2024-01-01", "--to", "2024-01-05"
    )
    assert done.exit_code == 0, done.stderr
    (said,) = re.findall(r"visitors: expected ± (\S+) for the next tick", done.stderr)
    (first, *_) = csv.DictReader(done.stdout.splitlines())
    assert float(said) == pytest.approx(float(first["error"]), rel=0.25)
